"""Local search within a given height: storages that have no place yet are put where they drive out the least.

What stands is no more than an order: of two storages that live together, the earlier one lies below. From it follow the
lowest and the highest offset of every storage within the height, and all of them may move between these two. So a
storage that is put somewhere pushes others up or down, and drives out only those that can neither lie below it nor
above it. What is driven out waits until it is put back.

A storage is put where it drives out the least. It weighs its area, and more whenever it was driven out, so that the
search does not go in circles. This is better than the exact search where many storages live together, but proves
nothing.

Source: ejection chains, as for other packings; offsets as heads and tails of a disjunctive graph, as in the
reinsertions of Dauzere-Peres and Paulli, "An integrated approach for modeling and solving the general multiprocessor
job-shop scheduling problem using tabu search" (1997).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray, IntMatrix
from opweave.solvers.kernels import in_pieces
from opweave.solvers.loops import helper, loop
from opweave.solvers.memory_layout.sections import AFTER, ALIGNMENT, FIRST, SIZE, Space
from opweave.solvers.memory_layout.sections import FIXED as GIVEN
from opweave.solvers.memory_layout.stacking import FAR

MOST_GROWN, FIXED = 1e30, 1e60
"""Growth of a weight at which all begin anew, and weight of a storage with a given offset, which stays."""

GROWTH = 0.03
"""Share by which the weight of a storage grows whenever it is driven out."""

NOISE = 0.02
"""Share by which the weight of what a storage drives out is disturbed, at most."""

HEAVIEST = 0.2
"""Share of the steps that put back the heaviest storage; the others put back any one."""

WORTH = 16
"""Storages that a step looks at while the exact search looks at one storage in a section."""

NOWHERE = -1
"""Offset of a storage for which there is none."""

UP, DOWN = 0, 1
STANDING, WAITING, LUCK = 0, 1, 2
LARGEST_LUCK = 2147483647
"""Random numbers are whole ones up to this, which has all bits of its length."""


class Crowd(NamedTuple):
    """Storages with and without places, changed in place.

    Attributes
    ----------
    stands
        Whether a storage has a place. Shape (storages,).
    lowest, top, highest
        The lowest offset of each standing storage, where it ends there, and the highest offset. Shape (storages,).
    weight, plain
        What it costs to drive it out, now and at first. Shape (storages,).
    by_top, by_highest
        The standing storages, sorted; the first is an order from below to above.
    waiting
        The others.
    below, above
        What can be in the way of one storage, sorted by top and by highest offset.
    level, following
        How much is taken in a step of the skyline, and where the next one begins, at the section where this one does;
        ``following`` is 0 where no step begins. Shape (sections,).
    known
        Where the step began in which a storage's first section was, from below and from above. Shape (2, storages).
    scalars
        Number of storages with places, number of those without, and the last random number.
    """

    stands: IntArray
    lowest: IntArray
    top: IntArray
    highest: IntArray
    weight: FloatArray
    plain: FloatArray
    by_top: IntArray
    by_highest: IntArray
    waiting: IntArray
    below: IntArray
    above: IntArray
    level: IntArray
    following: IntArray
    known: IntMatrix
    scalars: IntArray


def crowd_of(space: Space, offset: IntArray | None, height: int, seed: int) -> Crowd:
    """The crowd of a layout (None: an empty one), without what ends above a height or is in a fixed storage's way."""
    count = len(space.size)
    at = np.full(count, NOWHERE) if offset is None else offset.copy()
    at[(at + space.size > height) & (space.fixed < 0)] = NOWHERE
    at = np.where(space.fixed >= 0, space.fixed, at).astype(np.int64)
    for j in np.flatnonzero(space.fixed >= 0).tolist():
        together = (space.first < space.after[j]) & (space.after > space.first[j]) & (space.fixed < 0)
        at[together & (at < at[j] + space.size[j]) & (at + space.size > at[j])] = NOWHERE
    rows = np.flatnonzero(at >= 0)
    weight = (space.after - space.first) * space.size.astype(np.float64)
    plain: FloatArray = np.where(space.fixed >= 0, FIXED, weight / weight.mean())
    lowest, top, highest, by_top, by_highest, waiting, below, above = np.zeros((8, count), dtype=np.int64)
    by_top[: len(rows)] = by_highest[: len(rows)] = rows[np.argsort(at[rows], kind="stable")]
    waiting[: count - len(rows)] = np.flatnonzero(at < 0)
    scalars = np.asarray([len(rows), count - len(rows), 1 + seed * 7919 % (LARGEST_LUCK - 1)], dtype=np.int64)
    stands, known = (at >= 0).astype(np.int64), np.zeros((2, count), dtype=np.int64)
    level, following = np.zeros((2, space.sections), dtype=np.int64)
    return Crowd(
        stands, lowest, top, highest, plain.copy(), plain, by_top, by_highest, waiting, below, above, level, following,
        known, scalars,
    )  # fmt: skip


