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

from collections.abc import Callable
from itertools import combinations

import numpy as np

from opweave.problems.arrays import BoolArray, IntArray
from opweave.solvers.linear import SparseRows
from opweave.solvers.placement.bounds.chain_bound import Block, Milestones, Pair
from opweave.solvers.placement.bounds.window_program import Builder, integer_bound
from opweave.solvers.run import Run

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
    shared = _sent_once(builder)
    builder.whole[:] = False
    builder.whole[builder.u] = True
    builder.whole[builder.y[shared]] = True
    positions = np.flatnonzero(shared & (builder.arrays.source[builder.flows] == 0))
    if block.window.entry and len(positions):
        tensors, times = np.unique(builder.arrays.tensor[builder.flows[positions]], return_counts=True)
        most_read = tensors[np.argmax(times)]
        readers = positions[builder.arrays.tensor[builder.flows[positions]] == most_read]
        _add_arrivals(builder, readers, a)
    return max(known, integer_bound(builder.build(), time_limit)[0])


def _sent_once(builder: Builder) -> BoolArray:
    """Flows of tensors that several flows share and that stay whole in an average over equal branches."""
    arrays, branches = builder.arrays, builder.branches
    source, target = arrays.source[builder.flows], arrays.target[builder.flows]
    single = np.maximum(branches.times[source], branches.times[target]) == 1.0
    several = (builder.y != builder.z).any(axis=(1, 2))
    return np.asarray(several & (single | branches.shared[arrays.tensor[builder.flows]]))


def _add_arrivals(builder: Builder, flows: IntArray, a: int) -> None:
    """Add arrivals of the tensor that ``flows`` (positions among the builder's flows) carry."""
    others = [q for q in range(builder.devices) if q != a and builder.upper[builder.y[flows[0]][a, q]] > 0.0]
    sent, seconds = builder.y[flows[0]][a], builder.c[flows[0]][a]
    readers = np.unique(builder.arrays.target[builder.flows[flows]])
    pairs = list(combinations(others, 2))
    upper, are_times = np.ones(len(others) + len(pairs)), np.arange(len(others) + len(pairs)) < len(others)
    upper[are_times] = builder.ceiling
    added = builder.add(upper, times=are_times).tolist()
    arrival = dict(zip(others, added, strict=False))
    first = dict(zip(pairs, added[len(others) :], strict=True))
    rows = builder.most
    late = 1.0 + float(seconds[others].sum())
    for q in others:
        _row(rows, 0.0, {arrival[q]: -1.0, int(sent[q]): float(seconds[q])})
        there = readers[builder.usable[readers, q]]
        tail = float(builder.tails[there, q].min(initial=np.inf))
        work = {int(builder.x[j, q]): float(builder.p[j, q]) for j in there}
        ends = {int(sent[q]): tail if np.isfinite(tail) else 0.0}
        _row(rows, 0.0, {**work, **ends, arrival[q]: 1.0, builder.length: -1.0})
    for (q, r), column in first.items():
        served = {int(sent[q]): late, int(sent[r]): late}
        before = {arrival[q]: 1.0, arrival[r]: -1.0, column: late}
        after = {arrival[r]: 1.0, arrival[q]: -1.0, column: -late}
        _row(rows, 3.0 * late - float(seconds[r]), {**served, **before})
        _row(rows, 2.0 * late - float(seconds[q]), {**served, **after})


def _row(rows: SparseRows, right: float, terms: dict[int, float]) -> None:
    """Sum of terms <= right."""
    number = rows.open(np.asarray([right]))
    rows.put(number, np.asarray(list(terms), dtype=np.int64), np.asarray(list(terms.values())))


def raise_by_broadcasts(chain: Milestones, run: Run, report: Callable[[], None]) -> None:
    """Raise the windows on the shortest path to this bound, every pair of ends once; report after every path."""
    done: set[Pair] = set()
    while pairs := [pair for pair in chain.pairs() if pair not in done and can_be_raised(pair[0])]:
        for block, a, b in pairs:
            if run.should_stop():
                return
            left = run.remaining()
            done.add((block, a, b))
            value = broadcast_bound(block, a, b, LONGEST_PROGRAM if left is None else min(left, LONGEST_PROGRAM))
            block.learn(a, b, int(block.levels[a, b]), value)
        report()


def can_be_raised(block: Block) -> bool:
    """Whether a block's windows are small enough for the program and hold an operator."""
    return len(block.window.inner) > 0 and block.size <= LARGEST
