"""Simulated annealing over the order of the operators and the device of each (:mod:`.moves`).

Moves come in blocks that begin at nearby positions: most of a large plan is then timed once a block. Half of the moves
begin with an operator on a critical path: others seldom shorten a plan.
The scheduler times operators in order. So nothing before the first operator that a move concerns changes, and after the
last one devices and ports serve the same operators and flows in the same order. Kept are the times of the plan, and for
each operator, flow, device and port the longest path from there to the end. So only the operators between are timed
again: a move is refused if some path from one of them to the end is above the threshold. After an accepted move, times
are worked out as far ahead, and paths to the end as far back, as the next move needs them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, FloatCube, FloatMatrix, IntArray, IntMatrix
from opweave.solvers.kernels import exceeds
from opweave.solvers.loops import helper, loop
from opweave.solvers.placement.arrays import DELAY, PORT_TENSOR, PlacementArrays
from opweave.solvers.placement.moves import (
    SIZE,
    SOURCE,
    TARGET,
    TENSOR,
    CountedPlan,
    Net,
    PlanPositions,
    make_move,
    net_of,
    take_back,
)

DECIDING, BLOCK, NEARBY = 0.5, 128, 128
"""Share of moves that begin with an operator on a critical path, moves of a block, and positions where they begin."""

ROUNDED = 1.0 + 1e-12
"""Moves that change nothing are accepted although an end plus the least time left may be larger by rounding."""


@helper
def critical(net: Net, plan: PlanPositions, kept: Kept, begin: int, makespan: float, found: IntArray) -> int:
    """Write the operators of a block that lie on a critical path, or wait for a transfer on one; return how many."""
    order, device, seconds, links, flows = plan.order, plan.device, net.seconds, net.links, net.flows
    ins, times, flow_times = net.ins, kept.times, kept.flow_times
    size, long = 0, makespan / ROUNDED**4
    for at in range(begin, min(len(order), begin + NEARBY)):
        v = order[at]
        k = device[v]
        decides = times[END, v] - seconds[v, k] + times[LEFT, v] >= long
        for i in range(ins[v], ins[v + 1]):
            f = ins[i]
            a = device[flows[f, SOURCE]]
            if a != k and flow_times[LEFT, f] > 0.0:
                lasts = links[0, a, k] + flows[f, SIZE] * links[1, a, k]
                decides = decides or flow_times[END, f] - lasts + flow_times[LEFT, f] >= long
        if decides:
            found[size] = v
            size += 1
    return size


@helper
def forget(net: Net, plan: PlanPositions, sender: IntMatrix, first: int, last: int) -> None:
    """Forget what sends tensors to the operators at some positions."""
    ins, flows = net.ins, net.flows
    for at in range(first, last + 1):
        for i in range(ins[plan.order[at]], ins[plan.order[at] + 1]):
            t = flows[ins[i], TENSOR]
            for b in range(sender.shape[1]):
                f = sender[t, b]
                if f >= 0 and first <= plan.position[flows[f, TARGET]] <= last:
                    sender[t, b] = -1


@loop
def anneal_moves(
    net: Net,
    plan: CountedPlan,
    kept: Kept,
    space: IntMatrix,
    draws: FloatMatrix,
    heat: FloatArray,
    best_order: IntArray,
    best_device: IntArray,
) -> tuple[float, float]:
    """See :func:`anneal`; ``space`` holds -1. Shape (4, operators + those that change places with them)."""
    count, marks, places = len(plan.order), kept.marks, PlanPositions(plan.order, plan.position, plan.device)
    group, old, taken, near = space[0], space[1], space[2], space[3]
    held, begin, current, best, accepted = 0, 0, np.inf, np.inf, True
    for row in range(len(draws) + 1):
        starts = row % BLOCK == 0 or row == len(draws)
        if starts or current < best:
            look_ahead(net, places, kept, count - 1)
        if (accepted or starts) and marks[AHEAD] == count:
            current, accepted = 0.0, False
            for k in range(net.seconds.shape[1]):
                current = max(current, kept.free[END, count, k])
            if current < best:
                best = current
                for i in range(count):
                    best_order[i], best_device[i] = plan.order[i], plan.device[i]
        if row == len(draws):
            break
        if starts:
            begin = max(0, min(int(draws[row, 0] * count) - NEARBY // 2, count - NEARBY))
            look_back(net, places, kept, begin)
            held = critical(net, places, kept, begin, current, near)
        draw = draws[row, 0]
        if held > 0 and draw < DECIDING:
            v = near[int(draw / DECIDING * held)]
        else:
            draw = (draw - DECIDING) / (1.0 - DECIDING) if held > 0 else draw
            v = plan.order[begin + int(draw * min(count, NEARBY))]
        first, last, at, size = make_move(net, plan, v, draws, row, group, old, taken)
        if first > last:
            continue
        value, threshold = np.inf, (current - heat[row] * np.log(max(draws[row, 4], 1e-300))) * ROUNDED
        fits = not exceeds(plan.room.used, plan.room.capacity)
        if fits:
            if marks[BACK] > last:
                look_back(net, places, kept, last + 1)
                marks[BACK_REACH] = min(marks[BACK_REACH], first)
            if marks[AHEAD] < first:
                look_ahead(net, places, kept, first - 1)
                marks[AHEAD_REACH] = max(marks[AHEAD_REACH], last)
            value = time_between(net, places, kept, first, last, row, threshold)
        if fits and value <= threshold:
            current, accepted, known, beyond = value, True, marks[AHEAD], marks[AHEAD_REACH]
            if net.model == PORT_TENSOR:
                forget(net, places, kept.sender, first, last)
            marks[AHEAD], marks[AHEAD_REACH] = first, last if known > last else max(last, beyond)
            look_ahead(net, places, kept, last)
            if last < known < count:
                marks[AHEAD], marks[AHEAD_REACH] = min(marks[AHEAD], known), max(marks[AHEAD_REACH], known, beyond)
            marks[BACK], marks[BACK_REACH] = max(marks[BACK], last), min(marks[BACK_REACH], first)
        else:
            take_back(plan, v, at, group, old, size)
    return best, current


def anneal(
    arrays: PlacementArrays,
    plan: CountedPlan,
    draws: FloatMatrix,
    heat: FloatArray,
    best_order: IntArray,
    best_device: IntArray,
) -> tuple[float, float]:
    """Make one move for every row of ``draws`` (shape (moves, DRAWS)) at the temperatures ``heat`` (shape (moves,)).

    Writes the best plan to ``best_order`` and ``best_device``; returns its makespan and that of the last plan.
    """
    space = np.full((4, 2 * len(arrays.seconds) + 1), -1)
    return anneal_moves(net_of(arrays), plan, nothing_kept(arrays), space, draws, heat, best_order, best_device)


AHEAD, AHEAD_REACH, BACK, BACK_REACH = 0, 1, 2, 3
"""Marks: the first position with wrong times (the number of operators for none) and how far on they may be wrong; the
last position with wrong paths to the end (-1 for none) and how far back these may be wrong."""

END, LEFT, TRIAL = 0, 1, 2
"""Rows of what is kept."""


class Kept(NamedTuple):
    """The times of one plan, by operator, flow and position in its order.

    Attributes
    ----------
    times
        Of every operator its end, the longest path from its start to the end of the plan, and space for its end in a
        move that is tried; the rows are END, LEFT and TRIAL. Shape (3, operators).
    flow_times
        When every flow that is sent arrives, and the longest path from its start (0 if not sent). Shape (2, flows).
    free
        When every device, send port and receive port is free before each position, and the longest path from there.
        Shape (2, operators + 1, 3 devices).
    sender, sent
        For ``one_port_tensor``: the flow that sends every tensor to each device, -1 for none, and the last move that
        was tried in which it is sent. Shapes (tensors, devices).
    brought, now, marks
        Space for a move that is tried: arrivals of tensors, devices and ports; the marks.
    """

    times: FloatMatrix
    flow_times: FloatMatrix
    free: FloatCube
    sender: IntMatrix
    sent: IntMatrix
    brought: FloatMatrix
    now: FloatArray
    marks: IntArray


def nothing_kept(arrays: PlacementArrays) -> Kept:
    """Nothing is timed yet."""
    count, devices = arrays.seconds.shape
    rows = arrays.tensors if arrays.model == PORT_TENSOR else 1
    kept = Kept(
        np.zeros((3, count)),
        np.zeros((2, len(arrays.source))),
        np.zeros((2, count + 1, 3 * devices)),
        np.full((rows, devices), -1, dtype=np.int64),
        np.full((rows, devices), -1, dtype=np.int64),
        np.zeros((rows, devices)),
        np.zeros(3 * devices),
        np.array([0, count - 1, count - 1, 0], dtype=np.int64),
    )
    kept.times[END], kept.flow_times[END] = -1.0, -1.0
    return kept


@helper
def renewed(free: FloatArray, rows: FloatCube, way: int, at: int) -> bool:
    """Write the times of devices and ports to one position's; return whether any differs."""
    changed = False
    for i in range(len(free)):
        if rows[way, at, i] != free[i]:
            rows[way, at, i], changed = free[i], True
    return changed


