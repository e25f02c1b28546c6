"""Simulated annealing over assignments of operators to calls, compiled."""

from __future__ import annotations

import math

import numpy as np

from opweave.problems.arrays import FloatMatrix, IntArray
from opweave.solvers.compiled import kernel
from opweave.solvers.placement.blocking.arrays import CallArrays, makespan_of

DRAWS = 5
"""Random numbers for each move."""

NEARBY = 0.75
"""Share of moves to a place where a neighbour is."""

ALONE = 0.5
"""Share of moves of a single unit; others move all units of a place within a stretch of the order."""


@kernel
def anneal_calls(
    arrays: CallArrays,
    order: IntArray,
    members_start: IntArray,
    members: IntArray,
    near_start: IntArray,
    near: IntArray,
    where: IntArray,
    best: IntArray,
    hot: float,
    cold: float,
    draws: FloatMatrix,
    halt: IntArray,
) -> float:
    """Change ``where`` by as many moves as there are draws; return the makespan of ``best``, which it also changes.

    Parameters
    ----------
    order
        Units in an order that data allow.
    members
        Operators of every unit; a move keeps units together.
    near
        Units that exchange data with each unit.
    where, best
        Place of every operator, now and in the best assignment.
    hot, cold
        Temperature in seconds, at first and at last.
    draws
        Numbers between 0 and 1. Shape (moves, DRAWS).
    """
    calls, count = len(arrays.on), len(order)
    begin = np.zeros(len(where) + calls)
    now, least = makespan_of(arrays, where, begin), makespan_of(arrays, best, begin)
    before = where.copy()
    for step in range(len(draws)):
        if halt[0] != 0:
            break
        heat = hot * (cold / hot) ** (step / len(draws))
        position = int(draws[step, 0] * count)
        first = order[position]
        home = where[members[members_start[first]]]
        degree = near_start[first + 1] - near_start[first]
        if degree > 0 and draws[step, 1] < NEARBY:
            other = near[near_start[first] + int(draws[step, 1] / NEARBY * degree)]
            target = where[members[members_start[other]]]
        else:
            target = int(draws[step, 2] * (calls + 1))
        if target == home:
            continue
        length = 1
        if draws[step, 3] > ALONE:
            length = 1 + int(((draws[step, 3] - ALONE) / (1.0 - ALONE)) ** 3 * count)
        before[:] = where
        for i in range(position, min(count, position + length)):
            u = order[i]
            if where[members[members_start[u]]] == home:
                for e in range(members_start[u], members_start[u + 1]):
                    where[members[e]] = target
        value = makespan_of(arrays, where, begin)
        if value <= now or (value < math.inf and draws[step, 4] < math.exp(max(-700.0, (now - value) / heat))):
            now = value
            if value < least:
                least = value
                best[:] = where
        else:
            where[:] = before
    return least
