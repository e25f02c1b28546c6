"""Critical paths that know devices and transfers: earliest starts (heads) and least remaining times (tails).

An operator on device k starts only after each predecessor has ended on *some* device and, if that is another one, its
data has arrived. Choosing the best device for every arc separately can only shorten the path. Waiting for ports and
sharing of transfers are ignored: under all three transfer models a transfer needs its own duration.

Heads also know which predecessors must share an operator's device. Let operator v start on device k at time t or
earlier. Going backwards from v, a predecessor u of an operator that must be on k must be on k too if its data would
arrive too late from every other device. All operators found in this way, the *cluster* of (v, k, t), run on k between
their heads and t, one after the other. If they cannot, v starts later than t. The head of v on k is the largest t that
is refuted like this, found by bisection.

Let rest(v) = 0, and rest(w) = p[w,k] + q[w] for an operator w of the cluster, where q[u] is the largest rest(w) over
the successors w of u in the cluster or equal to v. An operator u joins the cluster when, for some such w,

    min over devices l other than k of (head[u,l] + p[u,l] + seconds from l to k) + rest(w) > t.

The cluster cannot fit when the preemptive one-machine value of its jobs, with heads head[., k] and tails q, is above t.

With ports, what the cluster receives must fit, too: an operator u that cannot end on k in time, head[u,k] + p[u,k] +
rest(w) > t, runs elsewhere, and device k receives its data, one tensor after the other. These transfers are jobs of a
second machine, with the least end of u elsewhere as head, the least time from any device, and tail rest(w). In a block
in which every layer reads all earlier ones, the last layers change the device only together with all these tensors.

Proof: w starts on k at t - rest(w) or earlier, so the data of u has to be on k by then, and u on another device
delivers it too late. The one-machine value is at most the end of any order of the jobs. Under ``one_port_tensor`` a
transfer counts once for all readers on k, of which it serves the earliest. Backwards, it is one that goes to the reader
elsewhere that needs it first. A cluster that is cut short is
a valid cluster, because the membership of an operator depends only on operators that joined before.

Source: Topcuoglu et al., "Performance-effective and low-complexity task scheduling for heterogeneous computing"
(ranks); Arabnejad and Barbosa, "List scheduling algorithm for heterogeneous systems by an optimistic cost table" (the
minimum over devices inside the recursion); Carlier, "The one-machine sequencing problem" (the preemptive value, after
Jackson); destructive bounds after Klein and Scholl, "Computing lower bounds by destructive improvement".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, FloatMatrix, IntArray
from opweave.solvers.loops import helper, loop
from opweave.solvers.placement.arrays import DELAY, PORT_TENSOR, PlacementArrays, order_of_graph, reversed_net

HALVINGS = 12
"""Bisections of a head. The refuted end is kept, so that fewer give a lower head, never a false one."""

WORTH = 1e-7
"""Relative increase of a head that is worth bisecting."""

LARGEST, SMALLEST_CLUSTER = 100, 12
"""Most operators of a cluster, on small and on large problems."""

LARGE = 4_000
"""Operators above which clusters stay small."""


class Reach(NamedTuple):
    """Heads and tails of operators by device, inf where an operator cannot run. Shapes (operators, devices).

    ``heads`` are least times from the beginning to the start, ``tails`` from the operator's end to that of the plan.
    """

    heads: FloatArray
    tails: FloatArray


def longest(arrays: PlacementArrays, reach: Reach) -> float:
    """The critical path: the largest, over operators, of head + run time + tail on the best device."""
    if not len(arrays.seconds):
        return 0.0
    return float((reach.heads + arrays.seconds + reach.tails).min(axis=1).max())


def reach_of(arrays: PlacementArrays, order: IntArray | None = None) -> Reach:
    """Heads and tails of every operator on every device; ``order`` is any with predecessors first."""
    first = order_of_graph(arrays) if order is None else order
    return Reach(heads_of(arrays, first), tails_of(arrays, first))


def tails_of(arrays: PlacementArrays, order: IntArray) -> FloatArray:
    """The tails of :func:`reach_of`."""
    return heads_of(reversed_net(arrays), np.ascontiguousarray(order[::-1]))


def heads_of(arrays: PlacementArrays, order: IntArray) -> FloatArray:
    """The heads of :func:`reach_of`."""
    heads = np.zeros(arrays.seconds.shape)
    away = np.zeros((len(arrays.source), arrays.seconds.shape[1]))
    gone = np.zeros(heads.shape)
    raise_heads(arrays, order, heads, away, gone, empty_cluster(arrays))
    return heads


class Scratch(NamedTuple):
    """Space for one cluster: its operators, and for every operator the test that reached it, its q and membership.

    ``heads``, ``left`` and ``tails`` hold the jobs of a one-machine problem, by head. ``begins``, ``lasts`` and ``due``
    are those of the transfers, ``sent`` the test that found each tensor or flow, and ``place`` its job.
    """

    members: IntArray
    reached: IntArray
    joined: IntArray
    after: FloatArray
    sent: IntArray
    place: IntArray
    begins: FloatArray
    lasts: FloatArray
    due: FloatArray
    heads: FloatArray
    left: FloatArray
    tails: FloatArray


def empty_cluster(arrays: PlacementArrays) -> Scratch:
    """Space for the clusters of a problem."""
    count, sent = len(arrays.seconds), max(len(arrays.source), arrays.tensors)
    largest = LARGEST if count <= LARGE else SMALLEST_CLUSTER
    members, after = np.zeros(largest, dtype=np.int64), np.zeros(count)
    reached, joined, found, place = np.full(count, -1), np.full(count, -1), np.full(sent, -1), np.zeros(sent, np.int64)
    return Scratch(members, reached, joined, after, found, place, *np.zeros((6, largest)))


@helper
def insert(cluster: Scratch, i: int, head: float, left: float, tail: float) -> None:
    """Job i of a one-machine problem, in its place by head."""
    j = i
    while j > 0 and cluster.heads[j - 1] > head:
        cluster.heads[j], cluster.left[j] = cluster.heads[j - 1], cluster.left[j - 1]
        cluster.tails[j] = cluster.tails[j - 1]
        j -= 1
    cluster.heads[j], cluster.left[j], cluster.tails[j] = head, left, tail


@helper
def receive(
    arrays: PlacementArrays, cluster: Scratch, f: int, k: int, begin: float, due: float, test: int, jobs: int
) -> int:
    """Add a flow to the transfers that device k receives, and return their number."""
    name = arrays.tensor[f] if arrays.model == PORT_TENSOR else f
    if cluster.sent[name] == test:
        i = cluster.place[name]
        cluster.begins[i], cluster.due[i] = max(cluster.begins[i], begin), max(cluster.due[i], due)
        return jobs
    if jobs == len(cluster.begins):
        return jobs
    least = np.inf
    for a in range(arrays.seconds.shape[1]):
        if a != k and arrays.seconds[arrays.source[f], a] < np.inf:
            least = min(least, arrays.latency[a, k] + arrays.size[f] * arrays.per_byte[a, k])
    cluster.sent[name], cluster.place[name] = test, jobs
    cluster.begins[jobs], cluster.lasts[jobs], cluster.due[jobs] = begin, least, due
    return jobs + 1


@helper
def preemptive_value(cluster: Scratch, jobs: int) -> float:
    """Jackson's value: at every moment the job with the longest tail runs. Jobs are sorted by head."""
    heads, left, tails = cluster.heads, cluster.left, cluster.tails
    best, now, known = 0.0, 0.0, 0
    while True:
        while known < jobs and heads[known] <= now:
            known += 1
        pick = -1
        for i in range(known):
            if left[i] > 0.0 and (pick < 0 or tails[i] > tails[pick]):
                pick = i
        if pick < 0 and known == jobs:
            return best
        if pick < 0:
            now = heads[known]
            continue
        rest = left[pick] - (heads[known] - now) if known < jobs else 0.0
        if rest <= 0.0:  # may be rounded to nothing: the job has ended then, too
            now += left[pick]
            best, rest = max(best, now + tails[pick]), 0.0
        else:
            now = heads[known]
        left[pick] = rest


