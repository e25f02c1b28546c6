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
from opweave.solvers.slicing.arrays import (
    CONSUMERS,
    CONSUMERS_END,
    CUT,
    LENGTH,
    MODE,
    WHOLE,
    SlicingArrays,
    operator_seconds,
)
from opweave.solvers.slicing.memory import RunningBytes, accept, proposed_excess

DRAWS = 7
"""Random numbers drawn for each move."""

SHORT = 5
"""Power of the random number that draws a run's length: most runs are short, because long ones take long to judge."""


SHORTEST, SHIFT, COPY, SPEED, REMOVE = 0.35, 0.6, 0.75, 0.85, 0.95
"""Cumulative shares of the moves: short and long shifts, copies, devices by speed, and one device less; the others flip
the dimension."""


class SlicingState(NamedTuple):
    """A plan, the plan before a move, the best legal one, and memory: of devices, and of operators.

    ``touched`` are the operators that a move changes, and ``stamp`` is the last move that did.
    """

    plan: IntMatrix
    old: IntMatrix
    best: IntMatrix
    weights: FloatArray
    ends: FloatArray
    seconds: FloatArray
    old_seconds: FloatArray
    stamp: IntArray
    touched: IntArray


def state_of(plan: IntMatrix) -> SlicingState:
    """The state before a plan is judged: no device has a part yet."""
    count, devices = len(plan), plan.shape[1] - 2
    weights, ends = np.zeros((2, devices))
    seconds, old_seconds = np.zeros((2, count))
    stamp, touched = np.full(count, -2, dtype=np.int64), np.zeros(count, dtype=np.int64)
    old = plan * (np.arange(plan.shape[1]) < CUT)
    return SlicingState(plan.copy(), old, np.zeros_like(plan), weights, ends, seconds, old_seconds, stamp, touched)


@helper
def _recut(ops: IntMatrix, times: FloatCube, v: int, wanted: int, weights: FloatArray, plan: IntMatrix) -> None:
    """Cut operator v by the weights of its devices along a mode, or its only one; a whole one goes to the largest."""
    total, heaviest = 0.0, 0
    for k in range(len(weights)):
        if times[v, 0, k] == np.inf:
            weights[k] = 0.0
        total += weights[k]
        heaviest = k if weights[k] > weights[heaviest] else heaviest
    if total <= 0.0:
        return  # nobody is left to take part
    whole = ops[v, WHOLE] == 1
    if not whole:
        plan[v, MODE] = wanted if ops[v, LENGTH + wanted] > 0 else 1 - wanted
    length, reached = ops[v, LENGTH + plan[v, MODE]], 0.0
    for k in range(len(weights)):
        reached += weights[k]
        plan[v, CUT + k + 1] = (k >= heaviest) if whole else int(reached / total * length + 0.5)
    plan[v, CUT + len(weights)] = 1 if whole else length


@helper
def _run_speed(ops: IntMatrix, times: FloatCube, low: int, high: int, k: int, plan: IntMatrix) -> float:
    """Speed of a device over the operators low to high - 1."""
    seconds = 1e-30
    for v in range(low, high):
        if times[v, 0, k] < np.inf:
            seconds += times[v, 0, k] + times[v, 1 + plan[v, MODE], k] * ops[v, LENGTH + plan[v, MODE]]
    return 1.0 / seconds


