"""How urgent operators are: lengths of the paths before and after them, as priorities for list scheduling.

Order arcs of side constraints count as paths without transfers.
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from opweave.formulations.placement.instance import FloatArray
from opweave.problems.graph_arrays import IntArray
from opweave.solvers.compiled import kernel
from opweave.solvers.placement.net import Net


def mean_seconds(net: Net) -> FloatArray:
    """Run time of every operator, averaged over the devices that may run it. Shape (operators,)."""
    allowed = np.isfinite(net.seconds)
    total: FloatArray = np.where(allowed, net.seconds, 0.0).sum(axis=1)
    mean: FloatArray = total / np.maximum(1, allowed.sum(axis=1))
    return mean


def mean_transfer(net: Net) -> FloatArray:
    """Transfer time of every flow, averaged over all links between different devices. Shape (flows,)."""
    linked = np.isfinite(net.latency) & ~np.eye(len(net.latency), dtype=bool)
    if not linked.any():
        return np.zeros(len(net.size))
    seconds = float(net.latency[linked].mean()) + net.size * float(net.per_byte[linked].mean())
    return np.asarray(seconds, dtype=np.float64)


def run_times(net: Net, which: str) -> FloatArray:
    """Run time of every operator: "mean", "median", "worst" or "best" of the devices that may run it."""
    allowed = np.isfinite(net.seconds)
    none = ~allowed.any(axis=1, keepdims=True)
    times = np.where(allowed, net.seconds, np.nan)
    known = np.where(none, 0.0, times)
    if not known.size:
        return np.zeros(len(times))
    if which == "mean":
        return np.asarray(np.nanmean(known, axis=1))
    if which == "median":
        return np.asarray(np.nanmedian(known, axis=1))
    return np.asarray(np.nanmax(known, axis=1) if which == "worst" else np.nanmin(known, axis=1))


def transfer_times(net: Net, over: str) -> FloatArray:
    """Transfer time of every flow: the mean over all "links", over all "pairs" of devices, or "none"."""
    devices = net.seconds.shape[1]
    share = {"links": 1.0, "pairs": 1.0 - 1.0 / max(1, devices), "none": 0.0}[over]
    return np.asarray(mean_transfer(net) * share)


def rank_of(net: Net, seconds: FloatArray, transfer: FloatArray) -> FloatArray:
    """Longest path from every operator to an end, itself included, in given run and transfer times."""
    return heights.sized(_work(net))(net, order_of_graph(net), seconds, transfer)


def upward_rank(net: Net) -> FloatArray:
    """Longest path from every operator to an end, itself included, in mean run and transfer times (HEFT)."""
    return rank_of(net, mean_seconds(net), mean_transfer(net))


def downward_rank(net: Net) -> FloatArray:
    """Longest path from a beginning to every operator, itself excluded, in mean run and transfer times (CPOP)."""
    return depths.sized(_work(net))(net, order_of_graph(net), mean_seconds(net), mean_transfer(net))


def device_tails(net: Net) -> FloatArray:
    """Least time from the end of every operator to the end of all, given its device. Shape (operators, devices).

    Every successor takes the device that is best for it alone, so this is a lower bound of the truth; PEFT calls it the
    optimistic cost table.
    """
    work = _work(net) * net.seconds.shape[1] ** 2
    return tails.sized(work)(net, order_of_graph(net))


def order_of_graph(net: Net) -> IntArray:
    """Operators before their successors."""
    return order_by(np.zeros(len(net.seconds)), net)


def order_by(rank: FloatArray, net: Net) -> IntArray:
    """Operators by decreasing rank, each after its predecessors; equal ranks in the order of the graph."""
    order = np.argsort(-rank, kind="stable").astype(np.int64)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    late = np.repeat(place, np.diff(net.before_start))
    if (place[net.before] < late).all():  # the usual case: ranks fall along every arc
        return order
    return ready_order.sized(_work(net))(net, order, place)


def _work(net: Net) -> int:
    return 4 * (len(net.seconds) + len(net.before) + len(net.source))


@kernel
def ready_order(net: Net, wanted: IntArray, place: IntArray) -> IntArray:
    """Take the ready operator that is wanted first, again and again. Shape (operators,).

    ``place`` is the position of every operator in ``wanted``.
    """
    count = len(net.seconds)
    waiting = net.before_start[1:] - net.before_start[:-1]
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
        for i in range(net.after_start[v], net.after_start[v + 1]):
            w = net.after[i]
            waiting[w] -= 1
            if waiting[w] == 0:
                heappush(ready, place[w])
    return order


@kernel
def heights(net: Net, order: IntArray, seconds: FloatArray, transfer: FloatArray) -> FloatArray:
    """Longest path from every operator to an end, itself included. Shape (operators,)."""
    height = np.zeros(len(seconds))
    for i in range(len(order) - 1, -1, -1):
        v = order[i]
        longest = 0.0
        for j in range(net.after_start[v], net.after_start[v + 1]):
            longest = max(longest, height[net.after[j]])
        for j in range(net.out_start[v], net.out_start[v + 1]):
            f = net.outgoing[j]
            longest = max(longest, transfer[f] + height[net.target[f]])
        height[v] = seconds[v] + longest
    return height


@kernel
def depths(net: Net, order: IntArray, seconds: FloatArray, transfer: FloatArray) -> FloatArray:
    """Longest path from a beginning to every operator, itself excluded. Shape (operators,)."""
    depth = np.zeros(len(seconds))
    for v in order:
        longest = 0.0
        for j in range(net.before_start[v], net.before_start[v + 1]):
            u = net.before[j]
            longest = max(longest, depth[u] + seconds[u])
        for j in range(net.in_start[v], net.in_start[v + 1]):
            f = net.incoming[j]
            u = net.source[f]
            longest = max(longest, depth[u] + seconds[u] + transfer[f])
        depth[v] = longest
    return depth


@kernel
def tails(net: Net, order: IntArray) -> FloatArray:
    """See :func:`device_tails`."""
    count, devices = net.seconds.shape
    tail = np.zeros((count, devices))
    for i in range(len(order) - 1, -1, -1):
        v = order[i]
        for j in range(net.after_start[v], net.after_start[v + 1]):
            w = net.after[j]
            least = np.inf
            for q in range(devices):
                least = min(least, net.seconds[w, q] + tail[w, q])
            for k in range(devices):
                tail[v, k] = max(tail[v, k], least)
        for j in range(net.out_start[v], net.out_start[v + 1]):
            f = net.outgoing[j]
            w = net.target[f]
            for k in range(devices):
                least = net.seconds[w, k] + tail[w, k]
                for q in range(devices):
                    sent = net.latency[k, q] + net.size[f] * net.per_byte[k, q]
                    if q != k and sent < np.inf:
                        least = min(least, sent + net.seconds[w, q] + tail[w, q])
                tail[v, k] = max(tail[v, k], least)
    return tail
