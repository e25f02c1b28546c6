"""Simulated annealing over the order of the operators and the device of each, with timing from the change on.

A move shifts an operator within the positions that its neighbours in the graph allow, or changes the device of one
operator, of a stretch of the order, of an operator and its private successors, or of a connected group of operators on
one device. Half of the moves begin with an operator on a critical path: others seldom shorten a plan.

The scheduler times operators in order, so nothing before the first operator that a move concerns changes. The state of
the schedule before every position is kept. A move is timed from there, aside from the kept state, which is replaced
only if the move is accepted. Timing stops at the first operator whose end plus least time left is above the threshold.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, FloatMatrix, IntArray, IntMatrix
from opweave.solvers.compiled import inlined, kernel
from opweave.solvers.placement.anneal import CountedPlan, deciding, overfull, settle, with_clusters
from opweave.solvers.placement.arrays import DELAY, PORT_TENSOR, PlacementArrays, sending

SHIFT, ALONE, CONNECTED, STRETCH, PRIVATE = 0, 1, 2, 3, 4
KINDS = np.array([SHIFT] * 9 + [ALONE] * 4 + [CONNECTED] * 3 + [STRETCH] * 3 + [PRIVATE])
"""Kinds of moves, and how many of twenty moves are of each kind."""

DECIDING, REFRESHED = 0.5, 32
"""Share of moves that begin with an operator on a critical path, and the number of moves for which one serves."""

ROUNDED = 1.0 + 1e-12
"""Moves that change nothing are accepted although an end plus the least time left may be larger by rounding."""

LARGEST_GROUP = 60
LONGEST_STRETCH = 256
"""Most operators of a connected group and of a stretch; sizes are drawn evenly on a logarithmic scale."""


class Times(NamedTuple):
    """The times of one plan, by operator and by position in its order.

    Attributes
    ----------
    end
        End of every operator. Shape (operators,).
    free, sends, receives
        When every device, send port and receive port is free before each position. Shape (operators + 1, devices).
    longest
        Largest end before each position. Shape (operators + 1,).
    arrived, sent
        Under ``one_port_tensor``: when every tensor's copy arrives on each device, and the position of the reader for
        which it was sent, -1 for none. Shape (tensors, devices); one row otherwise.
    """

    end: FloatArray
    free: FloatMatrix
    sends: FloatMatrix
    receives: FloatMatrix
    longest: FloatArray
    arrived: FloatMatrix
    sent: IntMatrix


@inlined
def new_times(arrays: PlacementArrays) -> Times:
    """Times before anything is timed."""
    count, devices = arrays.seconds.shape
    tensors = arrays.tensors if arrays.model == PORT_TENSOR else 1
    return Times(
        np.zeros(count),
        np.zeros((count + 1, devices)),
        np.zeros((count + 1, devices)),
        np.zeros((count + 1, devices)),
        np.zeros(count + 1),
        np.zeros((tensors, devices)),
        np.full((tensors, devices), -1, dtype=np.int64),
    )


@inlined
def least_left(arrays: PlacementArrays, order: IntArray) -> FloatMatrix:
    """Least time from the end of every operator on each device to the end of any plan. Shape (operators, devices)."""
    count, devices = arrays.seconds.shape
    left = np.zeros((count, devices))
    for at in range(count - 1, -1, -1):
        v = order[at]
        for i in range(arrays.after_start[v], arrays.after_start[v + 1]):
            w = arrays.after[i]
            least = np.inf
            for b in range(devices):
                least = min(least, arrays.seconds[w, b] + left[w, b])
            for a in range(devices):
                left[v, a] = max(left[v, a], least)
        for i in range(arrays.out_start[v], arrays.out_start[v + 1]):
            f = arrays.outgoing[i]
            w = arrays.target[f]
            for a in range(devices):
                least = np.inf
                for b in range(devices):
                    least = min(least, sending(arrays, f, a, b) + arrays.seconds[w, b] + left[w, b])
                left[v, a] = max(left[v, a], least)
    return left


@inlined
def time_from(
    arrays: PlacementArrays,
    plan: CountedPlan,
    left: FloatMatrix,
    kept: Times,
    trial: Times,
    first: int,
    threshold: float,
) -> float:
    """Time the plan from a position on, into ``trial``; return its makespan, or some value above the threshold."""
    count, devices = arrays.seconds.shape
    for k in range(devices):
        trial.free[first, k] = kept.free[first, k]
        trial.sends[first, k] = kept.sends[first, k]
        trial.receives[first, k] = kept.receives[first, k]
    trial.longest[first] = kept.longest[first]
    makespan = trial.longest[first]
    for at in range(first, count):
        v = plan.order[at]
        k = plan.device[v]
        for b in range(devices):
            trial.free[at + 1, b] = trial.free[at, b]
            trial.sends[at + 1, b] = trial.sends[at, b]
            trial.receives[at + 1, b] = trial.receives[at, b]
        ready = trial.free[at, k]
        for i in range(arrays.before_start[v], arrays.before_start[v + 1]):
            u = arrays.before[i]
            ready = max(ready, trial.end[u] if plan.position[u] >= first else kept.end[u])
        for i in range(arrays.in_start[v], arrays.in_start[v + 1]):
            f = arrays.incoming[i]
            u = arrays.source[f]
            a = plan.device[u]
            if a == k:
                continue
            start = trial.end[u] if plan.position[u] >= first else kept.end[u]
            lasts = sending(arrays, f, a, k)
            if arrays.model == DELAY:
                ready = max(ready, start + lasts)
                continue
            if arrays.model == PORT_TENSOR:
                t = arrays.tensor[f]
                if trial.sent[t, k] >= 0:
                    ready = max(ready, trial.arrived[t, k])
                    continue
                if 0 <= kept.sent[t, k] < first:
                    ready = max(ready, kept.arrived[t, k])
                    continue
                trial.sent[t, k] = at
            start = max(start, trial.sends[at + 1, a], trial.receives[at + 1, k])
            trial.sends[at + 1, a] = start + lasts
            trial.receives[at + 1, k] = start + lasts
            if arrays.model == PORT_TENSOR:
                trial.arrived[arrays.tensor[f], k] = start + lasts
            ready = max(ready, start + lasts)
        trial.end[v] = ready + arrays.seconds[v, k]
        trial.free[at + 1, k] = trial.end[v]
        trial.longest[at + 1] = max(trial.longest[at], trial.end[v])
        makespan = max(trial.longest[at + 1], trial.end[v] + left[v, k])
        if makespan > threshold:
            forget(arrays, plan, trial, first, at + 1)
            break
    return float(makespan)


@inlined
def forget(arrays: PlacementArrays, plan: CountedPlan, trial: Times, first: int, last: int) -> None:
    """Forget the copies that a trial has sent for the operators of some positions."""
    if arrays.model != PORT_TENSOR:
        return
    for at in range(first, last):
        v = plan.order[at]
        for i in range(arrays.in_start[v], arrays.in_start[v + 1]):
            trial.sent[arrays.tensor[arrays.incoming[i]], plan.device[v]] = -1


@inlined
def accept(arrays: PlacementArrays, plan: CountedPlan, kept: Times, trial: Times, first: int) -> None:
    """Make the times of a trial those of the plan."""
    count, devices = arrays.seconds.shape
    if arrays.model == PORT_TENSOR:
        for t in range(arrays.tensors):
            for k in range(devices):
                if trial.sent[t, k] >= 0:
                    kept.sent[t, k], kept.arrived[t, k] = trial.sent[t, k], trial.arrived[t, k]
                    trial.sent[t, k] = -1
                elif kept.sent[t, k] >= first:
                    kept.sent[t, k] = -1
    for at in range(first, count):
        v = plan.order[at]
        kept.end[v] = trial.end[v]
        for k in range(devices):
            kept.free[at + 1, k] = trial.free[at + 1, k]
            kept.sends[at + 1, k] = trial.sends[at + 1, k]
            kept.receives[at + 1, k] = trial.receives[at + 1, k]
        kept.longest[at + 1] = trial.longest[at + 1]


@inlined
def slide(plan: CountedPlan, at: int, to: int) -> None:
    """Move the operator at one position of the order to another."""
    v = plan.order[at]
    direction = 1 if to > at else -1
    i = at
    while i != to:
        w = plan.order[i + direction]
        plan.order[i] = w
        plan.position[w] = i
        i += direction
    plan.order[to] = v
    plan.position[v] = to


@inlined
def window(arrays: PlacementArrays, plan: CountedPlan, v: int) -> tuple[int, int]:
    """First and last position that an operator's neighbours allow."""
    low, high = 0, len(plan.order) - 1
    for i in range(arrays.before_start[v], arrays.before_start[v + 1]):
        low = max(low, plan.position[arrays.before[i]] + 1)
    for i in range(arrays.after_start[v], arrays.after_start[v + 1]):
        high = min(high, plan.position[arrays.after[i]] - 1)
    return low, high


