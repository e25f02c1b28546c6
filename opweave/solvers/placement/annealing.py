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

from opweave.problems.arrays import FloatArray, FloatMatrix, IntArray, IntMatrix
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
def accept(net: Net, plan: PlanPositions, kept: Kept, first: int, last: int) -> None:
    """Time the operators that an accepted move concerns, and note what may be wrong from now on."""
    marks = kept.marks
    known, beyond = marks[AHEAD], marks[AHEAD_REACH]
    for at in range(first, last + 1 if net.model == PORT_TENSOR else 0):  # forget what sends tensors to these
        for i in range(net.ins[plan.order[at]], net.ins[plan.order[at] + 1]):
            t = net.flows[net.ins[i], TENSOR]
            for b in range(kept.sender.shape[1]):
                f = kept.sender[t, b]
                if f >= 0 and first <= plan.position[net.flows[f, TARGET]] <= last:
                    kept.sender[t, b] = -1
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
                current = max(current, kept.free[count, k])
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
            accept(net, places, kept, first, last)
            current, accepted = value, True
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


class Kept(NamedTuple):
    """The times of one plan, by operator, flow and position in its order.

    Attributes
    ----------
    end, arrived
        End of every operator, and when every flow that is sent arrives. Shapes (operators,), (flows,).
    free
        When every device, send port and receive port is free before each position. Shape (operators + 1, 3 devices).
    sender
        For ``one_port_tensor``: the flow that sends every tensor to each device, -1 for none. Shape (tensors, devices).
    left, flow_left, free_left
        Longest paths to the end: from the start of operators and flows (0 if not sent), and from ``free``.
    trial, brought, sent, now, marks
        Space for a move that is tried: ends, arrivals of copies, moves that sent them, devices and ports; the marks.
    """

    end: FloatArray
    arrived: FloatArray
    free: FloatMatrix
    sender: IntMatrix
    left: FloatArray
    flow_left: FloatArray
    free_left: FloatMatrix
    trial: FloatArray
    brought: FloatMatrix
    sent: IntMatrix
    now: FloatArray
    marks: IntArray


def nothing_kept(arrays: PlacementArrays) -> Kept:
    """Nothing is timed yet."""
    count, devices = arrays.seconds.shape
    flows = len(arrays.source)
    rows = arrays.tensors if arrays.model == PORT_TENSOR else 1
    return Kept(
        np.full(count, -1.0),
        np.full(flows, -1.0),
        np.zeros((count + 1, 3 * devices)),
        np.full((rows, devices), -1, dtype=np.int64),
        np.zeros(count),
        np.zeros(flows),
        np.zeros((count + 1, 3 * devices)),
        np.zeros(count),
        np.zeros((rows, devices)),
        np.full((rows, devices), -1, dtype=np.int64),
        np.zeros(3 * devices),
        np.array([0, count - 1, count - 1, 0], dtype=np.int64),
    )


@helper
def renewed(free: FloatArray, rows: FloatMatrix, at: int) -> bool:
    """Write the times of devices and ports to one position's; return whether any differs."""
    changed = False
    for i in range(len(free)):
        if rows[at, i] != free[i]:
            rows[at, i], changed = free[i], True
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
    old, arrived, sender = kept.end, kept.arrived, kept.sender
    left, flow_left, new, brought, sent, now = kept.left, kept.flow_left, kept.trial, kept.brought, kept.sent, kept.now
    devices, longest = seconds.shape[1], 0.0
    for i in range(3 * devices):
        now[i] = kept.free[first, i]
    for at in range(first, last + 1):
        v = order[at]
        k = device[v]
        ready = now[k]
        for i in range(before[v], before[v + 1]):
            u = before[i]
            ready = max(ready, new[u] if position[u] >= first else old[u])
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
                    ready = max(ready, arrived[g])
                    continue
            arrive = new[u] if position[u] >= first else old[u]
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
                        longest = max(longest, arrive + left[w])
        end = ready + seconds[v, k]
        new[v] = now[k] = end
        longest = max(longest, end)
        for i in range(after[v], after[v + 1]):
            if position[after[i]] > last:
                longest = max(longest, end + left[after[i]])
        for i in range(outs[v], outs[v + 1]):
            f = outs[i]
            if position[flows[f, TARGET]] > last and device[flows[f, TARGET]] != k:
                longest = max(longest, end + flow_left[f])
        if longest > threshold:
            return float(longest)
    for i in range(3 * devices):
        longest = max(longest, now[i] + kept.free_left[last + 1, i])
    return float(longest)


