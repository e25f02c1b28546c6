"""Simulated annealing over the order of the operators and the device of each, with timing from the change on.

A move shifts an operator within the positions that its neighbours in the graph allow, or changes the device of one
operator, of a stretch of the order, of an operator and its private successors, or of a connected group of operators on
one device. Half of the moves begin with an operator on a critical path: others seldom shorten a plan.

The scheduler times operators in order. So nothing before the first operator that a move concerns changes, and after the
last one devices and ports serve the same operators and flows in the same order. Kept are the times of the plan, and for
each operator, flow, device and port the longest path from there to the end. So only the operators between are timed
again: a move is refused if some path from one of them to the end is above the threshold. After an accepted move, times
are worked out as far ahead, and paths to the end as far back, as the next move needs them. So moves come in blocks that
begin at nearby positions: most of a large plan is then timed once a block.
"""

from __future__ import annotations

import numpy as np

from opweave.problems.arrays import FloatArray, FloatMatrix, IntArray, IntMatrix
from opweave.solvers.compiled import inlined, kernel
from opweave.solvers.placement.anneal import (
    CountedPlan,
    deciding,
    last_touched,
    near_device,
    overfull,
    settle,
    slide,
    window,
    with_clusters,
)
from opweave.solvers.placement.arrays import (
    DELAY,
    PORT_TENSOR,
    Left,
    PlacementArrays,
    Times,
    Trial,
    new_times,
    renewed,
    sending,
)

SHIFT, ALONE, CONNECTED, STRETCH, PRIVATE = 0, 1, 2, 3, 4
KINDS = np.array([SHIFT] * 9 + [ALONE] * 4 + [CONNECTED] * 3 + [STRETCH] * 3 + [PRIVATE])
"""Kinds of moves, and how many of twenty moves are of each kind."""

SHIFTED = 0.5
"""Share of moves of one operator to another device that shift it in the order as well."""

DECIDING = 0.5
"""Share of moves that begin with an operator on a critical path."""

BLOCK, NEARBY = 128, 128
"""Moves of a block, for which one critical path serves, and the number of positions among which they begin."""

ROUNDED = 1.0 + 1e-12
"""Moves that change nothing are accepted although an end plus the least time left may be larger by rounding."""

NEAR, LONGEST_SHIFT = 0.95, 50
"""Share of shifts that go no farther than this many positions: only operators with few neighbours can go farther, and
all operators between have to be timed again."""

LARGEST_GROUP = 60
LONGEST_STRETCH = 256
"""Most operators of a connected group and of a stretch; sizes are drawn evenly on a logarithmic scale."""