@helper
def time_between(
    net: Net, plan: PlanPositions, kept: Kept, first: int, last: int, move: int, threshold: float
) -> float:
    """The longest path through the operators at some positions, or some value above the threshold.

    It is the makespan, unless that was longer before and has become shorter. Nothing is kept but in the trial's space.
    """
    seconds, links, flows, model, before, after = net.seconds, net.links, net.flows, net.model, net.before, net.after
    ins, outs = net.ins, net.outs
    order, position, device = plan.order, plan.position, plan.device
    times, flow_times, sender = kept.times, kept.flow_times, kept.sender
    free, brought, sent, now = kept.free, kept.brought, kept.sent, kept.now
    devices, longest = seconds.shape[1], 0.0
    for i in range(3 * devices):
        now[i] = free[END, first, i]
    for at in range(first, last + 1):
        v = order[at]
        k = device[v]
        ready = now[k]
        for i in range(before[v], before[v + 1]):
            u = before[i]
            ready = max(ready, times[TRIAL if position[u] >= first else END, u])
        for i in range(ins[v], ins[v + 1]):
            f = ins[i]
            u, t, a = flows[f, SOURCE], flows[f, TENSOR], device[flows[f, SOURCE]]
            if a == k:
                continue
            if model == PORT_TENSOR:
                if sent[t, k] == move:
                    ready = max(ready, brought[t, k])
                    continue
                g = sender[t, k]
                if g >= 0 and position[flows[g, TARGET]] < first:
                    ready = max(ready, flow_times[END, g])
                    continue
            arrive = times[TRIAL if position[u] >= first else END, u]
            if model != DELAY:
                arrive = max(arrive, now[devices + a], now[2 * devices + k])
            arrive += links[0, a, k] + flows[f, SIZE] * links[1, a, k]
            ready = max(ready, arrive)
            if model != DELAY:
                now[devices + a] = now[2 * devices + k] = arrive
            if model == PORT_TENSOR:
                sent[t, k], brought[t, k] = move, arrive
                for j in range(outs[u], outs[u + 1]):
                    w = flows[outs[j], TARGET]
                    if flows[outs[j], TENSOR] == t and device[w] == k and position[w] > last:
                        longest = max(longest, arrive + times[LEFT, w])
        end = ready + seconds[v, k]
        times[TRIAL, v] = now[k] = end
        longest = max(longest, end)
        for i in range(after[v], after[v + 1]):
            if position[after[i]] > last:
                longest = max(longest, end + times[LEFT, after[i]])
        for i in range(outs[v], outs[v + 1]):
            f = outs[i]
            if position[flows[f, TARGET]] > last and device[flows[f, TARGET]] != k:
                longest = max(longest, end + flow_times[LEFT, f])
        if longest > threshold:
            return float(longest)
    for i in range(3 * devices):
        longest = max(longest, now[i] + free[LEFT, last + 1, i])
    return float(longest)


