"""Greedy layout: storages one after the other, each into the first or the smallest gap that takes it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opweave.formulations.memory_layout.instance import LayoutInstance
from opweave.problems.arrays import IntArray, IntMatrix
from opweave.problems.graph_arrays import Adjacency
from opweave.solvers.compiled import inlined, kernel
from opweave.solvers.run import at_work, never

NOWHERE = -1
"""Entry of a list of pools after its last pool, and the pool of a block that is not placed."""

FIRST_GAP, SMALLEST_GAP = 0, 1

FORGET = 64
"""Number of blocks after which those that have ended are dropped."""


@dataclass(frozen=True, slots=True)
class Places:
    """Offsets and pools of all blocks. Both of shape (blocks,)."""

    offset: IntArray
    pool: IntArray


def place(instance: LayoutInstance, order: IntArray, gap: int, prefer: IntMatrix | None = None) -> Places | None:
    """Place all blocks in an order; None if one fits into no pool that it may stand in.

    Parameters
    ----------
    instance
        The problem.
    order
        Blocks; those with fixed offsets are placed before all others. Shape (blocks,).
    gap
        ``FIRST_GAP`` or ``SMALLEST_GAP``.
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
    begins = instance.begin[order]
    earliest = np.minimum.accumulate(begins[::-1])[::-1].copy()
    run = at_work()
    halt = never() if run is None else run.halt
    placed = fit.sized(3 * count * count)(
        instance.begin, instance.end, size, step, instance.fixed, instance.capacity, instance.team, apart.start,
        apart.items, prefer, order, earliest, gap, halt, offset, pool,
    )  # fmt: skip
    return Places(offset, pool) if placed == count else None


def fastest_first(instance: LayoutInstance) -> IntMatrix:
    """The pools of every block in the order in which they are tried. Shape (blocks, pools)."""
    seconds = np.where(instance.allowed, instance.seconds, np.inf)
    order = np.argsort(seconds, axis=1, kind="stable")
    return np.where(np.take_along_axis(instance.allowed, order, axis=1), order, NOWHERE).astype(np.int64)


@inlined
def _rounded(value: int, step: int) -> int:
    return (value + step - 1) // step * step


@inlined
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
) -> int:
    """Where block j goes in a pool whose blocks ``standing[:used]`` are sorted by offset; ``NOWHERE`` if nowhere."""
    at = 0
    found, least = NOWHERE, 1 << 62
    for n in range(used):
        i = standing[n]
        if begin[i] >= end[j] or begin[j] >= end[i]:
            continue
        low = offset[i]
        if fixed >= 0:
            if low < fixed + size[j] and fixed < low + size[i]:
                return NOWHERE
        elif low - at >= size[j]:
            if gap == 0:
                return at
            if low - at < least:
                found, least = at, low - at
        at = max(at, _rounded(low + size[i], step))
    if fixed >= 0:
        return fixed
    return at if found < 0 else found


@inlined
def _forget(end: IntArray, standing: IntArray, used: int, moment: int) -> int:
    """Drop what has ended; return how many are left."""
    left = 0
    for n in range(used):
        if end[standing[n]] > moment:
            standing[left] = standing[n]
            left += 1
    return left


@kernel
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
    halt: IntArray,
    offset: IntArray,
    pool: IntArray,
) -> int:
    """Place blocks in an order until one fits nowhere; returns how many were placed. Shapes as in :func:`place`.

    ``earliest`` is the first begin of each block in the order and all later ones: what has ended by then is forgotten.
    """
    count = len(order)
    pools = len(capacity)
    standing = np.zeros((pools, count), dtype=np.int64)
    used = np.zeros(pools, dtype=np.int64)
    teams = np.full(count, -1, dtype=np.int64)
    for turn in range(count):
        j = order[turn]
        if turn % FORGET == 0:
            if halt[0] != 0:
                return turn
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
            at = _gap(begin, end, size, offset, standing[p], used[p], j, step[j, p], fixed[j], gap)
            if at < 0 or at + size[j] > capacity[p]:
                continue
            n = used[p]
            while n > 0 and offset[standing[p, n - 1]] > at:
                standing[p, n] = standing[p, n - 1]
                n -= 1
            standing[p, n] = j
            used[p] += 1
            offset[j] = at
            pool[j] = p
            break
        if pool[j] < 0:
            return turn
        teams[team[j]] = pool[j]
    return count
