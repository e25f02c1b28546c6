"""The trivial bound of memory ordering; see :mod:`opweave.solvers.trivial`."""

from __future__ import annotations

import numpy as np

from opweave.problems.arrays import IntArray, distinct
from opweave.problems.graph_arrays import Adjacency
from opweave.problems.memory_ordering.spec import MemoryOrdering
from opweave.solvers.trivial import own_bound


@own_bound(MemoryOrdering)
def _(problem: MemoryOrdering) -> int:
    """The storages that an operator reads and writes and its workspace; results may at best overwrite inputs."""
    graph = problem.graph
    arrays = graph.arrays
    size = arrays.tensor_bytes[arrays.storage]
    if problem.inputs == "excluded":
        size = np.where(arrays.producer[arrays.storage] < 0, 0, size)
    if problem.outputs == "excluded":
        size = np.where(
            np.isin(arrays.storage, arrays.storage[[graph.tensor_index[name] for name in graph.outputs]]), 0, size
        )
    reads = _touched(arrays.reads, arrays.storage)
    owned = arrays.writes.items == arrays.storage[arrays.writes.items]
    writes = np.column_stack([arrays.writes.heads()[owned], arrays.writes.items[owned]])
    read, written = (_summed(pairs, size, len(graph.operators)) for pairs in (reads, writes))
    both = read + written
    if problem.in_place != "none":
        able = np.asarray([op.inplace_ok for op in graph.operators], dtype=bool)
        both = np.where(able, np.maximum(read, written), both)
    steps = both + graph.workspace_sizes
    return int(steps.max(initial=0) if problem.objective == "peak" else steps.sum())


def _touched(rows: Adjacency, storage: IntArray) -> IntArray:
    """Pairs (operator, storage) without repetitions. Shape (pairs, 2)."""
    count = max(1, len(storage))
    pairs = distinct(rows.heads() * count + storage[rows.items])
    return np.column_stack(np.divmod(pairs, count))


def _summed(pairs: IntArray, size: IntArray, operators: int) -> IntArray:
    """Bytes of every operator's storages. Shape (operators,)."""
    total = np.zeros(operators, dtype=np.int64)
    np.add.at(total, pairs[:, 0], size[pairs[:, 1]])
    return total
