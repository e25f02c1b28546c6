"""Playing a memory layout: every block of storages lives in its pool at its offset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from opweave.problems.arrays import BoolArray, FloatArray, IntArray
from opweave.problems.timeline import Lifetimes, Names, Recorder, Resource, Timeline

if TYPE_CHECKING:
    from opweave.problems.memory_layout.parts import Lifetime
    from opweave.problems.memory_layout.spec import Block, Layout, MemoryLayout


@dataclass(frozen=True, slots=True)
class Columns:
    """The blocks as columns, in the order of the problem.

    Attributes
    ----------
    begin, end, bytes, alignment
        Of each of them. Shape (blocks,).
    firsts
        The id of each one's first storage.
    names
        Its name.
    """

    begin: FloatArray
    end: FloatArray
    bytes: IntArray
    alignment: IntArray
    firsts: tuple[str, ...]
    names: tuple[str, ...]

    @classmethod
    def alone(cls, lifetimes: Sequence[Lifetime]) -> Columns:
        """The columns of storages of which none shares its place."""
        rows = map(attrgetter("id", "begin", "end", "bytes", "alignment"), lifetimes)
        names, begin, end, size, alignment = zip(*rows, strict=True) if lifetimes else ((),) * 5
        return cls(
            begin=np.asarray(begin, dtype=np.float64),
            end=np.asarray(end, dtype=np.float64),
            bytes=np.asarray(size, dtype=np.int64),
            alignment=np.asarray(alignment, dtype=np.int64),
            firsts=names,
            names=names,
        )

    @classmethod
    def of(cls, blocks: Sequence[Block]) -> Columns:
        """The columns of some blocks."""
        return cls(
            begin=np.asarray([block.begin for block in blocks], dtype=np.float64),
            end=np.asarray([block.end for block in blocks], dtype=np.float64),
            bytes=np.asarray([block.bytes for block in blocks], dtype=np.int64),
            alignment=np.asarray([max(each.alignment for each in block.members) for block in blocks], dtype=np.int64),
            firsts=tuple(block.members[0].id for block in blocks),
            names=tuple(block.members[0].id if len(block.members) == 1 else block.name for block in blocks),
        )

    @property
    def solid(self) -> BoolArray:
        """Which blocks take space. Shape (blocks,)."""
        return (self.bytes > 0) & (self.end > self.begin)

    @property
    def live_peak(self) -> int:
        """The most bytes that live at any time."""
        solid = self.solid
        size = self.bytes[solid]
        change = np.concatenate([size, -size])
        order = np.lexsort((change, np.concatenate([self.begin[solid], self.end[solid]])))
        return int(np.cumsum(change[order]).max(initial=0))


def play(problem: MemoryLayout, solution: Layout) -> Timeline | None:
    """Record the lifetime of every block that takes space; None if a storage has no offset or no known pool."""
    return play_in(problem, solution, problem.pools_of(solution))


def play_in(problem: MemoryLayout, solution: Layout, pools_of: Mapping[str, int | None]) -> Timeline | None:
    """As :func:`play`, given the pool of every storage."""
    offsets, columns = dict(solution.offset.items()), problem.columns
    if None in pools_of.values() or not pools_of.keys() <= offsets.keys():
        return None
    solid = np.flatnonzero(columns.solid)
    at = [offsets[name] for name in columns.firsts]
    where = [pools_of[name] or 0 for name in columns.firsts] if len(problem.pools) > 1 else [0] * len(at)
    lifetimes = Lifetimes(
        storage=solid,
        resource=np.asarray(where, dtype=np.int64)[solid],
        begin=columns.begin[solid],
        end=columns.end[solid],
        bytes=columns.bytes[solid],
        offset=np.asarray(at, dtype=np.int64)[solid],
    )
    names = Names(columns.names, 0, len(columns.names))
    pools = tuple(Resource(pool.name, "device", exclusive=False) for pool in problem.pools)
    return Timeline("seconds", pools, names, Recorder().activities(), lifetimes)
