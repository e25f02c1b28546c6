"""Critical paths that know devices and transfers: earliest starts (heads) and least remaining times (tails).

Proof: an operator on device k starts only after each predecessor has ended on *some* device and, if that is another
one, its data has arrived. Choosing the best device for every arc separately can only shorten the path. Waiting for
ports and sharing of transfers are ignored: under all three transfer models a transfer needs its own duration.

Source: Topcuoglu et al., "Performance-effective and low-complexity task scheduling for heterogeneous computing"
(ranks); Arabnejad and Barbosa, "List scheduling algorithm for heterogeneous systems by an optimistic cost table" (the
minimum over devices inside the recursion).

Clusters: heads and tails that also know which predecessors must share an operator's device.

Let operator v start on device k at time t or earlier. Going backwards from v, a predecessor u of an operator that must
be on k must be on k too if its data would arrive too late from every other device. All operators found in this way,
the *cluster* of (v, k, t), run on k between their heads and t, one after the other. If they cannot, v starts later than
t. The head of v on k is the largest t that is refuted like this, found by bisection.

Let rest(v) = 0, and rest(w) = p[w,k] + q[w] for an operator w of the cluster, where q[u] is the largest rest(w) over
the successors w of u in the cluster or equal to v. An operator u joins the cluster when, for some such w,

    min over devices l other than k of (head[u,l] + p[u,l] + seconds from l to k) + rest(w) > t.

The cluster cannot fit when the preemptive one-machine value of its jobs, with heads head[., k] and tails q, is above t.

Proof: w starts on k at t - rest(w) or earlier, so the data of u has to be on k by then, and u on another device
delivers it too late. The one-machine value is at most the end of any order of the jobs. A cluster that is cut short is
a valid cluster, because the membership of an operator depends only on operators that joined before. Waiting for ports
is ignored, and a transfer takes at least its own duration, so this holds under all three transfer models.

Source: Carlier, "The one-machine sequencing problem" (the preemptive value, after Jackson); destructive bounds after
Klein and Scholl, "Computing lower bounds by destructive improvement".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, FloatMatrix, IntArray
from opweave.solvers.compiled import inlined, kernel
from opweave.solvers.loops import lengths_of
from opweave.solvers.placement.arrays import PlacementArrays, reversed_net, sending


class Reach(NamedTuple):
    """Heads and tails of operators by device, inf where an operator cannot run. Shapes (operators, devices).

    ``heads`` are least times from the beginning to the start, ``tails`` from the operator's end to that of the plan.
    """

    heads: FloatArray
    tails: FloatArray


@kernel
def sorted_operators(arrays: PlacementArrays) -> IntArray:
    """Operators with predecessors first. Shape (operators,)."""
    count = len(arrays.seconds)
    waiting = lengths_of(arrays.before_start)
    order = np.empty(count, dtype=np.int64)
    filled = 0
    for v in range(count):
        if waiting[v] == 0:
            order[filled] = v
            filled += 1
    taken = 0
    while taken < filled:
        v = order[taken]
        taken += 1
        for i in range(arrays.after_start[v], arrays.after_start[v + 1]):
            w = arrays.after[i]
            waiting[w] -= 1
            if waiting[w] == 0:
                order[filled] = w
                filled += 1
    return order


@inlined
def raise_heads(arrays: PlacementArrays, seconds: FloatArray, order: IntArray, heads: FloatArray) -> None:
    """Raise ``heads`` (lower bounds on entry) to what the predecessors require, with ``seconds`` as run times."""
    devices = seconds.shape[1]
    for v in order:
        ready = 0.0
        for i in range(arrays.before_start[v], arrays.before_start[v + 1]):
            u = arrays.before[i]
            least = np.inf
            for a in range(devices):
                least = min(least, heads[u, a] + seconds[u, a])
            ready = max(ready, least)
        for k in range(devices):
            if np.isinf(seconds[v, k]):
                heads[v, k] = np.inf
                continue
            start = max(ready, heads[v, k])
            for i in range(arrays.in_start[v], arrays.in_start[v + 1]):
                f = arrays.incoming[i]
                u = arrays.source[f]
                least = np.inf
                for a in range(devices):
                    if heads[u, a] < np.inf:
                        least = min(least, heads[u, a] + seconds[u, a] + sending(arrays, f, a, k))
                start = max(start, least)
            heads[v, k] = start


@kernel
def fill_heads(arrays: PlacementArrays, order: IntArray, heads: FloatMatrix) -> None:
    """Like :func:`raise_heads`, with the run times of the arrays."""
    raise_heads(arrays, arrays.seconds, order, heads)


def operator_order(arrays: PlacementArrays) -> IntArray:
    """Operators with predecessors first."""
    return sorted_operators.sized(len(arrays.seconds) + len(arrays.before))(arrays)


def device_tails(arrays: PlacementArrays) -> FloatArray:
    """The tails alone. PEFT calls them the optimistic cost table. Shape (operators, devices)."""
    return _heads_of(reversed_net(arrays), np.ascontiguousarray(operator_order(arrays)[::-1]))


def _heads_of(arrays: PlacementArrays, order: IntArray) -> FloatArray:
    heads = np.zeros(arrays.seconds.shape)
    steps = (len(arrays.source) + len(arrays.before) + len(arrays.seconds)) * arrays.seconds.shape[1] ** 2
    fill_heads.sized(steps)(arrays, order, heads)
    return heads


def longest(arrays: PlacementArrays, reach: Reach) -> float:
    """The critical path: the largest, over operators, of head + run time + tail on the best device."""
    if not len(arrays.seconds):
        return 0.0
    return float((reach.heads + arrays.seconds + reach.tails).min(axis=1).max())


LARGEST, SMALLEST_CLUSTER = 100, 12
"""Most operators of a cluster, on small and on large problems."""

LARGE = 4_000
"""Operators above which clusters stay small."""

HALVINGS = 12
"""Bisections of a head. The refuted end is kept, so that fewer give a lower head, never a false one."""

WORTH = 1e-7
"""Relative increase of a head that is worth bisecting."""


class Cluster(NamedTuple):
    """Space for one cluster: its operators, and for every operator the test that reached it, its q and membership.

    ``heads``, ``left`` and ``tails`` hold the jobs of the one-machine problem, by head.
    """

    members: IntArray
    reached: IntArray
    joined: IntArray
    after: FloatArray
    heads: FloatArray
    left: FloatArray
    tails: FloatArray


@inlined
def preemptive_value(cluster: Cluster, jobs: int) -> float:
    """Jackson's value: at every moment the job with the longest tail runs. Jobs are sorted by head."""
    best, now, known = 0.0, 0.0, 0
    while True:
        while known < jobs and cluster.heads[known] <= now:
            known += 1
        pick = -1
        for i in range(known):
            if cluster.left[i] > 0.0 and (pick < 0 or cluster.tails[i] > cluster.tails[pick]):
                pick = i
        if pick < 0:
            if known == jobs:
                break
            now = cluster.heads[known]
            continue
        until = cluster.heads[known] if known < jobs else np.inf
        after = cluster.left[pick] - (until - now)  # may be rounded to nothing: the job has ended then, too
        if after <= 0.0:
            now += cluster.left[pick]
            cluster.left[pick] = 0.0
            best = max(best, now + cluster.tails[pick])
        else:
            cluster.left[pick] = after
            now = until
    return float(best)


