"""A stack of storages under construction: grounds, what follows from them, and how to go back.

Every section has a *ground*, its lowest free address, below which nothing more is placed, and a *rest*, the bytes of
its storages that are not placed yet. A storage's *earliest* offset follows from the highest ground of its sections. A
ground rises to the least earliest offset of the section's unplaced storages; where ground and rest together exceed the
height, the stack is refuted.

A refutation comes with an interval of sections that explains it: it holds for all stacks that agree with the refuted
one in these sections.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray, IntMatrix
from opweave.solvers.loops import helper
from opweave.solvers.memory_layout.sections import AFTER, ALIGNMENT, FIRST, FIXED, SIZE, Space, live_bytes

FAR = 1 << 62
"""Larger than every offset."""

LONGEST_TRAIL = 1 << 25
"""Most values that are saved. Only what is used takes memory."""

GROUND, LOW, HIGH, REST, LOWEST, CROSSING, STARTING = 0, 1, 2, 3, 4, 5, 6
SECTION_ROWS, STORAGE_ROWS = 7, 4
EARLIEST, WHY_LOW, WHY_HIGH, PLACED = 0, 1, 2, 3
TOP, NODE, QUEUED, BAD_LOW, BAD_HIGH, DEPTH, ANSWER = 0, 1, 2, 3, 4, 5, 6


class Stack(NamedTuple):
    """The state of a search, changed in place, and what is needed to go back.

    Attributes
    ----------
    values
        Rows over sections: the ground; the interval of sections, with this one, that explains the ground; the rest; the
        number of unplaced storages whose earliest offset is the ground; of those that also are in the section before;
        and of those that begin in this one. Then rows over storages: earliest offset; the
        interval that explains it; whether it is placed.
    offset
        Offsets of placed storages. Shape (storages,).
    stamp
        The node in which every value was last saved.
    trail
        Changed values, and what they were. Shape (2, changes).
    queue, waits
        Sections whose ground has changed, and whether each section is among them.
    scalars
        Length of the trail, number of nodes, length of the queue, the interval that explains a refutation; where a
        search that rests goes on: the depth of its node, and what the latest decision led to (1: a change).
    """

    values: IntArray
    offset: IntArray
    blame: FloatArray
    stamp: IntArray
    trail: IntMatrix
    queue: IntArray
    waits: IntArray
    scalars: IntArray


@helper
def put(values: IntArray, stamp: IntArray, trail: IntMatrix, scalars: IntArray, k: int, value: int) -> None:
    """Change a value; what it was is saved once for every node."""
    if values[k] != value:
        if stamp[k] != scalars[NODE]:
            stamp[k] = scalars[NODE]
            top = scalars[TOP]
            trail[0, top], trail[1, top] = k, values[k]
            scalars[TOP] = top + 1
        values[k] = value


@helper
def put_why(
    values: IntArray,
    stamp: IntArray,
    trail: IntMatrix,
    scalars: IntArray,
    k: int,
    step: int,
    value: int,
    low: int,
    high: int,
) -> None:
    """Change a ground or an earliest offset, and the interval that explains it; they are ``step`` values apart."""
    put(values, stamp, trail, scalars, k, value)
    put(values, stamp, trail, scalars, k + step, low)
    put(values, stamp, trail, scalars, k + 2 * step, high)


@helper
def undo(now: Stack, top: int) -> None:
    """Restore what was changed since the trail had this length."""
    scalars, values, trail = now.scalars, now.values, now.trail
    for k in range(scalars[TOP] - 1, top - 1, -1):
        values[trail[0, k]] = trail[1, k]
    scalars[TOP] = top


@helper
def wake(waits: IntArray, queue: IntArray, scalars: IntArray, t: int) -> None:
    """Queue a section whose ground has changed."""
    if waits[t] == 0:
        waits[t] = 1
        queue[scalars[QUEUED]] = t
        scalars[QUEUED] += 1


@helper
def earliest_from(columns: IntMatrix, j: int, height: int) -> int:
    """The least offset from ``height`` on that storage j may have: aligned, or the given one."""
    if columns[FIXED, j] >= 0:
        return int(columns[FIXED, j]) if height <= columns[FIXED, j] else FAR
    unit = columns[ALIGNMENT, j]
    return int(height) if unit == 1 else int((height + unit - 1) // unit * unit)


@helper
def refute(now: Stack, sections: int, t: int) -> bool:
    """Explain a refutation by what explains the ground of a section, and that section."""
    while now.scalars[QUEUED] > 0:
        now.scalars[QUEUED] -= 1
        now.waits[now.queue[now.scalars[QUEUED]]] = 0
    now.blame[t] += 1.0
    now.scalars[BAD_LOW] = now.values[LOW * sections + t]
    now.scalars[BAD_HIGH] = now.values[HIGH * sections + t]
    return False


@helper
def _raise_earliest(space: Space, now: Stack, j: int, t: int, offset: int, low: int, high: int) -> None:
    """Raise a storage's earliest offset, by section t (-1: none); sections whose ground rested on it are queued."""
    columns = space.columns
    values, waits, stamp, trail, scalars, queue = now.values, now.waits, now.stamp, now.trail, now.scalars, now.queue
    sections = len(waits)
    base = SECTION_ROWS * sections
    count = columns.shape[1]
    old = values[base + EARLIEST * count + j]
    put_why(values, stamp, trail, scalars, base + EARLIEST * count + j, count, offset, low, high)
    for s in range(columns[FIRST, j], columns[AFTER, j]):
        if s != t and waits[s] == 0:
            ground = values[s]
            if ground == old:
                left = values[LOWEST * sections + s] - 1
                put(values, stamp, trail, scalars, LOWEST * sections + s, left)
                if left == 0:
                    wake(waits, queue, scalars, s)
            elif ground == offset:
                put(values, stamp, trail, scalars, LOWEST * sections + s, values[LOWEST * sections + s] + 1)


