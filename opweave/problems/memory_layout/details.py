"""What the referee of memory layout measures: how full every pool is, and what the slower ones cost."""

from __future__ import annotations

from opweave.problems.solution import Details
from opweave.problems.spec import Many, Name, Seconds, Spec


class PoolUse(Spec):
    """How much of a pool a layout needs.

    Attributes
    ----------
    name
        The pool.
    bytes
        End of its highest storage, which is what has to be reserved.
    live_peak
        The most bytes that are live in it at any time; no layout of the same storages needs less.
    storages
        Number of storages in it.
    traffic_seconds
        Seconds that its storages take to be written and read there.
    """

    name: Name
    bytes: int
    live_peak: int
    storages: int
    traffic_seconds: Seconds


class LayoutDetails(Details):
    """The bytes of every pool.

    Attributes
    ----------
    arena_bytes
        Bytes of all pools together.
    live_peak
        The most bytes that are live at any time in all pools together; no layout needs less.
    traffic_seconds
        Seconds that all storages take to be written and read in their pools.
    pools
        One row for each pool.
    """

    arena_bytes: int
    live_peak: int
    traffic_seconds: Seconds
    pools: Many[PoolUse]