@inlined
def time_between(
    arrays: PlacementArrays,
    plan: CountedPlan,
    kept: Times,
    left: Left,
    trial: Trial,
    first: int,
    last: int,
    move: int,
    threshold: float,
) -> float:
    """The longest path through the operators at some positions, or some value above the threshold.

    It is the makespan, unless that was longer before and has become shorter. Nothing is kept but in ``trial``.
    """
    devices, longest = arrays.seconds.shape[1], 0.0
    renewed(trial.free, kept.free[first])
    for at in range(first, last + 1):
        v = plan.order[at]
        k = plan.device[v]
        ready = trial.free[k]
        for i in range(arrays.before_start[v], arrays.before_start[v + 1]):
            u = arrays.before[i]
            ready = max(ready, trial.end[u] if plan.position[u] >= first else kept.end[u])
        for i in range(arrays.in_start[v], arrays.in_start[v + 1]):
            f = arrays.incoming[i]
            u, t = arrays.source[f], arrays.tensor[f]
            a = plan.device[u]
            if a == k:
                continue
            arrive = trial.end[u] if plan.position[u] >= first else kept.end[u]
            lasts = sending(arrays, f, a, k)
            if arrays.model == DELAY:
                ready = max(ready, arrive + lasts)
                continue
            if arrays.model == PORT_TENSOR:
                if trial.move[t, k] == move:
                    ready = max(ready, trial.arrived[t, k])
                    continue
                sent = kept.copy[t, k]
                if sent >= 0 and plan.position[arrays.target[sent]] < first:
                    ready = max(ready, kept.arrived[sent])
                    continue
            send, receive = devices + a, 2 * devices + k
            arrive = max(arrive, trial.free[send], trial.free[receive]) + lasts
            trial.free[send] = trial.free[receive] = arrive
            ready = max(ready, arrive)
            if arrays.model == PORT_TENSOR:
                trial.move[t, k], trial.arrived[t, k] = move, arrive
                for j in range(arrays.out_start[u], arrays.out_start[u + 1]):
                    g = arrays.outgoing[j]
                    w = arrays.target[g]
                    if arrays.tensor[g] == t and plan.device[w] == k and plan.position[w] > last:
                        longest = max(longest, arrive + left.operator[w])
        end = ready + arrays.seconds[v, k]
        trial.end[v] = trial.free[k] = end
        longest = max(longest, end)
        for i in range(arrays.after_start[v], arrays.after_start[v + 1]):
            w = arrays.after[i]
            if plan.position[w] > last:
                longest = max(longest, end + left.operator[w])
        for i in range(arrays.out_start[v], arrays.out_start[v + 1]):
            f = arrays.outgoing[i]
            w = arrays.target[f]
            if plan.position[w] > last and plan.device[w] != k:
                longest = max(longest, end + left.flow[f])
        if longest > threshold:
            return float(longest)
    for i in range(len(trial.free)):
        longest = max(longest, trial.free[i] + left.free[last + 1, i])
    return float(longest)


@inlined
def forget(arrays: PlacementArrays, plan: CountedPlan, copy: IntMatrix, first: int, last: int) -> None:
    """Forget which flows send tensors to devices for the operators at some positions."""
    if arrays.model != PORT_TENSOR:
        return
    for at in range(first, last + 1):
        v = plan.order[at]
        for i in range(arrays.in_start[v], arrays.in_start[v + 1]):
            t = arrays.tensor[arrays.incoming[i]]
            for b in range(copy.shape[1]):
                f = copy[t, b]
                if f >= 0 and first <= plan.position[arrays.target[f]] <= last:
                    copy[t, b] = -1


@inlined
def look_ahead(
    arrays: PlacementArrays, plan: CountedPlan, kept: Times, trial: Trial, first: int, reach: int, until: int
) -> tuple[int, int]:
    """Time the plan between two positions, from ``first`` on to ``until``.

    Nothing changes after the position ``reach`` but through what runs before. Returns both ends of what remains to be
    timed: the first position, the number of operators for none, and its ``reach``.
    """
    devices, count = arrays.seconds.shape[1], len(plan.order)
    renewed(trial.free, kept.free[first])
    for at in range(first, until + 1):
        v = plan.order[at]
        k = plan.device[v]
        ready = trial.free[k]
        for i in range(arrays.before_start[v], arrays.before_start[v + 1]):
            ready = max(ready, kept.end[arrays.before[i]])
        for i in range(arrays.in_start[v], arrays.in_start[v + 1]):
            f = arrays.incoming[i]
            u = arrays.source[f]
            a = plan.device[u]
            if a == k:
                continue
            arrive = kept.end[u]
            if arrays.model == PORT_TENSOR:
                sent = kept.copy[arrays.tensor[f], k]
                if sent >= 0 and sent != f:
                    ready = max(ready, kept.arrived[sent])
                    continue
                kept.copy[arrays.tensor[f], k] = f
            send, receive = devices + a, 2 * devices + k
            if arrays.model != DELAY:
                arrive = max(arrive, trial.free[send], trial.free[receive])
            arrive += sending(arrays, f, a, k)
            if arrays.model != DELAY:
                trial.free[send] = trial.free[receive] = arrive
            ready = max(ready, arrive)
            if arrive != kept.arrived[f]:
                kept.arrived[f] = arrive
                for j in range(arrays.after_start[u], arrays.after_start[u + 1]):
                    reach = max(reach, plan.position[arrays.after[j]])
        end = ready + arrays.seconds[v, k]
        trial.free[k] = end
        if end != kept.end[v]:
            kept.end[v] = end
            for i in range(arrays.after_start[v], arrays.after_start[v + 1]):
                reach = max(reach, plan.position[arrays.after[i]])
        if not renewed(kept.free[at + 1], trial.free) and at >= reach:
            return count, -1
    return until + 1, reach


