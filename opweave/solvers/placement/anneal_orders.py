"""Simulated annealing over the order of the operators and the device of each.

A move shifts an operator within the positions that its neighbours in the graph allow, or changes the device of one
operator, of a stretch of the order, of an operator and its private successors, of an operator and all that only it
needs, or of a connected group of operators on one device. Half of the moves begin with an operator on a critical path:
others seldom shorten a plan.

Moves come in blocks that begin at nearby positions: most of a large plan is then timed once a block
(:mod:`~opweave.solvers.placement.moved_times`).
"""

from __future__ import annotations

import numpy as np

from opweave.problems.arrays import FloatArray, FloatMatrix, IntArray
from opweave.solvers.loops import helper, loop
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
from opweave.solvers.placement.arrays import Left, PlacementArrays, Trial, new_times
from opweave.solvers.placement.moved_times import forget, look_ahead, look_back, time_between

SHIFT, ALONE, CONNECTED, STRETCH, PRIVATE, FEEDERS = 0, 1, 2, 3, 4, 5
KINDS = np.array([SHIFT] * 8 + [ALONE] * 4 + [CONNECTED] * 3 + [STRETCH] * 2 + [PRIVATE] + [FEEDERS] * 2)
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
"""Most operators of a group and of a stretch. Sizes of connected groups and of stretches are drawn evenly on a
logarithmic scale."""


@helper
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
    elif kind == FEEDERS:
        done = 0
        while done < size:
            u = group[done]
            done += 1
            for i in range(arrays.before_start[u], arrays.before_start[u + 1]):
                w = arrays.before[i]
                if size < LARGEST_GROUP and arrays.after_start[w + 1] - arrays.after_start[w] == 1:
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


