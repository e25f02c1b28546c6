"""A memory layout as arrays, one row for every block of storages: what formulations and solvers work on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from opweave.formulations.derived import once
from opweave.problems.arrays import (
    NO_LIMIT,
    BoolArray,
    BoolMatrix,
    FloatArray,
    FloatMatrix,
    IntArray,
    IntMatrix,
    distinct,
)
from opweave.problems.graph_arrays import united
from opweave.problems.memory_layout.spec import Layout, MemoryLayout
from opweave.problems.spec import FrozenDict


@dataclass(frozen=True, eq=False)
class LayoutInstance:
    """The problem in whole numbers. Time is cut into sections: from each begin or end of a block to the next one.

    Attributes
    ----------
    problem
        Where the numbers come from.
    moment
        The times between sections, ascending. Shape (sections + 1,), or (0,) without blocks.
    begin, end
        The block lives in the sections from ``begin`` to before ``end``; a block that takes no space in time has
        equal ones. Shape (blocks,).
    bytes, alignment
        Of every block. The alignment of its pool comes in addition; both are powers of two. Shape (blocks,).
    fixed
        Its given offset; -1 for none. Shape (blocks,).
    allowed
        Whether a block may stand in a pool: its pools and operators, its size and its fixed offset say so. Shape
        (blocks, pools).
    seconds
        What it takes to write and read it in a pool. Shape (blocks, pools).
    capacity, pool_alignment
        Of every pool; :data:`~opweave.problems.arrays.NO_LIMIT` for none. Shape (pools,).
    price
        What a reserved byte of every pool counts; nothing where the objective is traffic. Shape (pools,).
    team
        Blocks with the same number must share a pool. Shape (blocks,).
    apart
        Pairs of blocks that must not share a pool, the smaller number first. Shape (pairs, 2).
    """

    problem: MemoryLayout
    moment: FloatArray
    begin: IntArray
    end: IntArray
    bytes: IntArray
    alignment: IntArray
    fixed: IntArray
    allowed: BoolMatrix
    seconds: FloatMatrix
    capacity: IntArray
    pool_alignment: IntArray
    price: IntArray
    team: IntArray
    apart: IntMatrix

    def __len__(self) -> int:
        return len(self.bytes)

    @property
    def sections(self) -> int:
        """Number of sections."""
        return max(0, len(self.moment) - 1)

    @cached_property
    def row_of(self) -> dict[str, int]:
        """The block of every storage, by its id."""
        return {each.id: row for row, block in enumerate(self.problem.blocks) for each in block.members}

    def name(self, row: int) -> str:
        """The id of a block's first storage."""
        return self.problem.columns.firsts[row]

    @cached_property
    def solid(self) -> BoolArray:
        """Blocks that take space. Shape (blocks,)."""
        return (self.bytes > 0) & (self.begin < self.end)

    @cached_property
    def grain(self) -> int:
        """Bytes of which every offset of some best layout is a multiple."""
        aligned = np.concatenate([self.alignment, self.pool_alignment])
        steps = [self.bytes[self.solid], self.fixed[self.fixed > 0], aligned[aligned > 1]]
        return max(1, int(np.gcd.reduce(np.concatenate(steps), initial=0)))

    @cached_property
    def height(self) -> int:
        """Bytes that no layout needs to exceed in any pool: everything stacked on the highest fixed block."""
        step = int(np.concatenate([self.alignment, self.pool_alignment]).max(initial=1))
        highest = int((self.fixed + self.bytes)[self.fixed >= 0].max(initial=0))
        stacked: int = sum((size + step - 1) // step * step for size in self.bytes[self.solid].tolist())
        return highest + stacked + step

    @cached_property
    def meeting(self) -> tuple[IntArray, IntArray]:
        """Pairs of blocks that take space at the same time, the smaller number first. Both of shape (pairs,)."""
        rows, counts = self._meeting_later
        after = np.arange(1, len(rows) + 1)
        first = np.repeat(rows, counts)
        second = rows[np.arange(len(first)) + np.repeat(after - np.cumsum(counts) + counts, counts)]
        return np.minimum(first, second), np.maximum(first, second)

    @property
    def meetings(self) -> int:
        """Number of these pairs, which is known before they are listed."""
        return int(self._meeting_later[1].sum())

    @cached_property
    def _meeting_later(self) -> tuple[IntArray, IntArray]:
        """Blocks that take space, by their begin, and how many later ones begin before each of them ends."""
        rows = np.flatnonzero(self.solid)
        rows = rows[np.argsort(self.begin[rows], kind="stable")]
        begin, end, after = self.begin[rows], self.end[rows], np.arange(1, len(rows) + 1)
        return rows, np.maximum(np.searchsorted(begin, end) - after, 0)

    def full_sections(self) -> Iterator[IntArray]:
        """Blocks of each section in which something begins right before something ends; no other set is larger."""
        begins, ends = (set(column[self.solid].tolist()) for column in (self.begin, self.end))
        latest = None
        for section in range(self.sections):
            latest = section if section in begins else latest
            if latest is not None and section + 1 in ends:
                yield np.flatnonzero(self.solid & (self.begin <= section) & (self.end > section))
                latest = None

    @cached_property
    def live(self) -> IntArray:
        """Bytes that live in every section, in all pools together. Shape (sections,)."""
        return live_bytes(self.begin, self.end, self.bytes, self.sections)

    @cached_property
    def impossible(self) -> str | None:
        """A block that may stand in no pool, in words; None if there is none."""
        nowhere = np.flatnonzero(~self.allowed.any(axis=1))
        if not len(nowhere):
            return None
        block = self.problem.blocks[int(nowhere[0])]
        fixed = self.fixed[nowhere[0]]
        if fixed >= 0 and fixed % int(self.alignment[nowhere[0]]):
            step = int(self.alignment[nowhere[0]])
            return (
                f"storage {block.name!r} has the fixed offset {fixed:,}, no multiple of its alignment of {step:,} bytes"
            )
        where = "" if fixed < 0 else f" at its fixed offset {fixed:,}"
        return f"storage {block.name!r} of {block.bytes:,} bytes fits into none of its pools{where}"

    def layout(self, offset: IntArray, pool: IntArray | None = None) -> Layout:
        """The solution for offsets and pools of the blocks; None for the first pool. Both of shape (blocks,)."""
        problem, known = self.problem, offset.tolist()
        places = np.zeros(len(self), dtype=np.int64) if pool is None else pool
        words, firsts = [each.name for each in problem.pools], problem.columns.firsts
        offsets = dict(zip(firsts, known, strict=True))
        pools = {} if len(words) == 1 else dict(zip(firsts, map(words.__getitem__, places.tolist()), strict=True))
        if not problem.in_place:
            return Layout.made_of(offset=FrozenDict(offsets), pool=FrozenDict(pools))
        for block, at, number in zip(problem.blocks, known, places.tolist(), strict=True):
            for each in block.members:
                offsets[each.id], pools[each.id] = at, words[number]
        order = [each.id for each in problem.lifetimes]
        return Layout.made_of(
            offset=FrozenDict({name: offsets[name] for name in order}),
            pool=FrozenDict({} if len(words) == 1 else {name: pools[name] for name in order}),
        )

    def places(self, layout: Layout) -> tuple[IntArray, IntArray]:
        """Offsets and pools of the blocks in a valid solution; the opposite of :meth:`layout`."""
        firsts = self.problem.columns.firsts
        pools = [self.problem.pool_index[self.problem.pool_of(layout, name) or ""] for name in firsts]
        offsets = [layout.offset[name] for name in firsts]
        return np.asarray(offsets, dtype=np.int64), np.asarray(pools, dtype=np.int64)


def live_bytes(begin: IntArray, end: IntArray, size: IntArray, sections: int) -> IntArray:
    """Bytes that live in every section, given the first section of each block and the one after its last.

    Examples
    --------
    >>> live_bytes(np.array([0, 1]), np.array([2, 3]), np.array([5, 7]), 3).tolist()
    [5, 12, 7]
    """
    change = np.zeros(sections + 1, dtype=np.int64)
    np.add.at(change, begin, size)
    np.subtract.at(change, end, size)
    held: IntArray = np.cumsum(change)[:sections]
    return held


@once
def lower(problem: MemoryLayout) -> LayoutInstance:
    """The arrays of a problem."""
    columns, pools = problem.columns, problem.pools
    begin, end, size, alignment = columns.begin, columns.end, columns.bytes, columns.alignment
    moment = distinct(np.concatenate([begin, end]))
    capacity = np.asarray([NO_LIMIT if pool.bytes is None else pool.bytes for pool in pools], dtype=np.int64)
    pool_alignment = np.asarray([pool.alignment for pool in pools], dtype=np.int64)
    fixed = _fixed(problem)
    at = np.maximum(fixed, 0)
    fits = ((at + size)[:, None] <= capacity) | ~columns.solid[:, None]
    aligned = (at[:, None] % pool_alignment == 0) & (at % alignment == 0)[:, None]
    return LayoutInstance(
        problem=problem,
        moment=moment,
        begin=np.searchsorted(moment, begin).astype(np.int64),
        end=np.searchsorted(moment, end).astype(np.int64),
        bytes=size,
        alignment=alignment,
        fixed=fixed,
        allowed=_welcome(problem) & fits & aligned,
        seconds=_seconds(problem),
        capacity=capacity,
        pool_alignment=pool_alignment,
        price=np.asarray([pool.price * (problem.objective == "arena") for pool in pools], dtype=np.int64),
        **_companions(problem),
    )


def _fixed(problem: MemoryLayout) -> IntArray:
    """The given offset of every block; -1 for none. Shape (blocks,)."""
    if not problem.fixed:
        return np.full(len(problem.columns.names), -1, dtype=np.int64)
    given = ([problem.fixed[each.id] for each in block.members if each.id in problem.fixed] for block in problem.blocks)
    return np.asarray([places[0] if places else -1 for places in given], dtype=np.int64)


def _welcome(problem: MemoryLayout) -> BoolMatrix:
    """Whether a block's own pools and its operators let it stand in a pool. Shape (blocks, pools)."""
    pools = problem.pools
    free = all(pool.operators is None for pool in pools) and all(each.pools is None for each in problem.lifetimes)
    if free:
        return np.ones((len(problem.columns.names), len(pools)), dtype=bool)
    blocks = problem.blocks
    welcome = [[all(problem.may_stand_in(each, pool) for each in block.members) for pool in pools] for block in blocks]
    return np.asarray(welcome, dtype=bool).reshape(len(blocks), len(pools))


def _seconds(problem: MemoryLayout) -> FloatMatrix:
    """Seconds in which a block is written and read in a pool. Shape (blocks, pools)."""
    pools, count = problem.pools, len(problem.columns.names)
    if all(pool.speed is None for pool in pools):
        return np.zeros((count, len(pools)))
    if count == len(problem.lifetimes):
        return np.divide.outer(problem.moved, np.asarray([pool.speed or np.inf for pool in pools], dtype=np.float64))
    blocks = problem.blocks
    seconds = [[sum(pool.seconds(each.moved) for each in block.members) for pool in pools] for block in blocks]
    return np.asarray(seconds, dtype=np.float64).reshape(len(blocks), len(pools))


def _companions(problem: MemoryLayout) -> dict[str, IntArray]:
    """Teams of blocks that share a pool, and pairs that do not."""
    if not problem.together and not problem.apart:
        return {"team": np.arange(len(problem.columns.names)), "apart": np.zeros((0, 2), dtype=np.int64)}
    block = {each.id: row for row, block in enumerate(problem.blocks) for each in block.members}
    names = {str(row): row for row in range(len(problem.blocks))}
    groups = [[str(block[name]) for name in group] for group in problem.together]
    team = np.zeros(len(names), dtype=np.int64)
    for number, rows in enumerate(united(names, groups)):
        team[rows] = number
    pairs = {
        (min(block[a], block[b]), max(block[a], block[b]))
        for group in problem.apart
        for k, a in enumerate(group)
        for b in group[k + 1 :]
    }
    return {"team": team, "apart": np.asarray(sorted(pairs), dtype=np.int64).reshape(-1, 2)}


def pushed_down(
    instance: LayoutInstance, offset: FloatArray, pool: IntArray, least: IntArray | None = None
) -> IntArray:
    """Offsets in the same order, each as low as ``least``, the earlier ones of its pool and its alignment allow.

    A block that does not fit under a fixed one stands above it, because an engine may have taken fixed offsets that
    are far smaller than a unit for 0. A block that takes no space stands where ``least`` puts it.
    """
    found = np.where(instance.fixed >= 0, instance.fixed, 0)
    order = np.argsort(np.where(instance.fixed >= 0, instance.fixed, offset), kind="stable")
    fixed = np.flatnonzero((instance.fixed >= 0) & instance.solid)
    given = fixed[np.argsort(instance.fixed[fixed], kind="stable")]
    placed = np.zeros(len(instance), dtype=bool)
    for row in order.tolist():
        if instance.fixed[row] < 0 and (instance.solid[row] or least is not None):
            near = (pool == pool[row]) & (instance.begin < instance.end[row]) & (instance.begin[row] < instance.end)
            near &= instance.solid[row]
            below = int((found + instance.bytes)[near & placed].max(initial=0 if least is None else int(least[row])))
            step = int(max(instance.alignment[row], instance.pool_alignment[pool[row]]))
            at = -(-below // step) * step
            for other in given[near[given]].tolist():
                top = int(found[other] + instance.bytes[other])
                if at < top and found[other] < at + instance.bytes[row]:
                    at = -(-top // step) * step
            found[row] = at
        placed[row] = instance.solid[row]
    return found
