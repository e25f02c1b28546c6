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
    count_all,
    move_granule,
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
    position
        Place of every node in the order. Shape (nodes,).
    string, old
        The string of one operator after a move and before. Shape (G,).
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


def new_walk(arrays: BatchArrays, granules: int) -> Walk:
    """Memory for :func:`anneal`."""
    operators, devices = arrays.seconds.shape[:2]
    nodes = operators * devices
    kept, ends = np.full((2, nodes), -1.0)
    position, (string, old) = np.empty(nodes, np.int64), np.empty((2, granules), dtype=np.int64)
    free, end = np.zeros((nodes + 1, devices)), ends.reshape(operators, devices)
    return Walk(free, np.zeros(nodes + 1), kept, end, ends, np.zeros(devices), position, string, old)


@helper
def _write(rows: IntMatrix, row: int, target: IntArray) -> None:
    """Write a row into the target; it compiles faster than a slice."""
    for x in range(len(target)):
        target[x] = rows[row, x]


@helper
def _judge(
    arrays: BatchArrays, strings: Strings, order: IntArray, tail: FloatMatrix, walk: Walk, first: int, threshold: float
) -> float:
    """The largest end + tail of a plan that is the current one before position ``first``."""
    free, now, ends = walk.free, walk.now, walk.ends
    for p in range(first, len(order)):
        ends[order[p]] = -1.0
    for u in range(len(now)):
        now[u] = free[first, u]
    value = play(arrays, strings, order, first, now, walk.end, tail, threshold)
    return float(max(value, walk.most[first]))


@helper
def _keep(order: IntArray, tail: FloatMatrix, walk: Walk, first: int) -> None:
    """Make the judged plan the current one."""
    devices, free, most, kept, judged = len(walk.now), walk.free, walk.most, walk.kept, walk.ends
    for p in range(first, len(order)):
        ends = kept[order[p]] = judged[order[p]]
        for u in range(devices):
            free[p + 1, u] = free[p, u]
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
        before = arrays.in_start[i + 1] - arrays.in_start[i]
        neighbours = before + arrays.out_start[i + 1] - arrays.out_start[i]
        pick = int(draws[m, 2] * (neighbours + 1))
        if pick == neighbours:
            _write(candidates, int(draws[m, 3] * len(candidates)), string)
        elif pick < before:
            _write(where, arrays.source[arrays.incoming[arrays.in_start[i] + pick]], string)
        else:
            _write(where, arrays.target[arrays.out_start[i] + pick - before], string)


@loop
def anneal(
    arrays: BatchArrays,
    strings: Strings,
    order: IntArray,
    tail: FloatMatrix,
    candidates: IntMatrix,
    draws: FloatMatrix,
    heat: FloatArray,
    best_where: IntMatrix,
    best_order: IntArray,
    walk: Walk,
) -> tuple[float, float]:
    """Make one move for every row of ``draws`` (moves, DRAWS) at the temperatures ``heat`` (moves,).

    ``strings``, which count nothing yet, and ``order`` hold the last plan afterwards, ``best_where`` and ``best_order``
    the best. ``tail`` has the least time after the end of a batch, shape (operators, devices). Returns the largest
    end + tail of the best plan and of the last, inf if there is none. Without moves, the plan is judged as it is.
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
                        best_where[h, g] = where[h, g]
                for p in range(nodes):
                    best_order[p] = order[p]
        elif m >= 0:
            _slide(order, position, to, at)
            _spell(arrays, strings, i, old)
            for p in range(first, nodes if possible else first):
                walk.ends[order[p]] = walk.kept[order[p]]
    return best, current