@helper
def nearby(plan: CountedPlan, decisive: IntArray, chosen: int, draw: float, near: IntArray) -> tuple[int, int]:
    """The first position of a block of moves, and how many deciding operators it holds; they go to ``near``."""
    count, size = len(plan.order), 0
    begin = max(0, min(int(draw * count) - NEARBY // 2, count - NEARBY))
    for i in range(chosen):
        if begin <= plan.position[decisive[i]] < begin + NEARBY:
            near[size] = decisive[i]
            size += 1
    return begin, size


@helper
def drawn_near(plan: CountedPlan, near: IntArray, size: int, begin: int, draw: float) -> int:
    """The operator with which a move of a block begins."""
    if size > 0:
        if draw < DECIDING:
            return int(near[int(draw / DECIDING * size)])
        draw = (draw - DECIDING) / (1.0 - DECIDING)
    return int(plan.order[begin + int(draw * min(len(plan.order), NEARBY))])


@helper
def shifted(arrays: PlacementArrays, plan: CountedPlan, v: int, draw: float, longest: int) -> int:
    """A position for an operator that its neighbours allow, at most ``longest`` positions away."""
    at = plan.position[v]
    low, high = window(arrays, plan, v)
    low, high = max(low, at - longest), min(high, at + longest)
    return int(low + int(draw * (high - low + 1)))


@helper
def make_room(
    arrays: PlacementArrays,
    plan: CountedPlan,
    at: int,
    k: int,
    group: IntArray,
    old: IntArray,
    size: int,
    taken: IntArray,
    mark: int,
    first: int,
) -> tuple[int, int]:
    """Exchange operators: those nearest in the order leave a device that a move has overfilled, until the rest fits.

    They go where the first operator that moved comes from. ``taken`` holds ``mark`` for the operators that moved.
    Returns how many operators moved now, and the first position that is concerned.
    """
    count, a = len(plan.order), k
    for i in range(size):
        if a == k:
            a = old[i]
    for i in range(2, 2 * LONGEST_STRETCH):
        p = at + i // 2 if i % 2 == 0 else at - i // 2
        if p < 0 or p >= count:
            continue
        w = plan.order[p]
        alone = plan.members_start[plan.cluster[w] + 1] - plan.members_start[plan.cluster[w]] == 1
        if plan.device[w] == k and taken[w] != mark and alone and arrays.seconds[w, a] < np.inf:
            taken[w] = mark
            group[size], old[size] = w, k
            size += 1
            settle(arrays, plan, w, a)
            first = min(first, p)
            if plan.used[k] <= arrays.capacity[k]:
                break
    return size, first


@helper
def make_move(
    arrays: PlacementArrays,
    plan: CountedPlan,
    v: int,
    kind: int,
    draws: FloatMatrix,
    row: int,
    group: IntArray,
    old: IntArray,
    taken: IntArray,
) -> tuple[int, int, int, int]:
    """Make a move that begins with operator v.

    Returns the first and the last position that it concerns (the number of operators and -1 if it changes nothing), the
    position of v before, and how many operators it takes along. These are written to ``group``, their devices before to
    ``old``.
    """
    count, devices = arrays.seconds.shape
    at = plan.position[v]
    if kind == SHIFT:
        to = shifted(arrays, plan, v, draws[row, 3], LONGEST_SHIFT if draws[row, 5] < NEAR else count)
        slide(plan, at, to)
        return (count, -1, at, 0) if to == at else (min(at, to), max(at, to), at, 0)
    k = int(draws[row, 2] * devices)
    if draws[row, 5] < 0.5:
        k = near_device(arrays, plan, v, draws[row, 2])
    if kind != STRETCH and plan.device[v] == k:
        return count, -1, at, 0
    size = gather(arrays, plan, v, kind, draws[row, 3], group, taken, 2 * row)
    size = with_clusters(plan, group, size, taken, 2 * row + 1)
    first = count
    for i in range(size):
        if arrays.seconds[group[i], k] == np.inf:
            return count, -1, at, 0
        if plan.device[group[i]] != k:
            first = min(first, plan.position[group[i]])
    if first == count:
        return count, -1, at, 0
    last = first
    for i in range(size):
        w = group[i]
        old[i] = plan.device[w]
        if old[i] != k:
            settle(arrays, plan, w, k)
    if overfull(arrays, plan):
        size, first = make_room(arrays, plan, at, k, group, old, size, taken, 2 * row + 1, first)
    if kind == ALONE and draws[row, 3] < SHIFTED:
        to = shifted(arrays, plan, v, draws[row, 3] / SHIFTED, LONGEST_SHIFT)
        slide(plan, at, to)
        first, last = min(first, to), max(last, at, to)
    for i in range(size):
        new = plan.device[group[i]]
        if old[i] != new:
            last = max(last, last_touched(arrays, plan, group[i], old[i], new))
    return first, last, at, size


@helper
def take_back(
    arrays: PlacementArrays, plan: CountedPlan, v: int, at: int, group: IntArray, old: IntArray, size: int
) -> None:
    """Undo what :func:`make_move` did."""
    slide(plan, plan.position[v], at)
    for i in range(size):
        if old[i] != plan.device[group[i]]:
            settle(arrays, plan, group[i], old[i])


@loop
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
    begin, held, near = 0, 0, np.empty(count, dtype=np.int64)
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
            begin, held = nearby(plan, decisive, chosen, draws[row, 0], near)
        v = drawn_near(plan, near, held, begin, draws[row, 0])
        kind = KINDS[int(draws[row, 1] * len(KINDS))] if devices > 1 else SHIFT
        threshold = (current - heat[row] * np.log(max(draws[row, 4], 1e-300))) * ROUNDED
        if move < 0:
            first, last, at, size = 0, count - 1, plan.position[v], 0
        else:
            first, last, at, size = make_move(arrays, plan, v, kind, draws, row, group, old, taken)
        if first > last:
            continue
        value, room = np.inf, move < 0 or not overfull(arrays, plan)
        if move < 0:
            value = threshold
        elif room:
            if last < stale:
                stale, reach = look_back(arrays, plan, kept.copy, left, trial, stale, reach, last + 1)
                reach = min(reach, first)
            if first > ahead:
                ahead, until = look_ahead(arrays, plan, kept, trial, ahead, until, first - 1)
                until = max(until, last)
            value = time_between(arrays, plan, kept, left, trial, first, last, move, threshold)
        if room and value <= threshold:
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
            if (ahead == count and current < best) or move < 0:
                best = current
                best_order[:] = plan.order
                best_device[:] = plan.device
            continue
        take_back(arrays, plan, v, at, group, old, size)
    if ahead < count:
        look_ahead(arrays, plan, kept, trial, ahead, until, count - 1)
        current = kept.free[count, :devices].max()
    return best, current