@inlined
def cluster_value(
    arrays: PlacementArrays,
    order: IntArray,
    position: IntArray,
    heads: FloatArray,
    away: FloatArray,
    gone: FloatArray,
    cluster: Cluster,
    test: int,
    v: int,
    k: int,
    t: float,
) -> float:
    """The one-machine value of the cluster of (v, k, t).

    ``away`` has the least arrival of every flow on every device from the other devices, ``gone`` the least end of every
    operator on other devices.
    """
    size, best, at, pending = 0, 0.0, position[v], 1
    cluster.reached[v], cluster.joined[v], cluster.after[v] = test, test, 0.0
    while pending > 0 and size < len(cluster.members):
        w = order[at]
        at -= 1
        if cluster.joined[w] != test:
            continue
        pending -= 1
        rest = 0.0
        if w != v:
            rest = arrays.seconds[w, k] + cluster.after[w]
            best = max(best, heads[w, k] + rest)
            if arrays.seconds[w, k] > 0.0:
                cluster.members[size] = w
                size += 1
        for i in range(arrays.before_start[w], arrays.before_start[w + 1]):
            u = arrays.before[i]
            if cluster.reached[u] != test:
                cluster.reached[u], cluster.after[u] = test, rest
            cluster.after[u] = max(cluster.after[u], rest)
            if cluster.joined[u] != test and gone[u, k] + rest > t:
                cluster.joined[u] = test
                pending += 1
        for i in range(arrays.in_start[w], arrays.in_start[w + 1]):
            f = arrays.incoming[i]
            u = arrays.source[f]
            if cluster.joined[u] != test and away[f, k] + rest > t:
                cluster.joined[u] = test
                pending += 1
    if size < 2 or best == np.inf:
        return float(best)
    for i in range(size):  # members were found with the last first
        w = cluster.members[size - 1 - i]
        head, j = heads[w, k], i
        while j > 0 and cluster.heads[j - 1] > head:
            cluster.heads[j], cluster.left[j] = cluster.heads[j - 1], cluster.left[j - 1]
            cluster.tails[j] = cluster.tails[j - 1]
            j -= 1
        cluster.heads[j], cluster.left[j], cluster.tails[j] = head, arrays.seconds[w, k], cluster.after[w]
    return max(best, preemptive_value(cluster, size))