@helper
def _why(space: Space, now: Stack, sections: int, t: int) -> tuple[int, int]:
    """What explains the earliest offsets of the unplaced storages of section t."""
    columns = space.columns
    members_start, members, values = space.members_start, space.members, now.values
    count = columns.shape[1]
    base = SECTION_ROWS * sections
    low, high = t, t + 1
    for k in range(members_start[t], members_start[t + 1]):
        j = members[k]
        if values[base + PLACED * count + j] == 0:
            low = min(low, values[base + WHY_LOW * count + j])
            high = max(high, values[base + WHY_HIGH * count + j])
    return low, high


@helper
def settle(space: Space, now: Stack, height: int) -> bool:
    """Carry changed grounds on until nothing changes; return whether the state is not refuted."""
    columns = space.columns
    members_start, members = space.members_start, space.members
    scalars, queue, values, waits, stamp, trail = now.scalars, now.queue, now.values, now.waits, now.stamp, now.trail
    sections = len(members_start) - 1
    count = columns.shape[1]
    base = SECTION_ROWS * sections
    while scalars[QUEUED] > 0:
        scalars[QUEUED] -= 1
        t = queue[scalars[QUEUED]]
        rest = values[REST * sections + t]
        ground = values[t]
        if rest == 0:
            waits[t] = 0
            continue
        if ground + rest > height:
            waits[t] = 0
            return refute(now, sections, t)
        least = FAR
        lowest = 0
        for k in range(members_start[t], members_start[t + 1]):
            j = members[k]
            if values[base + PLACED * count + j] != 0:
                continue
            offset = values[base + EARLIEST * count + j]
            if offset < ground:
                offset = earliest_from(columns, j, ground)
                if offset + columns[SIZE, j] > height:
                    waits[t] = 0
                    return refute(now, sections, t)
                _raise_earliest(space, now, j, t, offset, values[LOW * sections + t], values[HIGH * sections + t])
            if offset < least:
                least = offset
                lowest = 1
            elif offset == least:
                lowest += 1
        waits[t] = 0
        put(values, stamp, trail, scalars, LOWEST * sections + t, lowest)
        if least > ground:
            low, high = _why(space, now, sections, t)
            put_why(values, stamp, trail, scalars, t, sections, least, low, high)
            if least + rest > height:
                return refute(now, sections, t)
    return True


