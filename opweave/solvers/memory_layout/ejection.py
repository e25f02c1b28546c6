"""Local search within a given height: storages that have no place yet are put where they drive out the least.

What is driven out waits until it is put back. A storage weighs its area, and more whenever it was driven out, so that
the search does not go in circles. This finds lower layouts than the exact search where storages are many, but it proves
nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.compiled import inlined, kernel
from opweave.solvers.memory_layout.sections import Space

OUT = -1
"""Entry of the offsets for a storage that has no place."""

GROWTH = 0.03
"""Share by which the weight of a storage grows whenever it is driven out."""

MOST_GROWN, FIXED = 1e30, 1e60
"""Weight of a storage in areas at which all begin anew from their areas, and weight of one with a given offset."""

NOISE = 0.02
"""Share by which the weight of what a storage drives out is disturbed, at most."""

HEAVIEST = 0.5
"""Share of the steps that put back the heaviest storage; the others put back any one."""

STANDING, WAITING, LUCK = 0, 1, 2
LARGEST_LUCK = 2147483647
"""Random numbers are whole ones below this."""


class Crowd(NamedTuple):
    """Storages with and without places, changed in place.

    Attributes
    ----------
    offset, top
        Where each storage stands; ``OUT`` if it does not. Shape (storages,).
    weight, area
        What it costs to drive it out, now and at first. Shape (storages,).
    by_offset, by_top
        The storages that have places, sorted.
    waiting
        Those that have none.
    near, below
        Neighbours of one storage, sorted by offset and by top.
    scalars
        Number of storages with places, number of those without, and the last random number.
    """

    offset: IntArray
    top: IntArray
    weight: FloatArray
    area: FloatArray
    by_offset: IntArray
    by_top: IntArray
    waiting: IntArray
    near: IntArray
    below: IntArray
    scalars: IntArray


def crowd_of(space: Space, offset: IntArray | None, height: int, seed: int) -> Crowd:
    """The crowd of a layout from which everything above a height is taken, or of none."""
    count = len(space.size)
    offset = np.full(count, OUT) if offset is None else offset.copy()
    offset[(offset + space.size > height) & (space.fixed < 0)] = OUT
    offset = np.where(space.fixed >= 0, space.fixed, offset).astype(np.int64)
    top = np.where(offset >= 0, offset + space.size, 0)
    rows = np.flatnonzero(offset >= 0)
    plain = (space.after - space.first) * space.size.astype(np.float64)
    area: FloatArray = np.where(space.fixed >= 0, FIXED, plain / plain.mean())
    by_offset, by_top, waiting, near, below = (np.zeros(count, dtype=np.int64) for _ in range(5))
    by_offset[: len(rows)], by_top[: len(rows)] = rows[np.argsort(offset[rows])], rows[np.argsort(top[rows])]
    waiting[: count - len(rows)] = np.flatnonzero(offset < 0)
    scalars = np.asarray([len(rows), count - len(rows), 1 + seed * 7919 % (LARGEST_LUCK - 1)], dtype=np.int64)
    return Crowd(offset, top, area.copy(), area, by_offset, by_top, waiting, near, below, scalars)


@inlined
def _chance(now: Crowd) -> float:
    """A random number between 0 and 1."""
    now.scalars[LUCK] = now.scalars[LUCK] * 16807 % LARGEST_LUCK
    return float(now.scalars[LUCK] / LARGEST_LUCK)


@inlined
def _insert(rows: IntArray, used: int, key: IntArray, j: int) -> None:
    """Insert a storage into sorted rows."""
    n = used
    while n > 0 and key[rows[n - 1]] > key[j]:
        rows[n] = rows[n - 1]
        n -= 1
    rows[n] = j


@inlined
def _remove(rows: IntArray, used: int, j: int) -> None:
    """Remove a storage from sorted rows."""
    n = 0
    while rows[n] != j:
        n += 1
    for k in range(n, used - 1):
        rows[k] = rows[k + 1]


@inlined
def _neighbours(space: Space, rows: IntArray, used: int, j: int, found: IntArray) -> int:
    """Write the storages of sorted rows that live together with storage j to ``found``; return their number."""
    first, after = space.first[j], space.after[j]
    k = 0
    for n in range(used):
        i = rows[n]
        found[k] = i
        if space.first[i] < after and first < space.after[i]:
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
    """The offset at which storage j drives out the least of its neighbours, and what that weighs.

    Tried are the bottom and the tops of neighbours, or what is right below their offsets, and right below the height.
    """
    size, unit = space.size[j], space.alignment[j]
    last = (height - size) // unit * unit
    best, least = OUT, FIXED / 2.0
    begun, ended = 0, 0
    held = 0.0
    for n in range(near + 1):
        if upward == 1:
            at = 0 if n == 0 else (now.top[now.below[n - 1]] + unit - 1) // unit * unit
        else:
            at = last if n == near else (now.offset[now.near[n]] - size) // unit * unit
        if at < 0 or at > last:
            continue
        while begun < near and now.offset[now.near[begun]] < at + size:
            held += now.weight[now.near[begun]]
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
    """Make room for storage j at an offset, and put it there."""
    end = at + space.size[j]
    for n in range(near):
        i = now.near[n]
        if now.offset[i] < end and now.top[i] > at:
            _remove(now.by_offset, now.scalars[STANDING], i)
            _remove(now.by_top, now.scalars[STANDING], i)
            now.scalars[STANDING] -= 1
            now.offset[i] = OUT
            now.weight[i] *= 1.0 + GROWTH
            if now.weight[i] > MOST_GROWN * now.area[i]:
                now.weight[:] = now.area
            now.waiting[now.scalars[WAITING]] = i
            now.scalars[WAITING] += 1
    now.offset[j], now.top[j] = at, end
    _insert(now.by_offset, now.scalars[STANDING], now.offset, j)
    _insert(now.by_top, now.scalars[STANDING], now.top, j)
    now.scalars[STANDING] += 1


@kernel
def eject(space: Space, now: Crowd, height: int, budget: int) -> int:
    """Put waiting storages below a height until none waits, or a number of times; returns how many wait."""
    for _ in range(budget):
        if now.scalars[WAITING] == 0 or space.halt[0] != 0:
            break
        j = _take_next(now)
        near = _neighbours(space, now.by_offset, now.scalars[STANDING], j, now.near)
        _neighbours(space, now.by_top, now.scalars[STANDING], j, now.below)
        at, cost = _cheapest(space, now, j, near, height, 1)
        other, less = _cheapest(space, now, j, near, height, 0)
        if less < cost:
            at = other
        if at >= 0:
            _drive_out(space, now, j, at, near)
        else:
            now.waiting[now.scalars[WAITING]] = j
            now.scalars[WAITING] += 1
    return int(now.scalars[WAITING])


def ejected(space: Space, offset: IntArray | None, height: int, seed: int, budget: int) -> IntArray | None:
    """Offsets below a height, found from those of a higher layout within a number of steps; None if there are none."""
    if (
        int(space.size.max(initial=0)) > height
        or int((space.fixed + space.size)[space.fixed >= 0].max(initial=0)) > height
    ):
        return None
    now = crowd_of(space, offset, height, seed)
    work = 30 * len(space.size) * min(budget, 1000)
    return now.offset if eject.sized(work)(space, now, height, budget) == 0 else None
