"""What a view asks of a problem without knowing which one it is."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from opweave.adapters.report.timeline_tables import Limits
from opweave.problems.cluster import Cluster


@runtime_checkable
class LimitsMemory(Protocol):
    """A problem that limits the bytes of every device."""

    @property
    def memory_limits(self) -> Limits:
        """Limits by device; None for no limit."""
        ...


@runtime_checkable
class OnCluster(Protocol):
    """A problem with devices."""

    @property
    def cluster(self) -> Cluster:
        """The devices."""
        ...
