"""Exact depth-first search for offsets within a given height.

Storages are stacked from the bottom (:mod:`~opweave.solvers.memory_layout.stacking`).

If a space can be packed at all, it can be packed such that every storage lies at offset 0 or upon another one (as far
as alignment allows). So on the lowest ground of a part that no unplaced storage connects with others, some section is
chosen, and either one of its unplaced storages lies on that ground, or the ground rises to the next offset at which one
of them can lie upon another storage. Or a storage is chosen, and either it lies on that ground, or upon another one
that is not placed yet. Decisions that cannot have caused a refutation are undone without trying their alternatives.

Source: the canonical orders and the inference on sections follow Moffitt, "MiniMalloc: A Lightweight Memory Allocator
for Hardware-Accelerated Machine Learning" (ASPLOS 2023).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray, IntMatrix
from opweave.solvers.kernels import in_pieces
from opweave.solvers.loops import helper, loop
from opweave.solvers.memory_layout.sections import AFTER, ALIGNMENT, FIRST, SIZE, Choice, Space
from opweave.solvers.memory_layout.stacking import (
    ANSWER,
    BAD_HIGH,
    BAD_LOW,
    CROSSING,
    DEPTH,
    EARLIEST,
    FAR,
    HIGH,
    LOW,
    LOWEST,
    NODE,
    PLACED,
    REST,
    SECTION_ROWS,
    STARTING,
    TOP,
    WHY_HIGH,
    WHY_LOW,
    Stack,
    empty_stack,
    foundation,
    postpone,
    put_down,
    put_why,
    settle,
    undo,
    wake,
)

UNDECIDED = 0
FOUND = 1
REFUTED = 2

LONGEST_POOL = 1 << 24
"""Most possibilities on a path. Only what is used takes memory."""

RESTING = 3
"""What a search that is not over answers."""

FAILED, CHANGED, EXHAUSTED = 0, 1, 2
"""What a decision leads to: a refutation, changes to be carried on, or nothing, as a node has none left."""


@dataclass(frozen=True, slots=True)
class Packing:
    """Answer of :func:`pack`: FOUND with offsets, REFUTED, or UNDECIDED, and the number of states visited."""

    answer: int
    offset: IntArray | None
    states: int


SECTION, BEGINNING, FOLLOWING, END, LENGTH, BEGIN, BEHIND, BLAME_LOW, BLAME_HIGH = range(9)
"""Rows of a path's nodes."""


class _Path(NamedTuple):
    """The nodes from the first decision on.

    Attributes
    ----------
    pool
        The possibilities of all nodes.
    nodes
        Of every node, in the rows named above: its section; where its possibilities begin in the pool, where those that
        are not tried yet begin, and where they end; the length of the trail before its current decision; the sections
        that this is about; and those that explain the refutations of its decisions so far.
    """

    pool: IntArray
    nodes: IntMatrix


def pack(space: Space, height: int, choice: Choice, budget: int, should_stop: Callable[[], bool]) -> Packing:
    """Look for offsets such that all storages lie below ``height``.

    Parameters
    ----------
    space
        The storages.
    height
        Bytes.
    choice
        What to branch on, and which storages to place first.
    budget
        Most states to visit.
    should_stop
        Asked now and then.

    Returns
    -------
    Decision
        Exact unless UNDECIDED.
    """
    count, answer = len(space.size), RESTING
    deep = 8 * (count + space.sections) + 2
    now, path = empty_stack(space, choice.blame), _empty_path(deep, min(LONGEST_POOL, deep * count + 1))

    def go_on(until: int) -> bool:
        nonlocal answer
        answer = stack(space, now, path, height, choice.rank, choice.branching, until)
        return answer != RESTING

    over = in_pieces(go_on, budget, should_stop)
    return Packing(answer if over else UNDECIDED, now.offset if answer == FOUND else None, int(now.scalars[NODE]))


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
def _branching(space: Space, now: Stack, low: int, high: int, height: int, rank: FloatArray) -> tuple[int, int]:
    """The section to branch on, and the storage that would be placed on the lowest ground first.

    Of its sections, the one with the fewest possibilities for its blame is chosen, or else the least space to spare.
    """
    columns = space.columns
    members_start = space.members_start
    values, blame = now.values, now.blame
    sections = len(members_start) - 1
    count = columns.shape[1]
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
    chosen, fewest, least = -1, np.inf, FAR
    for t in range(columns[FIRST, best], columns[AFTER, best]):
        lowest = values[LOWEST * sections + t] / blame[t]
        spare = height - ground - values[REST * sections + t]
        if lowest < fewest or (lowest == fewest and spare < least):
            chosen, fewest, least = t, lowest, spare
    return chosen, best