@helper
def _move(
    ops: IntMatrix,
    times: FloatCube,
    low: int,
    high: int,
    draws: FloatMatrix,
    move: int,
    plan: IntMatrix,
    weights: FloatArray,
    speeds: FloatArray,
) -> None:
    """Change the operators low to high - 1."""
    devices, kind, amount = len(weights), draws[move, 2], draws[move, 4]
    k, some = int(draws[move, 3] * devices), 1 + int(amount * ((1 << devices) - 1))
    if kind >= COPY and kind < SPEED:
        for u in range(devices):
            speeds[u] = _run_speed(ops, times, low, high, u, plan) if (some >> u) & 1 == 1 else 0.0
    for v in range(low, high):
        wanted, source = plan[v, MODE], v
        if kind < SHIFT:
            if devices > 1 and ops[v, WHOLE] == 0:
                at = CUT + 1 + int(draws[move, 3] * (devices - 1))
                step = 1 + int(amount * (2.0 if kind < SHORTEST else 0.15 * ops[v, LENGTH + wanted]))
                cut = plan[v, at] + (step if draws[move, 6] < 0.5 else -step)
                plan[v, at] = min(max(cut, plan[v, at - 1]), plan[v, at + 1])
            continue
        if kind < COPY:
            source = max(low - 1, 0) if amount < 0.5 else int((amount - 0.5) * 2 * len(plan))
            wanted = wanted if ops[source, WHOLE] == 1 else plan[source, MODE]
        by_speed = kind >= COPY and kind < SPEED
        for u in range(devices):
            weights[u] = speeds[u] if by_speed else float(plan[source, CUT + u + 1] - plan[source, CUT + u])
        if kind >= REMOVE:
            wanted = 1 - wanted
        elif kind >= SPEED:
            weights[k] = 0.0
        _recut(ops, times, v, wanted, weights, plan)


@helper
def _copy(plan: IntMatrix, to: IntMatrix, low: int, high: int) -> None:
    """Copy the plan of the operators low to high - 1."""
    for v in range(low, high):
        for k in range(plan.shape[1]):
            to[v, k] = plan[v, k]


@loop
def anneal(
    arrays: SlicingArrays, penalty: float, draws: FloatMatrix, heat: FloatArray, now: SlicingState, memory: RunningBytes
) -> float:
    """Judge a plan, and anneal it in place.

    Parameters
    ----------
    penalty
        Penalty in seconds for a byte over memory; negative when nothing is limited.
    draws, heat
        Random numbers in [0, 1), shape (moves, DRAWS), and the temperature of every move in seconds.
    now, memory
        Those of a plan in which no device has a part yet.

    Returns
    -------
    float
        Latency of the best legal plan; inf when there is none.
    """
    ops, flows, times, links, consumers = arrays.ops, arrays.flows, arrays.times, arrays.links, arrays.consumers
    plan, old, seconds, old_seconds, touched = now.plan, now.old, now.seconds, now.old_seconds, now.touched
    count, best, total, current = len(plan), np.inf, 0.0, 0.0
    zero = count - len(seconds)  # not a plain 0, for which numba compiles helpers again
    for move in range(-1, len(draws)):  # -1 judges the plan as it is
        low, high, size, after, threshold = zero, count, zero, total, np.inf
        if move >= 0:
            threshold = current - heat[move] * np.log(max(draws[move, 5], 1e-300))
            low = int(draws[move, 0] * count)
            high = min(count, low + max(1, int(np.exp(draws[move, 1] ** SHORT * np.log(count + 1.0)))))
            _move(ops, times, low, high, draws, move, plan, now.weights, now.ends)
        for v in range(low, high):
            for i in range(ops[v, CONSUMERS] - 1, ops[v, CONSUMERS_END]):
                w = v if i < ops[v, CONSUMERS] else consumers[i]
                if now.stamp[w] != move:
                    now.stamp[w], touched[size], old_seconds[size] = move, w, seconds[w]
                    seconds[w] = operator_seconds(ops, flows, times, links, w, plan, now.ends)
                    after += seconds[w] - old_seconds[size]
                    size += 1
        value, excess = after, 0.0
        if penalty >= 0.0 and value <= threshold:
            excess = proposed_excess(arrays, memory, low, high, touched, size, old, plan)
            value += penalty * excess
        if value > threshold:
            _copy(old, plan, low, high)
            for i in range(size):
                seconds[touched[i]] = old_seconds[i]
            continue
        total, current = after, value
        accept(memory)
        _copy(plan, old, low, high)
        if excess == 0.0 and total < best:
            best = total
            _copy(plan, now.best, zero, count)
    return best