@helper
def cluster_value(
    arrays: PlacementArrays,
    order: IntArray,
    at: int,
    heads: FloatMatrix,
    away: FloatMatrix,
    gone: FloatMatrix,
    cluster: Scratch,
    test: int,
    k: int,
    t: float,
) -> float:
    """The one-machine value of the cluster of the operator at a position, device k and time t."""
    seconds, before_start, before = arrays.seconds, arrays.before_start, arrays.before
    in_start, incoming, source = arrays.in_start, arrays.incoming, arrays.source
    members, reached, joined, after = cluster.members, cluster.reached, cluster.joined, cluster.after
    v, size, best, pending, jobs = order[at], 0, 0.0, 1, 0
    reached[v], joined[v], after[v] = test, test, 0.0
    while pending > 0 and size < len(members):
        w = order[at]
        at -= 1
        if joined[w] != test:
            continue
        pending -= 1
        rest = 0.0
        if w != v:
            rest = seconds[w, k] + after[w]
            best = max(best, heads[w, k] + rest)
            if seconds[w, k] > 0.0:
                members[size] = w
                size += 1
        for i in range(before_start[w], before_start[w + 1]):
            u = before[i]
            after[u] = max(after[u], rest) if reached[u] == test else rest
            reached[u] = test
            if joined[u] != test and gone[u, k] + rest > t:
                joined[u] = test
                pending += 1
        for i in range(in_start[w], in_start[w + 1]):
            u = source[incoming[i]]
            if joined[u] != test and away[incoming[i], k] + rest > t:
                joined[u] = test
                pending += 1
            if arrays.model != DELAY and heads[u, k] + seconds[u, k] + rest > t:
                jobs = receive(arrays, cluster, incoming[i], k, gone[u, k], rest, test, jobs)
    if best == np.inf:
        return best
    for i in range(size):  # members were found with the last first
        w = members[size - 1 - i]
        insert(cluster, i, heads[w, k], seconds[w, k], after[w])
    if size > 1:
        best = max(best, preemptive_value(cluster, size))
    for i in range(jobs):
        if cluster.begins[i] + cluster.lasts[i] == np.inf:
            return np.inf
        insert(cluster, i, cluster.begins[i], cluster.lasts[i], cluster.due[i])
    if jobs > 1:
        best = max(best, preemptive_value(cluster, jobs))
    return best


