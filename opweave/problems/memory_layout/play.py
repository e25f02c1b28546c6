"""Playing a memory layout: every block of storages lives in its pool at its offset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from opweave.problems.timeline import Lifetimes, Names, Recorder, Resource, Timeline

if TYPE_CHECKING:
    from opweave.problems.memory_layout.spec import Layout, MemoryLayout


def play(problem: MemoryLayout, solution: Layout) -> Timeline | None:
    """Record the lifetime of every block that takes space; None if a storage has no offset or no known pool."""
    places = []
    for block in problem.blocks:
        first = block.members[0].id
        chosen = {problem.pool_of(solution, each.id) for each in block.members}
        if any(each.id not in solution.offset for each in block.members) or not chosen <= problem.pool_index.keys():
            return None
        places.append((problem.pool_index[problem.pool_of(solution, first) or ""], solution.offset[first]))
    blocks = problem.blocks
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
