"""A bound of a window whose entry sends one tensor to several devices, one after the other.

The window program (:mod:`.window_program`) solves in a fraction of a second when only two families of columns are whole
numbers: u, the devices used, and y, the targets of tensors that belong to no branch. Operators stay fractional. When
one tensor of the entry, on device a, feeds many operators, the program gains columns A[q], the arrival of the tensor on
q, and for any two devices other than a, a column that says which of them is served first. With c[q] the seconds from a
to q, the new rows are

* A[q] >= c[q] y[q];  where q and r are both served, A[r] >= A[q] + c[r] or A[q] >= A[r] + c[q]
* A[q] + (work of the tensor's readers on q) + (their least tail on q) y[q] <= L

Proof: readers on q run between the arrival of the tensor and L minus their least tail, and the tensor leaves the only
port of a after everything sent before. If q has no reader, y[q] and A[q] are 0 and the row says 0 <= L. Averaging over
equal branches keeps y, A and the order, which belong to the shared tensor and not to a branch, and averages the work.
Under ``delay`` and ``one_port_edge`` no tensor is shared, and the rows are left out.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np

from opweave.problems.arrays import BoolArray, FloatArray, IntArray
from opweave.solvers.linear import LinearProgram, SparseRows
from opweave.solvers.placement.bounds.chain_bound import Block, Milestones
from opweave.solvers.placement.bounds.window_program import Builder, WindowProgram, integer_bound

LARGEST = 150
"""Most operators of a window for this program, equal branches counted once."""

LONGEST_PROGRAM = 3.0
"""Seconds that one program may take."""


def broadcast_bound(block: Block, a: int, b: int, time_limit: float) -> float:
    """Least seconds of a window with its ends on devices a and b; the known bound if the program proves no more."""
    known, ceiling = float(block.values[a, b]), block.ceiling(a, b)
    builder = Builder(block.window, block.branches, a, b, known, ceiling)
    if not builder.possible:
        return ceiling
    program = builder.build()
    shared = _sent_once(builder)
    whole = np.zeros(len(program.whole), dtype=bool)
    whole[builder.u] = True
    whole[builder.y[shared]] = True
    program = replace(program, whole=whole)
    positions = np.flatnonzero(shared & (builder.arrays.source[builder.flows] == 0))
    if block.window.entry and len(positions):
        tensors, times = np.unique(builder.arrays.tensor[builder.flows[positions]], return_counts=True)
        most_read = tensors[np.argmax(times)]
        readers = positions[builder.arrays.tensor[builder.flows[positions]] == most_read]
        program = _with_arrivals(builder, program, readers, a)
    return max(known, integer_bound(program, time_limit)[0])


def _sent_once(builder: Builder) -> BoolArray:
    """Flows of tensors that several flows share and that stay whole in an average over equal branches."""
    arrays, branches = builder.arrays, builder.branches
    source, target = arrays.source[builder.flows], arrays.target[builder.flows]
    single = np.maximum(branches.times[source], branches.times[target]) == 1.0
    several = (builder.y != builder.z).any(axis=(1, 2))
    return np.asarray(several & (single | branches.shared[arrays.tensor[builder.flows]]))


def _with_arrivals(builder: Builder, program: WindowProgram, flows: IntArray, a: int) -> WindowProgram:
    """The program with arrivals of the tensor that ``flows`` (positions among the builder's flows) carry."""
    others = [q for q in range(builder.devices) if q != a and program.linear.upper[builder.y[flows[0]][a, q]] > 0.0]
    sent, seconds = builder.y[flows[0]][a], builder.c[flows[0]][a]
    readers = np.unique(builder.arrays.target[builder.flows[flows]])
    count = len(program.whole)
    arrival = {q: count + i for i, q in enumerate(others)}
    first = {pair: count + len(others) + i for i, pair in enumerate(combinations(others, 2))}
    columns = count + len(others) + len(first)
    rows = SparseRows()
    late = 1.0 + float(seconds[others].sum())
    for q in others:
        _row(rows, 0.0, {arrival[q]: -1.0, int(sent[q]): float(seconds[q])})
        there = readers[builder.usable[readers, q]]
        tail = float(builder.tails[there, q].min(initial=np.inf))
        work = {int(builder.x[j, q]): float(builder.p[j, q]) for j in there}
        ends = {int(sent[q]): tail if np.isfinite(tail) else 0.0}
        _row(rows, 0.0, {**work, **ends, arrival[q]: 1.0, program.length: -1.0})
    for (q, r), column in first.items():
        served = {int(sent[q]): late, int(sent[r]): late}
        before = {arrival[q]: 1.0, arrival[r]: -1.0, column: late}
        after = {arrival[r]: 1.0, arrival[q]: -1.0, column: -late}
        _row(rows, 3.0 * late - float(seconds[r]), {**served, **before})
        _row(rows, 2.0 * late - float(seconds[q]), {**served, **after})
    return _extended(program, rows, columns, whole=np.asarray(list(first.values()), dtype=np.int64))


def _row(rows: SparseRows, right: float, terms: dict[int, float]) -> None:
    """Sum of terms <= right."""
    number = rows.open(np.asarray([right]))
    rows.put(number, np.asarray(list(terms), dtype=np.int64), np.asarray(list(terms.values())))


def _extended(program: WindowProgram, rows: SparseRows, columns: int, whole: IntArray) -> WindowProgram:
    """The program with more rows and columns; the columns in ``whole`` are 0 or 1."""
    from scipy.sparse import csr_matrix, hstack, vstack

    linear, more = program.linear, columns - len(program.whole)
    added, right = rows.matrix(columns)
    arrivals = np.ones(more, dtype=bool)
    arrivals[whole - len(program.whole)] = False
    none: FloatArray = np.zeros(more)
    wider = LinearProgram(
        cost=np.concatenate([linear.cost, none]),
        equal=hstack([linear.equal, csr_matrix((linear.equal.shape[0], more))]).tocsr(),
        equal_right=linear.equal_right,
        most=vstack([hstack([linear.most, csr_matrix((linear.most.shape[0], more))]), added]).tocsr(),
        most_right=np.concatenate([linear.most_right, right]),
        lower=np.concatenate([linear.lower, none]),
        upper=np.concatenate([linear.upper, np.where(arrivals, program.ceiling, 1.0)]),
    )
    return replace(
        program,
        linear=wider,
        whole=np.concatenate([program.whole, ~arrivals]),
        times=np.concatenate([program.times, arrivals]),
    )


class Broadcasts:
    """Raises the windows of a chain to this bound: windows on the shortest path first, every pair of ends once."""

    def __init__(self, chain: Milestones) -> None:
        self.chain = chain
        self._done: set[tuple[int, int, int]] = set()

    def open_pairs(self) -> list[tuple[Block, int, int]]:
        """Windows and ends on the shortest path that have not been raised yet."""
        found: dict[tuple[int, int, int], tuple[Block, int, int]] = {}
        for module, first, last in self.chain.module_path():
            for block, a, b in module.path(first, last):
                key = id(block), a, b
                if key not in self._done and len(block.window.inner) > 0 and block.size <= LARGEST:
                    found[key] = block, a, b
        return list(found.values())

    def lift(self, block: Block, a: int, b: int, time_limit: float) -> None:
        """Raise one window."""
        self._done.add((id(block), a, b))
        value = broadcast_bound(block, a, b, min(time_limit, LONGEST_PROGRAM))
        rows = slice(a, a + 1) if block.window.entry else slice(None)
        columns = slice(b, b + 1) if block.window.exit else slice(None)
        block.values[rows, columns] = np.maximum(block.values[rows, columns], value)
