"""Exact depth-first search for offsets within a given height.

Storages are stacked from the bottom (:mod:`~opweave.solvers.memory_layout.stacking`).

If a space can be packed at all, it can be packed such that every storage lies at offset 0 or upon another one (as far
as alignment allows). So on the lowest ground of a part that no unplaced storage connects with others, a storage is
chosen, and either it lies on that ground, or upon another one that is not placed yet. Decisions that cannot have caused
a refutation are undone without trying their alternatives.

Source: the canonical orders and the inference on sections follow Moffitt, "MiniMalloc: A Lightweight Memory Allocator
for Hardware-Accelerated Machine Learning" (ASPLOS 2023).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray, IntMatrix
from opweave.solvers.kernels import in_pieces
from opweave.solvers.loops import helper, loop
from opweave.solvers.memory_layout.sections import AFTER, FIRST, Space
from opweave.solvers.memory_layout.stacking import (
    ANSWER,
    BAD_HIGH,
    BAD_LOW,
    CROSSING,
    DEPTH,
    EARLIEST,
    FAR,
    NODE,
    PLACED,
    REST,
    SECTION_ROWS,
    STARTING,
    TOP,
    Stack,
    empty_stack,
    foundation,
    postpone,
    put_down,
    settle,
    undo,
)

UNDECIDED = 0
FOUND = 1
REFUTED = 2
RESTING = 3
"""Answers; a search that rests can go on."""

FAILED, CHANGED, EXHAUSTED = 0, 1, 2
"""What a decision leads to: a refutation, changes to be carried on, or nothing, as a node has none left."""

STORAGE, TURN, LENGTH, BEGIN, BEHIND, BLAME_LOW, BLAME_HIGH = range(7)
"""Rows of a path's nodes: the storage, the number of decisions made, the length of the trail before the current one,
the sections that this is about, and those that explain the refutations of its decisions so far."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Answer of :func:`pack`: FOUND with offsets, REFUTED, or UNDECIDED, and the number of states visited."""

    answer: int
    offset: IntArray | None
    states: int


def pack(space: Space, height: int, rank: FloatArray, budget: int, should_stop: Callable[[], bool]) -> Decision:
    """Look for offsets such that all storages lie below ``height``.

    Parameters
    ----------
    space
        The storages.
    height
        Bytes.
    rank
        Storages of the least rank are placed first. Shape (storages,).
    budget
        Most states to visit.
    should_stop
        Asked now and then.

    Returns
    -------
    Decision
        Exact unless UNDECIDED.
    """
    answer, now = RESTING, empty_stack(space)
    nodes = np.empty((BLAME_HIGH + 1, 8 * (len(space.size) + space.sections) + 2), dtype=np.int64)

    def go_on(until: int) -> bool:
        nonlocal answer
        answer = stack(space, now, nodes, height, rank, until)
        return answer != RESTING

    over = in_pieces(go_on, budget, should_stop)
    return Decision(answer if over else UNDECIDED, now.offset if answer == FOUND else None, int(now.scalars[NODE]))


@helper
def _part(space: Space, now: Stack) -> tuple[int, int]:
    """Sections of the independent part with the fewest unplaced storages: from, to before; empty if all are placed."""
    members_start, values = space.members_start, now.values
    sections = len(members_start) - 1
    best_low, best_high, fewest = 0, 0, FAR
    low, storages = 0, 0
    for t in range(sections):
        if values[CROSSING * sections + t] == 0:
            low, storages = t, 0
        storages += values[STARTING * sections + t]
        last = t + 1 == sections or values[CROSSING * sections + t + 1] == 0
        if last and 0 < storages < fewest:
            best_low, best_high, fewest = low, t + 1, storages
    return best_low, best_high


@helper
def _next_storage(space: Space, now: Stack, low: int, high: int, rank: FloatArray) -> int:
    """The storage of the least rank among those that can lie on the lowest ground of some sections."""
    columns, values = space.columns, now.values
    sections, count = len(space.members_start) - 1, columns.shape[1]
    base = SECTION_ROWS * sections
    ground = FAR
    for t in range(low, high):
        if values[REST * sections + t] > 0:
            ground = min(ground, values[t])
    best = -1
    for j in range(count):
        if (
            values[base + PLACED * count + j] == 0
            and values[base + EARLIEST * count + j] == ground
            and low <= columns[FIRST, j]
            and columns[AFTER, j] <= high
            and (best < 0 or rank[j] < rank[best])
        ):
            best = j
    return best


@helper
def _decide(space: Space, now: Stack, nodes: IntMatrix, depth: int, height: int) -> int:
    """Make the next decision of a node: its storage is put down, or put off; none is left after that."""
    columns = space.columns
    now.scalars[NODE] += 1
    turn, j = nodes[TURN, depth], nodes[STORAGE, depth]
    nodes[TURN, depth] = turn + 1
    if turn == 0:
        nodes[BEGIN, depth], nodes[BEHIND, depth] = columns[FIRST, j], columns[AFTER, j]
        put_down(space, now, j, now.values[columns[FIRST, j]])
        return CHANGED
    if turn == 1:
        return CHANGED if postpone(space, now, j, height) else FAILED
    now.scalars[BAD_LOW], now.scalars[BAD_HIGH] = nodes[BLAME_LOW, depth], nodes[BLAME_HIGH, depth]
    return EXHAUSTED


@helper
def _go_back(now: Stack, nodes: IntMatrix, depth: int) -> int:
    """Undo decisions until one may be to blame for the refutation; return its depth, negative if there is none."""
    while depth >= 0:
        undo(now, nodes[LENGTH, depth])
        if now.scalars[BAD_LOW] < nodes[BEHIND, depth] and nodes[BEGIN, depth] < now.scalars[BAD_HIGH]:
            nodes[BLAME_LOW, depth] = min(nodes[BLAME_LOW, depth], now.scalars[BAD_LOW])
            nodes[BLAME_HIGH, depth] = max(nodes[BLAME_HIGH, depth], now.scalars[BAD_HIGH])
            break
        depth -= 1
    return depth


@loop
def stack(space: Space, now: Stack, nodes: IntMatrix, height: int, rank: FloatArray, until: int) -> int:
    """Depth-first search, from an empty stack or from where it rested; the stack has the offsets when found.

    It rests once it has visited ``until`` states in all.
    """
    depth, answer = now.scalars[DEPTH], now.scalars[ANSWER]
    while True:
        if answer == CHANGED:
            if settle(space, now, height):
                low, high = _part(space, now)
                if low == high:
                    return FOUND
                depth += 1
                if depth + 1 >= nodes.shape[1]:
                    return UNDECIDED
                j = _next_storage(space, now, low, high, rank)
                nodes[STORAGE, depth], nodes[TURN, depth], nodes[LENGTH, depth] = j, 0, now.scalars[TOP]
                nodes[BLAME_LOW, depth], nodes[BLAME_HIGH, depth] = foundation(space, now, j)
            else:
                answer = FAILED
        if answer != CHANGED:
            depth = _go_back(now, nodes, depth - 1 if answer == EXHAUSTED else depth)
            if depth < 0:
                return REFUTED
        if now.scalars[TOP] + len(now.values) > now.trail.shape[1]:
            return UNDECIDED
        if now.scalars[NODE] >= until:
            now.scalars[DEPTH], now.scalars[ANSWER] = depth, answer
            return RESTING
        answer = _decide(space, now, nodes, depth, height)