@helper
def plain_head(arrays: PlacementArrays, heads: FloatMatrix, away: FloatMatrix, v: int, k: int) -> float:
    """The head that single predecessors require; each takes its best device."""
    seconds, ready = arrays.seconds, heads[v, k]
    for i in range(arrays.before_start[v], arrays.before_start[v + 1]):
        u, least = arrays.before[i], np.inf
        for a in range(seconds.shape[1]):
            least = min(least, heads[u, a] + seconds[u, a])
        ready = max(ready, least)
    for i in range(arrays.in_start[v], arrays.in_start[v + 1]):
        f = arrays.incoming[i]
        u = arrays.source[f]
        ready = max(ready, min(away[f, k], heads[u, k] + seconds[u, k]))
    return float(ready)


@loop
def raise_heads(
    arrays: PlacementArrays, order: IntArray, heads: FloatMatrix, away: FloatMatrix, gone: FloatMatrix, cluster: Scratch
) -> None:
    """Raise the heads of all operators.

    ``away`` receives the least arrival of every flow on every device from another device, and ``gone`` the least end of
    every operator on a device other than each. Shapes (flows, devices), (operators, devices).
    """
    seconds, latency, per_byte = arrays.seconds, arrays.latency, arrays.per_byte
    count, devices = seconds.shape
    test = 0
    for at in range(count):
        v = order[at]
        for k in range(devices):
            low, high = np.inf, np.inf
            if seconds[v, k] < np.inf:
                low = plain_head(arrays, heads, away, v, k)
            for halving in range(HALVINGS):
                if low == np.inf or high - low <= WORTH * low:
                    break
                middle = low if halving == 0 else 0.5 * (low + high) if high < np.inf else 2.0 * low
                value = cluster_value(arrays, order, at, heads, away, gone, cluster, test, k, middle)
                test += 1
                if value <= middle:
                    high = middle
                else:
                    low, high = middle, min(high, value)
            heads[v, k] = low
        for k in range(devices):
            gone[v, k] = np.inf
            for a in range(devices):
                if a != k:
                    gone[v, k] = min(gone[v, k], heads[v, a] + seconds[v, a])
            for i in range(arrays.out_start[v], arrays.out_start[v + 1]):
                f = arrays.outgoing[i]
                away[f, k] = np.inf
                for a in range(devices):
                    if a != k and heads[v, a] < np.inf:
                        lasts = latency[a, k] + arrays.size[f] * per_byte[a, k]
                        away[f, k] = min(away[f, k], heads[v, a] + seconds[v, a] + lasts)
