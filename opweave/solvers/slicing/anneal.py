"""Simulated annealing over cuts, compiled; only operators affected by a move are timed again.

A move takes a run of operators and shifts one of their cuts, copies the shares of an earlier operator, removes a
device, gives all work to one device, divides it among some devices by their speed over the whole run, or flips the
dimension. Equal shares along a run matter: where they differ from one operator to the next, rows move between devices.
The acceptance threshold is drawn before a move is judged.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, FloatCube, FloatMatrix, IntArray, IntMatrix
from opweave.solvers.loops import helper, loop
from opweave.solvers.slicing.arrays import LENGTH, WHOLE, SlicingArrays, operator_seconds
from opweave.solvers.slicing.memory import Memory, accept, proposed_excess

DRAWS = 7
"""Random numbers drawn for each move."""

SHORT = 5
"""Power of the random number that draws a run's length: most runs are short, because long ones take long to judge."""


@helper
def recut(ops: IntMatrix, v: int, mode_v: int, weights: FloatArray, mode: IntArray, cuts: IntMatrix) -> None:
    """Cut operator v by weights along a mode, or its only one; a whole operator goes to the largest weight."""
    total, heaviest = 0.0, 0
    for k in range(len(weights)):
        total += weights[k]
        heaviest = k if weights[k] > weights[heaviest] else heaviest
    if total <= 0.0:
        return  # nobody is left to take part
    if ops[v, WHOLE] == 1:
        for k in range(len(weights)):
            cuts[v, k + 1] = 1 if k >= heaviest else 0
        return
    if ops[v, LENGTH + mode_v] == 0:
        mode_v = 1 - mode_v
    mode[v] = mode_v
    length = ops[v, LENGTH + mode_v]
    reached = 0.0
    for k in range(len(weights)):
        reached += weights[k]
        cuts[v, k + 1] = int(reached / total * length + 0.5)
    cuts[v, len(weights)] = length


@helper
def _shift(ops: IntMatrix, v: int, k: int, delta: int, cuts: IntMatrix) -> None:
    """Move the cut before device k (1 or more) as far as its neighbours allow."""
    if ops[v, WHOLE] == 1:
        for i in range(cuts.shape[1] - 1):
            cuts[v, i + 1] = 1 if i >= (k if delta > 0 else k - 1) else 0
        return
    cuts[v, k] = min(max(cuts[v, k] + delta, cuts[v, k - 1]), cuts[v, k + 1])


@helper
def _parts(v: int, cuts: IntMatrix, weights: FloatArray) -> None:
    for k in range(len(weights)):
        weights[k] = float(cuts[v, k + 1] - cuts[v, k])


@helper
def _run_speeds(
    ops: IntMatrix, times: FloatCube, low: int, high: int, chosen: int, mode: IntArray, speeds: FloatArray
) -> None:
    """Speeds over the operators low to high - 1 of the devices with bits set in ``chosen``; 0 for the others."""
    for k in range(len(speeds)):
        seconds = 1e-30
        for v in range(low, high):
            if times[v, 0, k] < np.inf:
                seconds += times[v, 0, k] + times[v, 1 + mode[v], k] * ops[v, LENGTH + mode[v]]
        speeds[k] = 1.0 / seconds if (chosen >> k) & 1 == 1 else 0.0


@helper
def _allowed(times: FloatCube, v: int, speeds: FloatArray, weights: FloatArray) -> None:
    """The speeds of the devices that operator v may use; equal weights of all of them if no such device has a speed."""
    total = 0.0
    for k in range(len(weights)):
        weights[k] = speeds[k] if times[v, 0, k] < np.inf else 0.0
        total += weights[k]
    for k in range(len(weights) if total == 0.0 else 0):
        weights[k] = 1.0 if times[v, 0, k] < np.inf else 0.0


@helper
def _move(
    ops: IntMatrix,
    times: FloatCube,
    low: int,
    high: int,
    draws: FloatMatrix,
    move: int,
    mode: IntArray,
    cuts: IntMatrix,
    weights: FloatArray,
    speeds: FloatArray,
) -> None:
    """Change the operators low to high - 1."""
    devices, kind, amount = len(weights), draws[move, 2], draws[move, 4]
    k = int(draws[move, 3] * devices)
    inner = 1 + int(draws[move, 3] * (devices - 1)) if devices > 1 else 0
    chosen = 1 + int(amount * ((1 << devices) - 1))
    source = max(low - 1, 0) if amount < 0.5 else int((amount - 0.5) * 2 * len(mode))
    copied = mode[source]
    if kind < 0.75 and kind >= 0.6:
        _parts(source, cuts, weights)
    elif kind < 0.85 and kind >= 0.75:
        _run_speeds(ops, times, low, high, chosen if kind < 0.8 else 1 << k, mode, speeds)
    for v in range(low, high):
        if kind < 0.35:
            if devices > 1:
                step = 1 + int(amount * 2) if draws[move, 6] < 0.5 else -1 - int(amount * 2)
                _shift(ops, v, inner, step, cuts)
        elif kind < 0.6:
            if devices > 1:
                step = int(np.round((amount - 0.5) * 0.3 * ops[v, LENGTH + mode[v]]))
                _shift(ops, v, inner, step if step != 0 else 1, cuts)
        elif kind < 0.75:
            recut(ops, v, copied if ops[source, WHOLE] == 0 else mode[v], weights, mode, cuts)
        elif kind < 0.85:
            _allowed(times, v, speeds, weights)
            recut(ops, v, mode[v], weights, mode, cuts)
        else:
            _parts(v, cuts, weights)
            flipped = 1 - mode[v]
            if kind < 0.95:
                weights[k] = 0.0
                flipped = mode[v]
            recut(ops, v, flipped, weights, mode, cuts)


