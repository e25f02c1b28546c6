"""Exact depth-first search for offsets within a given height.

Storages are stacked from the bottom. Every section has a *floor*, below which nothing more is placed, and a *rest*, the
bytes of its storages that are not placed yet. A storage's *earliest* offset follows from the highest floor of its
sections. A floor rises to the least earliest offset of the section's unplaced storages; where floor and rest together
exceed the height, the state is refuted.

If a space can be packed at all, it can be packed such that every storage lies at offset 0 or upon another one (as far
as alignment allows). So at the lowest floor of a part that no unplaced storage connects with others, some section is
chosen, and either one of its unplaced storages lies at that floor, or the floor rises to the next offset at which one
of them can lie upon another storage. All these possibilities are tried.

A refutation comes with an interval of sections that explains it: it holds for all states that agree with the refuted
one in these sections. Decisions about other sections are therefore undone without trying their alternatives.

Source: the canonical orders and the inference on sections follow Moffitt, "MiniMalloc: A Lightweight Memory Allocator
for Hardware-Accelerated Machine Learning" (ASPLOS 2023).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.compiled import inlined, kernel
from opweave.solvers.memory_layout.sections import Space

UNDECIDED = 0
FOUND = 1
REFUTED = 2

FAR = 1 << 62
"""Larger than every offset."""

LONGEST_TRAIL = 1 << 25
"""Most values that are saved. Only what is used takes memory."""

FLOOR, REST, LOWEST, LOW, HIGH, CROSSING, STARTING = 0, 1, 2, 3, 4, 5, 6
SECTION_ROWS = 7
EARLIEST, WHY_LOW, WHY_HIGH, PLACED = 0, 1, 2, 3
STORAGE_ROWS = 4
TOP, NODE, QUEUED, BAD_LOW, BAD_HIGH = 0, 1, 2, 3, 4


@dataclass(frozen=True, slots=True)
class Decision:
    """Answer of :func:`pack`: FOUND with offsets, REFUTED, or UNDECIDED, and the number of states visited."""

    answer: int
    offset: IntArray | None
    states: int


class _State(NamedTuple):
    """The state of a search, changed in place, and what is needed to go back.

    Attributes
    ----------
    values
        Rows over sections: the floor; the rest; the number of unplaced storages whose earliest offset is the floor;
        the interval of sections that explains the floor; the number of unplaced storages that also are in the section
        before; and of those that begin in this one. Then rows over storages: earliest offset; the interval that
        explains it; whether it is placed.
    offset
        Offsets of placed storages. Shape (storages,).
    stamp
        The node in which every value was last saved.
    trail, saved
        Changed values, and what they were.
    queue, waits
        Sections whose floor has changed, and whether each section is among them.
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


def pack(space: Space, height: int, rank: FloatArray, blame: FloatArray, budget: int) -> Decision:
    """Look for offsets such that all storages lie below ``height``.

    Parameters
    ----------
    space
        The storages.
    height
        Bytes.
    rank
        Storages of least rank are placed first. Shape (storages,).
    blame
        How often every section refuted a state, changed in place: such sections come first. Shape (sections,).
    budget
        Most states to visit.

    Returns
    -------
    Decision
        Exact unless UNDECIDED.
    """
    offset = np.zeros(len(space.size), dtype=np.int64)
    work = 20 * (len(space.members) + min(budget, len(space.size)) * 50)
    answer, states = stack.sized(work)(space, height, rank, blame, budget, offset)
    return Decision(int(answer), offset if answer == FOUND else None, int(states))


@inlined
def _put(now: _State, k: int, value: int) -> None:
    """Change a value; what it was is saved once for every node."""
    if now.values[k] != value:
        if now.stamp[k] != now.scalars[NODE]:
            now.stamp[k] = now.scalars[NODE]
            top = now.scalars[TOP]
            now.trail[top] = k
            now.saved[top] = now.values[k]
            now.scalars[TOP] = top + 1
        now.values[k] = value


