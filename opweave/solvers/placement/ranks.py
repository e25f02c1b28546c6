"""Ranks of operators for list scheduling: lengths of the paths before and after them.

Order arcs of side constraints count as paths without transfers.
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.graph_arrays import Adjacency
from opweave.solvers.loops import loop
from opweave.solvers.placement.arrays import PlacementArrays, reversed_net


def mean_seconds(arrays: PlacementArrays) -> FloatArray:
    """Run time of every operator, averaged over the devices that may run it. Shape (operators,)."""
    allowed = np.isfinite(arrays.seconds)
    total = np.where(allowed, arrays.seconds, 0.0).sum(axis=1)
    return np.asarray(total / np.maximum(1, allowed.sum(axis=1)))


def mean_transfer(arrays: PlacementArrays) -> FloatArray:
    """Transfer time of every flow, averaged over all links between different devices. Shape (flows,)."""
    linked = np.isfinite(arrays.latency) & ~np.eye(len(arrays.latency), dtype=bool)
    if not linked.any():
        return np.zeros(len(arrays.size))
    seconds = float(arrays.latency[linked].mean()) + arrays.size * float(arrays.per_byte[linked].mean())
    return np.asarray(seconds, dtype=np.float64)


def upward_rank(arrays: PlacementArrays, seconds: FloatArray | None = None) -> FloatArray:
    """Longest path from every operator to an end, itself included, in mean run and transfer times (HEFT).

    ``seconds`` are other run times.
    """
    order = np.ascontiguousarray(order_of_graph(arrays)[::-1])
    seconds = mean_seconds(arrays) if seconds is None else seconds
    return np.asarray(seconds + depths(reversed_net(arrays), order, seconds, mean_transfer(arrays)))


def order_of_graph(arrays: PlacementArrays) -> IntArray:
    """Operators before their successors, otherwise in the order of the graph."""
    count = len(arrays.seconds)
    if (arrays.before < np.repeat(np.arange(count), np.diff(arrays.before_start))).all():  # the usual case
        return np.arange(count)
    waiting, after = np.diff(arrays.before_start).tolist(), Adjacency(arrays.after_start, arrays.after).lists()
    ready = [v for v in range(count) if not waiting[v]]
    order = []
    while ready:
        v = heappop(ready)
        order.append(v)
        for w in after[v]:
            waiting[w] -= 1
            if not waiting[w]:
                heappush(ready, w)
    return np.asarray(order, dtype=np.int64)


def order_by(rank: FloatArray, order: IntArray) -> IntArray:
    """Operators by decreasing rank, which does not rise along arcs; where it is equal, as in ``order``."""
    return np.ascontiguousarray(order[np.argsort(-rank[order], kind="stable")])


def order_for(arrays: PlacementArrays, device: IntArray, order: IntArray | None = None) -> IntArray:
    """Operators by decreasing upward rank, from the run and transfer times of an assignment.

    ``order`` is any order with predecessors first.
    """
    order, rank = order_of_graph(arrays) if order is None else order, np.zeros(len(device))
    fill_ranks(arrays, order, device, rank)
    return order_by(rank, order)


@loop
def fill_ranks(arrays: PlacementArrays, order: IntArray, device: IntArray, rank: FloatArray) -> None:
    """Longest path from every operator to an end, itself included, in the times of an assignment."""
    seconds, latency = arrays.seconds, arrays.latency
    per_byte, target, size = arrays.per_byte, arrays.target, arrays.size
    out_start, outgoing, after_start, after = arrays.out_start, arrays.outgoing, arrays.after_start, arrays.after
    for at in range(len(order) - 1, -1, -1):
        v = order[at]
        k, longest = device[v], 0.0
        for i in range(after_start[v], after_start[v + 1]):
            longest = max(longest, rank[after[i]])
        for i in range(out_start[v], out_start[v + 1]):
            f = outgoing[i]
            w, b = target[f], device[target[f]]
            longest = max(longest, rank[w] + latency[k, b] + size[f] * per_byte[k, b])
        rank[v] = longest + seconds[v, k]


@loop
def depths(arrays: PlacementArrays, order: IntArray, seconds: FloatArray, transfer: FloatArray) -> FloatArray:
    """Longest path from a beginning to every operator, itself excluded. Shape (operators,)."""
    before_start, before, in_start, incoming = arrays.before_start, arrays.before, arrays.in_start, arrays.incoming
    source, depth = arrays.source, np.zeros(len(seconds))
    for v in order:
        longest = 0.0
        for j in range(before_start[v], before_start[v + 1]):
            longest = max(longest, depth[before[j]] + seconds[before[j]])
        for j in range(in_start[v], in_start[v + 1]):
            f = incoming[j]
            longest = max(longest, depth[source[f]] + seconds[source[f]] + transfer[f])
        depth[v] = longest
    return depth
