"""Local search within a given height: storages that have no place yet are put where they drive out the least.

What stands is no more than an order: of two storages that live together, the earlier one lies below. From it follow the
lowest and the highest offset of every storage within the height, and all of them may move between these two. So a
storage that is put somewhere pushes others up or down, and drives out only those that can neither lie below it nor
above it. What is driven out waits until it is put back. A storage weighs its area, and more whenever it was driven out,
so that the search does not go in circles. This finds lower layouts than the exact search where storages are many, but
it proves nothing.

Source: ejection chains, as for other packings; offsets as heads and tails of a disjunctive graph, as in the
reinsertions of Dauzere-Peres and Paulli, "An integrated approach for modeling and solving the general multiprocessor
job-shop scheduling problem using tabu search" (1997).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.compiled import inlined, kernel
from opweave.solvers.memory_layout.sections import Space
from opweave.solvers.memory_layout.stacking import earliest_from

GROWTH = 0.03
"""Share by which the weight of a storage grows whenever it is driven out."""

MOST_GROWN, FIXED = 1e30, 1e60
"""Weight of a storage in areas at which all begin anew from their areas, and weight of one with a given offset."""

NOISE = 0.02
"""Share by which the weight of what a storage drives out is disturbed, at most."""

HEAVIEST = 0.2
"""Share of the steps that put back the heaviest storage; the others put back any one."""

STEP = 40
"""Sections of a storage, on average, with which a step takes twice as long as one of very short storages."""

NOWHERE = -1
"""Offset of a storage for which there is none."""

STANDING, WAITING, LUCK = 0, 1, 2
LARGEST_LUCK = 2147483647
"""Random numbers are whole ones below this."""


class Crowd(NamedTuple):
    """Storages with and without places, changed in place.

    Attributes
    ----------
    stands
        Whether a storage has a place. Shape (storages,).
    lowest, top, highest
        The lowest offset of each standing storage, where it ends there, and the highest offset. Shape (storages,).
    weight, area
        What it costs to drive it out, now and at first. Shape (storages,).
    order
        The standing storages, from below to above.
    by_top, by_highest
        The standing storages, sorted.
    waiting
        The others.
    below, above
        What can be in the way of one storage, sorted by top and by highest offset.
    skyline
        What is taken in every section. Shape (sections,).
    scalars
        Number of storages with places, number of those without, and the last random number.
    """

    stands: IntArray
    lowest: IntArray
    top: IntArray
    highest: IntArray
    weight: FloatArray
    area: FloatArray
    order: IntArray
    by_top: IntArray
    by_highest: IntArray
    waiting: IntArray
    below: IntArray
    above: IntArray
    skyline: IntArray
    scalars: IntArray


def crowd_of(space: Space, offset: IntArray | None, height: int, seed: int) -> Crowd:
    """The crowd of a layout from which everything above a height is taken, or of none."""
    count = len(space.size)
    at = np.full(count, NOWHERE) if offset is None else offset.copy()
    at[(at + space.size > height) & (space.fixed < 0)] = NOWHERE
    at = np.where(space.fixed >= 0, space.fixed, at).astype(np.int64)
    rows = np.flatnonzero(at >= 0)
    plain = (space.after - space.first) * space.size.astype(np.float64)
    area: FloatArray = np.where(space.fixed >= 0, FIXED, plain / plain.mean())
    lowest, top, highest, order, by_top, by_highest, waiting, below, above = np.zeros((9, count), dtype=np.int64)
    order[: len(rows)] = by_top[: len(rows)] = by_highest[: len(rows)] = rows[np.argsort(at[rows], kind="stable")]
    waiting[: count - len(rows)] = np.flatnonzero(at < 0)
    scalars = np.asarray([len(rows), count - len(rows), 1 + seed * 7919 % (LARGEST_LUCK - 1)], dtype=np.int64)
    return Crowd(
        stands=(at >= 0).astype(np.int64),
        lowest=lowest,
        top=top,
        highest=highest,
        weight=area.copy(),
        area=area,
        order=order,
        by_top=by_top,
        by_highest=by_highest,
        waiting=waiting,
        below=below,
        above=above,
        skyline=np.zeros(space.sections, dtype=np.int64),
        scalars=scalars,
    )


@inlined
def _chance(now: Crowd) -> float:
    """A random number between 0 and 1."""
    now.scalars[LUCK] = now.scalars[LUCK] * 16807 % LARGEST_LUCK
    return float(now.scalars[LUCK] / LARGEST_LUCK)


@inlined
def _sort(rows: IntArray, used: int, key: IntArray) -> None:
    """Sort rows that are nearly sorted."""
    for m in range(1, used):
        j = rows[m]
        n = m
        while n > 0 and key[rows[n - 1]] > key[j]:
            rows[n] = rows[n - 1]
            n -= 1
        rows[n] = j


@inlined
def _push(space: Space, now: Crowd, height: int) -> None:
    """Work out the lowest and the highest offsets within the height."""
    used = now.scalars[STANDING]
    for t in range(len(now.skyline)):
        now.skyline[t] = 0
    for n in range(used):
        j = now.order[n]
        line = now.skyline[space.first[j] : space.after[j]]
        at = 0
        for t in range(len(line)):
            at = max(at, line[t])
        at = earliest_from(space, j, at)
        top = at + space.size[j]
        now.lowest[j], now.top[j] = at, top
        for t in range(len(line)):
            line[t] = top
    for t in range(len(now.skyline)):
        now.skyline[t] = height
    for n in range(used - 1, -1, -1):
        j = now.order[n]
        line = now.skyline[space.first[j] : space.after[j]]
        at = height
        for t in range(len(line)):
            at = min(at, line[t])
        at = (at - space.size[j]) // space.alignment[j] * space.alignment[j]
        if space.fixed[j] >= 0:
            at = space.fixed[j]
        now.highest[j] = at
        for t in range(len(line)):
            line[t] = at
    _sort(now.by_top, used, now.top)
    _sort(now.by_highest, used, now.highest)


@inlined
def _in_the_way(space: Space, now: Crowd, rows: IntArray, j: int, found: IntArray) -> int:
    """Write the storages of sorted rows that storage j may drive out to ``found``; return their number."""
    first, after, size = space.first[j], space.after[j], space.size[j]
    k = 0
    for n in range(now.scalars[STANDING]):
        i = rows[n]
        if space.first[i] < after and first < space.after[i] and now.highest[i] - size < now.top[i]:
            found[k] = i
            k += 1
    return k


@inlined
def _take_next(now: Crowd) -> int:
    """Take a waiting storage: the heaviest, or any one."""
    out = now.scalars[WAITING]
    chosen = 0
    if _chance(now) < HEAVIEST:
        for n in range(1, out):
            if now.weight[now.waiting[n]] > now.weight[now.waiting[chosen]]:
                chosen = n
    else:
        chosen = min(int(_chance(now) * out), out - 1)
    j = now.waiting[chosen]
    now.waiting[chosen] = now.waiting[out - 1]
    now.scalars[WAITING] = out - 1
    return int(j)


@inlined
def _cheapest(space: Space, now: Crowd, j: int, near: int, height: int, upward: int) -> tuple[int, float]:
    """The offset at which storage j drives out the least of what may be in its way, and what that weighs.

    Tried are the bottom and the lowest tops of others, or what is right below their highest offsets and the height.
    """
    size, unit = space.size[j], space.alignment[j]
    last = (height - size) // unit * unit
    best, least = NOWHERE, FIXED / 2.0
    begun, ended = 0, 0
    held = 0.0
    for n in range(near + 1):
        if upward == 1:
            at = 0 if n == 0 else (now.top[now.below[n - 1]] + unit - 1) // unit * unit
        else:
            at = last if n == near else (now.highest[now.above[n]] - size) // unit * unit
        if at < 0 or at > last:
            continue
        while begun < near and now.highest[now.above[begun]] < at + size:
            held += now.weight[now.above[begun]]
            begun += 1
        while ended < near and now.top[now.below[ended]] <= at:
            held -= now.weight[now.below[ended]]
            ended += 1
        if begun == ended:
            held = 0.0  # without rounding errors
        cost = held * (1.0 + NOISE * _chance(now))
        if cost < least:
            best, least = at, cost
    return best, least


@inlined
def _drive_out(space: Space, now: Crowd, j: int, at: int, near: int) -> None:
    """Drive out what can lie neither below storage j at an offset nor above it."""
    end = at + space.size[j]
    for n in range(near):
        i = now.above[n]
        if now.highest[i] < end and now.top[i] > at:
            now.stands[i] = 0
            now.weight[i] *= 1.0 + GROWTH
            if now.weight[i] > MOST_GROWN * now.area[i]:
                now.weight[:] = now.area
            now.waiting[now.scalars[WAITING]] = i
            now.scalars[WAITING] += 1


@inlined
def _left(now: Crowd, rows: IntArray, j: int) -> int:
    """Drop what was driven out from rows, and append storage j; return their number."""
    k = 0
    for n in range(now.scalars[STANDING]):
        if now.stands[rows[n]] == 1:
            rows[k] = rows[n]
            k += 1
    rows[k] = j
    return k + 1


@inlined
def _insert(now: Crowd, j: int, at: int) -> None:
    """Put storage j above everything that can end at an offset or below it."""
    used = _left(now, now.by_top, j)
    _left(now, now.by_highest, j)
    low, high = 0, 0
    for n in range(now.scalars[STANDING]):
        i = now.order[n]
        if now.stands[i] == 1 and now.top[i] <= at:
            now.order[low] = i
            low += 1
        elif now.stands[i] == 1:
            now.above[high] = i
            high += 1
    now.order[low] = j
    for n in range(high):
        now.order[low + 1 + n] = now.above[n]
    now.stands[j] = 1
    now.scalars[STANDING] = used


@kernel
def eject(space: Space, now: Crowd, height: int, budget: int) -> int:
    """Put waiting storages below a height until none waits, or a number of times; returns how many wait."""
    _push(space, now, height)
    for _ in range(budget):
        if now.scalars[WAITING] == 0 or space.halt[0] != 0:
            break
        j = _take_next(now)
        near = _in_the_way(space, now, now.by_highest, j, now.above)
        _in_the_way(space, now, now.by_top, j, now.below)
        at, cost = _cheapest(space, now, j, near, height, 1)
        other, less = _cheapest(space, now, j, near, height, 0)
        if less < cost:
            at = other
        if at >= 0:
            _drive_out(space, now, j, at, near)
            _insert(now, j, at)
            _push(space, now, height)
        else:
            now.waiting[now.scalars[WAITING]] = j
            now.scalars[WAITING] += 1
    return int(now.scalars[WAITING])


def ejected(space: Space, offset: IntArray | None, height: int, seed: int, budget: int) -> IntArray | None:
    """Offsets below a height, found from those of a higher layout within a number of steps; None if there are none.

    Where storages are in many sections, steps take long, and there are less of them.
    """
    if (
        int(space.size.max(initial=0)) > height
        or int((space.fixed + space.size)[space.fixed >= 0].max(initial=0)) > height
    ):
        return None
    now = crowd_of(space, offset, height, seed)
    steps = 1 + budget * STEP // (STEP + len(space.members) // len(space.size))
    work = (30 * len(space.size) + len(space.members)) * min(steps, 1000)
    return now.lowest if eject.sized(work)(space, now, height, steps) == 0 else None