@inlined
def _undo(now: _State, top: int) -> None:
    """Restore what was changed since the trail had this length."""
    for k in range(now.scalars[TOP] - 1, top - 1, -1):
        now.values[now.trail[k]] = now.saved[k]
    now.scalars[TOP] = top


@inlined
def _wake(now: _State, t: int) -> None:
    if now.waits[t] == 0:
        now.waits[t] = 1
        now.queue[now.scalars[QUEUED]] = t
        now.scalars[QUEUED] += 1


@inlined
def _earliest(space: Space, j: int, height: int) -> int:
    """The least offset from ``height`` on that storage j may have: aligned, and clear of storages with given offsets."""
    if space.fixed[j] >= 0:
        return space.fixed[j] if height <= space.fixed[j] else FAR
    unit = space.alignment[j]
    return (height + unit - 1) // unit * unit


@inlined
def _refute(now: _State, sections: int, t: int) -> bool:
    """Explain a refutation by what explains the floor of a section, and that section."""
    while now.scalars[QUEUED] > 0:
        now.scalars[QUEUED] -= 1
        now.waits[now.queue[now.scalars[QUEUED]]] = 0
    now.blame[t] += 1.0
    now.scalars[BAD_LOW] = min(t, now.values[LOW * sections + t])
    now.scalars[BAD_HIGH] = max(t + 1, now.values[HIGH * sections + t])
    return False


@inlined
def _raise_earliest(space: Space, now: _State, sections: int, j: int, t: int, offset: int) -> None:
    """Raise a storage's earliest offset because of section t; sections whose floor rested on it are queued."""
    base = SECTION_ROWS * sections
    count = len(space.size)
    old = now.values[base + EARLIEST * count + j]
    _put(now, base + EARLIEST * count + j, offset)
    _put(now, base + WHY_LOW * count + j, min(t, now.values[LOW * sections + t]))
    _put(now, base + WHY_HIGH * count + j, max(t + 1, now.values[HIGH * sections + t]))
    for s in range(space.first[j], space.after[j]):
        if s != t and now.waits[s] == 0:
            floor = now.values[s]
            if floor == old:
                left = now.values[LOWEST * sections + s] - 1
                _put(now, LOWEST * sections + s, left)
                if left == 0:
                    _wake(now, s)
            elif floor == offset:
                _put(now, LOWEST * sections + s, now.values[LOWEST * sections + s] + 1)


@inlined
def _settle(space: Space, now: _State, height: int) -> bool:
    """Carry changed floors on until nothing changes; return whether the state is not refuted."""
    sections = len(space.members_start) - 1
    count = len(space.size)
    base = SECTION_ROWS * sections
    while now.scalars[QUEUED] > 0:
        now.scalars[QUEUED] -= 1
        t = now.queue[now.scalars[QUEUED]]
        rest = now.values[REST * sections + t]
        floor = now.values[t]
        if rest == 0:
            now.waits[t] = 0
            continue
        if floor + rest > height:
            now.waits[t] = 0
            return _refute(now, sections, t)
        least = FAR
        lowest = 0
        low, high = t, t + 1
        for k in range(space.members_start[t], space.members_start[t + 1]):
            j = space.members[k]
            if now.values[base + PLACED * count + j] != 0:
                continue
            offset = now.values[base + EARLIEST * count + j]
            if offset < floor:
                offset = _earliest(space, j, floor)
                if offset + space.size[j] > height:
                    now.waits[t] = 0
                    return _refute(now, sections, t)
                _raise_earliest(space, now, sections, j, t, offset)
            if offset < least:
                least = offset
                lowest = 1
            elif offset == least:
                lowest += 1
            low = min(low, now.values[base + WHY_LOW * count + j])
            high = max(high, now.values[base + WHY_HIGH * count + j])
        now.waits[t] = 0
        _put(now, LOWEST * sections + t, lowest)
        if least > floor:
            _put(now, t, least)
            _put(now, LOW * sections + t, low)
            _put(now, HIGH * sections + t, high)
            if least + rest > height:
                return _refute(now, sections, t)
    return True