@inlined
def look_back(
    arrays: PlacementArrays,
    plan: CountedPlan,
    copy: IntMatrix,
    left: Left,
    trial: Trial,
    last: int,
    reach: int,
    until: int,
) -> tuple[int, int]:
    """Work out what is left between two positions, from ``last`` back to ``until``.

    Nothing has changed before the position ``reach`` but through what follows. Returns both ends of what remains to be
    worked out: the last position, -1 for none, and its ``reach``.
    """
    devices = arrays.seconds.shape[1]
    renewed(trial.free, left.free[last + 1])
    for at in range(last, until - 1, -1):
        v = plan.order[at]
        k = plan.device[v]
        rest, changed = trial.free[k], False
        for i in range(arrays.after_start[v], arrays.after_start[v + 1]):
            rest = max(rest, left.operator[arrays.after[i]])
        for i in range(arrays.out_start[v], arrays.out_start[v + 1]):
            f = arrays.outgoing[i]
            if plan.device[arrays.target[f]] != k:
                rest = max(rest, left.flow[f])
        rest += arrays.seconds[v, k]
        if rest != left.operator[v]:
            left.operator[v], changed = rest, True
        trial.free[k] = rest
        for i in range(arrays.in_start[v + 1] - 1, arrays.in_start[v] - 1, -1):
            f = arrays.incoming[i]
            u, t = arrays.source[f], arrays.tensor[f]
            a = plan.device[u]
            if a == k:
                continue
            rest = 0.0
            if arrays.model != PORT_TENSOR or copy[t, k] == f:
                rest = left.operator[v]
                if arrays.model == PORT_TENSOR:
                    for j in range(arrays.out_start[u], arrays.out_start[u + 1]):
                        g = arrays.outgoing[j]
                        if arrays.tensor[g] == t and plan.device[arrays.target[g]] == k:
                            rest = max(rest, left.operator[arrays.target[g]])
                send, receive = devices + a, 2 * devices + k
                if arrays.model != DELAY:
                    rest = max(rest, trial.free[send], trial.free[receive])
                rest += sending(arrays, f, a, k)
                if arrays.model != DELAY:
                    trial.free[send] = trial.free[receive] = rest
            if rest != left.flow[f]:
                left.flow[f], changed = rest, True
        if changed:
            for i in range(arrays.before_start[v], arrays.before_start[v + 1]):
                reach = min(reach, plan.position[arrays.before[i]])
        if not renewed(left.free[at], trial.free) and at <= reach:
            return -1, len(plan.order)
    return until - 1, reach


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
    kept = new_times(arrays)
    left = Left(np.zeros(count), np.zeros(len(arrays.source)), np.zeros(kept.free.shape))
    trial = Trial(np.zeros(count), np.zeros(kept.copy.shape), kept.copy.copy(), np.zeros(3 * devices))
    current = best = np.inf
    stale, reach = -1, count  # the last position with wrong paths to the end, and how far back they may be wrong
    ahead, until = count, -1  # the first position with wrong times, and how far on they may be wrong
    group = np.empty(2 * count + 1, dtype=np.int64)
    old = np.empty(count + 1, dtype=np.int64)
    taken = np.full(count, -1, dtype=np.int64)
    decisive, chosen, fresh = np.empty(count, dtype=np.int64), 0, False
    begin, size_near, near = 0, 0, np.empty(count, dtype=np.int64)
    for move in range(-1, len(draws)):  # the first time through, the plan is timed as it stands
        if move >= 0 and halt[0] != 0:
            break
        row = max(move, 0)
        if row % BLOCK == 0 and move >= 0:
            if ahead < count:
                ahead, until = look_ahead(arrays, plan, kept, trial, ahead, until, count - 1)
                current = kept.free[count, :devices].max()
            if not fresh:
                chosen, fresh = deciding(arrays, plan, taken, -2 - move, decisive), True
            begin = max(0, min(int(draws[row, 0] * count) - NEARBY // 2, count - NEARBY))
            size_near = 0
            for i in range(chosen):
                if begin <= plan.position[decisive[i]] < begin + NEARBY:
                    near[size_near] = decisive[i]
                    size_near += 1
        draw = draws[row, 0]
        if draw < DECIDING and size_near > 0:
            v = near[int(draw / DECIDING * size_near)]
        else:
            draw = (draw - DECIDING) / (1.0 - DECIDING) if size_near > 0 else draw
            v = plan.order[begin + int(draw * min(count, NEARBY))]
        kind = KINDS[int(draws[row, 1] * len(KINDS))] if devices > 1 else SHIFT
        threshold = (current - heat[row] * np.log(max(draws[row, 4], 1e-300))) * ROUNDED
        size, at = 0, plan.position[v]
        to, first, last = at, at, at
        if move < 0:
            first, last = 0, count - 1
        elif kind == SHIFT:
            low, high = window(arrays, plan, v)
            if draws[row, 5] < NEAR:
                low, high = max(low, at - LONGEST_SHIFT), min(high, at + LONGEST_SHIFT)
            to = low + int(draws[row, 3] * (high - low + 1))
            if to == at:
                continue
            slide(plan, at, to)
            first, last = min(at, to), max(at, to)
        else:
            k = int(draws[row, 2] * devices)
            if draws[row, 5] < 0.5:
                k = near_device(arrays, plan, v, draws[row, 2])
            if kind != STRETCH and plan.device[v] == k:
                continue
            size = gather(arrays, plan, v, kind, draws[row, 3], group, taken, 2 * move)
            size = with_clusters(plan, group, size, taken, 2 * move + 1)
            first = count
            allowed = True
            for i in range(size):
                allowed = allowed and arrays.seconds[group[i], k] < np.inf
                if plan.device[group[i]] != k:
                    first = min(first, plan.position[group[i]])
            if first == count or not allowed:
                continue
            last = first
            for i in range(size):
                w = group[i]
                old[i] = plan.device[w]
                if old[i] != k:
                    settle(arrays, plan, w, k)
            if kind == ALONE and draws[row, 3] < SHIFTED:
                low, high = window(arrays, plan, v)
                low, high = max(low, at - LONGEST_SHIFT), min(high, at + LONGEST_SHIFT)
                to = low + int(draws[row, 3] / SHIFTED * (high - low + 1))
                slide(plan, at, to)
                first, last = min(first, to), max(last, at, to)
            for i in range(size):
                if old[i] != k:
                    last = max(last, last_touched(arrays, plan, group[i], old[i], k))
        value = np.inf
        if move < 0:
            value = threshold
        elif not overfull(arrays, plan):
            if last < stale:
                stale, reach = look_back(arrays, plan, kept.copy, left, trial, stale, reach, last + 1)
                reach = min(reach, first)
            if first > ahead:
                ahead, until = look_ahead(arrays, plan, kept, trial, ahead, until, first - 1)
                until = max(until, last)
            value = time_between(arrays, plan, kept, left, trial, first, last, move, threshold)
        if value <= threshold:
            forget(arrays, plan, kept.copy, first, last)
            known, beyond = ahead, until
            ahead, until = look_ahead(
                arrays, plan, kept, trial, first, last if known > last else max(last, until), last
            )
            if known > last and known < count:
                ahead, until = min(ahead, known), max(until, known, beyond)
            stale, reach, fresh = max(stale, last), min(reach, first), False
            if value < best and ahead < count:
                ahead, until = look_ahead(arrays, plan, kept, trial, ahead, until, count - 1)
            current = kept.free[count, :devices].max() if ahead == count else value
            if ahead == count and current < best or move < 0:
                best = current
                best_order[:] = plan.order
                best_device[:] = plan.device
            continue
        if to != at:
            slide(plan, to, at)
        for i in range(size):
            if old[i] != plan.device[group[i]]:
                settle(arrays, plan, group[i], old[i])
    return best, current
