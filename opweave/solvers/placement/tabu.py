"""Tabu search that takes one operator out of a schedule without ports and puts it back elsewhere.

An operator of a critical path leaves its device, and the heads and tails of all others are worked out without it. They
tell the length of the longest path through it for every device and every place in the order there. The best place that
is not tabu is taken, even if the schedule becomes longer. Device and order change together, and one pass over the graph
judges all places of an operator, where other searches judge one.

Heads and tails do not depend on the order of transfers, so ports are not seen; what is found is exact for ``delay``.

Sources: M. Mastrolilli, L. M. Gambardella, "Effective neighbourhood functions for the flexible job shop problem",
Journal of Scheduling 3(1), 2000; with transfers, memory and any precedences here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, FloatMatrix, IntArray, IntMatrix
from opweave.problems.graph_arrays import Adjacency
from opweave.solvers.kernels import exceeds
from opweave.solvers.loops import helper, loop
from opweave.solvers.placement.arrays import PlacementArrays, durations, reversed_net
from opweave.solvers.placement.moves import SIZE, SOURCE, CountedPlan, Net, net_of, settle

DRAWS = 4
"""Random numbers drawn for each move."""

MOVE_WORK = 40_000
"""Operators and arcs judged for one move, after which the best place so far is taken."""

TENURE = 10
"""Least number of moves for which an operator does not go back to a device that it left."""

CLOSE = 1e-9
"""Share of the makespan within which times count as equal."""


class LongestPaths(NamedTuple):
    """Longest paths of the current schedule, and of the schedule without one operator.

    Attributes
    ----------
    end, reach
        End of every operator, and the time from its start to the end of the schedule. Shape (operators,).
    end_without, reach_without
        The same if the operator that is judged takes no time and no place.
    last_before, first_after
        The operators before and after every operator on its device, -1 for none.
    row_start, row
        The operators of every device in their order.
    """

    end: FloatArray
    reach: FloatArray
    end_without: FloatArray
    reach_without: FloatArray
    last_before: IntArray
    first_after: IntArray
    row_start: IntArray
    row: IntArray


class Trial(NamedTuple):
    """A plan that moves change, on a problem and on the same with time reversed, and the best place of an operator.

    ``lengths`` are the makespan there, the longest path through the operator and the last number of a random sequence;
    ``place`` is the operator, its device, and the operator before it on the device, -1 for none; ``longest`` is the
    length of every beginning of the order, and the rows of ``space`` are what a move works on.
    """

    front: Net
    back: Net
    plan: CountedPlan
    paths: LongestPaths
    lengths: FloatArray
    place: IntArray
    longest: FloatArray
    space: IntMatrix


@loop
def reinsert_many(
    trial: Trial,
    tabu: IntMatrix,
    moved: IntArray,
    draws: FloatMatrix,
    kicks: int,
    least: float,
    best_order: IntArray,
    best_device: IntArray,
) -> float:
    """Move one operator for every row of ``draws``; the first ``kicks`` moves are taken at random.

    The plan is changed. The best schedule shorter than ``least`` goes to ``best_order`` and ``best_device``; returns
    its length. ``tabu`` holds the move until which an operator may not go to a device, and ``moved`` the moves so far.
    """
    plan, paths, place, lengths = trial.plan, trial.paths, trial.place, trial.lengths
    seconds = trial.front.seconds
    count, devices = seconds.shape
    path, longest = trial.space[0], trial.longest
    best = least
    effort = 1 + (count + len(trial.front.before) + len(trial.front.flows)) // 2
    for move in range(len(draws)):
        _link(trial)
        makespan = _time(trial)
        if makespan < best * (1.0 - CLOSE):
            best = makespan
            for i in range(count):
                best_order[i], best_device[i] = plan.order[i], plan.device[i]
        moved[0] += 1
        now, length = moved[0], 0
        for v in range(count):
            if paths.end[v] + paths.reach[v] - seconds[v, plan.device[v]] >= makespan * (1.0 - CLOSE):
                path[length] = v
                length += 1
        judged = max(1, min(length, MOVE_WORK // effort))
        at, step = int(draws[move, 0] * length), max(1, length // judged)
        place[0] = -1
        lengths[0] = lengths[1] = np.inf
        lengths[2] = draws[move, 1]
        for turn in range(judged):
            v = path[(at + turn * step) % length]
            if plan.members[plan.cluster[v] + 1] - plan.members[plan.cluster[v]] > 1:
                continue
            rest = _without(trial, v, longest[plan.position[v]])
            for k in range(devices):
                most = np.inf if tabu[v, k] <= now else best * (1.0 - CLOSE)
                _judge(trial, v, k, rest, most, kicks > move)
            for w in range(count):
                paths.end_without[w], paths.reach_without[w] = paths.end[w], paths.reach[w]
        found, goes = place[0], place[1]
        if found < 0:
            continue
        a = plan.device[found]
        if _carried_out(trial):
            tabu[found, a] = now + TENURE + int(draws[move, 2] * (length + TENURE))
        else:
            tabu[found, goes] = now + TENURE
    return best


@helper
def _link(trial: Trial) -> None:
    """Write the rows of operators by device, and the neighbours of every operator in its row."""
    plan, paths, fill = trial.plan, trial.paths, trial.space[0]
    count, devices = trial.front.seconds.shape
    for k in range(devices + 1):
        paths.row_start[k] = 0
    for v in range(count):
        paths.row_start[plan.device[v] + 1] += 1
    for k in range(devices):
        paths.row_start[k + 1] += paths.row_start[k]
        fill[k] = paths.row_start[k]
    for i in range(count):
        v = plan.order[i]
        k = plan.device[v]
        paths.row[fill[k]] = v
        paths.last_before[v] = paths.row[fill[k] - 1] if fill[k] > paths.row_start[k] else -1
        if paths.last_before[v] >= 0:
            paths.first_after[paths.last_before[v]] = v
        paths.first_after[v] = -1
        fill[k] += 1


@helper
def _time(trial: Trial) -> float:
    """Fill the longest paths; return the makespan."""
    plan, paths, seconds = trial.plan, trial.paths, trial.front.seconds
    count, makespan = len(plan.order), 0.0
    for i in range(count):
        v = plan.order[i]
        k = plan.device[v]
        paths.end[v] = _ready(trial.front, plan.device, paths.end, v, k, paths.last_before[v]) + seconds[v, k]
        makespan = max(makespan, paths.end[v])
        trial.longest[i + 1] = makespan
    for i in range(count - 1, -1, -1):
        v = plan.order[i]
        k = plan.device[v]
        paths.reach[v] = _ready(trial.back, plan.device, paths.reach, v, k, paths.first_after[v]) + seconds[v, k]
    for v in range(count):
        paths.end_without[v], paths.reach_without[v] = paths.end[v], paths.reach[v]
    return makespan


@helper
def _without(trial: Trial, v: int, rest: float) -> float:
    """Fill the paths without operator v; return the longest, given the longest of all operators before it."""
    plan, paths, seconds, device = trial.plan, trial.paths, trial.front.seconds, trial.plan.device
    first = plan.position[v]
    paths.end_without[v] = _ready(trial.front, device, paths.end, v, device[v], -1)
    paths.reach_without[v] = _ready(trial.back, device, paths.reach, v, device[v], -1)
    for i in range(first + 1, len(plan.order)):
        w = plan.order[i]
        u = paths.last_before[v] if paths.last_before[w] == v else paths.last_before[w]
        end = _ready(trial.front, device, paths.end_without, w, device[w], u) + seconds[w, device[w]]
        paths.end_without[w] = end
        rest = max(rest, end)
    for i in range(first - 1, -1, -1):
        w = plan.order[i]
        u = paths.first_after[v] if paths.first_after[w] == v else paths.first_after[w]
        left = _ready(trial.back, device, paths.reach_without, w, device[w], u)
        paths.reach_without[w] = left + seconds[w, device[w]]
    return rest


@helper
def _judge(trial: Trial, v: int, k: int, rest: float, most: float, kicked: bool) -> None:
    """Judge the places of operator v on device k that are shorter than ``most``; all alike where it is ``kicked``.

    They lie between the last operator that ends before v is ready and the first whose tail is shorter.
    """
    plan, paths, lengths, place = trial.plan, trial.paths, trial.lengths, trial.place
    a = plan.device[v]
    if trial.front.seconds[v, k] == np.inf:
        return
    settle(plan.room, plan.device, v, k)
    full = exceeds(plan.room.used, plan.room.capacity)
    settle(plan.room, plan.device, v, a)
    if full and k != a:
        return
    ready = _ready(trial.front, plan.device, paths.end, v, k, -1)
    left = _ready(trial.back, plan.device, paths.reach, v, k, -1)
    if max(ready, left) == np.inf:
        return
    begins, ends = paths.row_start[k], paths.row_start[k + 1]
    low, high = -1, -1
    for i in range(begins, ends):
        x = paths.row[i]
        if x != v and paths.end_without[x] <= ready:
            low = i
        if x != v and paths.reach_without[x] > left:
            high = i
    previous = -1 if low < 0 else paths.row[low]
    i = begins if low < 0 else low + 1
    while True:
        if i < ends and paths.row[i] == v:
            i += 1
        following = paths.row[i] if i < ends else -1
        begin = ready if previous < 0 else max(ready, paths.end_without[previous])
        end = left if following < 0 else max(left, paths.reach_without[following])
        own_path = begin + trial.front.seconds[v, k] + end
        whole = max(own_path, rest)
        lengths[2] = lengths[2] * 997.0 + 0.13
        lengths[2] -= np.floor(lengths[2])
        if kicked:
            whole, own_path = lengths[2], lengths[2]
        own_path *= 1.0 + 0.02 * lengths[2]
        stays = k == a and previous == paths.last_before[v]
        shorter = whole < lengths[0] * (1.0 - CLOSE)
        shorter = shorter or (whole <= lengths[0] * (1.0 + CLOSE) and own_path < lengths[1])
        if shorter and not stays and (kicked or whole < most):
            lengths[0], lengths[1] = whole, own_path
            place[0], place[1], place[2] = v, k, previous
        if i > high or following < 0:
            break
        previous = following
        i += 1


@helper
def _carried_out(trial: Trial) -> bool:
    """Move an operator to its place; if the devices' orders then form a cycle, change nothing and return False."""
    plan, paths, place = trial.plan, trial.paths, trial.place
    v = place[0]
    a, was = plan.device[v], paths.last_before[v]
    _move(paths, v, place[1], place[2])
    settle(plan.room, plan.device, v, place[1])
    if not _sorted(trial):
        _move(paths, v, a, was)
        settle(plan.room, plan.device, v, a)
        return False
    for i in range(len(plan.order)):
        v = trial.space[0, i]
        plan.order[i], plan.position[v] = v, i
    return True


