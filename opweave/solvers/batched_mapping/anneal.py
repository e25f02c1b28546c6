"""Simulated annealing over strings and order, compiled.

A move puts one granule on another device, swaps two granules of an operator, puts a block of granules on one device,
copies the string of a neighbour or a candidate, or shifts a node in the order. Decoding begins at the first node that
the move changes. The acceptance threshold is drawn before the move is judged, so that decoding can stop as soon as an
end plus its tail exceeds the threshold.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, FloatCube, FloatMatrix, IntArray, IntMatrix
from opweave.solvers.batched_mapping.arrays import (
    BatchArrays,
    Strings,
    can_run,
    move_granule,
    new_strings,
    overfull,
    play,
)
from opweave.solvers.loops import helper, loop

DRAWS = 6
"""Random numbers drawn for each move."""

REACH = 12
"""Longest shift of a node, as a multiple of the number of devices."""

SEARCH_MOVES = np.array([0.30, 0.42, 0.52, 0.65, 1.0])
"""Cumulative shares of the five moves, in the order of the module's first paragraph."""

PAPER_MOVES = np.array([1.0, 1.0, 1.0, 1.0, 1.0])
"""Single granules only, in a fixed order: the paper's simulated annealing."""


class Walk(NamedTuple):
    """The times of the current plan, by position in the order, and those of a plan that is judged.

    Attributes
    ----------
    free, most
        When every device is free before a position, and the largest end + tail before it. Shapes (nodes + 1, devices)
        and (nodes + 1,).
    kept
        Ends of the current plan, by node. Shape (nodes,).
    end, ends
        Ends of the judged plan, by operator and device and, in the same memory, by node.
    now
        When every device is free in the judged plan. Shape (devices,).
    """

    free: FloatMatrix
    most: FloatArray
    kept: FloatArray
    end: FloatMatrix
    ends: FloatArray
    now: FloatArray


@helper
def _new_walk(operators: int, devices: int) -> Walk:
    ends = np.full(operators * devices, -1.0)
    return Walk(
        free=np.zeros((operators * devices + 1, devices)),
        most=np.zeros(operators * devices + 1),
        kept=ends.copy(),
        end=ends.reshape(operators, devices),
        ends=ends,
        now=np.zeros(devices),
    )


@helper
def _judge_from(
    arrays: BatchArrays, strings: Strings, order: IntArray, tail: FloatCube, walk: Walk, first: int, threshold: float
) -> float:
    """The largest end + tail of a plan that is the current one before position ``first``."""
    for p in range(first, len(order)):
        walk.ends[order[p]] = -1.0
    walk.now[:] = walk.free[first]
    value = play(arrays, strings, order, first, len(order), walk.now, walk.end, tail, threshold)
    return float(max(value, walk.most[first]))


@helper
def _keep(strings: Strings, order: IntArray, tail: FloatCube, walk: Walk, first: int) -> None:
    """Make the judged plan the current one."""
    devices = len(walk.now)
    for p in range(first, len(order)):
        i, u = order[p] // devices, order[p] % devices
        ends = walk.end[i, u]
        walk.kept[order[p]] = ends
        walk.most[p + 1] = walk.most[p]
        for w in range(devices):
            walk.free[p + 1, w] = walk.free[p, w]
        if strings.number[i, u] > 0:
            walk.free[p + 1, u] = ends
            walk.most[p + 1] = max(walk.most[p], ends + tail[i, u, strings.number[i, u]])


@helper
def _undo(order: IntArray, walk: Walk, first: int) -> None:
    """Give up the judged plan; the order is the current plan's again."""
    for p in range(first, len(order)):
        walk.ends[order[p]] = walk.kept[order[p]]


@helper
def _first_of(position: IntArray, i: int, devices: int) -> int:
    """The first position of a node of operator i."""
    first = position[i * devices]
    for u in range(1, devices):
        first = min(first, position[i * devices + u])
    return int(first)


@helper
def _judge(
    arrays: BatchArrays,
    strings: Strings,
    order: IntArray,
    tail: FloatCube,
    free: FloatArray,
    end: FloatMatrix,
    threshold: float,
) -> float:
    free[:] = 0.0
    end[:] = -1.0
    return play(arrays, strings, order, 0, len(order), free, end, tail, threshold)


@helper
def _shift(strings: Strings, position: IntArray, i: int, draw: FloatArray, devices: int) -> tuple[int, int]:
    """The position of a batch of operator i, and where it goes."""
    at = position[i * devices + strings.where[i, int(draw[2] * strings.where.shape[1])]]
    return at, max(0, min(len(position) - 1, at + int((2.0 * draw[3] - 1.0) * REACH * devices)))


@helper
def _slide(order: IntArray, at: int, to: int) -> None:
    node = order[at]
    step = 1 if to > at else -1
    p = at
    while p != to:
        order[p] = order[p + step]
        p += step
    order[to] = node


@helper
def _number(order: IntArray, position: IntArray, first: int, end: int) -> None:
    """Write the positions of the nodes at ``first`` to ``end - 1``."""
    for p in range(first, end):
        position[order[p]] = p


@helper
def _kind(moves: FloatArray, drawn: float) -> int:
    """The move that a random number stands for."""
    kind = 0
    while moves[kind] <= drawn:
        kind += 1
    return kind


@helper
def _alike(one: IntArray, other: IntArray) -> bool:
    same = True
    for g in range(len(one)):
        same = same and one[g] == other[g]
    return same


@helper
def _spell(arrays: BatchArrays, strings: Strings, i: int, string: IntArray) -> None:
    for g in range(len(string)):
        move_granule(arrays, strings, i, g, string[g])