@helper
def look_ahead(net: Net, plan: PlanPositions, kept: Kept, until: int) -> None:
    """Time the plan up to a position, from where its times are wrong."""
    seconds, links, flows, model, before, after = net.seconds, net.links, net.flows, net.model, net.before, net.after
    order, position, device, marks, ins = plan.order, plan.position, plan.device, kept.marks, net.ins
    ends, arrived, free, sender, now = kept.end, kept.arrived, kept.free, kept.sender, kept.now
    devices, first, reach = seconds.shape[1], marks[AHEAD], marks[AHEAD_REACH]
    for i in range(3 * devices if first <= until else 0):
        now[i] = free[first, i]
    for at in range(first, until + 1):
        v = order[at]
        k = device[v]
        ready = now[k]
        for i in range(before[v], before[v + 1]):
            ready = max(ready, ends[before[i]])
        for i in range(ins[v], ins[v + 1]):
            f = ins[i]
            u, a = flows[f, SOURCE], device[flows[f, SOURCE]]
            if a == k:
                continue
            if model == PORT_TENSOR:
                g = sender[flows[f, TENSOR], k]
                if g >= 0 and g != f:
                    ready = max(ready, arrived[g])
                    continue
                sender[flows[f, TENSOR], k] = f
            arrive = ends[u]
            if model != DELAY:
                arrive = max(arrive, now[devices + a], now[2 * devices + k])
            arrive += links[0, a, k] + flows[f, SIZE] * links[1, a, k]
            if model != DELAY:
                now[devices + a] = now[2 * devices + k] = arrive
            ready = max(ready, arrive)
            if arrive != arrived[f]:
                arrived[f] = arrive
                for j in range(after[u], after[u + 1]):
                    reach = max(reach, position[after[j]])
        now[k] = ready + seconds[v, k]
        if now[k] != ends[v]:
            ends[v] = now[k]
            for i in range(after[v], after[v + 1]):
                reach = max(reach, position[after[i]])
        if not renewed(now, free, at + 1) and at >= reach:
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
    left, flow_left, free, sender, now = kept.left, kept.flow_left, kept.free_left, kept.sender, kept.now
    devices, last, reach = seconds.shape[1], marks[BACK], marks[BACK_REACH]
    for i in range(3 * devices if last >= until else 0):
        now[i] = free[last + 1, i]
    for at in range(last, until - 1, -1):
        v = order[at]
        k = device[v]
        rest, changed = now[k], False
        for i in range(after[v], after[v + 1]):
            rest = max(rest, left[after[i]])
        for i in range(outs[v], outs[v + 1]):
            if device[flows[outs[i], TARGET]] != k:
                rest = max(rest, flow_left[outs[i]])
        now[k] = rest + seconds[v, k]
        if now[k] != left[v]:
            left[v], changed = now[k], True
        for i in range(ins[v + 1] - 1, ins[v] - 1, -1):
            f = ins[i]
            u, t, a, rest = flows[f, SOURCE], flows[f, TENSOR], device[flows[f, SOURCE]], 0.0
            if a == k:
                continue
            if model != PORT_TENSOR or sender[t, k] == f:
                rest = left[v]
                for j in range(outs[u], outs[u + 1] if model == PORT_TENSOR else 0):
                    w = flows[outs[j], TARGET]
                    if flows[outs[j], TENSOR] == t and device[w] == k:
                        rest = max(rest, left[w])
                if model != DELAY:
                    rest = max(rest, now[devices + a], now[2 * devices + k])
                rest += links[0, a, k] + flows[f, SIZE] * links[1, a, k]
                if model != DELAY:
                    now[devices + a] = now[2 * devices + k] = rest
            if rest != flow_left[f]:
                flow_left[f], changed = rest, True
        for i in range(before[v], before[v + 1] if changed else 0):
            reach = min(reach, position[before[i]])
        if not renewed(now, free, at) and at <= reach:
            marks[BACK], marks[BACK_REACH] = -1, len(order)
            return
    if last >= until:
        marks[BACK], marks[BACK_REACH] = until - 1, reach