@helper
def foundation(space: Space, now: Stack, j: int) -> tuple[int, int]:
    """What explains the grounds in all sections of storage j."""
    columns = space.columns
    members_start, values = space.members_start, now.values
    sections = len(members_start) - 1
    low, high = columns[FIRST, j], columns[AFTER, j]
    for t in range(low, high):
        low = min(low, values[LOW * sections + t])
        high = max(high, values[HIGH * sections + t])
    return low, high


@helper
def postpone(space: Space, now: Stack, j: int, height: int) -> bool:
    """Storage j does not lie on the lowest ground: it lies upon one that is not placed yet. False if it cannot."""
    columns, values, scalars = space.columns, now.values, now.scalars
    count = columns.shape[1]
    base = SECTION_ROWS * len(now.waits)
    old = values[base + EARLIEST * count + j]
    least = FAR
    for i in range(count):
        meets = columns[FIRST, i] < columns[AFTER, j] and columns[FIRST, j] < columns[AFTER, i]
        if meets and i != j and values[base + PLACED * count + i] == 0:
            least = min(least, columns[SIZE, i])
    low, high = foundation(space, now, j)
    scalars[BAD_LOW], scalars[BAD_HIGH] = low, high
    offset = earliest_from(columns, j, old + least) if least < FAR else FAR
    if offset + columns[SIZE, j] > height or columns[FIXED, j] >= 0:
        return False
    _raise_earliest(space, now, j, -1, offset, low, high)
    return True


@helper
def put_down(space: Space, now: Stack, j: int, offset: int) -> None:
    """Place storage j; its sections' grounds rise to its top."""
    columns = space.columns
    members_start = space.members_start
    values, stamp, trail, scalars, waits, queue = now.values, now.stamp, now.trail, now.scalars, now.waits, now.queue
    sections = len(members_start) - 1
    count = columns.shape[1]
    base = SECTION_ROWS * sections
    first, after = columns[FIRST, j], columns[AFTER, j]
    low, high = foundation(space, now, j)
    put(values, stamp, trail, scalars, base + PLACED * count + j, 1)
    now.offset[j] = offset
    for t in range(first, after):
        put_why(values, stamp, trail, scalars, t, sections, offset + columns[SIZE, j], low, high)
        put(values, stamp, trail, scalars, REST * sections + t, values[REST * sections + t] - columns[SIZE, j])
        if t > first:
            put(values, stamp, trail, scalars, CROSSING * sections + t, values[CROSSING * sections + t] - 1)
        wake(waits, queue, scalars, t)
    put(values, stamp, trail, scalars, STARTING * sections + first, values[STARTING * sections + first] - 1)


def empty_stack(space: Space, blame: FloatArray) -> Stack:
    """The state in which nothing is placed; all sections are queued."""
    sections, count = space.sections, len(space.size)
    rows, columns = np.zeros((SECTION_ROWS, sections), np.int64), np.zeros((STORAGE_ROWS, count), np.int64)
    one = np.ones(count, dtype=np.int64)
    rows[REST] = live_bytes(space.size, space.first, space.after, sections)
    rows[STARTING] = np.bincount(space.first, minlength=sections)
    rows[CROSSING] = live_bytes(one, space.first, space.after, sections) - rows[STARTING]
    rows[LOW], rows[HIGH] = np.arange(sections), np.arange(1, sections + 1)
    columns[EARLIEST] = np.maximum(space.fixed, 0)
    columns[WHY_LOW] = sections
    values = np.concatenate([rows.ravel(), columns.ravel()])
    most = min(LONGEST_TRAIL, len(values) * (count + sections + 2))
    offset, stamp = np.zeros(count, dtype=np.int64), np.full(len(values), -1, dtype=np.int64)
    queue, waits = np.arange(sections, dtype=np.int64), np.ones(sections, dtype=np.int64)
    scalars = np.asarray([0, 0, sections, 0, 0, -1, 1], dtype=np.int64)
    return Stack(values, offset, blame, stamp, np.empty((2, most), dtype=np.int64), queue, waits, scalars)