@inlined
def _place(space: Space, now: _State, j: int, offset: int) -> None:
    """Place storage j; its sections' floors rise to its top."""
    sections = len(space.members_start) - 1
    count = len(space.size)
    base = SECTION_ROWS * sections
    first, after = space.first[j], space.after[j]
    low = min(first, now.values[base + WHY_LOW * count + j])
    high = max(after, now.values[base + WHY_HIGH * count + j])
    for t in range(first, after):  # why nothing that is not placed yet can lie below this storage
        low = min(low, now.values[LOW * sections + t])
        high = max(high, now.values[HIGH * sections + t])
    _put(now, base + PLACED * count + j, 1)
    now.offset[j] = offset
    for t in range(first, after):
        _put(now, t, offset + space.size[j])
        _put(now, REST * sections + t, now.values[REST * sections + t] - space.size[j])
        _put(now, LOW * sections + t, low)
        _put(now, HIGH * sections + t, high)
        if t > first:
            _put(now, CROSSING * sections + t, now.values[CROSSING * sections + t] - 1)
        _wake(now, t)
    _put(now, STARTING * sections + first, now.values[STARTING * sections + first] - 1)


@inlined
def _begin(space: Space, blame: FloatArray) -> _State:
    """The state in which nothing is placed; all sections are queued."""
    sections = len(space.members_start) - 1
    count = len(space.size)
    base = SECTION_ROWS * sections
    values = SECTION_ROWS * sections + STORAGE_ROWS * count
    most = min(LONGEST_TRAIL, values * (count + sections + 2))
    now = _State(
        values=np.zeros(values, dtype=np.int64),
        offset=np.zeros(count, dtype=np.int64),
        blame=blame,
        stamp=np.full(values, -1, dtype=np.int64),
        trail=np.empty(most, dtype=np.int64),
        saved=np.empty(most, dtype=np.int64),
        queue=np.zeros(sections, dtype=np.int64),
        waits=np.zeros(sections, dtype=np.int64),
        scalars=np.zeros(5, dtype=np.int64),
    )
    for j in range(count):
        now.values[base + EARLIEST * count + j] = _earliest(space, j, 0)
        now.values[base + WHY_LOW * count + j] = sections
        now.values[STARTING * sections + space.first[j]] += 1
        for t in range(space.first[j], space.after[j]):
            now.values[REST * sections + t] += space.size[j]
            if t > space.first[j]:
                now.values[CROSSING * sections + t] += 1
    for t in range(sections):
        now.values[LOW * sections + t] = t
        now.values[HIGH * sections + t] = t + 1
        _wake(now, t)
    return now


@inlined
def _part(space: Space, now: _State) -> tuple[int, int]:
    """Sections of the independent part with the fewest unplaced storages: from, to before; empty if all are placed."""
    sections = len(space.members_start) - 1
    best_low, best_high, fewest = 0, 0, FAR
    low, storages = 0, 0
    for t in range(sections):
        if now.values[CROSSING * sections + t] == 0:
            low, storages = t, 0
        storages += now.values[STARTING * sections + t]
        if t + 1 == sections or now.values[CROSSING * sections + t + 1] == 0:
            if 0 < storages < fewest:
                best_low, best_high, fewest = low, t + 1, storages
    return best_low, best_high


@inlined
def _branching_section(space: Space, now: _State, low: int, high: int, height: int, rank: FloatArray) -> int:
    """The section to branch on: at the lowest floor, among the sections of the storage that would be placed there first,
    the one with the fewest possibilities, or else the least space to spare."""
    sections = len(space.members_start) - 1
    count = len(space.size)
    base = SECTION_ROWS * sections
    floor = FAR
    for t in range(low, high):
        if now.values[REST * sections + t] > 0:
            floor = min(floor, now.values[t])
    best = -1
    for j in range(count):
        if (
            now.values[base + PLACED * count + j] == 0
            and now.values[base + EARLIEST * count + j] == floor
            and low <= space.first[j]
            and space.after[j] <= high
            and (best < 0 or rank[j] < rank[best])
        ):
            best = j
    chosen, fewest, least = -1, np.inf, FAR
    for t in range(space.first[best], space.after[best]):
        lowest = now.values[LOWEST * sections + t] / now.blame[t]
        spare = height - floor - now.values[REST * sections + t]
        if lowest < fewest or (lowest == fewest and spare < least):
            chosen, fewest, least = t, lowest, spare
    return chosen