@helper
def _ready(net: Net, device: IntArray, end: FloatArray, w: int, k: int, last: int) -> float:
    """Earliest start of operator w on device k after operator ``last`` there (-1: none), for given ends.

    With the reversed problem and the times left, it is the time from the end of w to the end of the schedule.
    """
    before, ins, flows, links = net.before, net.ins, net.flows, net.links
    ready = 0.0 if last < 0 else end[last]
    for i in range(before[w], before[w + 1]):
        ready = max(ready, end[before[i]])
    for i in range(ins[w], ins[w + 1]):
        f = ins[i]
        u = flows[f, SOURCE]
        a = device[u]
        if a != k:
            ready = max(ready, end[u] + links[0, a, k] + flows[f, SIZE] * links[1, a, k])
    return float(ready)


@helper
def _move(paths: LongestPaths, v: int, k: int, before: int) -> None:
    """Take an operator out of the order of its device, and put it after another one of device k, or first (-1)."""
    old, after = paths.last_before[v], paths.first_after[v]
    if old >= 0:
        paths.first_after[old] = after
    if after >= 0:
        paths.last_before[after] = old
    after = -1
    if before >= 0:
        after = paths.first_after[before]
        paths.first_after[before] = v
    else:
        for i in range(paths.row_start[k + 1] - 1, paths.row_start[k] - 1, -1):
            after = paths.row[i] if paths.row[i] != v else after
    if after >= 0:
        paths.last_before[after] = v
    paths.last_before[v], paths.first_after[v] = before, after


