"""The published list rules and their variants. They differ in the rank of an operator and in the choice of its device.

Ranks use mean, median, worst or best run times. They count transfers at the mean of all links, at the mean of all pairs
of devices (including pairs without a transfer), or not at all. In the order of their ranks, operators then go where
they end or start soonest, either into gaps or after everything already there. Other rules choose at every step among
all ready operators.

Sources: HEFT, CPOP: H. Topcuoglu et al., IEEE TPDS 13(3), 2002, doi:10.1109/71.993206. HLFET: T. Adam et al., CACM
17(12), 1974, doi:10.1145/361604.361619. MCP: M.-Y. Wu, D. Gajski, IEEE TPDS 1(3), 1990, doi:10.1109/71.80160. DLS: G.
Sih, E. Lee, IEEE TPDS 4(2), 1993, doi:10.1109/71.207593. BIL: H. Oh, S. Ha, Euro-Par 1996, doi:10.1007/BFb0024750. MET,
MCT, min-min, max-min, sufferage: M. Maheswaran et al., JPDC 59(2), 1999, doi:10.1006/jpdc.1999.1581. Variants of ranks:
H. Zhao, R. Sakellariou, Euro-Par 2003, doi:10.1007/978-3-540-45209-6_28.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from opweave.formulations.placement.instance import PlacementInstance
from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.choosing import Choice, chosen
from opweave.solvers.placement.cpop import cpop_by
from opweave.solvers.placement.insertion import inserted
from opweave.solvers.placement.plans import Plan
from opweave.solvers.placement.ranks import device_tails, order_by, rank_of, run_times, transfer_times

Variant = Callable[[], Plan]
"""Builds a plan, or raises :class:`~opweave.solvers.rules.NoPlanError`."""

RANKS = (
    ("mean", "links"),
    ("mean", "pairs"),
    ("mean", "none"),
    ("median", "links"),
    ("worst", "links"),
    ("best", "links"),
    ("best", "none"),
)


def variants(instance: PlacementInstance, arrays: PlacementArrays, halt: IntArray) -> Iterator[Variant]:
    """All variants, the more successful first."""
    nothing = np.zeros(arrays.seconds.shape)
    tails = np.nan_to_num(device_tails(arrays), posinf=0.0)
    lasts = np.where(np.isfinite(arrays.seconds), arrays.seconds, 0.0)
    ranks = [rank_of(arrays, run_times(arrays, runs), transfer_times(arrays, sends)) for runs, sends in RANKS]
    for bias in (nothing, -lasts, tails):  # ends soonest, starts soonest, least end plus remaining time
        for rank in ranks:
            yield partial(inserted, instance, arrays, order_by(rank, arrays), bias)
    for rank in ranks:
        yield partial(cpop_by, instance, arrays, rank, run_times(arrays, "mean"))
    fastest = np.where(lasts > lasts.min(axis=1, keepdims=True), np.inf, 0.0) if len(lasts) else nothing
    yield partial(inserted, instance, arrays, order_by(ranks[0], arrays), fastest)
    for choice in _choices(arrays, ranks, tails, nothing):
        yield partial(chosen, instance, arrays, choice, halt)


def _choices(
    arrays: PlacementArrays, ranks: list[FloatArray], tails: FloatArray, nothing: FloatArray
) -> Iterator[Choice]:
    """Rules that choose at every step among all ready operators."""
    calm = np.zeros(len(arrays.seconds))
    level, usual = ranks[2], run_times(arrays, "median")
    for rank in (ranks[0], level):
        for run in (1.0, 0.0):  # after everything there: ends, or starts, soonest
            yield Choice(-rank, nothing, run, 0.0, 0.0)
    yield Choice(-level - usual, nothing, 1.0, 1.0, 0.0)  # DLS
    yield Choice(calm, nothing, 1.0, 1.0, 0.0)  # min-min
    yield Choice(calm, nothing, 1.0, -1.0, 0.0)  # max-min
    yield Choice(calm, nothing, 1.0, 1.0, -1.0)  # sufferage
    for best, second in ((-1.0, 0.0), (0.0, -1.0), (1.0, -1.0)):  # BIL: the operator that would be worst off
        yield Choice(calm, tails, 1.0, best, second)
