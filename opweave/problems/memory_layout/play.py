"""Playing a memory layout: every block of storages lives in its pool at its offset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from opweave.problems.timeline import Lifetimes, Names, Recorder, Resource, Timeline

if TYPE_CHECKING:
    from opweave.problems.memory_layout.spec import Layout, MemoryLayout


def play(problem: MemoryLayout, solution: Layout) -> Timeline | None:
    """Record the lifetime of every block that takes space; None if a storage has no offset or no known pool."""
    pools_of, offsets, blocks = problem.pools_of(solution), dict(solution.offset), problem.blocks
    if None in pools_of.values() or not pools_of.keys() <= offsets.keys():
        return None
    firsts = [block.members[0].id for block in blocks]
    places = [(pools_of[name] or 0, offsets[name]) for name in firsts]
    rows = [row for row, block in enumerate(blocks) if block.bytes and block.end > block.begin]
    lifetimes = Lifetimes(
        storage=np.asarray(rows, dtype=np.int64),
        resource=np.asarray([places[row][0] for row in rows], dtype=np.int64),
        begin=np.asarray([blocks[row].begin for row in rows], dtype=np.float64),
        end=np.asarray([blocks[row].end for row in rows], dtype=np.float64),
        bytes=np.asarray([blocks[row].bytes for row in rows], dtype=np.int64),
        offset=np.asarray([places[row][1] for row in rows], dtype=np.int64),
    )
    names = Names(tuple(block.name for block in blocks), 0, len(blocks))
    pools = tuple(Resource(pool.name, "device", exclusive=False) for pool in problem.pools)
    return Timeline("seconds", pools, names, Recorder().activities(), lifetimes)
