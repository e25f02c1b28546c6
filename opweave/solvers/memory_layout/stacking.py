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

from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.loops import helper
from opweave.solvers.memory_layout.sections import Space, live_bytes

FAR = 1 << 62
"""Larger than every offset."""

LONGEST_TRAIL = 1 << 25
"""Most values that are saved. Only what is used takes memory."""

GROUND, REST, LOWEST, LOW, HIGH, CROSSING, STARTING = 0, 1, 2, 3, 4, 5, 6
SECTION_ROWS = 7
EARLIEST, WHY_LOW, WHY_HIGH, PLACED = 0, 1, 2, 3
STORAGE_ROWS = 4
TOP, NODE, QUEUED, BAD_LOW, BAD_HIGH = 0, 1, 2, 3, 4


class Stack(NamedTuple):
    """The state of a search, changed in place, and what is needed to go back.

    Attributes
    ----------
    values
        Rows over sections: the ground; the rest; the number of unplaced storages whose earliest offset is the ground;
        the interval of sections, with this one, that explains the ground; the number of unplaced storages that also are
        in the section before; and of those that begin in this one. Then rows over storages: earliest offset; the
        interval that explains it; whether it is placed.
    offset
        Offsets of placed storages. Shape (storages,).
    stamp
        The node in which every value was last saved.
    trail, saved
        Changed values, and what they were.
    queue, waits
        Sections whose ground has changed, and whether each section is among them.
    scalars
        Length of the trail, number of nodes, length of the queue, the interval that explains a refutation.
    """

    values: IntArray
    offset: IntArray
    blame: FloatArray
    stamp: IntArray
    trail: IntArray
    saved: IntArray
    queue: IntArray
    waits: IntArray
    scalars: IntArray


@helper
def put(now: Stack, k: int, value: int) -> None:
    """Change a value; what it was is saved once for every node."""
    if now.values[k] != value:
        if now.stamp[k] != now.scalars[NODE]:
            now.stamp[k] = now.scalars[NODE]
            top = now.scalars[TOP]
            now.trail[top] = k
            now.saved[top] = now.values[k]
            now.scalars[TOP] = top + 1
        now.values[k] = value


@helper
def undo(now: Stack, top: int) -> None:
    """Restore what was changed since the trail had this length."""
    for k in range(now.scalars[TOP] - 1, top - 1, -1):
        now.values[now.trail[k]] = now.saved[k]
    now.scalars[TOP] = top


@helper
def wake(now: Stack, t: int) -> None:
    """Queue a section whose ground has changed."""
    if now.waits[t] == 0:
        now.waits[t] = 1
        now.queue[now.scalars[QUEUED]] = t
        now.scalars[QUEUED] += 1


@helper
def earliest_from(space: Space, j: int, height: int) -> int:
    """The least offset from ``height`` on that storage j may have: aligned, or the given one."""
    if space.fixed[j] >= 0:
        return int(space.fixed[j]) if height <= space.fixed[j] else FAR
    unit = space.alignment[j]
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
def _raise_earliest(space: Space, now: Stack, sections: int, j: int, t: int, offset: int) -> None:
    """Raise a storage's earliest offset because of section t; sections whose ground rested on it are queued."""
    base = SECTION_ROWS * sections
    count = len(space.size)
    old = now.values[base + EARLIEST * count + j]
    put(now, base + EARLIEST * count + j, offset)
    put(now, base + WHY_LOW * count + j, now.values[LOW * sections + t])
    put(now, base + WHY_HIGH * count + j, now.values[HIGH * sections + t])
    for s in range(space.first[j], space.after[j]):
        if s != t and now.waits[s] == 0:
            ground = now.values[s]
            if ground == old:
                left = now.values[LOWEST * sections + s] - 1
                put(now, LOWEST * sections + s, left)
                if left == 0:
                    wake(now, s)
            elif ground == offset:
                put(now, LOWEST * sections + s, now.values[LOWEST * sections + s] + 1)


@helper
def _why(space: Space, now: Stack, sections: int, t: int) -> tuple[int, int]:
    """What explains the earliest offsets of the unplaced storages of section t."""
    count = len(space.size)
    base = SECTION_ROWS * sections
    low, high = t, t + 1
    for k in range(space.members_start[t], space.members_start[t + 1]):
        j = space.members[k]
        if now.values[base + PLACED * count + j] == 0:
            low = min(low, now.values[base + WHY_LOW * count + j])
            high = max(high, now.values[base + WHY_HIGH * count + j])
    return low, high


