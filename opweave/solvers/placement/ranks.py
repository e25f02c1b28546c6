"""Ranks of operators for list scheduling: lengths of the paths before and after them.

Order arcs of side constraints count as paths without transfers.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.kernels.sorting import lengths_of
from opweave.solvers.loops import loop
from opweave.solvers.placement.arrays import PlacementArrays, reversed_net

PICKS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "mean": lambda times: np.asarray(np.nanmean(times, axis=1)),
    "median": lambda times: np.asarray(np.nanmedian(times, axis=1)),
    "worst": lambda times: np.asarray(np.nanmax(times, axis=1)),
    "best": lambda times: np.asarray(np.nanmin(times, axis=1)),
}
"""Summaries of an operator's run times, with NaN on devices that may not run it. Shape (operators, devices)."""


def mean_seconds(arrays: PlacementArrays) -> FloatArray:
    """Run time of every operator, averaged over the devices that may run it. Shape (operators,)."""
    return run_times(arrays, "mean")


def mean_transfer(arrays: PlacementArrays) -> FloatArray:
    """Transfer time of every flow, averaged over all links between different devices. Shape (flows,)."""
    linked = np.isfinite(arrays.latency) & ~np.eye(len(arrays.latency), dtype=bool)
    if not linked.any():
        return np.zeros(len(arrays.size))
    seconds = float(arrays.latency[linked].mean()) + arrays.size * float(arrays.per_byte[linked].mean())
    return np.asarray(seconds, dtype=np.float64)


def run_times(arrays: PlacementArrays, which: str) -> FloatArray:
    """Run time of every operator: "mean", "median", "worst" or "best" of the devices that may run it."""
    allowed = np.isfinite(arrays.seconds)
    none = ~allowed.any(axis=1, keepdims=True)
    times = np.where(allowed, arrays.seconds, np.nan)
    found: FloatArray = PICKS[which](np.where(none, 0.0, times)) if times.size else np.zeros(len(times))
    return found


def transfer_times(arrays: PlacementArrays, over: str) -> FloatArray:
    """Transfer time of every flow: the mean over all "links", over all "pairs" of devices, or "none"."""
    devices = arrays.seconds.shape[1]
    share = {"links": 1.0, "pairs": 1.0 - 1.0 / max(1, devices), "none": 0.0}[over]
    return np.asarray(mean_transfer(arrays) * share)


def rank_of(arrays: PlacementArrays, seconds: FloatArray, transfer: FloatArray) -> FloatArray:
    """Longest path from every operator to an end, itself included, in given run and transfer times."""
    order = np.ascontiguousarray(order_of_graph(arrays)[::-1])
    return seconds + depths(reversed_net(arrays), order, seconds, transfer)


def upward_rank(arrays: PlacementArrays) -> FloatArray:
    """Longest path from every operator to an end, itself included, in mean run and transfer times (HEFT)."""
    return rank_of(arrays, mean_seconds(arrays), mean_transfer(arrays))


def downward_rank(arrays: PlacementArrays) -> FloatArray:
    """Longest path from a beginning to every operator, itself excluded, in mean run and transfer times (CPOP)."""
    return depths(arrays, order_of_graph(arrays), mean_seconds(arrays), mean_transfer(arrays))


def order_of_graph(arrays: PlacementArrays) -> IntArray:
    """Operators before their successors."""
    return order_by(np.zeros(len(arrays.seconds)), arrays)


def order_by(rank: FloatArray, arrays: PlacementArrays) -> IntArray:
    """Operators by decreasing rank, each after its predecessors; equal ranks in the order of the graph."""
    order = np.argsort(-rank, kind="stable").astype(np.int64)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    late = np.repeat(place, np.diff(arrays.before_start))
    if (place[arrays.before] < late).all():  # the usual case: ranks fall along every arc
        return order
    return ready_order(arrays, order, place)


def _work(arrays: PlacementArrays) -> int:
    return 4 * (len(arrays.seconds) + len(arrays.before) + len(arrays.source))


@loop
def ready_order(arrays: PlacementArrays, wanted: IntArray, place: IntArray) -> IntArray:
    """Repeatedly take the ready operator that comes first in ``wanted``. Shape (operators,).

    ``place`` is the position of every operator in ``wanted``.
    """
    count = len(arrays.seconds)
    waiting = lengths_of(arrays.before_start)
    order = np.zeros(count, dtype=np.int64)
    ready = [np.int64(0)]
    ready.clear()
    for v in range(count):
        if waiting[v] == 0:
            heappush(ready, place[v])
    placed = 0
    while len(ready) > 0:
        v = wanted[heappop(ready)]
        order[placed] = v
        placed += 1
        for i in range(arrays.after_start[v], arrays.after_start[v + 1]):
            w = arrays.after[i]
            waiting[w] -= 1
            if waiting[w] == 0:
                heappush(ready, place[w])
    return order


@loop
def depths(arrays: PlacementArrays, order: IntArray, seconds: FloatArray, transfer: FloatArray) -> FloatArray:
    """Longest path from a beginning to every operator, itself excluded. Shape (operators,)."""
    depth = np.zeros(len(seconds))
    for v in order:
        longest = 0.0
        for j in range(arrays.before_start[v], arrays.before_start[v + 1]):
            u = arrays.before[j]
            longest = max(longest, depth[u] + seconds[u])
        for j in range(arrays.in_start[v], arrays.in_start[v + 1]):
            f = arrays.incoming[j]
            u = arrays.source[f]
            longest = max(longest, depth[u] + seconds[u] + transfer[f])
        depth[v] = longest
    return depth