@helper
def look_ahead(net: Net, plan: PlanPositions, kept: Kept, until: int) -> None:
    """Time the plan up to a position, from where its times are wrong."""
    seconds, links, flows, model, before, after = net.seconds, net.links, net.flows, net.model, net.before, net.after
    order, position, device, marks, ins = plan.order, plan.position, plan.device, kept.marks, net.ins
    times, flow_times, free, sender, now = kept.times, kept.flow_times, kept.free, kept.sender, kept.now
    devices, first, reach = seconds.shape[1], marks[AHEAD], marks[AHEAD_REACH]
    for i in range(3 * devices if first <= until else 0):
        now[i] = free[END, first, i]
    for at in range(first, until + 1):
        v = order[at]
        k = device[v]
        ready = now[k]
        for i in range(before[v], before[v + 1]):
            ready = max(ready, times[END, before[i]])
        for i in range(ins[v], ins[v + 1]):
            f = ins[i]
            u, a = flows[f, SOURCE], device[flows[f, SOURCE]]
            if a == k:
                continue
            if model == PORT_TENSOR:
                g = sender[flows[f, TENSOR], k]
                if g >= 0 and g != f:
                    ready = max(ready, flow_times[END, g])
                    continue
                sender[flows[f, TENSOR], k] = f
            arrive = times[END, u]
            if model != DELAY:
                arrive = max(arrive, now[devices + a], now[2 * devices + k])
            arrive += links[0, a, k] + flows[f, SIZE] * links[1, a, k]
            if model != DELAY:
                now[devices + a] = now[2 * devices + k] = arrive
            ready = max(ready, arrive)
            if arrive != flow_times[END, f]:
                flow_times[END, f] = arrive
                for j in range(after[u], after[u + 1]):
                    reach = max(reach, position[after[j]])
        now[k] = ready + seconds[v, k]
        if now[k] != times[END, v]:
            times[END, v] = now[k]
            for i in range(after[v], after[v + 1]):
                reach = max(reach, position[after[i]])
        if not renewed(now, free, END, at + 1) and at >= reach:
            marks[AHEAD], marks[AHEAD_REACH] = len(order), -1
            return
    if first <= until:
        marks[AHEAD], marks[AHEAD_REACH] = until + 1, reach