@helper
def _chance(now: Crowd) -> float:
    """A random number between 0 and 1, and neither of them."""
    now.scalars[LUCK] = (now.scalars[LUCK] * 1103515245 + 12345) & LARGEST_LUCK
    return float((now.scalars[LUCK] + 0.5) / (LARGEST_LUCK + 1))


@helper
def _sort(rows: IntArray, used: int, key: IntArray) -> None:
    """Sort rows that are nearly sorted."""
    for m in range(1, used):
        j = rows[m]
        n = m
        while n > 0 and key[rows[n - 1]] > key[j]:
            rows[n] = rows[n - 1]
            n -= 1
        rows[n] = j


@helper
def _step_at(known: IntMatrix, following: IntArray, way: int, j: int, section: int) -> int:
    """Where the step of the skyline begins that has a section; tried first is where it began for storage j before."""
    start = known[way, j]
    if start > section or following[start] <= section:
        start = section
        while following[start] == 0:
            start -= 1
        known[way, j] = start
    return int(start)


@helper
def _push(space: Space, now: Crowd, height: int) -> None:
    """Work out the lowest and the highest offsets within the height.

    What is taken in every section is a skyline of steps, from below, and then from above. A storage draws one step, so
    few are drawn for each storage, however long it lives.
    """
    columns = space.columns
    used, by_top, known = now.scalars[STANDING], now.by_top, now.known
    following, taken, lowest, top, highest = now.following, now.level, now.lowest, now.top, now.highest
    for way in (UP, DOWN):
        for section in range(len(following)):
            following[section] = 0
        following[0], taken[0] = len(following), 0
        for n in range(used):
            j = by_top[n] if way == UP else by_top[used - 1 - n]
            first, after = columns[FIRST, j], columns[AFTER, j]
            start = _step_at(known, following, way, j, first)
            last, held = start, taken[start]
            beyond = following[start]
            while beyond < after:
                if last > start:
                    following[last] = 0
                last, beyond = beyond, following[beyond]
                held = max(held, taken[last])
            unit = columns[ALIGNMENT, j]
            if way == UP:
                at = held if unit == 1 else (held + unit - 1) // unit * unit
                if columns[GIVEN, j] >= 0:
                    at = columns[GIVEN, j] if held <= columns[GIVEN, j] else FAR
                lowest[j], top[j] = at, at + columns[SIZE, j]
                held = top[j]
            else:
                at = height - held - columns[SIZE, j]
                at = at if unit == 1 else at // unit * unit
                if columns[GIVEN, j] >= 0:
                    at = columns[GIVEN, j]
                highest[j] = at
                held = height - at
            level = taken[last]
            if last > start:
                following[last] = 0
            if beyond > after:
                following[after], taken[after] = beyond, level
            if start < first:
                following[start] = first
            following[first], taken[first] = after, held
    _sort(by_top, used, top)
    _sort(now.by_highest, used, highest)


@helper
def _in_the_way(space: Space, now: Crowd, rows: IntArray, j: int, found: IntArray) -> int:
    """Write the storages of sorted rows that storage j may drive out to ``found``; return their number."""
    columns = space.columns
    highest, top = now.highest, now.top
    first, after, size = columns[FIRST, j], columns[AFTER, j], columns[SIZE, j]
    k = 0
    for n in range(now.scalars[STANDING]):
        i = rows[n]
        if columns[FIRST, i] < after and first < columns[AFTER, i] and highest[i] - size < top[i]:
            found[k] = i
            k += 1
    return k


@helper
def _take_next(now: Crowd) -> int:
    """Take a waiting storage: the heaviest, or any one."""
    scalars, weight, waiting = now.scalars, now.weight, now.waiting
    out = scalars[WAITING]
    chosen = 0
    if _chance(now) < HEAVIEST:
        for n in range(1, out):
            if weight[waiting[n]] > weight[waiting[chosen]]:
                chosen = n
    else:
        chosen = min(int(_chance(now) * out), out - 1)
    j = waiting[chosen]
    waiting[chosen] = waiting[out - 1]
    scalars[WAITING] = out - 1
    return int(j)