@inlined
def _possible(space: Space, now: _State, t: int, rank: FloatArray, pool: IntArray, used: int) -> int:
    """Write the storages that may lie at the floor of section t to ``pool[used:]``, by rank; return their number.

    Of storages that are alike, only the first is written. Where two with the same sections lie upon each other, the one
    listed first is to be below.
    """
    sections = len(space.members_start) - 1
    count = len(space.size)
    base = SECTION_ROWS * sections
    floor = now.values[t]
    added = 0
    for k in range(space.members_start[t], space.members_start[t + 1]):
        j = space.members[k]
        if now.values[base + PLACED * count + j] != 0 or now.values[base + EARLIEST * count + j] != floor:
            continue
        wanted = True
        if space.fixed[j] < 0:
            for m in range(space.members_start[t], space.members_start[t + 1]):
                i = space.members[m]
                same = space.first[i] == space.first[j] and space.after[i] == space.after[j]
                if not same or space.fixed[i] >= 0 or space.alignment[i] != space.alignment[j] or i == j:
                    continue
                if now.values[base + PLACED * count + i] == 0:
                    wanted = wanted and not (space.size[i] == space.size[j] and i < j)
                elif now.offset[i] + space.size[i] == floor and space.size[i] % space.alignment[i] == 0:
                    wanted = wanted and (i < j or space.size[j] % space.alignment[j] != 0)
        if wanted:
            place = used + added
            while place > used and rank[pool[place - 1]] > rank[j]:
                pool[place] = pool[place - 1]
                place -= 1
            pool[place] = j
            added += 1
    return added


@inlined
def _next_offset(space: Space, now: _State, t: int) -> int:
    """The least offset above the floor of section t at which the lowest of its unplaced storages can lie."""
    count = len(space.size)
    base = SECTION_ROWS * (len(space.members_start) - 1)
    floor = now.values[t]
    least = FAR
    for k in range(space.members_start[t], space.members_start[t + 1]):
        j = space.members[k]
        if now.values[base + PLACED * count + j] != 0:
            continue
        earliest = now.values[base + EARLIEST * count + j]
        if earliest > floor:
            least = min(least, earliest)
            continue
        for i in range(count):
            if (
                floor + space.size[i] < least
                and now.values[base + PLACED * count + i] == 0
                and space.first[i] < space.after[j]
                and space.first[j] < space.after[i]
                and not (space.first[i] <= t < space.after[i])
            ):
                least = floor + space.size[i]
    return least


@inlined
def _explain_branching(space: Space, now: _State, t: int, whole: bool) -> None:
    """Widen the refutation by what limited the possibilities at section t."""
    sections = len(space.members_start) - 1
    count = len(space.size)
    base = SECTION_ROWS * sections
    low, high = min(t, now.scalars[BAD_LOW]), max(t + 1, now.scalars[BAD_HIGH])
    first, after = t, t + 1
    for k in range(space.members_start[t], space.members_start[t + 1]):
        j = space.members[k]
        if now.values[base + PLACED * count + j] == 0:
            low = min(low, now.values[base + WHY_LOW * count + j])
            high = max(high, now.values[base + WHY_HIGH * count + j])
            first, after = min(first, space.first[j]), max(after, space.after[j])
    if whole:  # what can lie under one of them
        for s in range(first, after):
            low = min(low, s, now.values[LOW * sections + s])
            high = max(high, s + 1, now.values[HIGH * sections + s])
    now.scalars[BAD_LOW] = low
    now.scalars[BAD_HIGH] = high