@helper
def settle(space: Space, now: Stack, height: int) -> bool:
    """Carry changed grounds on until nothing changes; return whether the state is not refuted."""
    sections = len(space.members_start) - 1
    count = len(space.size)
    base = SECTION_ROWS * sections
    while now.scalars[QUEUED] > 0:
        now.scalars[QUEUED] -= 1
        t = now.queue[now.scalars[QUEUED]]
        rest = now.values[REST * sections + t]
        ground = now.values[t]
        if rest == 0:
            now.waits[t] = 0
            continue
        if ground + rest > height:
            now.waits[t] = 0
            return refute(now, sections, t)
        least = FAR
        lowest = 0
        for k in range(space.members_start[t], space.members_start[t + 1]):
            j = space.members[k]
            if now.values[base + PLACED * count + j] != 0:
                continue
            offset = now.values[base + EARLIEST * count + j]
            if offset < ground:
                offset = earliest_from(space, j, ground)
                if offset + space.size[j] > height:
                    now.waits[t] = 0
                    return refute(now, sections, t)
                _raise_earliest(space, now, sections, j, t, offset)
            if offset < least:
                least = offset
                lowest = 1
            elif offset == least:
                lowest += 1
        now.waits[t] = 0
        put(now, LOWEST * sections + t, lowest)
        if least > ground:
            low, high = _why(space, now, sections, t)
            put(now, t, least)
            put(now, LOW * sections + t, low)
            put(now, HIGH * sections + t, high)
            if least + rest > height:
                return refute(now, sections, t)
    return True


@helper
def foundation(space: Space, now: Stack, j: int) -> tuple[int, int]:
    """What explains the grounds in all sections of storage j."""
    sections = len(space.members_start) - 1
    low, high = space.first[j], space.after[j]
    for t in range(low, high):
        low = min(low, now.values[LOW * sections + t])
        high = max(high, now.values[HIGH * sections + t])
    return low, high


@helper
def postpone(space: Space, now: Stack, j: int, height: int) -> bool:
    """Storage j does not lie on the lowest ground: it lies upon one that is not placed yet. False if it cannot."""
    sections = len(space.members_start) - 1
    count = len(space.size)
    base = SECTION_ROWS * sections
    old = now.values[base + EARLIEST * count + j]
    least = FAR
    for i in range(count):
        meets = space.first[i] < space.after[j] and space.first[j] < space.after[i]
        if meets and i != j and now.values[base + PLACED * count + i] == 0:
            least = min(least, space.size[i])
    low, high = foundation(space, now, j)
    now.scalars[BAD_LOW], now.scalars[BAD_HIGH] = low, high
    offset = earliest_from(space, j, old + least) if least < FAR else FAR
    if offset + space.size[j] > height or space.fixed[j] >= 0:
        return False
    put(now, base + EARLIEST * count + j, offset)
    put(now, base + WHY_LOW * count + j, low)
    put(now, base + WHY_HIGH * count + j, high)
    for s in range(space.first[j], space.after[j]):
        if now.values[s] == old:
            left = now.values[LOWEST * sections + s] - 1
            put(now, LOWEST * sections + s, left)
            if left == 0:
                wake(now, s)
    return True


@helper
def put_down(space: Space, now: Stack, j: int, offset: int) -> None:
    """Place storage j; its sections' grounds rise to its top."""
    sections = len(space.members_start) - 1
    count = len(space.size)
    base = SECTION_ROWS * sections
    first, after = space.first[j], space.after[j]
    low, high = foundation(space, now, j)
    put(now, base + PLACED * count + j, 1)
    now.offset[j] = offset
    for t in range(first, after):
        put(now, t, offset + space.size[j])
        put(now, REST * sections + t, now.values[REST * sections + t] - space.size[j])
        put(now, LOW * sections + t, low)
        put(now, HIGH * sections + t, high)
        if t > first:
            put(now, CROSSING * sections + t, now.values[CROSSING * sections + t] - 1)
        wake(now, t)
    put(now, STARTING * sections + first, now.values[STARTING * sections + first] - 1)


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
    return Stack(
        values=values,
        offset=np.zeros(count, dtype=np.int64),
        blame=blame,
        stamp=np.full(len(values), -1, dtype=np.int64),
        trail=np.empty(most, dtype=np.int64),
        saved=np.empty(most, dtype=np.int64),
        queue=np.arange(sections, dtype=np.int64),
        waits=np.ones(sections, dtype=np.int64),
        scalars=np.asarray([0, 0, sections, 0, 0], dtype=np.int64),
    )
