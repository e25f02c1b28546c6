"""Simulated annealing over the order of the operators and the device of each (:mod:`.moves`).

Moves come in blocks that begin at nearby positions: most of a large plan is then timed once a block
(:mod:`.moved_times`). Half of the moves begin with an operator on a critical path: others seldom shorten a plan.
"""

from __future__ import annotations

import numpy as np

from opweave.problems.arrays import FloatArray, FloatMatrix, IntArray
from opweave.solvers.loops import helper, loop
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.moved_times import (
    AHEAD,
    AHEAD_REACH,
    BACK,
    BACK_REACH,
    Kept,
    forget,
    look_ahead,
    look_back,
    nothing_kept,
    time_between,
)
from opweave.solvers.placement.moves import SIZE, SOURCE, CountedPlan, Net, make_move, net_of, overfull, take_back

DECIDING = 0.5
"""Share of moves that begin with an operator on a critical path."""

BLOCK, NEARBY = 128, 128
"""Moves of a block, which share the critical paths, and the number of positions among which they begin."""

ROUNDED = 1.0 + 1e-12
"""Moves that change nothing are accepted although an end plus the least time left may be larger by rounding."""


@helper
def length_of(kept: Kept) -> float:
    """The makespan; all times are known."""
    free, longest = kept.free, 0.0
    for k in range(free.shape[1] // 3):
        longest = max(longest, free[len(free) - 1, k])
    return float(longest)


@helper
def critical(net: Net, plan: CountedPlan, kept: Kept, begin: int, makespan: float, found: IntArray) -> int:
    """Write the operators of a block that lie on a critical path, or wait for a transfer on one; return how many."""
    order, device, seconds, links, flows = plan.order, plan.device, net.seconds, net.links, net.flows
    ins, flow_left = net.ins, kept.flow_left
    size, long = 0, makespan / ROUNDED**4
    for at in range(begin, min(len(order), begin + NEARBY)):
        v = order[at]
        k = device[v]
        decides = kept.end[v] - seconds[v, k] + kept.left[v] >= long
        for i in range(ins[v], ins[v + 1]):
            f = ins[i]
            a = device[flows[f, SOURCE]]
            if a != k and flow_left[f] > 0.0:
                lasts = links[0, a, k] + flows[f, SIZE] * links[1, a, k]
                decides = decides or kept.arrived[f] - lasts + flow_left[f] >= long
        if decides:
            found[size] = v
            size += 1
    return size


@helper
def accept(net: Net, plan: CountedPlan, kept: Kept, first: int, last: int) -> None:
    """Time the operators that an accepted move concerns, and note what may be wrong from now on."""
    marks = kept.marks
    known, beyond = marks[AHEAD], marks[AHEAD_REACH]
    forget(net, plan, kept.copy, first, last)
    marks[AHEAD], marks[AHEAD_REACH] = first, last if known > last else max(last, beyond)
    look_ahead(net, plan, kept, last)
    if last < known < len(plan.order):
        marks[AHEAD], marks[AHEAD_REACH] = min(marks[AHEAD], known), max(marks[AHEAD_REACH], known, beyond)
    marks[BACK], marks[BACK_REACH] = max(marks[BACK], last), min(marks[BACK_REACH], first)


@loop
def anneal_moves(
    net: Net,
    plan: CountedPlan,
    kept: Kept,
    draws: FloatMatrix,
    heat: FloatArray,
    best_order: IntArray,
    best_device: IntArray,
) -> tuple[float, float]:
    """See :func:`anneal`."""
    count, marks = len(plan.order), kept.marks
    group, old, taken = np.empty(2 * count + 1, np.int64), np.empty(2 * count + 1, np.int64), np.full(count, -1)
    near, held, begin = np.empty(count, np.int64), 0, 0
    look_ahead(net, plan, kept, count - 1)
    current = length_of(kept)
    best, better = current, True
    for row in range(len(draws)):
        if better:
            better = False
            for i in range(count):
                best_order[i], best_device[i] = plan.order[i], plan.device[i]
        if row % BLOCK == 0:
            look_ahead(net, plan, kept, count - 1)
            current = length_of(kept)
            begin = max(0, min(int(draws[row, 0] * count) - NEARBY // 2, count - NEARBY))
            look_back(net, plan, kept, begin)
            held = critical(net, plan, kept, begin, current, near)
        draw = draws[row, 0]
        if held > 0 and draw < DECIDING:
            v = near[int(draw / DECIDING * held)]
        else:
            draw = (draw - DECIDING) / (1.0 - DECIDING) if held > 0 else draw
            v = plan.order[begin + int(draw * min(count, NEARBY))]
        threshold = (current - heat[row] * np.log(max(draws[row, 4], 1e-300))) * ROUNDED
        first, last, at, size = make_move(net, plan, v, draws, row, group, old, taken)
        if first > last:
            continue
        if overfull(plan.room):
            take_back(plan, v, at, group, old, size)
            continue
        if marks[BACK] > last:
            look_back(net, plan, kept, last + 1)
            marks[BACK_REACH] = min(marks[BACK_REACH], first)
        if marks[AHEAD] < first:
            look_ahead(net, plan, kept, first - 1)
            marks[AHEAD_REACH] = max(marks[AHEAD_REACH], last)
        value = time_between(net, plan, kept, first, last, row, threshold)
        if value > threshold:
            take_back(plan, v, at, group, old, size)
            continue
        accept(net, plan, kept, first, last)
        if value < best:
            look_ahead(net, plan, kept, count - 1)
        current = length_of(kept) if marks[AHEAD] == count else value
        if marks[AHEAD] == count and current < best:
            best, better = current, True
    if better:
        for i in range(count):
            best_order[i], best_device[i] = plan.order[i], plan.device[i]
    look_ahead(net, plan, kept, count - 1)
    return best, length_of(kept)


def anneal(
    arrays: PlacementArrays,
    plan: CountedPlan,
    draws: FloatMatrix,
    heat: FloatArray,
    best_order: IntArray,
    best_device: IntArray,
) -> tuple[float, float]:
    """Make one move for every row of ``draws`` (shape (moves, DRAWS)) at the temperatures ``heat`` (shape (moves,)).

    Changes ``plan``; writes the best plan to ``best_order`` and ``best_device``. Returns the makespan of the best plan
    and that of the last.
    """
    return anneal_moves(net_of(arrays), plan, nothing_kept(arrays), draws, heat, best_order, best_device)
