"""Playing a memory layout: every block of storages lives in its pool at its offset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.timeline import Lifetimes, Names, Recorder, Resource, Timeline

if TYPE_CHECKING:
    from opweave.problems.memory_layout.spec import Block, Layout, MemoryLayout


@dataclass(frozen=True, slots=True)
class Solid:
    """The blocks that take space, as columns.

    Attributes
    ----------
    rows
        Their positions among all blocks. Shape (solid,).
    begin, end, bytes
        Of each of them. Shape (solid,).
    firsts
        The id of each one's first storage.
    names
        The name of every block, solid or not.
    """

    rows: IntArray
    begin: FloatArray
    end: FloatArray
    bytes: IntArray
    firsts: tuple[str, ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, blocks: Sequence[Block]) -> Solid:
        """The columns of some blocks."""
        rows = [row for row, block in enumerate(blocks) if block.bytes and block.end > block.begin]
        some = [blocks[row] for row in rows]
        return cls(
            rows=np.asarray(rows, dtype=np.int64),
            begin=np.asarray([block.begin for block in some], dtype=np.float64),
            end=np.asarray([block.end for block in some], dtype=np.float64),
            bytes=np.asarray([block.bytes for block in some], dtype=np.int64),
            firsts=tuple(block.members[0].id for block in some),
            names=tuple(block.members[0].id if len(block.members) == 1 else block.name for block in blocks),
        )

    @property
    def live_peak(self) -> int:
        """The most bytes that live at any time."""
        change = np.concatenate([self.bytes, -self.bytes])
        order = np.lexsort((change, np.concatenate([self.begin, self.end])))
        return int(np.cumsum(change[order]).max(initial=0))


def play(problem: MemoryLayout, solution: Layout) -> Timeline | None:
    """Record the lifetime of every block that takes space; None if a storage has no offset or no known pool."""
    return play_in(problem, solution, problem.pools_of(solution))


def play_in(problem: MemoryLayout, solution: Layout, pools_of: Mapping[str, int | None]) -> Timeline | None:
    """As :func:`play`, given the pool of every storage."""
    offsets, blocks = dict(solution.offset.items()), problem.blocks
    if None in pools_of.values() or not pools_of.keys() <= offsets.keys():
        return None
    solid = problem.solid
    at = [offsets[name] for name in solid.firsts]
    where = [pools_of[name] or 0 for name in solid.firsts] if len(problem.pools) > 1 else [0] * len(at)
    lifetimes = Lifetimes(
        storage=solid.rows,
        resource=np.asarray(where, dtype=np.int64),
        begin=solid.begin,
        end=solid.end,
        bytes=solid.bytes,
        offset=np.asarray(at, dtype=np.int64),
    )
    names = Names(solid.names, 0, len(blocks))
    pools = tuple(Resource(pool.name, "device", exclusive=False) for pool in problem.pools)
    return Timeline("seconds", pools, names, Recorder().activities(), lifetimes)
