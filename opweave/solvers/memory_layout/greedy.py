"""Greedy layout: storages one after the other, each into a gap that takes it.

:func:`place` takes them in any order, each into the first or the smallest gap. :func:`allocated` is an allocator: time
passes, and every storage takes a free range when it begins to live. An allocator in a runtime takes the smallest range
that is large enough. One that knows when storages end puts those together that end at about the same time: what they
leave is one range then, and not many small ones. Of tens of thousands of storages, this takes a second or two, and
leaves less unused than the rules that place storages by size.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from opweave.formulations.memory_layout.instance import LayoutInstance
from opweave.problems.arrays import IntArray, IntMatrix
from opweave.problems.graph_arrays import Adjacency
from opweave.solvers.loops import helper, loop
from opweave.solvers.rules import NoPlanError
from opweave.solvers.run import at_work, never

NOWHERE = -1
"""Entry of a list of pools after its last pool, and the pool of a block that is not placed."""

FIRST_GAP, SMALLEST_GAP = 0, 1

PROMISED = 512
"""Number of blocks that are placed even if the time is up: where allocators refuse, rules give the first plan."""

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
    placed = fit(
        instance.begin, instance.end, size, step, instance.fixed, instance.capacity, instance.team, apart.start,
        apart.items, prefer, order, earliest, gap, halt, offset, pool,
    )  # fmt: skip
    return Places(offset, pool) if placed == count else None


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
            if halt[0] != 0 and turn >= PROMISED:
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
            _stand(offset, standing[p], used[p], j, at)
            used[p] += 1
            offset[j] = at
            pool[j] = p
            break
        if pool[j] < 0:
            return turn
        teams[team[j]] = pool[j]
    return count


FAR_AWAY = 1 << 60
"""Larger than every number of sections: how far a storage ends from one that is not there."""


class Taste(NamedTuple):
    """How an allocator chooses among free ranges.

    Attributes
    ----------
    look
        Number of ranges to choose from, the smallest that are large enough.
    waste
        What the bytes count that would be left of a range, where those of a storage of average size would count as much
        as an average lifetime; the rest is how far a neighbour's end is from its own.
    backward
        Whether time passes backward, which gives other layouts.
    """

    look: int = 16
    waste: float = 0.03
    backward: bool = False


def best_fit(instance: LayoutInstance) -> Places | None:
    """An allocator while the model runs: the smallest free range that is large enough, or on top of all."""
    return allocated(instance, Taste(look=1))


def nearest_end(instance: LayoutInstance) -> Places | None:
    """An allocator that knows lifetimes: beside the storage that ends at the nearest time."""
    return allocated(instance, Taste())


def allocated(instance: LayoutInstance, taste: Taste) -> Places | None:
    """The layout of an allocator; None if it exceeds the arena.

    Raises
    ------
    NoPlanError
        With several pools or fixed offsets, which an allocator does not know.
    """
    if len(instance.capacity) > 1:
        raise NoPlanError("an allocator knows one arena")
    rows, begin, end, events = life_of(instance, taste)
    size, count = instance.bytes[rows], len(rows)
    step = np.maximum(instance.alignment, instance.pool_alignment[0])[rows].tolist()
    arena = Ranges(end.tolist(), taste.look, taste.waste * float((end - begin).sum()) / max(1.0, float(size.sum())))
    sizes, at = size.tolist(), [0] * count
    for event in events:
        j = event % count
        if event < count:
            arena.give_back(at[j], at[j] + sizes[j])
        else:
            at[j] = arena.take(j, sizes[j], step[j])
    return _placed(instance, rows, at, arena.top)


def life_of(instance: LayoutInstance, taste: Taste) -> tuple[IntArray, IntArray, IntArray, list[int]]:
    """The blocks that take space, when they begin and end, and these events in turn: ends, then begins plus a count.

    Raises
    ------
    NoPlanError
        With fixed offsets, which an allocator does not know.
    """
    if (instance.fixed >= 0).any():
        raise NoPlanError("an allocator knows no fixed offsets")
    rows = np.flatnonzero(instance.solid)
    begin, end = instance.begin[rows], instance.end[rows]
    if taste.backward:
        begin, end = instance.sections - end, instance.sections - begin
    count = len(rows)
    moments = np.concatenate([end, begin])
    longest_first = np.concatenate([np.zeros(count, dtype=np.int64), -end])
    order = np.lexsort([longest_first, np.repeat([0, 1], count), moments])  # what ends makes room for what begins
    return rows, begin, end, order.tolist()


def _placed(instance: LayoutInstance, rows: IntArray, at: list[int], top: int) -> Places | None:
    """The offsets of the blocks that take space as a layout; None if it exceeds the arena."""
    if top > instance.capacity[0]:
        return None
    offset = np.zeros(len(instance), dtype=np.int64)
    offset[rows] = at
    return Places(offset, np.zeros(len(instance), dtype=np.int64))


class Ranges:
    """The free ranges of an arena that grows when none is large enough.

    Parameters
    ----------
    end
        When every storage ends.
    look, waste
        As in :class:`Taste`; ``waste`` for each byte.

    Attributes
    ----------
    top
        Bytes that have been used so far.
    """

    def __init__(self, end: list[int], look: int, waste: float) -> None:
        self.top = 0
        self._end, self._look, self._waste = end, look, waste
        self._by_size: list[tuple[int, int]] = []  # (bytes, offset)
        self._high: dict[int, int] = {}  # where the range ends that begins here
        self._low: dict[int, int] = {}  # where the range begins that ends here
        self._beneath: dict[int, int] = {}  # the storage whose top is here
        self._above: dict[int, int] = {}  # the storage whose offset is here

    def take(self, j: int, size: int, step: int) -> int:
        """Take a range for storage j at a multiple of a step; return its offset."""
        by_size, end, mine = self._by_size, self._end, self._end[j]
        below, over, waste, left = self._beneath, self._above, self._waste, self._look
        best: tuple[float, int, int] | None = None
        for k in range(bisect_left(by_size, (size, 0)), len(by_size)):  # in most solves the loop with the most turns
            free, low = by_size[k]
            high = low + free
            at = -(-low // step) * step
            if at + size > high:
                continue
            beneath = abs(end[below[low]] - mine) if low in below else FAR_AWAY
            above = abs(end[over[high]] - mine) if high in over else FAR_AWAY
            if above < beneath:
                beneath, at = above, (high - size) // step * step
            option = beneath + waste * (free - size), low, at
            if best is None or option < best:
                best = option
            left -= 1
            if not left:
                break
        if best is not None:
            _, low, at = best
            self._cut(low, at, at + size)
        else:
            low = self._low.get(self.top, self.top)
            at = -(-low // step) * step
            if low < self.top:
                self._drop(low)
            self._add(low, at)
            self.top = at + size
        self._beneath[at + size] = self._above[at] = j
        return at

    def give_back(self, low: int, high: int) -> None:
        """Free a range, and join it with its free neighbours."""
        del self._above[low], self._beneath[high]
        before, after = self._low.get(low), self._high.get(high)
        if before is not None:
            self._drop(before)
            low = before
        if after is not None:
            self._drop(high)
            high = after
        self._add(low, high)

    def _cut(self, low: int, at: int, to: int) -> None:
        """Take a part out of the free range that begins at ``low``."""
        high = self._drop(low)
        self._add(low, at)
        self._add(to, high)

    def _add(self, low: int, high: int) -> None:
        if low < high:
            insort(self._by_size, (high - low, low))
            self._high[low], self._low[high] = high, low

    def _drop(self, low: int) -> int:
        """Forget the free range that begins at ``low``; return where it ends."""
        high = self._high.pop(low)
        del self._low[high]
        del self._by_size[bisect_left(self._by_size, (high - low, low))]
        return high
