"""Simulated annealing over assignments of operators to calls, compiled."""

from __future__ import annotations

import math

import numpy as np

from opweave.problems.arrays import FloatArray, FloatMatrix, IntArray
from opweave.solvers.loops import helper, loop
from opweave.solvers.placement.blocking.arrays import CallArrays, makespan_of

DRAWS = 5
"""Random numbers for each move."""

NEARBY = 0.75
"""Share of moves to a place where a neighbour is."""

ALONE = 0.5
"""Share of moves of a single unit; others move all units of a place within a stretch of the order."""


@helper
def drawn_place(draw: FloatArray, near: IntArray, members_start: IntArray, members: IntArray, where: IntArray) -> int:
    """The place of a random neighbour; -1 if any place will do."""
    if len(near) == 0 or draw[1] >= NEARBY:
        return -1
    other = near[int(draw[1] / NEARBY * len(near))]
    return int(where[members[members_start[other]]])


@helper
def move(
    draw: FloatArray,
    order: IntArray,
    position: int,
    target: int,
    members_start: IntArray,
    members: IntArray,
    where: IntArray,
) -> None:
    """Move the unit at a position, or all units of its place in the stretch of the order that begins there."""
    count, length = len(order), 1
    home = where[members[members_start[order[position]]]]
    if draw[3] > ALONE:
        length = 1 + int(((draw[3] - ALONE) / (1.0 - ALONE)) ** 3 * count)
    for i in range(position, min(count, position + length)):
        u = order[i]
        if where[members[members_start[u]]] == home:
            for e in range(members_start[u], members_start[u + 1]):
                where[members[e]] = target


@loop
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
        target = drawn_place(
            draws[step], near[near_start[first] : near_start[first + 1]], members_start, members, where
        )
        target = int(draws[step, 2] * (calls + 1)) if target < 0 else target
        if target == home:
            continue
        before[:] = where
        move(draws[step], order, position, target, members_start, members, where)
        value = makespan_of(arrays, where, begin)
        if value <= now or (value < math.inf and draws[step, 4] < math.exp(max(-700.0, (now - value) / heat))):
            now = value
            if value < least:
                least = value
                best[:] = where
        else:
            where[:] = before
    return least