@inlined
def gather(
    arrays: PlacementArrays,
    plan: CountedPlan,
    v: int,
    kind: int,
    draw: float,
    group: IntArray,
    taken: IntArray,
    mark: int,
) -> int:
    """Write the operators that a move takes along to ``group``, each once; return their number.

    ``taken`` holds ``mark`` for every operator that was looked at.
    """
    count = len(plan.order)
    group[0] = v
    size = 1
    if kind == STRETCH:
        length = int(np.exp(draw * np.log(min(count, LONGEST_STRETCH)))) + 1
        first = plan.position[v]
        while size < length and first + size < count:
            group[size] = plan.order[first + size]
            size += 1
    elif kind == PRIVATE:
        for i in range(arrays.after_start[v], arrays.after_start[v + 1]):
            w = arrays.after[i]
            if arrays.before_start[w + 1] - arrays.before_start[w] == 1:
                group[size] = w
                size += 1
    elif kind == CONNECTED:
        most = int(np.exp(draw * np.log(min(count, LARGEST_GROUP)))) + 1
        a, done = plan.device[v], 0
        taken[v] = mark
        while done < size < most:
            u = group[done]
            done += 1
            early = arrays.before_start[u + 1] - arrays.before_start[u]
            late = arrays.after_start[u + 1] - arrays.after_start[u]
            for i in range(early + late):
                if i < early:
                    w = arrays.before[arrays.before_start[u] + i]
                else:
                    w = arrays.after[arrays.after_start[u] + i - early]
                if size < most and taken[w] != mark and plan.device[w] == a:
                    taken[w] = mark
                    group[size] = w
                    size += 1
    return size


