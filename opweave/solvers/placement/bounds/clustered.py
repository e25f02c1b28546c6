"""Heads and tails that also know which predecessors must share an operator's device, and what must enter it.

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

What is not in the cluster enters it. Where there are ports, each tensor that the cluster reads from outside passes the
receive port of k, or its producer runs on k, too. Of these tensors, one for each producer and one producer for each,
those whose producer would end too late on k pass the port one after the other: a second one-machine problem, from the
least end elsewhere to t - rest(w). All of them share two machines: what has to be there at t - q at the latest takes
its seconds on the port or its run time on k. Let the port be full from the least of these ends on. What is left over
runs on k with the cluster. If k is full, too, t is refuted. Parts of a tensor may be on both, and those that need
least time on k are moved first, so no plan leaves less. In the reversed problem the port is the send port of k, and as
a tensor is sent to several readers at once, only one of its readers counts.

Source: Carlier, "The one-machine sequencing problem" (the preemptive value, after Jackson); destructive bounds after
Klein and Scholl, "Computing lower bounds by destructive improvement".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import BoolArray, FloatArray, FloatMatrix, IntArray
from opweave.solvers.loops import helper, loop
from opweave.solvers.placement.arrays import DELAY, PlacementArrays

HALVINGS = 12
"""Bisections of a head. The refuted end is kept, so that fewer give a lower head, never a false one."""

WORTH = 1e-7
"""Relative increase of a head that is worth bisecting."""

MOST_ENTRANTS = 24
"""Most tensors looked at that enter a cluster; none on problems so large that clusters are smaller."""


class Front(NamedTuple):
    """Heads, and what they mean for operators that follow: arrivals of flows and ends, from other devices only.

    Attributes
    ----------
    heads
        Inf where an operator cannot run. Shape (operators, devices).
    away
        Least arrival of every flow on every device from another device. Shape (flows, devices).
    gone
        Least end of every operator on a device other than each. Shape (operators, devices).
    """

    heads: FloatMatrix
    away: FloatMatrix
    gone: FloatMatrix


class Cluster(NamedTuple):
    """Space for one cluster: its operators, and for every operator the test that reached it, its q and membership.

    ``heads``, ``left`` and ``tails`` hold the jobs of a one-machine problem, by head. ``entrants`` are operators with a
    flow into the cluster: ``flow`` has it, and ``due`` the longest time from its arrival to the start of the operator
    in question. ``entered`` and ``crossed`` are the tests in which operators and tensors were listed; ``owed`` are
    the seconds of entrants on the port, and ``rate`` those on the device for each of them, inf where one cannot run.
    """

    members: IntArray
    reached: IntArray
    joined: IntArray
    after: FloatArray
    heads: FloatArray
    left: FloatArray
    tails: FloatArray
    entrants: IntArray
    flow: IntArray
    due: FloatArray
    entered: IntArray
    crossed: IntArray
    owed: FloatArray
    rate: FloatArray


@helper
def new_cluster(arrays: PlacementArrays, largest: int) -> Cluster:
    """Space for clusters of at most so many operators."""
    count = len(arrays.seconds)
    never = np.full(count, -1, dtype=np.int64)
    return Cluster(
        members=np.zeros(largest, dtype=np.int64),
        reached=never,
        joined=never.copy(),
        after=np.zeros(count),
        heads=np.zeros(largest),
        left=np.zeros(largest),
        tails=np.zeros(largest),
        entrants=np.zeros(MOST_ENTRANTS if largest >= MOST_ENTRANTS else 0, dtype=np.int64),
        flow=np.zeros(count, dtype=np.int64),
        due=np.zeros(count),
        entered=never.copy(),
        crossed=np.full(arrays.tensors, -1, dtype=np.int64),
        owed=np.zeros(count),
        rate=np.zeros(count),
    )


@helper
def add_job(cluster: Cluster, jobs: int, head: float, seconds: float, tail: float) -> int:
    """Add a job to the one-machine problem; return their number."""
    j = jobs
    while j > 0 and cluster.heads[j - 1] > head:
        cluster.heads[j], cluster.left[j] = cluster.heads[j - 1], cluster.left[j - 1]
        cluster.tails[j] = cluster.tails[j - 1]
        j -= 1
    cluster.heads[j], cluster.left[j], cluster.tails[j] = head, seconds, tail
    return jobs + 1


@helper
def note_entrant(arrays: PlacementArrays, cluster: Cluster, entrants: int, test: int, f: int, rest: float) -> int:
    """List the source of a flow into a cluster, one for every tensor; return their number."""
    u, tensor = arrays.source[f], arrays.tensor[f]
    if cluster.entered[u] == test and arrays.tensor[cluster.flow[u]] == tensor:
        cluster.due[u] = max(cluster.due[u], rest)
    elif cluster.entered[u] != test and cluster.crossed[tensor] != test and entrants < len(cluster.entrants):
        cluster.entered[u], cluster.crossed[tensor], cluster.flow[u], cluster.due[u] = test, test, f, rest
        cluster.entrants[entrants] = u
        return entrants + 1
    return entrants


@helper
def port_value(
    arrays: PlacementArrays, front: Front, cluster: Cluster, size: int, entrants: int, test: int, k: int, t: float
) -> float:
    """The value of what has to enter a cluster on device k, by the port alone and by port and device together."""
    heads, kept, jobs, devices = front.heads, 0, 0, arrays.seconds.shape[1]
    for i in range(entrants):
        u, least = cluster.entrants[i], np.inf
        for a in range(devices):
            if a != k and heads[u, a] < np.inf:
                least = min(least, (arrays.latency[a, k] + arrays.size[cluster.flow[u]] * arrays.per_byte[a, k]))
        if cluster.joined[u] == test or least == 0.0:
            continue
        cluster.owed[u], cluster.rate[u] = least, arrays.seconds[u, k] / least
        if heads[u, k] + arrays.seconds[u, k] + cluster.due[u] > t:
            cluster.rate[u] = np.inf
            jobs = add_job(cluster, jobs, front.gone[u, k], least, cluster.due[u])
        j = kept
        while j > 0 and cluster.rate[cluster.entrants[j - 1]] > cluster.rate[u]:
            cluster.entrants[j] = cluster.entrants[j - 1]
            j -= 1
        cluster.entrants[j] = u
        kept += 1
    best = preemptive_value(cluster, jobs) if jobs > 1 else 0.0
    for i in range(kept):
        due = cluster.due[cluster.entrants[i]]
        best = max(best, t + shared_excess(arrays, front, cluster, size, kept, k, t - due, due))
    return best


@helper
def shared_excess(
    arrays: PlacementArrays, front: Front, cluster: Cluster, size: int, kept: int, k: int, most: float, due: float
) -> float:
    """Seconds by which the work of a device and of its port that is due first does not fit before ``most``; else 0.

    Every entrant passes the port or runs on the device. Parts of entrants are moved from the port to the device, first
    those that take least time there.
    """
    room, entry, spare, opens = most, np.inf, most, np.inf
    for i in range(kept):
        u = cluster.entrants[i]
        if cluster.due[u] >= due:
            spare -= cluster.owed[u]
            opens = min(opens, front.gone[u, k])
            entry = min(entry, front.heads[u, k])
    spare -= opens
    if spare >= 0.0:
        return 0.0
    for i in range(size):
        w = cluster.members[i]
        if cluster.after[w] >= due:
            room, entry = room - arrays.seconds[w, k], min(entry, front.heads[w, k])
    room = room - entry if entry < np.inf else 0.0
    for i in range(kept):
        u = cluster.entrants[i]
        if cluster.due[u] >= due and cluster.rate[u] < np.inf:
            part = min(cluster.owed[u], -spare)
            spare += part
            room -= part * cluster.rate[u]
    return max(-spare, -room, 0.0)


@helper
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


@helper
def cluster_value(
    arrays: PlacementArrays,
    order: IntArray,
    position: IntArray,
    front: Front,
    cluster: Cluster,
    test: int,
    v: int,
    k: int,
    t: float,
) -> float:
    """The one-machine value of the cluster of (v, k, t), or that of what enters it."""
    size, best, at, pending, entrants = 0, 0.0, position[v], 1, 0
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
            best = max(best, front.heads[w, k] + rest)
            if arrays.seconds[w, k] > 0.0:
                cluster.members[size] = w
                size += 1
        for i in range(arrays.before_start[w], arrays.before_start[w + 1]):
            u = arrays.before[i]
            if cluster.reached[u] != test:
                cluster.reached[u], cluster.after[u] = test, rest
            cluster.after[u] = max(cluster.after[u], rest)
            if cluster.joined[u] != test and front.gone[u, k] + rest > t:
                cluster.joined[u] = test
                pending += 1
        for i in range(arrays.in_start[w], arrays.in_start[w + 1]):
            f = arrays.incoming[i]
            u = arrays.source[f]
            if cluster.joined[u] != test and front.away[f, k] + rest > t:
                cluster.joined[u] = test
                pending += 1
            if arrays.model != DELAY and cluster.joined[u] != test:
                entrants = note_entrant(arrays, cluster, entrants, test, f, rest)
    if entrants > 1:
        best = max(best, port_value(arrays, front, cluster, size, entrants, test, k, t))
    if size < 2 or best == np.inf:
        return float(best)
    for i in range(size):  # members were found with the last first
        w = cluster.members[size - 1 - i]
        add_job(cluster, i, front.heads[w, k], arrays.seconds[w, k], cluster.after[w])
    return max(best, preemptive_value(cluster, size))


@helper
def plain_head(arrays: PlacementArrays, heads: FloatArray, away: FloatArray, v: int, k: int) -> float:
    """The head that single predecessors require; each takes its best device."""
    devices, ready = arrays.seconds.shape[1], heads[v, k]
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


@helper
def clustered_head(
    arrays: PlacementArrays,
    order: IntArray,
    position: IntArray,
    front: Front,
    cluster: Cluster,
    test: int,
    v: int,
    k: int,
    latest: float,
) -> tuple[float, int]:
    """The head of operator v on device k, inf if it is above ``latest``, and the number of the next test."""
    low = plain_head(arrays, front.heads, front.away, v, k)
    high = np.inf
    for halving in range(HALVINGS):
        if low > latest:
            low = np.inf
        if low == np.inf or high - low <= WORTH * low:
            break
        middle = low if halving == 0 else 0.5 * (low + high) if high < np.inf else min(latest, 2.0 * low)
        value = cluster_value(arrays, order, position, front, cluster, test, v, k, middle)
        test += 1
        if value <= middle:
            high = middle
        elif middle == latest:
            low = np.inf
        else:
            low, high = middle, min(high, value)
    return low, test


@helper
def send_on(arrays: PlacementArrays, front: Front, marked: BoolArray, v: int) -> None:
    """Pass the head of an operator on to ``away`` and ``gone``; mark the operators that it may delay."""
    devices = arrays.seconds.shape[1]
    for k in range(devices):
        least = np.inf
        for a in range(devices):
            if a != k:
                least = min(least, front.heads[v, a] + arrays.seconds[v, a])
        if least > front.gone[v, k]:
            front.gone[v, k] = least
            for i in range(arrays.after_start[v], arrays.after_start[v + 1]):
                marked[arrays.after[i]] = True
    for i in range(arrays.out_start[v], arrays.out_start[v + 1]):
        f = arrays.outgoing[i]
        for k in range(devices):
            least = np.inf
            for a in range(devices):
                if a != k and front.heads[v, a] < np.inf:
                    least = min(
                        least,
                        front.heads[v, a]
                        + arrays.seconds[v, a]
                        + (arrays.latency[a, k] + arrays.size[f] * arrays.per_byte[a, k]),
                    )
            if least > front.away[f, k]:
                front.away[f, k], marked[arrays.target[f]] = least, True


@loop
def raise_marked(
    arrays: PlacementArrays,
    order: IntArray,
    heads: FloatMatrix,
    away: FloatMatrix,
    gone: FloatMatrix,
    marked: BoolArray,
    tails: FloatMatrix,
    most: float,
    largest: int,
) -> bool:
    """Raise the heads of marked operators and of those that follow, with clusters of at most ``largest`` operators.

    ``heads``, ``away`` and ``gone`` are those of a :class:`Front`. A head becomes inf where head, run time and tail
    exceed ``most``; returns False as soon as an operator has no device left.
    """
    count, devices = arrays.seconds.shape
    position = np.empty(count, dtype=np.int64)
    for i in range(count):
        position[order[i]] = i
    front = Front(heads, away, gone)
    cluster = new_cluster(arrays, largest)
    test = 0
    for v in order:
        if not marked[v]:
            continue
        marked[v] = False
        possible = False
        for k in range(devices):
            heads[v, k] = np.inf if arrays.seconds[v, k] == np.inf else heads[v, k]
            if heads[v, k] < np.inf:
                latest = most - arrays.seconds[v, k] - tails[v, k]
                heads[v, k], test = clustered_head(arrays, order, position, front, cluster, test, v, k, latest)
                possible = possible or heads[v, k] < np.inf
        send_on(arrays, front, marked, v)
        if not possible and most < np.inf:
            return False
    return True
