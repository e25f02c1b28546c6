"""Memory ordering as arrays over operators and storages, for searches, bounds and formulations.

A *storage* is a tensor together with all its aliases. The live bytes after a down-set D of operators are

    f(D) = sum of size[s] over storages s with producer in D (or none) and (kept[s] or a reader outside D)

and do not depend on the order in which D was run; f is submodular. A step that runs v after D needs

    f(D) + made[v] + unread[v] + workspace[v] - overwritten bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opweave.formulations.derived import once
from opweave.formulations.order_arcs import with_order_arcs
from opweave.problems.arrays import BoolArray, IntArray
from opweave.problems.graph_arrays import Adjacency
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering


@dataclass(frozen=True, slots=True, eq=False)
class OrderingInstance:
    """Arrays indexed by operator v (position in ``graph.operators``) or storage s.

    Attributes
    ----------
    names
        Operator ids.
    size, kept, producer
        Per storage: the bytes that count, whether it stays to the end, and the operator that makes it (-1: graph
        input).
    reads, writes
        Storages that every operator reads and makes.
    readers
        Operators that read every storage.
    before, after
        Direct predecessors and successors of every operator, by data flow and by order arcs of side constraints.
    workspace
        Scratch bytes of every operator.
    overwrite
        Storages that every operator may overwrite if they die in its step, grouped by size.
    slots
        For every entry of ``overwrite``, the number of the operator's outputs that have its size.
    """

    names: tuple[str, ...]
    size: IntArray
    kept: BoolArray
    producer: IntArray
    reads: Adjacency
    writes: Adjacency
    readers: Adjacency
    before: Adjacency
    after: Adjacency
    workspace: IntArray
    overwrite: Adjacency
    slots: IntArray

    @property
    def operators(self) -> int:
        """Number of operators."""
        return len(self.names)

    @property
    def storages(self) -> int:
        """Number of storages."""
        return len(self.size)

    def unread(self) -> BoolArray:
        """Storages that are neither read nor kept. They are live only in their producer's step (inputs: never)."""
        unread: BoolArray = np.diff(self.readers.start) == 0
        return ~self.kept & unread

    def overwriting(self, v: int) -> list[tuple[int, int, list[int]]]:
        """What v may overwrite, by size: bytes, number of its outputs of that size, storages of that size."""
        groups: dict[int, tuple[int, int, list[int]]] = {}
        for entry in range(int(self.overwrite.start[v]), int(self.overwrite.start[v + 1])):
            storage = int(self.overwrite.items[entry])
            size = int(self.size[storage])
            groups.setdefault(size, (size, int(self.slots[entry]), []))[2].append(storage)
        return list(groups.values())

    def made(self) -> IntArray:
        """Bytes that every operator adds to the live bytes. Shape (operators,)."""
        return summed(self.writes, self.size * ~self.unread())

    def stay(self) -> IntArray:
        """Bytes that every operator adds while it runs: results, read or not, and workspace. Shape (operators,)."""
        return summed(self.writes, self.size) + self.workspace

    def start_bytes(self) -> int:
        """Bytes live before the first step."""
        return int(self.size[(self.producer < 0) & ~self.unread()].sum())

    def granularity(self) -> int:
        """Greatest common divisor of all sizes, so every footprint is a multiple of it (1 if all sizes are zero)."""
        return max(1, int(np.gcd.reduce(np.concatenate([self.size, self.workspace]), initial=0)))

    def ordering(self, order: IntArray) -> Ordering:
        """Convert operator positions to a solution."""
        return Ordering(order=tuple(self.names[v] for v in order.tolist()))

    def positions(self, solution: Ordering) -> IntArray:
        """Convert a solution to operator positions."""
        index = {name: v for v, name in enumerate(self.names)}
        return np.asarray([index[name] for name in solution.order], dtype=np.int64)


def summed(rows: Adjacency, size: IntArray) -> IntArray:
    """Exact sums of bytes over the storages in every row. Shape (rows,)."""
    sums = np.zeros(len(rows), dtype=np.int64)
    np.add.at(sums, rows.heads(), size[rows.items])
    return sums


@once
def lower(problem: MemoryOrdering) -> OrderingInstance:
    """Write a problem as arrays; order arcs of its side constraints become precedences.

    Only constraints with an ``"order_arcs"`` expression are written. The caller must handle the others.

    Raises
    ------
    ContradictionError
        If the order arcs and the data flow close a cycle.
    """
    graph, arrays = problem.graph, problem.graph.arrays
    tensors = len(graph.tensors)
    owner = np.flatnonzero(arrays.storage == np.arange(tensors))
    storage_of = np.full(tensors, -1, dtype=np.int64)
    storage_of[owner] = np.arange(len(owner))
    storage_of = storage_of[arrays.storage]

    size = arrays.tensor_bytes[owner].copy()
    producer = arrays.producer[owner]
    kept = np.zeros(len(owner), dtype=bool)
    outputs = storage_of[np.asarray([graph.tensor_index[name] for name in graph.outputs], dtype=np.int64)]
    kept[outputs] = True
    if problem.inputs == "kept":
        kept[producer < 0] = True
    if problem.inputs == "excluded":
        size[producer < 0] = 0
    if problem.outputs == "excluded":
        size[outputs] = 0

    listed = Adjacency(arrays.reads.start, storage_of[arrays.reads.items]).lists()
    reads = Adjacency.from_lists([list(dict.fromkeys(row)) for row in listed])
    owned = arrays.storage[arrays.writes.items] == arrays.writes.items
    writes = Adjacency(arrays.writes.start, storage_of[arrays.writes.items]).only(owned)
    before = with_order_arcs(problem, arrays.predecessors)
    overwrite, slots = _overwrites(problem, reads, writes, size, kept)
    return OrderingInstance(
        names=graph.operator_ids,
        size=size,
        kept=kept,
        producer=producer,
        reads=reads,
        writes=writes,
        readers=reads.reversed(len(owner)),
        before=before,
        after=before.reversed(len(graph.operators)),
        workspace=graph.workspace_sizes,
        overwrite=overwrite,
        slots=slots,
    )


def _overwrites(
    problem: MemoryOrdering, reads: Adjacency, writes: Adjacency, size: IntArray, kept: BoolArray
) -> tuple[Adjacency, IntArray]:
    """Candidates for in-place results: inputs that have the size of an output and are neither kept nor empty."""
    rows: list[list[int]] = []
    slots: list[int] = []
    if problem.in_place == "none":
        return Adjacency(np.zeros(len(reads) + 1, dtype=np.int64), np.zeros(0, np.int64)), np.zeros(0, np.int64)
    for v, op in enumerate(problem.graph.operators):
        row: list[int] = []
        if op.inplace_ok:
            made = size[writes[v]].tolist()
            candidates = reads[v][:1] if problem.in_place == "first" else reads[v]
            fits = [s for s in candidates.tolist() if not kept[s] and size[s] > 0 and size[s] in made]
            row = sorted(fits, key=lambda s: int(size[s]))
            slots.extend(made.count(size[s]) for s in row)
        rows.append(row)
    return Adjacency.from_lists(rows), np.asarray(slots, dtype=np.int64)