@kernel
def stack(
    space: Space, height: int, rank: FloatArray, blame: FloatArray, budget: int, offset: IntArray
) -> tuple[int, int]:
    """Depth-first search; returns (answer, states). ``offset`` receives the offsets when found.

    A frame is a node on the path: its section, its untried storages ``pool[frame_next:frame_end]``, the span of its
    current decision, and the union of the intervals that explain the refuted decisions.
    """
    sections = len(space.members_start) - 1
    count = len(space.size)
    now = _begin(space, blame)
    deep = 8 * (count + sections) + 2
    frame_section = np.zeros(deep, dtype=np.int64)
    frame_first = np.zeros(deep, dtype=np.int64)
    frame_next = np.zeros(deep, dtype=np.int64)
    frame_end = np.zeros(deep, dtype=np.int64)
    frame_top = np.zeros(deep, dtype=np.int64)
    frame_low = np.zeros(deep, dtype=np.int64)
    frame_high = np.zeros(deep, dtype=np.int64)
    from_section = np.zeros(deep, dtype=np.int64)
    to_section = np.zeros(deep, dtype=np.int64)
    pool = np.zeros(4 * count + 16, dtype=np.int64)
    depth = -1
    if not _settle(space, now, height):
        return REFUTED, 0
    while True:
        low, high = _part(space, now)
        if low == high:
            offset[:] = now.offset
            return FOUND, now.scalars[NODE]
        depth += 1
        t = _branching_section(space, now, low, high, height, rank)
        used = 0 if depth == 0 else frame_end[depth - 1]
        if used + count > len(pool):
            pool = np.concatenate((pool, np.zeros(len(pool), dtype=np.int64)))
        frame_section[depth], frame_first[depth], frame_next[depth] = t, used, used
        frame_end[depth] = used + _possible(space, now, t, rank, pool, used)
        frame_top[depth] = now.scalars[TOP]
        frame_low[depth], frame_high[depth] = t, t + 1
        going = False
        while not going:
            full = depth + 2 > deep or now.scalars[TOP] + len(now.values) > len(now.trail)
            if full or now.scalars[NODE] >= budget or space.halt[0] != 0:
                return UNDECIDED, now.scalars[NODE]
            t = frame_section[depth]
            now.scalars[NODE] += 1
            if frame_next[depth] < frame_end[depth]:
                j = pool[frame_next[depth]]
                frame_next[depth] += 1
                from_section[depth], to_section[depth] = space.first[j], space.after[j]
                _place(space, now, j, now.values[t])
                going = _settle(space, now, height)
            else:
                floor = now.values[t]
                spare = height - floor - now.values[REST * sections + t]
                raised = FAR
                if frame_next[depth] == frame_end[depth] and spare > 0:
                    raised = _next_offset(space, now, t)
                frame_next[depth] += 1
                if raised - floor <= spare:
                    now.scalars[BAD_LOW], now.scalars[BAD_HIGH] = t, t + 1
                    _explain_branching(space, now, t, True)
                    from_section[depth], to_section[depth] = t, t + 1
                    _put(now, t, raised)
                    _put(now, LOW * sections + t, now.scalars[BAD_LOW])
                    _put(now, HIGH * sections + t, now.scalars[BAD_HIGH])
                    _wake(now, t)
                    going = _settle(space, now, height)
                else:
                    now.scalars[BAD_LOW], now.scalars[BAD_HIGH] = frame_low[depth], frame_high[depth]
                    _explain_branching(space, now, t, spare > 0)
                    depth -= 1
                    if depth < 0:
                        return REFUTED, now.scalars[NODE]
            if not going:
                _undo(now, frame_top[depth])
                while now.scalars[BAD_HIGH] <= from_section[depth] or to_section[depth] <= now.scalars[BAD_LOW]:
                    depth -= 1
                    if depth < 0:
                        return REFUTED, now.scalars[NODE]
                    _undo(now, frame_top[depth])
                frame_low[depth] = min(frame_low[depth], now.scalars[BAD_LOW])
                frame_high[depth] = max(frame_high[depth], now.scalars[BAD_HIGH])