@helper
def _new_string(
    arrays: BatchArrays, strings: Strings, i: int, kind: int, draw: FloatArray, candidates: IntArray, string: IntArray
) -> None:
    """Write the string of operator i after a move."""
    granules, devices = len(string), arrays.seconds.shape[1]
    string[:] = strings.where[i]
    if kind == 0:
        string[int(draw[2] * granules)] = int(draw[3] * devices)
    elif kind == 1:
        a, b = int(draw[2] * granules), int(draw[3] * granules)
        string[a], string[b] = string[b], string[a]
    elif kind == 2:
        size = 1 + int(draw[2] * granules)
        first = int(draw[3] * granules)
        u = int(draw[5] * devices)
        for g in range(size):
            string[(first + g) % granules] = u
    else:
        before = arrays.in_start[i + 1] - arrays.in_start[i]
        neighbours = before + arrays.out_start[i + 1] - arrays.out_start[i]
        pick = int(draw[2] * (neighbours + 1))
        if pick < before:
            string[:] = strings.where[arrays.source[arrays.incoming[arrays.in_start[i] + pick]]]
        elif pick < neighbours:
            string[:] = strings.where[arrays.target[arrays.outgoing[arrays.out_start[i] + pick - before]]]
        else:
            string[:] = candidates[int(draw[3] * len(candidates))]


@loop
def anneal(
    arrays: BatchArrays,
    where: IntMatrix,
    order: IntArray,
    tail: FloatCube,
    moves: FloatArray,
    candidates: IntMatrix,
    draws: FloatMatrix,
    heat: FloatArray,
    halt: IntArray,
    best_where: IntMatrix,
    best_order: IntArray,
) -> tuple[float, float]:
    """Make one move for every row of ``draws`` (moves, DRAWS) at the temperatures ``heat`` (moves,).

    ``where`` and ``order`` hold the last plan afterwards, ``best_where`` and ``best_order`` the best. ``tail`` has the
    least time after the end of a batch, shape (operators, devices, G + 1). Returns the largest end + tail of the best
    plan and of the last. Stops when ``halt`` is raised.
    """
    strings = new_strings(arrays, where)
    operators, devices = arrays.seconds.shape[:2]
    walk = _new_walk(operators, devices)
    current = _judge_from(arrays, strings, order, tail, walk, 0, np.inf)
    _keep(strings, order, tail, walk, 0)
    best = current
    best_where[:] = where
    best_order[:] = order
    position = np.empty(len(order), dtype=np.int64)
    _number(order, position, 0, len(order))
    string, old = np.empty(where.shape[1], dtype=np.int64), np.empty(where.shape[1], dtype=np.int64)
    for m in range(len(draws)):
        if halt[0] != 0:
            break
        draw = draws[m]
        i = int(draw[0] * operators)
        kind = _kind(moves, draw[1])
        threshold = current - heat[m] * np.log(max(draw[4], 1e-300))
        at, to, first = 0, 0, 0
        if kind == 4:
            at, to = _shift(strings, position, i, draw, devices)
            if to == at:
                continue
            _slide(order, at, to)
            first = min(at, to)
        else:
            _new_string(arrays, strings, i, kind, draw, candidates, string)
            old[:] = strings.where[i]
            if _alike(string, old):
                continue
            _spell(arrays, strings, i, string)
            first = _first_of(position, i, devices)
        value, judged = np.inf, kind == 4 or (can_run(arrays, strings, i) and not overfull(arrays, strings))
        if judged:
            value = _judge_from(arrays, strings, order, tail, walk, first, threshold)
        if value <= threshold and value < np.inf:
            current = value
            _keep(strings, order, tail, walk, first)
            if kind == 4:
                _number(order, position, min(at, to), max(at, to) + 1)
            if value < best:
                best = value
                best_where[:] = strings.where
                best_order[:] = order
            continue
        if kind == 4:
            _slide(order, to, at)
        else:
            _spell(arrays, strings, i, old)
        if judged:
            _undo(order, walk, first)
    where[:] = strings.where
    return best, current


@loop
def climb(
    arrays: BatchArrays,
    where: IntMatrix,
    order: IntArray,
    tail: FloatCube,
    draws: FloatCube,
    halt: IntArray,
    best_where: IntMatrix,
) -> float:
    """The (1+1) EA: each row of ``draws`` (steps, flips, 2) moves some granules to drawn devices, all at once.

    A flip is a position among all granules of all operators and a device, both from 0 to 1; a position of 1 ends the
    row. Accepts plans that are no worse; stops when ``halt`` is raised. Returns the best value; its strings are in
    ``best_where``.
    """
    strings = new_strings(arrays, where)
    operators, granules = where.shape
    operators, devices = arrays.seconds.shape[:2]
    free, end = np.empty(devices), np.empty((operators, devices))
    current = _judge(arrays, strings, order, tail, free, end, np.inf)
    flips = draws.shape[1]
    touched, old = np.empty(flips, dtype=np.int64), np.empty(flips, dtype=np.int64)
    for m in range(len(draws)):
        if halt[0] != 0:
            break
        count, possible = 0, True
        for x in range(flips):
            if draws[m, x, 0] >= 1.0:
                break
            cell = int(draws[m, x, 0] * operators * granules)
            i, g = cell // granules, cell % granules
            touched[count], old[count] = cell, strings.where[i, g]
            count += 1
            move_granule(arrays, strings, i, g, int(draws[m, x, 1] * devices))
        for x in range(count):
            possible = possible and can_run(arrays, strings, touched[x] // granules)
        value = np.inf
        if possible and not overfull(arrays, strings):
            value = _judge(arrays, strings, order, tail, free, end, current)
        if value <= current:
            current = value
            continue
        for x in range(count - 1, -1, -1):
            move_granule(arrays, strings, touched[x] // granules, touched[x] % granules, old[x])
    best_where[:] = strings.where
    return current
