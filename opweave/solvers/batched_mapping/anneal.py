"""Simulated annealing over strings and order, compiled.

A move puts one granule on another device, swaps two granules of an operator, puts a block of granules on one device,
copies the string of a neighbour or a candidate, or shifts a node in the order. Decoding begins at the first node that
the move changes. The acceptance threshold is drawn before the move is judged, so that decoding can stop as soon as an
end plus its tail exceeds the threshold.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, FloatMatrix, IntArray, IntMatrix
from opweave.solvers.batched_mapping.arrays import (
    IN,
    IN_END,
    OUT,
    OUT_END,
    BatchArrays,
    Strings,
    can_run,
    count_all,
    move_granule,
    overfull,
    ready_at,
)
from opweave.solvers.loops import helper, loop

DRAWS = 6
"""Random numbers drawn for each move."""

REACH = 12
"""Longest shift of a node, as a multiple of the number of devices."""

ONE, SWAP, BLOCK, COPY = 0.30, 0.42, 0.52, 0.65
"""Cumulative shares of the first four moves, in the order of the module's first paragraph."""


class Walk(NamedTuple):
    """The times of the current plan, those of a plan that is judged, and the best plan.

    Attributes
    ----------
    free, most
        When every device is free before a position in the order, and the largest end + tail before it. Shapes
        (nodes + 1, devices) and (nodes + 1,).
    kept
        Ends of the current plan by node, -1 where there is no batch. Shape (nodes,).
    end, ends
        Ends of the judged plan, by operator and device and, in the same memory, by node.
    now
        When every device is free in the judged plan. Shape (devices,).
    position
        Place of every node in the order. Shape (nodes,).
    string, old
        The string of one operator after a move and before. Shape (G,).
    best_where, best_order
        The best plan.
    """

    free: FloatMatrix
    most: FloatArray
    kept: FloatArray
    end: FloatMatrix
    ends: FloatArray
    now: FloatArray
    position: IntArray
    string: IntArray
    old: IntArray
    best_where: IntMatrix
    best_order: IntArray


def new_walk(arrays: BatchArrays, where: IntMatrix) -> Walk:
    """Memory for :func:`anneal`."""
    operators, devices = arrays.seconds.shape[:2]
    nodes = operators * devices
    kept, ends = np.full((2, nodes), -1.0)
    (string, old), (position, best_order) = np.zeros((2, where.shape[1]), np.int64), np.zeros((2, nodes), np.int64)
    free, most, now = np.zeros((nodes + 1, devices)), np.zeros(nodes + 1), np.zeros(devices)
    end, best_where = ends.reshape(operators, devices), np.zeros_like(where)
    return Walk(free, most, kept, end, ends, now, position, string, old, best_where, best_order)


@helper
def _write(rows: IntMatrix, row: int, target: IntArray) -> None:
    """Write a row into the target; it compiles faster than a slice."""
    for x in range(len(target)):
        target[x] = rows[row, x]


@helper
def _judge(
    arrays: BatchArrays, strings: Strings, order: IntArray, tail: FloatMatrix, walk: Walk, first: int, threshold: float
) -> float:
    """The largest end + tail of a plan that is the current one before position ``first``, or one above ``threshold``.

    It is inf when the order puts a batch before its data.
    """
    devices, end, now, value = len(walk.now), walk.end, walk.now, walk.most[first]
    for p in range(first, len(order)):
        walk.ends[order[p]] = -1.0
    for u in range(devices):
        now[u] = walk.free[first, u]
    for p in range(first, len(order)):
        i, u = order[p] // devices, order[p] % devices
        c = strings.number[i, u]
        if c > 0:
            now[u] = max(now[u], ready_at(arrays, strings, i, u, end)) + arrays.seconds[i, u, c]
            end[i, u] = now[u]
            value = max(value, now[u] + tail[i, u])
            if value > threshold or value == np.inf:
                break
    return float(value)


@helper
def _keep(order: IntArray, tail: FloatMatrix, walk: Walk, first: int) -> None:
    """Make the judged plan the current one."""
    devices, free, most = len(walk.now), walk.free, walk.most
    for p in range(first, len(order)):
        ends = walk.kept[order[p]] = walk.ends[order[p]]
        for w in range(devices):
            free[p + 1, w] = free[p, w]
        most[p + 1] = most[p]
        if ends >= 0.0:
            i, u = order[p] // devices, order[p] % devices
            free[p + 1, u] = ends
            most[p + 1] = max(most[p], ends + tail[i, u])