@helper
def _possible(space: Space, now: Stack, t: int, rank: FloatArray, pool: IntArray, used: int) -> int:
    """Write the storages that may lie on the ground of section t to ``pool[used:]``, by rank; return their number.

    Of storages that are alike, only the first is written. Where two with the same sections lie upon each other, the one
    listed first is to be below.
    """
    columns = space.columns
    members_start, members = space.members_start, space.members
    kin_start, kin, values, offset = space.kin_start, space.kin, now.values, now.offset
    sections = len(members_start) - 1
    count = columns.shape[1]
    base = SECTION_ROWS * sections
    ground = values[t]
    added = 0
    for k in range(members_start[t], members_start[t + 1]):
        j = members[k]
        if values[base + PLACED * count + j] != 0 or values[base + EARLIEST * count + j] != ground:
            continue
        wanted = True
        for m in range(kin_start[j], kin_start[j + 1]):
            i = kin[m]
            if values[base + PLACED * count + i] == 0:
                wanted = wanted and not (columns[SIZE, i] == columns[SIZE, j] and i < j)
            elif offset[i] + columns[SIZE, i] == ground:
                wanted = wanted and (i < j or columns[SIZE, j] % columns[ALIGNMENT, j] != 0)
        if wanted:
            place = used + added
            while place > used and rank[pool[place - 1]] > rank[j]:
                pool[place] = pool[place - 1]
                place -= 1
            pool[place] = j
            added += 1
    return added


@helper
def _next_offset(space: Space, now: Stack, t: int) -> int:
    """The least offset above the ground of section t at which the lowest of its unplaced storages can lie."""
    columns = space.columns
    members_start, members = space.members_start, space.members
    values = now.values
    count = columns.shape[1]
    base = SECTION_ROWS * (len(members_start) - 1)
    ground = values[t]
    least = FAR
    first, after = t, t + 1
    for k in range(members_start[t], members_start[t + 1]):
        j = members[k]
        if values[base + PLACED * count + j] == 0:
            earliest = values[base + EARLIEST * count + j]
            if earliest > ground:
                least = min(least, earliest)
            else:
                first, after = min(first, columns[FIRST, j]), max(after, columns[AFTER, j])
    for i in range(count):
        beside = first < columns[AFTER, i] <= t or t < columns[FIRST, i] < after
        if beside and values[base + PLACED * count + i] == 0:
            least = min(least, ground + columns[SIZE, i])
    return least


@helper
def _explain_branching(space: Space, now: Stack, t: int, whole: bool) -> None:
    """Widen the refutation by what limited the possibilities at section t."""
    columns = space.columns
    members_start, members = space.members_start, space.members
    scalars, values = now.scalars, now.values
    sections = len(members_start) - 1
    count = columns.shape[1]
    base = SECTION_ROWS * sections
    low, high = min(t, scalars[BAD_LOW]), max(t + 1, scalars[BAD_HIGH])
    first, after = t, t + 1
    for k in range(members_start[t], members_start[t + 1]):
        j = members[k]
        if values[base + PLACED * count + j] == 0:
            low = min(low, values[base + WHY_LOW * count + j])
            high = max(high, values[base + WHY_HIGH * count + j])
            first, after = min(first, columns[FIRST, j]), max(after, columns[AFTER, j])
    if whole:  # what can lie under one of them
        for s in range(first, after):
            low = min(low, values[LOW * sections + s])
            high = max(high, values[HIGH * sections + s])
    scalars[BAD_LOW] = low
    scalars[BAD_HIGH] = high


def _empty_path(deep: int, possibilities: int) -> _Path:
    return _Path(np.empty(possibilities, dtype=np.int64), np.empty((BLAME_HIGH + 1, deep), dtype=np.int64))


@helper
def _open(
    space: Space, now: Stack, path: _Path, depth: int, low: int, high: int, height: int, rank: FloatArray, way: int
) -> None:
    """Begin a node about an independent part."""
    nodes = path.nodes
    t, best = _branching(space, now, low, high, height, rank)
    used = 0 if depth == 0 else nodes[END, depth - 1]
    nodes[SECTION, depth], nodes[BEGINNING, depth], nodes[FOLLOWING, depth] = t, used, used
    nodes[LENGTH, depth] = now.scalars[TOP]
    if way == 1:
        path.pool[used] = best
        nodes[END, depth] = used + 1
        nodes[BLAME_LOW, depth], nodes[BLAME_HIGH, depth] = foundation(space, now, best)
    else:
        nodes[END, depth] = used + _possible(space, now, t, rank, path.pool, used)
        nodes[BLAME_LOW, depth], nodes[BLAME_HIGH, depth] = t, t + 1


