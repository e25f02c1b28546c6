"""Simulated annealing over assignments alone, compiled. Each assignment is judged in the order of its own upward ranks.

A stretch of operators that moves to another device usually needs another order there. Moves of single operators in a
fixed order find that order late; here the order follows at once. A move changes the device of one operator, of a whole
stretch of the order, or of the operators of a stretch that share a device; or it swaps two devices within a stretch, so
that parallel operators stay parallel.
"""

from __future__ import annotations

import numpy as np

from opweave.problems.arrays import FloatArray, FloatMatrix, IntArray
from opweave.solvers.compiled import inlined, kernel
from opweave.solvers.placement.anneal import (
    CountedPlan,
    fill_order,
    neighbour_device,
    overfull,
    settle,
    with_clusters,
)
from opweave.solvers.placement.arrays import PlacementArrays, new_clock, place

ALONE, SAME_DEVICE, SWAP, STRETCH = 0, 1, 2, 3
KINDS = np.array([ALONE, ALONE, SAME_DEVICE, SAME_DEVICE, SWAP, STRETCH])
"""Kinds of moves, and how many of six moves are of each kind."""


@inlined
def _stretch(plan: CountedPlan, v: int, k: int, kind: int, draw: float, group: IntArray) -> int:
    """Write the operators that a move takes along to ``group``; return their number."""
    if kind == ALONE:
        group[0] = v
        return 1
    first = plan.position[v]
    last = min(len(plan.order), first + int(np.exp(draw * np.log(len(plan.order)))) + 1)
    size, a = 0, plan.device[v]
    for i in range(first, last):
        w = plan.order[i]
        if kind == STRETCH or plan.device[w] == a or (kind == SWAP and plan.device[w] == k):
            group[size] = w
            size += 1
    return size


@inlined
def _judge_order(arrays: PlacementArrays, order: IntArray, device: IntArray, threshold: float) -> float:
    """Makespan, or the first end above the threshold if there is one."""
    clock = new_clock(arrays)
    makespan = 0.0
    for v in order:
        makespan = max(makespan, place(arrays, clock, v, device[v], device))
        if makespan > threshold:
            break
    return makespan


@kernel
def anneal_assignment(
    arrays: PlacementArrays,
    plan: CountedPlan,
    members_start: IntArray,
    members: IntArray,
    cluster: IntArray,
    draws: FloatMatrix,
    heat: FloatArray,
    halt: IntArray,
    best_order: IntArray,
    best_device: IntArray,
) -> tuple[float, float]:
    """Make one move for every row of ``draws`` at the temperatures ``heat``, like :func:`.anneal.anneal`."""
    count, devices = arrays.seconds.shape
    fill_order(arrays, plan.device, plan.order)
    for i in range(count):
        plan.position[plan.order[i]] = i
    current = _judge_order(arrays, plan.order, plan.device, np.inf)
    best = current
    best_order[:] = plan.order
    best_device[:] = plan.device
    group = np.empty(2 * count + 1, dtype=np.int64)
    old = np.empty(count + 1, dtype=np.int64)
    order = np.empty(count, dtype=np.int64)
    taken = np.full(count, -1, dtype=np.int64)
    for move in range(len(draws)):
        if halt[0] != 0:
            break
        v = int(draws[move, 0] * count)
        choice = int(draws[move, 1] * 2 * len(KINDS))
        kind = KINDS[choice // 2]
        k = int(draws[move, 2] * devices) if choice % 2 == 0 else neighbour_device(arrays, plan, v, draws[move, 2])
        a = plan.device[v]
        threshold = current - heat[move] * np.log(max(draws[move, 4], 1e-300))
        if kind != STRETCH and a == k:
            continue
        size = _stretch(plan, v, k, kind, draws[move, 3], group)
        size = with_clusters(members_start, members, cluster, group, size, taken, move)
        changed, allowed = False, True
        for i in range(size):
            w = group[i]
            to = a if kind == SWAP and plan.device[w] == k else k
            allowed = allowed and arrays.seconds[w, to] < np.inf
            changed = changed or plan.device[w] != to
        if not (allowed and changed):
            continue
        for i in range(size):
            w = group[i]
            old[i] = plan.device[w]
            settle(arrays, plan, w, a if kind == SWAP and old[i] == k else k)
        value = np.inf
        if not overfull(arrays, plan):
            fill_order(arrays, plan.device, order)
            value = _judge_order(arrays, order, plan.device, threshold)
        if value > threshold:
            for i in range(size):
                settle(arrays, plan, group[i], old[i])
            continue
        current = value
        plan.order[:] = order
        for i in range(count):
            plan.position[order[i]] = i
        if value < best:
            best = value
            best_order[:] = order
            best_device[:] = plan.device
    return best, current