@helper
def _slide(order: IntArray, position: IntArray, at: int, to: int) -> None:
    """Move the node at one position to another."""
    node, step = order[at], 1 if to > at else -1
    for p in range(at, to, step):
        order[p] = order[p + step]
        position[order[p]] = p
    order[to] = node
    position[node] = to


@helper
def _spell(arrays: BatchArrays, strings: Strings, i: int, string: IntArray) -> bool:
    """Write a string; return whether it differs from the one before."""
    changed = False
    for g in range(len(string)):
        if strings.where[i, g] != string[g]:
            move_granule(arrays, strings, i, g, string[g])
            changed = True
    return changed


@helper
def _draw(
    arrays: BatchArrays, where: IntMatrix, i: int, draws: FloatMatrix, m: int, candidates: IntMatrix, string: IntArray
) -> None:
    """Write the string of operator i after a move."""
    granules, devices, kind = len(string), arrays.seconds.shape[1], draws[m, 1]
    a, b = int(draws[m, 2] * granules), int(draws[m, 3] * granules)
    if kind < ONE:
        string[a] = int(draws[m, 3] * devices)
    elif kind < SWAP:
        string[a], string[b] = string[b], string[a]
    elif kind < BLOCK:
        for g in range(1 + a):
            string[(b + g) % granules] = int(draws[m, 5] * devices)
    else:
        before = arrays.ops[i, IN_END] - arrays.ops[i, IN]
        neighbours = before + arrays.ops[i, OUT_END] - arrays.ops[i, OUT]
        pick = int(draws[m, 2] * (neighbours + 1))
        if pick == neighbours:
            _write(candidates, int(draws[m, 3] * len(candidates)), string)
        elif pick < before:
            _write(where, arrays.edges[arrays.items[arrays.ops[i, IN] + pick], 0], string)
        else:
            _write(where, arrays.edges[arrays.ops[i, OUT] + pick - before, 1], string)


@loop
def anneal(
    arrays: BatchArrays,
    strings: Strings,
    order: IntArray,
    tail: FloatMatrix,
    candidates: IntMatrix,
    draws: FloatMatrix,
    heat: FloatArray,
    walk: Walk,
) -> tuple[float, float]:
    """Make one move for every row of ``draws`` (moves, DRAWS) at the temperatures ``heat`` (moves,).

    ``strings``, which count nothing yet, and ``order`` hold the last plan afterwards, ``walk`` the best. ``tail`` has
    the least time after the end of a batch, shape (operators, devices). Returns the largest end + tail of the best plan
    and of the last, inf if there is none. Without moves, the plan is judged as it is.
    """
    where, position, string, old = strings.where, walk.position, walk.string, walk.old
    nodes, (operators, devices) = len(order), strings.number.shape
    count_all(arrays, strings)
    possible = not overfull(arrays, strings)
    for i in range(operators):
        possible = possible and can_run(arrays, strings, i)
    for p in range(nodes):
        position[order[p]] = p
    best = current = np.inf
    for m in range(-1, len(draws)):  # -1 judges the plan as it is
        at, to, first, i, threshold = 0, 0, 0, 0, np.inf
        if m >= 0:
            i, possible = int(draws[m, 0] * operators), True
            threshold = current - heat[m] * np.log(max(draws[m, 4], 1e-300))
            _write(where, i, old)
            _write(where, i, string)
            if draws[m, 1] >= COPY:
                at = position[i * devices + old[int(draws[m, 2] * len(old))]]
                to = max(0, min(nodes - 1, at + int((2.0 * draws[m, 3] - 1.0) * REACH * devices)))
                _slide(order, position, at, to)
                first, possible = min(at, to), at != to
            else:
                _draw(arrays, where, i, draws, m, candidates, string)
                possible = _spell(arrays, strings, i, string) and can_run(arrays, strings, i)
                possible = possible and not overfull(arrays, strings)
                first = nodes
                for u in range(devices):
                    first = min(first, position[i * devices + u])
        value = _judge(arrays, strings, order, tail, walk, first, threshold) if possible else np.inf
        if value <= threshold and value < np.inf:
            current = value
            _keep(order, tail, walk, first)
            if value < best:
                best = value
                for h in range(operators):
                    for g in range(len(string)):
                        walk.best_where[h, g] = where[h, g]
                for p in range(nodes):
                    walk.best_order[p] = order[p]
        elif m >= 0:
            _slide(order, position, to, at)
            _spell(arrays, strings, i, old)
            for p in range(first, nodes if possible else first):
                walk.ends[order[p]] = walk.kept[order[p]]
    return best, current
