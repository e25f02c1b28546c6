"""The published list rules and their variants. They differ in the rank of an operator and in the choice of its device.

Ranks use mean, median, worst or best run times. They count transfers at the mean of all links, at the mean of all pairs
of devices (including pairs without a transfer), or not at all. In the order of their ranks, operators then go where
they end or start soonest, either into gaps or after everything already there. Other rules choose at every step among
all ready operators, in one loop (:class:`Choice`). For every ready operator and device, such a rule takes the time at
which the operator would start after everything already there, adds a share of its run time and a bias, and calls the
sum the score. The next operator has the least sum of its urgency and given shares of its best and second-best scores;
it goes to the device of its best score.

Sources: HEFT, CPOP: H. Topcuoglu et al., IEEE TPDS 13(3), 2002, doi:10.1109/71.993206. HLFET: T. Adam et al., CACM
17(12), 1974, doi:10.1145/361604.361619. MCP: M.-Y. Wu, D. Gajski, IEEE TPDS 1(3), 1990, doi:10.1109/71.80160. DLS: G.
Sih, E. Lee, IEEE TPDS 4(2), 1993, doi:10.1109/71.207593. BIL: H. Oh, S. Ha, Euro-Par 1996, doi:10.1007/BFb0024750. MET,
MCT, min-min, max-min, sufferage: M. Maheswaran et al., JPDC 59(2), 1999, doi:10.1006/jpdc.1999.1581. Variants of ranks:
H. Zhao, R. Sakellariou, Euro-Par 2003, doi:10.1007/978-3-540-45209-6_28.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from opweave.formulations.placement.instance import PlacementInstance
from opweave.problems.arrays import FloatArray, FloatMatrix, IntArray
from opweave.solvers.kernels.sorting import lengths_of
from opweave.solvers.loops import helper, loop
from opweave.solvers.placement.arrays import DELAY, Clock, PlacementArrays, arrival, new_clock, place
from opweave.solvers.placement.bounds.critical_path import device_tails
from opweave.solvers.placement.insertion import cpop_by, inserted, no_device
from opweave.solvers.placement.memory_state import Clusters, Room, clusters_of, has_room, new_room, roomy, settle
from opweave.solvers.placement.plans import Plan, plan_of
from opweave.solvers.placement.ranks import order_by, rank_of, run_times, transfer_times
from opweave.solvers.rules import NoPlanError

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


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """A rule; times in seconds.

    Attributes
    ----------
    urgency
        Urgency of every operator; the least goes first. Shape (operators,).
    bias
        Added to the score of an operator on a device. Shape (operators, devices).
    run
        Share of the run time in the score: 0 for the start, 1 for the end.
    best, second
        Shares of an operator's best and second-best scores in the value that decides which operator is next.
    """

    urgency: FloatArray
    bias: FloatMatrix
    run: float
    best: float
    second: float


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


def chosen(instance: PlacementInstance, arrays: PlacementArrays, rule: Choice, halt: IntArray) -> Plan:
    """Schedule all operators by a rule.

    Raises
    ------
    NoPlanError
        When an operator finds no device with room and links, or ``halt`` is raised.
    """
    count = len(arrays.seconds)
    order, device = np.zeros(count, dtype=np.int64), np.full(count, -1, dtype=np.int64)
    shares = np.asarray([rule.run, rule.best, rule.second])
    stuck = choose_all(arrays, clusters_of(instance, arrays), rule.urgency, rule.bias, shares, halt, order, device)
    if stuck >= 0:
        raise NoPlanError(no_device(instance, int(stuck)))
    return plan_of(arrays, order, device)


@loop
def choose_all(
    arrays: PlacementArrays,
    clusters: Clusters,
    urgency: FloatArray,
    bias: FloatMatrix,
    shares: FloatArray,
    halt: IntArray,
    order: IntArray,
    device: IntArray,
) -> int:
    """Fill order and devices; return the operator that found no device or at which ``halt`` was raised, or -1."""
    count, devices = arrays.seconds.shape
    clock, room, anywhere = new_clock(arrays), new_room(arrays, clusters), roomy(arrays, clusters)
    waiting = lengths_of(arrays.before_start)
    ready = np.empty(count, dtype=np.int64)
    arrived = np.zeros((count, devices))
    width, scored = 0, shares[1] != 0.0 or shares[2] != 0.0
    for v in range(count):
        if waiting[v] == 0:
            ready[width] = v
            width += 1
    for step in range(count):
        least, at = np.inf, -1
        for i in range(width):
            v = ready[i]
            value = urgency[v]
            if scored:
                first, second, _ = _score(arrays, clusters, room, anywhere, clock, arrived, bias, shares[0], v)
                if first == np.inf:
                    return int(v)
                value += shares[1] * first
                if shares[2] != 0.0:  # an operator with one device only must not lose it
                    value = value + shares[2] * second if second < np.inf else -np.inf
            if at < 0 or value < least:
                least, at = value, i
        v = ready[at]
        _, _, where = _score(arrays, clusters, room, anywhere, clock, arrived, bias, shares[0], v)
        if where < 0 or halt[0] != 0:
            return int(v)
        device[v] = where
        place(arrays, clock, v, where, device)
        settle(arrays, clusters, room, v, where)
        order[step] = v
        width -= 1
        ready[at] = ready[width]
        for i in range(arrays.after_start[v], arrays.after_start[v + 1]):
            w = arrays.after[i]
            waiting[w] -= 1
            if waiting[w] == 0:
                ready[width] = w
                width += 1
                for k in range(devices):
                    arrived[w, k] = arrival(arrays, clock, device, w, k)
        if arrays.model != DELAY:
            for i in range(width):
                for k in range(devices):
                    arrived[ready[i], k] = arrival(arrays, clock, device, ready[i], k)
    return -1


@helper
def _score(
    arrays: PlacementArrays,
    clusters: Clusters,
    room: Room,
    anywhere: bool,
    clock: Clock,
    arrived: FloatArray,
    bias: FloatMatrix,
    run: float,
    v: int,
) -> tuple[float, float, int]:
    """Best and second-best score of an operator, and the device of the best; -1 when none can take it."""
    first, second, at = np.inf, np.inf, -1
    for k in range(len(clock.free)):
        if arrived[v, k] == np.inf or arrays.seconds[v, k] == np.inf:
            continue
        if not (anywhere or has_room(arrays, clusters, room, v, k)):
            continue
        score = max(clock.free[k], arrived[v, k]) + run * arrays.seconds[v, k] + bias[v, k]
        if at < 0 or score < first:
            first, second, at = score, first, k
        elif score < second:
            second = score
    return first, second, at