@inlined
def plain_head(arrays: PlacementArrays, heads: FloatArray, away: FloatArray, v: int, k: int) -> float:
    """The head that single predecessors require; each takes its best device."""
    devices = arrays.seconds.shape[1]
    ready = heads[v, k]
    for i in range(arrays.before_start[v], arrays.before_start[v + 1]):
        u = arrays.before[i]
        least = np.inf
        for a in range(devices):
            least = min(least, heads[u, a] + arrays.seconds[u, a])
        ready = max(ready, least)
    for i in range(arrays.in_start[v], arrays.in_start[v + 1]):
        f = arrays.incoming[i]
        u = arrays.source[f]
        ready = max(ready, min(away[f, k], heads[u, k] + arrays.seconds[u, k]))
    return float(ready)


@kernel
def fill_clustered(arrays: PlacementArrays, order: IntArray, heads: FloatMatrix, largest: int) -> None:
    """Raise ``heads`` (lower bounds on entry), with clusters of at most ``largest`` operators."""
    count, devices = arrays.seconds.shape
    position = np.empty(count, dtype=np.int64)
    for i in range(count):
        position[order[i]] = i
    away = np.full((len(arrays.source), devices), np.inf)
    gone = np.full((count, devices), np.inf)
    nothing, none = np.full(count, -1, dtype=np.int64), np.zeros(count)
    jobs = np.zeros(largest)
    cluster = Cluster(np.zeros(largest, dtype=np.int64), nothing, nothing.copy(), none, jobs, jobs.copy(), jobs.copy())
    test = 0
    for v in order:
        for k in range(devices):
            if arrays.seconds[v, k] == np.inf:
                heads[v, k] = np.inf
                continue
            low = plain_head(arrays, heads, away, v, k)
            high = np.inf
            for halving in range(HALVINGS):
                if low == np.inf or high - low <= WORTH * low:
                    break
                middle = low if halving == 0 else 0.5 * (low + high) if high < np.inf else 2.0 * low
                value = cluster_value(arrays, order, position, heads, away, gone, cluster, test, v, k, middle)
                test += 1
                if value > middle:
                    low, high = middle, min(high, value)
                else:
                    high = middle
            heads[v, k] = low
        for k in range(devices):
            for a in range(devices):
                if a != k:
                    gone[v, k] = min(gone[v, k], heads[v, a] + arrays.seconds[v, a])
        for i in range(arrays.out_start[v], arrays.out_start[v + 1]):
            f = arrays.outgoing[i]
            for k in range(devices):
                for a in range(devices):
                    if a != k and heads[v, a] < np.inf:
                        away[f, k] = min(away[f, k], heads[v, a] + arrays.seconds[v, a] + sending(arrays, f, a, k))


def reach_of(arrays: PlacementArrays, order: IntArray | None = None, known: Reach | None = None) -> Reach:
    """Heads and tails of every operator on every device.

    Parameters
    ----------
    arrays
        The problem.
    order
        Operators with predecessors first.
    known
        Valid heads and tails to begin with.
    """
    first = operator_order(arrays) if order is None else order
    none = np.zeros(arrays.seconds.shape)
    heads, tails = (none, none) if known is None else known
    return Reach(heads_of(arrays, first, heads), tails_of(arrays, first, tails))


def tails_of(arrays: PlacementArrays, order: IntArray, known: FloatArray | None = None) -> FloatArray:
    """The tails of :func:`reach_of`."""
    return heads_of(reversed_net(arrays), np.ascontiguousarray(order[::-1]), known)


def heads_of(arrays: PlacementArrays, order: IntArray, known: FloatArray | None = None) -> FloatArray:
    """The heads of :func:`reach_of`."""
    heads = np.zeros(arrays.seconds.shape) if known is None else known.copy()
    steps = (len(arrays.source) + len(arrays.before) + 3 * len(arrays.seconds)) * arrays.seconds.shape[1] ** 2
    largest = LARGEST if len(arrays.seconds) <= LARGE else SMALLEST_CLUSTER
    fill_clustered.sized(4 * steps)(arrays, order, heads, largest)
    return heads