@helper
def _affected(
    starts: IntArray, consumers: IntArray, low: int, high: int, move: int, stamp: IntArray, touched: IntArray
) -> int:
    """Write the operators low to high - 1 and their consumers to ``touched``, each once; return their number."""
    size = 0
    for v in range(low, high):
        for i in range(-1, starts[v + 1] - starts[v]):
            w = v if i < 0 else consumers[starts[v] + i]
            if stamp[w] != move:
                stamp[w] = move
                touched[size] = w
                size += 1
    return size


@helper
def _copy(mode: IntArray, cuts: IntMatrix, to_mode: IntArray, to_cuts: IntMatrix, low: int, high: int) -> None:
    """Copy the plan of the operators low to high - 1."""
    for v in range(low, high):
        to_mode[v] = mode[v]
        for k in range(cuts.shape[1]):
            to_cuts[v, k] = cuts[v, k]


@helper
def _timed(
    arrays: SlicingArrays,
    touched: IntArray,
    size: int,
    mode: IntArray,
    cuts: IntMatrix,
    ends: FloatArray,
    seconds: FloatArray,
    old_seconds: FloatArray,
    total: float,
) -> float:
    """Time the first ``size`` operators of ``touched`` again, and return the new total; their old times are kept."""
    ops, flows, times, links, reading = arrays.ops, arrays.flows, arrays.times, arrays.links, arrays.reading
    for i in range(size):
        w = touched[i]
        old_seconds[i] = seconds[w]
        seconds[w] = operator_seconds(ops, flows, times, links, reading, w, mode, cuts, ends)
        total += seconds[w] - old_seconds[i]
    return total


class Scratch(NamedTuple):
    """Memory for :func:`anneal`: of devices, of operators, and the plan before a move.

    ``touched`` are the operators that a move changes, and ``stamp`` is the last move that did.
    """

    weights: FloatArray
    speeds: FloatArray
    ends: FloatArray
    seconds: FloatArray
    old_seconds: FloatArray
    old_mode: IntArray
    old_cuts: IntMatrix
    stamp: IntArray
    touched: IntArray


def scratch_for(mode: IntArray, cuts: IntMatrix) -> Scratch:
    """Memory for annealing a plan."""
    count, devices = len(mode), cuts.shape[1] - 1
    stamp, touched = np.full(count, -1, dtype=np.int64), np.arange(count)
    weights, speeds, ends = np.zeros((3, devices))
    seconds, old_seconds = np.zeros((2, count))
    return Scratch(weights, speeds, ends, seconds, old_seconds, mode.copy(), cuts.copy(), stamp, touched)


@loop
def anneal(
    arrays: SlicingArrays,
    penalty: float,
    draws: FloatMatrix,
    heat: FloatArray,
    mode: IntArray,
    cuts: IntMatrix,
    best_mode: IntArray,
    best_cuts: IntMatrix,
    memory: Memory,
    scratch: Scratch,
) -> float:
    """Anneal in place; the best legal plan is written to ``best_mode`` and ``best_cuts``, which begin as zeros.

    Parameters
    ----------
    penalty
        Penalty in seconds for a byte over memory; negative when nothing is limited.
    draws, heat
        Random numbers in [0, 1), shape (moves, DRAWS), and the temperature of every move in seconds.
    memory, scratch
        Those of a plan in which no device has a part, and of the plan.

    Returns
    -------
    float
        Latency of the best legal plan; inf when there is none.
    """
    count = len(mode)
    ops, starts, consumers = arrays.ops, arrays.consumers_start, arrays.consumers
    weights, speeds, ends, seconds, old_seconds, old_mode, old_cuts, stamp, touched = scratch
    total = _timed(arrays, touched, count, mode, cuts, ends, seconds, old_seconds, 0.0)
    limited, over = penalty >= 0.0, 0.0
    size, low, high = count, count - len(mode), count  # not a plain 0, for which numba compiles all helpers again
    if limited:
        over = proposed_excess(arrays, memory, low, high, touched, size, mode, best_cuts, mode, cuts)
        accept(memory, low, high)
    current = total + max(penalty, 0.0) * over
    best = np.inf
    if over == 0.0:
        best = total
        _copy(mode, cuts, best_mode, best_cuts, low, high)
    for move in range(len(draws)):
        threshold = current - heat[move] * np.log(max(draws[move, 5], 1e-300))
        low = int(draws[move, 0] * count)
        high = min(count, low + int(np.exp(draws[move, 1] ** SHORT * np.log(count + 1.0))))
        high = max(high, low + 1)
        _move(ops, arrays.times, low, high, draws, move, mode, cuts, weights, speeds)
        size = _affected(starts, consumers, low, high, move, stamp, touched)
        after = _timed(arrays, touched, size, mode, cuts, ends, seconds, old_seconds, total)
        value = after
        excess = 0.0
        if limited and value <= threshold:
            excess = proposed_excess(arrays, memory, low, high, touched, size, old_mode, old_cuts, mode, cuts)
            value += penalty * excess
        if value <= threshold:
            total, current = after, value
            if limited:
                accept(memory, low, high)
            _copy(mode, cuts, old_mode, old_cuts, low, high)
            if excess == 0.0 and total < best:
                best = total
                _copy(mode, cuts, best_mode, best_cuts, 0, count)
            continue
        _copy(old_mode, old_cuts, mode, cuts, low, high)
        for i in range(size):
            seconds[touched[i]] = old_seconds[i]
    return best