@helper
def _raise_ground(space: Space, now: Stack, path: _Path, depth: int, height: int) -> int:
    """Nothing lies on the ground of the node's section: raise it."""
    nodes = path.nodes
    values, scalars, stamp, trail, waits, queue = now.values, now.scalars, now.stamp, now.trail, now.waits, now.queue
    sections = len(space.members_start) - 1
    t = nodes[SECTION, depth]
    ground = values[t]
    spare = height - ground - values[REST * sections + t]
    raised = _next_offset(space, now, t) if spare > 0 else FAR
    if raised - ground > spare:
        return EXHAUSTED
    scalars[BAD_LOW], scalars[BAD_HIGH] = t, t + 1
    _explain_branching(space, now, t, True)
    nodes[BEGIN, depth], nodes[BEHIND, depth] = t, t + 1
    put_why(values, stamp, trail, scalars, t, sections, raised, scalars[BAD_LOW], scalars[BAD_HIGH])
    wake(waits, queue, scalars, t)
    return CHANGED


@helper
def _decide(space: Space, now: Stack, path: _Path, depth: int, height: int, way: int) -> int:
    """Make the next decision of a node; if it has none left, explain that it is refuted."""
    columns, nodes = space.columns, path.nodes
    sections = len(space.members_start) - 1
    t = nodes[SECTION, depth]
    now.scalars[NODE] += 1
    turn = nodes[FOLLOWING, depth]
    nodes[FOLLOWING, depth] = turn + 1
    if turn < nodes[END, depth]:
        j = path.pool[turn]
        nodes[BEGIN, depth], nodes[BEHIND, depth] = columns[FIRST, j], columns[AFTER, j]
        put_down(space, now, j, now.values[t])
        return CHANGED
    spare = height - now.values[t] - now.values[REST * sections + t]
    if turn == nodes[END, depth]:
        if way == 1:
            return CHANGED if postpone(space, now, path.pool[turn - 1], height) else FAILED
        answer = _raise_ground(space, now, path, depth, height)
        if answer != EXHAUSTED:
            return answer
    now.scalars[BAD_LOW], now.scalars[BAD_HIGH] = nodes[BLAME_LOW, depth], nodes[BLAME_HIGH, depth]
    if way == 0:
        _explain_branching(space, now, t, spare > 0)
    return EXHAUSTED


@helper
def _go_back(now: Stack, path: _Path, depth: int) -> int:
    """Undo decisions until one may be to blame for the refutation; return its depth, negative if there is none."""
    nodes = path.nodes
    while depth >= 0:
        undo(now, nodes[LENGTH, depth])
        if now.scalars[BAD_LOW] < nodes[BEHIND, depth] and nodes[BEGIN, depth] < now.scalars[BAD_HIGH]:
            nodes[BLAME_LOW, depth] = min(nodes[BLAME_LOW, depth], now.scalars[BAD_LOW])
            nodes[BLAME_HIGH, depth] = max(nodes[BLAME_HIGH, depth], now.scalars[BAD_HIGH])
            break
        depth -= 1
    return depth


@loop
def stack(space: Space, now: Stack, path: _Path, height: int, rank: FloatArray, way: int, until: int) -> int:
    """Depth-first search, from an empty stack or from where it rested; the stack has the offsets when found.

    It rests once it has visited ``until`` states in all.
    """
    columns, nodes = space.columns, path.nodes
    count = columns.shape[1]
    deep = nodes.shape[1]
    depth, answer = now.scalars[DEPTH], now.scalars[ANSWER]
    while True:
        if answer == CHANGED:
            if settle(space, now, height):
                low, high = _part(space, now)
                if low == high:
                    return FOUND
                depth += 1
                if depth + 1 >= deep or (depth > 0 and nodes[END, depth - 1] + count > len(path.pool)):
                    return UNDECIDED
                _open(space, now, path, depth, low, high, height, rank, way)
            else:
                answer = FAILED
        if answer != CHANGED:
            depth = _go_back(now, path, depth - 1 if answer == EXHAUSTED else depth)
            if depth < 0:
                return REFUTED
        if now.scalars[TOP] + len(now.values) > now.trail.shape[1]:
            return UNDECIDED
        if now.scalars[NODE] >= until:
            now.scalars[DEPTH], now.scalars[ANSWER] = depth, answer
            return RESTING
        answer = _decide(space, now, path, depth, height, way)