@helper
def _sorted(trial: Trial) -> bool:
    """Write an order in which predecessors, also those on the device, come first; False if they form a cycle."""
    before, after, paths = trial.front.before, trial.front.after, trial.paths
    order, waiting, count, top, at = trial.space[0], trial.space[1], len(trial.plan.order), 0, 0
    for v in range(count):
        waiting[v] = before[v + 1] - before[v] + (1 if paths.last_before[v] >= 0 else 0)
        if waiting[v] == 0:
            order[top] = v
            top += 1
    while at < top:
        v = order[at]
        at += 1
        for i in range(after[v], after[v + 1] + 1):
            w = after[i] if i < after[v + 1] else paths.first_after[v]
            if w >= 0:
                waiting[w] -= 1
                if waiting[w] == 0:
                    order[top] = w
                    top += 1
    return top == count


def trial_of(arrays: PlacementArrays, plan: CountedPlan) -> Trial:
    """A plan to move operators of, without flows that take no time between any two devices, as precedence stays."""
    timed = np.flatnonzero((durations(arrays) > 0.0).any(axis=(1, 2)))
    count, devices = arrays.seconds.shape
    incoming = Adjacency.from_pairs(count, arrays.target[timed], timed)
    outgoing = Adjacency.from_pairs(count, arrays.source[timed], timed)
    fewer = arrays._replace(
        in_start=incoming.start, incoming=incoming.items, out_start=outgoing.start, outgoing=outgoing.items
    )
    numbers = np.zeros((3, count), dtype=np.int64)
    end, reach = np.zeros(count), np.zeros(count)
    lengths = end, reach, end.copy(), reach.copy()
    paths = LongestPaths(*lengths, numbers[0], numbers[1], np.zeros(devices + 1, dtype=np.int64), numbers[2])
    net, reverse = net_of(fewer), net_of(reversed_net(fewer))
    space = np.zeros((2, max(count, devices)), dtype=np.int64)
    place = np.zeros(3, dtype=np.int64)
    return Trial(net, reverse, plan, paths, np.zeros(3), place, np.zeros(count + 1), space)