@helper
def _cheapest(space: Space, now: Crowd, j: int, near: int, height: int, least: float, way: int) -> tuple[int, float]:
    """The offset at which storage j drives out less than ``least`` of what may be in its way, and what that weighs.

    Tried are the bottom and the lowest tops of others, or what is right below their highest offsets and the height.
    """
    columns = space.columns
    top, below, highest, above, weight = now.top, now.below, now.highest, now.above, now.weight
    size, unit = columns[SIZE, j], columns[ALIGNMENT, j]
    last = (height - size) // unit * unit
    best = NOWHERE
    begun, ended = 0, 0
    held = 0.0
    for n in range(near + 1):
        if way == UP:
            at = 0 if n == 0 else top[below[n - 1]]
        elif n == near:
            at = last
        else:
            at = highest[above[n]] - size
        if unit > 1:
            at = (at + (unit - 1 if way == UP else 0)) // unit * unit
        if at < 0 or at > last:
            continue
        while begun < near and highest[above[begun]] < at + size:
            held += weight[above[begun]]
            begun += 1
        while ended < near and top[below[ended]] <= at:
            held -= weight[below[ended]]
            ended += 1
        if begun == ended:
            held = 0.0  # without rounding errors
        cost = held * (1.0 + NOISE * _chance(now))
        if cost < least:
            best, least = at, cost
    return best, least


@helper
def _drive_out(space: Space, now: Crowd, j: int, at: int, near: int) -> None:
    """Drive out what can lie neither below storage j at an offset nor above it."""
    columns = space.columns
    above, highest, top, stands, weight = now.above, now.highest, now.top, now.stands, now.weight
    plain, waiting, scalars = now.plain, now.waiting, now.scalars
    end = at + columns[SIZE, j]
    for n in range(near):
        i = above[n]
        if highest[i] < end and top[i] > at:
            stands[i] = 0
            weight[i] *= 1.0 + GROWTH
            if weight[i] > MOST_GROWN * plain[i]:
                for h in range(len(weight)):
                    weight[h] = plain[h]
            waiting[scalars[WAITING]] = i
            scalars[WAITING] += 1


@helper
def _insert(now: Crowd, j: int, at: int) -> None:
    """Drop what was driven out, and put storage j above everything that ends at an offset or below it."""
    scalars, by_highest, stands, by_top, top = now.scalars, now.by_highest, now.stands, now.by_top, now.top
    used, low = 0, 0
    for n in range(scalars[STANDING]):
        i = by_highest[n]
        if stands[i] == 1:
            by_highest[used] = i
            used += 1
    by_highest[used] = j
    used = 0
    for n in range(scalars[STANDING]):
        i = by_top[n]
        if stands[i] == 1:
            by_top[used] = i
            used += 1
            if top[i] <= at:
                low = used
    for n in range(used, low, -1):
        by_top[n] = by_top[n - 1]
    by_top[low] = j
    stands[j] = 1
    scalars[STANDING] = used + 1


@loop
def eject(space: Space, now: Crowd, height: int, steps: int) -> int:
    """Put waiting storages below a height until none waits, or a number of times; returns how many wait."""
    scalars = now.scalars
    _push(space, now, height)
    for _ in range(steps):
        if scalars[WAITING] == 0:
            break
        j = _take_next(now)
        near = _in_the_way(space, now, now.by_highest, j, now.above)
        _in_the_way(space, now, now.by_top, j, now.below)
        other, less = _cheapest(space, now, j, near, height, FIXED / 2.0, UP)
        at, _ = _cheapest(space, now, j, near, height, less, DOWN)
        if at < 0:
            at = other
        if at >= 0:
            _drive_out(space, now, j, at, near)
            _insert(now, j, at)
            _push(space, now, height)
        else:
            now.waiting[scalars[WAITING]] = j
            scalars[WAITING] += 1
    return int(scalars[WAITING])


def steps_of(space: Space, states: int) -> int:
    """Steps instead of states of the exact search: where that is fast because storages live shortly, there are less."""
    most, reach = WORTH * len(space.size), len(space.members) ** 2 // (len(space.size) * max(1, space.sections))
    return 1 + states * min(most, reach) // most


def ejected(
    space: Space,
    offset: IntArray | None,
    height: int,
    seed: int,
    steps: int,
    should_stop: Callable[[], bool],
) -> IntArray | None:
    """Offsets below a height, found from those of a higher layout within a number of steps; None if there are none."""
    if int((np.maximum(space.fixed, 0) + space.size).max(initial=0)) > height:
        return None
    now, made = crowd_of(space, offset, height, seed), 0

    def go_on(until: int) -> bool:
        nonlocal made
        left = eject(space, now, height, until - made)
        made = until
        return left == 0

    return now.lowest if in_pieces(go_on, steps, should_stop) else None