@helper
def look_back(net: Net, plan: PlanPositions, kept: Kept, until: int) -> None:
    """Work out the paths to the end back to a position, from where they are wrong."""
    seconds, links, flows, model, before, after = net.seconds, net.links, net.flows, net.model, net.before, net.after
    ins, outs = net.ins, net.outs
    order, position, device, marks = plan.order, plan.position, plan.device, kept.marks
    times, flow_times, free, sender, now = kept.times, kept.flow_times, kept.free, kept.sender, kept.now
    devices, last, reach = seconds.shape[1], marks[BACK], marks[BACK_REACH]
    for i in range(3 * devices if last >= until else 0):
        now[i] = free[LEFT, last + 1, i]
    for at in range(last, until - 1, -1):
        v = order[at]
        k = device[v]
        rest, changed = now[k], False
        for i in range(after[v], after[v + 1]):
            rest = max(rest, times[LEFT, after[i]])
        for i in range(outs[v], outs[v + 1]):
            if device[flows[outs[i], TARGET]] != k:
                rest = max(rest, flow_times[LEFT, outs[i]])
        now[k] = rest + seconds[v, k]
        if now[k] != times[LEFT, v]:
            times[LEFT, v], changed = now[k], True
        for i in range(ins[v + 1] - 1, ins[v] - 1, -1):
            f = ins[i]
            u, t, a, rest = flows[f, SOURCE], flows[f, TENSOR], device[flows[f, SOURCE]], 0.0
            if a == k:
                continue
            if model != PORT_TENSOR or sender[t, k] == f:
                rest = times[LEFT, v]
                for j in range(outs[u], outs[u + 1] if model == PORT_TENSOR else 0):
                    w = flows[outs[j], TARGET]
                    if flows[outs[j], TENSOR] == t and device[w] == k:
                        rest = max(rest, times[LEFT, w])
                if model != DELAY:
                    rest = max(rest, now[devices + a], now[2 * devices + k])
                rest += links[0, a, k] + flows[f, SIZE] * links[1, a, k]
                if model != DELAY:
                    now[devices + a] = now[2 * devices + k] = rest
            if rest != flow_times[LEFT, f]:
                flow_times[LEFT, f], changed = rest, True
        for i in range(before[v], before[v + 1] if changed else 0):
            reach = min(reach, position[before[i]])
        if not renewed(now, free, LEFT, at) and at <= reach:
            marks[BACK], marks[BACK_REACH] = -1, len(order)
            return
    if last >= until:
        marks[BACK], marks[BACK_REACH] = until - 1, reach