@inlined
def near_device(arrays: PlacementArrays, plan: CountedPlan, v: int, draw: float) -> int:
    """The device of a random direct predecessor or successor; its own when there is none."""
    first = arrays.before_start[v + 1] - arrays.before_start[v]
    second = arrays.after_start[v + 1] - arrays.after_start[v]
    pick = int(draw * (first + second))
    if pick < first:
        return int(plan.device[arrays.before[arrays.before_start[v] + pick]])
    if second > 0:
        return int(plan.device[arrays.after[arrays.after_start[v] + pick - first]])
    return int(plan.device[v])


@kernel
def anneal(
    arrays: PlacementArrays,
    plan: CountedPlan,
    draws: FloatMatrix,
    heat: FloatArray,
    halt: IntArray,
    best_order: IntArray,
    best_device: IntArray,
) -> tuple[float, float]:
    """Make one move for every row of ``draws`` (shape (moves, DRAWS)) at the temperatures ``heat`` (shape (moves,)).

    Changes ``plan``; writes the best plan to ``best_order`` and ``best_device``. Returns the makespan of the best plan
    and that of the last. Stops when ``halt`` is raised.
    """
    count, devices = arrays.seconds.shape
    left = least_left(arrays, plan.order)
    kept, trial = new_times(arrays), new_times(arrays)
    current = best = np.inf
    group = np.empty(2 * count + 1, dtype=np.int64)
    old = np.empty(count + 1, dtype=np.int64)
    taken = np.full(count, -1, dtype=np.int64)
    decisive, chosen, fresh = np.empty(count, dtype=np.int64), 0, False
    for move in range(-1, len(draws)):  # the first time through, the plan is timed as it stands
        if move >= 0 and halt[0] != 0:
            break
        row = max(move, 0)
        if row % REFRESHED == 0 and not fresh and move >= 0:
            chosen, fresh = deciding(arrays, plan, taken, -2 - move, decisive), True
        v = int(draws[row, 0] * count)
        if draws[row, 0] < DECIDING and chosen > 0:
            v = decisive[int(draws[row, 0] / DECIDING * chosen)]
        elif chosen > 0:
            v = int((draws[row, 0] - DECIDING) / (1.0 - DECIDING) * count)
        kind = KINDS[int(draws[row, 1] * len(KINDS))] if devices > 1 else SHIFT
        threshold = (current - heat[row] * np.log(max(draws[row, 4], 1e-300))) * ROUNDED
        size, at = 0, plan.position[v]
        to, first = at, at
        if move < 0:
            threshold, first = np.inf, 0
        elif kind == SHIFT:
            low, high = window(arrays, plan, v)
            to = low + int(draws[row, 3] * (high - low + 1))
            if to == at:
                continue
            slide(plan, at, to)
            first = min(at, to)
        else:
            k = int(draws[row, 2] * devices)
            if draws[row, 5] < 0.5:
                k = near_device(arrays, plan, v, draws[row, 2])
            if kind != STRETCH and plan.device[v] == k:
                continue
            size = gather(arrays, plan, v, kind, draws[row, 3], group, taken, 2 * move)
            size = with_clusters(plan, group, size, taken, 2 * move + 1)
            changed, allowed = False, True
            for i in range(size):
                allowed = allowed and arrays.seconds[group[i], k] < np.inf
                changed = changed or plan.device[group[i]] != k
            if not (allowed and changed):
                continue
            for i in range(size):
                w = group[i]
                old[i] = plan.device[w]
                if old[i] != k:
                    first = min(first, plan.position[w])
                    settle(arrays, plan, w, k)
        value = np.inf
        if move < 0 or not overfull(arrays, plan):
            value = time_from(arrays, plan, left, kept, trial, first, threshold)
        if value <= threshold:
            accept(arrays, plan, kept, trial, first)
            current, fresh = value, False
            if value < best or move < 0:
                best = value
                best_order[:] = plan.order
                best_device[:] = plan.device
            continue
        if size == 0:
            slide(plan, to, at)
        for i in range(size):
            if old[i] != plan.device[group[i]]:
                settle(arrays, plan, group[i], old[i])
    return best, current
