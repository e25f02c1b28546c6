"""Greedy layout: storages one after the other, each into a gap that takes it.

A rule is an order of the storages and a choice among gaps. In the order in which they begin to live, a rule is an
allocator. One that knows when storages end puts those together that end at about the same time: what they leave is one
range then, and not many small ones. Of tens of thousands of storages, this leaves less unused than the rules that place
storages by size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opweave.formulations.memory_layout.instance import LayoutInstance
from opweave.problems.arrays import IntArray, IntMatrix
from opweave.problems.graph_arrays import Adjacency
from opweave.solvers.loops import helper, loop

NOWHERE = -1
"""Entry of a list of pools after its last pool, and the pool of a block that is not placed."""

FIRST_GAP, SMALLEST_GAP, NEAREST_END = 0, 1, 2
"""The lowest gap, the smallest one, or the one beside the storage that ends at the nearest time."""

WASTE = 0.03
"""For the last: what the bytes count that would be left of a gap, where those of a storage of average size would count
as much as an average lifetime; the rest is how far a neighbour's end is from its own."""

FORGET = 64
"""Number of blocks after which those that have ended are dropped."""


@dataclass(frozen=True, slots=True)
class Places:
    """Offsets and pools of all blocks; the pool is ``NOWHERE`` for a block without a place. Both of shape (blocks,)."""

    offset: IntArray
    pool: IntArray


def place(
    instance: LayoutInstance, order: IntArray, gap: int, waste: float = WASTE, prefer: IntMatrix | None = None
) -> Places:
    """Place blocks in an order; one that fits into no pool that it may stand in is left out.

    Parameters
    ----------
    instance
        The problem.
    order
        Blocks; those with fixed offsets are placed before all others. Shape (blocks,), or less for some blocks.
    gap
        ``FIRST_GAP``, ``SMALLEST_GAP`` or ``NEAREST_END``.
    waste
        As :data:`WASTE`.
    prefer
        For every block, the pools to try, in this order, then ``NOWHERE``; None for all pools, the fastest first. Shape
        (blocks, pools).
    """
    count = len(instance)
    order = np.concatenate([order[instance.fixed[order] >= 0], order[instance.fixed[order] < 0]])
    offset, pool = np.zeros(count, dtype=np.int64), np.full(count, NOWHERE, dtype=np.int64)
    if prefer is None:
        prefer = fastest_first(instance)
    pairs = np.concatenate([instance.apart, instance.apart[:, ::-1]])
    apart = Adjacency.from_pairs(count, pairs[:, 0].copy(), pairs[:, 1].copy())
    step = np.maximum(instance.alignment[:, None], instance.pool_alignment)
    size = np.where(instance.end > instance.begin, instance.bytes, 0)
    earliest = np.minimum.accumulate(instance.begin[order][::-1])[::-1].copy()
    each = waste * float((instance.end - instance.begin).sum()) / max(1.0, float(size.sum()))
    fit(
        instance.begin, instance.end, size, step, instance.fixed, instance.capacity, instance.team, apart.start,
        apart.items, prefer, order, earliest, gap, each, offset, pool,
    )  # fmt: skip
    return Places(offset, pool)


def fastest_first(instance: LayoutInstance) -> IntMatrix:
    """The pools of every block in the order in which they are tried. Shape (blocks, pools)."""
    seconds = np.where(instance.allowed, instance.seconds, np.inf)
    order = np.argsort(seconds, axis=1, kind="stable")
    return np.where(np.take_along_axis(instance.allowed, order, axis=1), order, NOWHERE).astype(np.int64)


@helper
def _rounded(value: int, step: int) -> int:
    return (value + step - 1) // step * step


@helper
def _gap(
    begin: IntArray,
    end: IntArray,
    size: IntArray,
    offset: IntArray,
    standing: IntArray,
    used: int,
    j: int,
    step: int,
    fixed: int,
    gap: int,
    waste: float,
) -> int:
    """Where block j goes in a pool whose blocks ``standing[:used]`` are sorted by offset; ``NOWHERE`` if nowhere."""
    at, below = 0, NOWHERE
    found, least = NOWHERE, np.inf
    for n in range(used):
        i = standing[n]
        if begin[i] >= end[j] or begin[j] >= end[i]:
            continue
        low = offset[i]
        if fixed >= 0:
            if low < fixed + size[j] and fixed < low + size[i]:
                return NOWHERE
        elif low - at >= size[j]:
            if gap == FIRST_GAP:
                return at
            cost, where = float(low - at), at
            if gap == NEAREST_END:
                apart = np.inf if below < 0 else float(abs(end[below] - end[j]))
                if abs(end[i] - end[j]) < apart:
                    apart, where = float(abs(end[i] - end[j])), (low - size[j]) // step * step
                cost = apart + waste * (cost - size[j])
            if cost < least:
                found, least = where, cost
        top = _rounded(low + size[i], step)
        if top > at:
            at, below = top, i
    if fixed >= 0:
        return fixed
    return at if found < 0 else found


@helper
def _forget(end: IntArray, standing: IntArray, used: int, moment: int) -> int:
    """Drop what has ended; return how many are left."""
    left = 0
    for n in range(used):
        if end[standing[n]] > moment:
            standing[left] = standing[n]
            left += 1
    return left


@helper
def _stand(offset: IntArray, standing: IntArray, count: int, j: int, at: int) -> None:
    """Put block j among those that stand in a pool, in the order of their offsets."""
    n = count
    while n > 0 and offset[standing[n - 1]] > at:
        standing[n] = standing[n - 1]
        n -= 1
    standing[n] = j


@loop
def fit(
    begin: IntArray,
    end: IntArray,
    size: IntArray,
    step: IntMatrix,
    fixed: IntArray,
    capacity: IntArray,
    team: IntArray,
    apart_start: IntArray,
    apart: IntArray,
    prefer: IntMatrix,
    order: IntArray,
    earliest: IntArray,
    gap: int,
    waste: float,
    offset: IntArray,
    pool: IntArray,
) -> None:
    """Place blocks in an order. Shapes as in :func:`place`.

    ``earliest`` is the first begin of each block in the order and all later ones: what has ended by then is forgotten.
    """
    pools = len(capacity)
    standing = np.zeros((pools, len(order)), dtype=np.int64)
    used = np.zeros(pools, dtype=np.int64)
    teams = np.full(len(pool), -1, dtype=np.int64)
    for turn in range(len(order)):
        j = order[turn]
        if turn % FORGET == 0:
            for p in range(pools):
                used[p] = _forget(end, standing[p], used[p], earliest[turn])
        for k in range(pools):
            p = prefer[j, k]
            if p < 0:
                break
            if teams[team[j]] >= 0 and teams[team[j]] != p:
                continue
            alone = True
            for e in range(apart_start[j], apart_start[j + 1]):
                alone = alone and pool[apart[e]] != p
            if not alone:
                continue
            if size[j] == 0:
                offset[j] = max(fixed[j], 0)
                pool[j] = p
                break
            at = _gap(begin, end, size, offset, standing[p], used[p], j, step[j, p], fixed[j], gap, waste)
            if at < 0 or at + size[j] > capacity[p]:
                continue
            _stand(offset, standing[p], used[p], j, at)
            used[p] += 1
            offset[j] = at
            pool[j] = p
            break
        if pool[j] >= 0:
            teams[team[j]] = pool[j]
