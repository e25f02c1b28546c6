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

ONE, SWAP, BLOCK, COPY = 0.30, 0.42, 0.52, 0.65
"""Cumulative shares of the first four moves, in the order of the module's first paragraph."""


class Walk(NamedTuple):
    """The times of the current plan, and those of a plan that is judged.

    Attributes
    ----------
    free, most
        When every device is free before a position in the order, and the largest end + tail before it. Shapes
        (nodes + 1, devices) and (nodes + 1,).
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
def copy(values: FloatArray | IntArray, target: FloatArray | IntArray) -> None:
    """Write the values into the target; it compiles faster than a slice."""
    for x in range(len(values)):
        target[x] = values[x]


@helper
def _judge(
    arrays: BatchArrays, strings: Strings, order: IntArray, tail: FloatMatrix, walk: Walk, first: int, threshold: float
) -> float:
    """The largest end + tail of a plan that is the current one before position ``first``."""
    for p in range(first, len(order)):
        walk.ends[order[p]] = -1.0
    copy(walk.free[first], walk.now)
    value = play(arrays, strings, order, first, walk.now, walk.end, tail, threshold)
    return float(max(value, walk.most[first]))


@helper
def _keep(order: IntArray, tail: FloatMatrix, walk: Walk, first: int) -> None:
    """Make the judged plan the current one."""
    devices = len(walk.now)
    for p in range(first, len(order)):
        ends = walk.kept[order[p]] = walk.ends[order[p]]
        copy(walk.free[p], walk.free[p + 1])
        walk.most[p + 1] = walk.most[p]
        if ends >= 0.0:
            i, u = order[p] // devices, order[p] % devices
            walk.free[p + 1, u] = ends
            walk.most[p + 1] = max(walk.most[p], ends + tail[i, u])


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
    arrays: BatchArrays, strings: Strings, i: int, draw: FloatArray, candidates: IntMatrix, string: IntArray
) -> None:
    """Write the string of operator i after a move."""
    granules, devices = len(string), arrays.seconds.shape[1]
    if draw[1] < ONE:
        string[int(draw[2] * granules)] = int(draw[3] * devices)
    elif draw[1] < SWAP:
        a, b = int(draw[2] * granules), int(draw[3] * granules)
        string[a], string[b] = string[b], string[a]
    elif draw[1] < BLOCK:
        for g in range(1 + int(draw[2] * granules)):
            string[(int(draw[3] * granules) + g) % granules] = int(draw[5] * devices)
    else:
        before = arrays.in_start[i + 1] - arrays.in_start[i]
        neighbours = before + arrays.out_start[i + 1] - arrays.out_start[i]
        pick = int(draw[2] * (neighbours + 1))
        if pick < before:
            copy(strings.where[arrays.source[arrays.incoming[arrays.in_start[i] + pick]]], string)
        elif pick < neighbours:
            copy(strings.where[arrays.target[arrays.out_start[i] + pick - before]], string)
        else:
            copy(candidates[int(draw[3] * len(candidates))], string)


@loop
def anneal(
    arrays: BatchArrays,
    where: IntMatrix,
    order: IntArray,
    tail: FloatMatrix,
    candidates: IntMatrix,
    draws: FloatMatrix,
    heat: FloatArray,
    best_where: IntMatrix,
    best_order: IntArray,
) -> tuple[float, float]:
    """Make one move for every row of ``draws`` (moves, DRAWS) at the temperatures ``heat`` (moves,).

    ``where`` and ``order`` hold the last plan afterwards, ``best_where`` and ``best_order`` the best. ``tail`` has the
    least time after the end of a batch, shape (operators, devices). Returns the largest end + tail of the best plan and
    of the last.
    """
    strings, nodes = new_strings(arrays, where), len(order)
    operators, devices = strings.number.shape
    ends = np.full(nodes, -1.0)
    end = ends.reshape(operators, devices)
    walk = Walk(np.zeros((nodes + 1, devices)), np.zeros(nodes + 1), ends.copy(), end, ends, np.zeros(devices))
    position = np.empty(nodes, dtype=np.int64)
    for p in range(nodes):
        position[order[p]] = p
    string, old = np.empty(where.shape[1], dtype=np.int64), np.empty(where.shape[1], dtype=np.int64)
    best = current = np.inf
    for m in range(-1, len(draws)):  # -1 judges the plan as it is
        at, to, first, i, threshold, possible = 0, 0, 0, 0, np.inf, True
        if m >= 0:
            draw, i = draws[m], int(draws[m, 0] * operators)
            threshold = current - heat[m] * np.log(max(draw[4], 1e-300))
            copy(strings.where[i], old)
            copy(old, string)
            if draw[1] >= COPY:
                at = position[i * devices + old[int(draw[2] * len(old))]]
                to = max(0, min(nodes - 1, at + int((2.0 * draw[3] - 1.0) * REACH * devices)))
                _slide(order, position, at, to)
                first, possible = min(at, to), at != to
            else:
                _draw(arrays, strings, i, draw, candidates, string)
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
                    copy(strings.where[h], best_where[h])
                copy(order, best_order)
        elif m >= 0:
            _slide(order, position, to, at)
            _spell(arrays, strings, i, old)
            for p in range(first, nodes if possible else first):
                walk.ends[order[p]] = walk.kept[order[p]]
    for h in range(operators):
        copy(strings.where[h], where[h])
    return best, current
