"""Orders as rows: one key for each operator; the operator with the smallest key that may run is next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from opweave.formulations.memory_ordering.instance import lower
from opweave.problems.arrays import FloatArray, FloatMatrix, IntArray, IntMatrix
from opweave.problems.constraints import Constraint
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering
from opweave.solvers.evolution.encoding import Judged, keys_of, knows_arcs_and, register_encoding
from opweave.solvers.evolution.orders import order_by_keys
from opweave.solvers.evolution.solver import register_pymoo
from opweave.solvers.loops import loop
from opweave.solvers.memory_ordering.arrays import (
    OrderingArrays,
    arrays_of,
    initial_bytes,
    initial_left,
    pass_over,
    step,
)
from opweave.solvers.memory_ordering.baselines import starting_orders


@loop
def judge_keys(
    arrays: OrderingArrays, keys: FloatMatrix, orders: IntMatrix, peaks: IntArray, totals: FloatArray
) -> None:
    """Fill the order of every row of keys, its largest footprint, and the sum of its footprints."""
    for p in range(len(keys)):
        order_by_keys(arrays.before_start, arrays.after_start, arrays.after, keys[p], orders[p])
        left = initial_left(arrays, 1)
        live = initial_bytes(arrays, 1)
        peak = arrays.start_bytes
        total = 0.0
        for v in orders[p]:
            cost, live = step(arrays, v, live, left, 1)
            pass_over(arrays, v, left, 1)
            peak = max(peak, cost)
            total += cost
        peaks[p] = peak
        totals[p] = total


class OrderingEncoding:
    """Orders of a :class:`MemoryOrdering` as keys."""

    whole_numbers = False
    measures = frozenset({"peak_bytes", "total_bytes"})
    worst = 0.0

    def __init__(self, problem: MemoryOrdering) -> None:
        self.problem = problem
        self.instance = lower(problem)
        self.arrays = arrays_of(self.instance)
        self.lower, self.upper = np.zeros(self.instance.operators), np.ones(self.instance.operators)
        self.limits: tuple[str, ...] = () if problem.limit_bytes is None else ("limit_bytes",)

    def knows(self, constraint: Constraint) -> bool:
        """Precedences are arcs of the graph."""
        return knows_arcs_and(constraint)

    def orders(self, rows: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
        """Orders, their peaks and their totals."""
        count, operators = rows.shape
        found = (np.zeros((count, operators), dtype=np.int64), np.zeros(count, dtype=np.int64), np.zeros(count))
        judge_keys(self.arrays, np.ascontiguousarray(rows), *found)
        return found

    def decode(self, row: FloatArray) -> Ordering:
        """The order that a row of keys stands for."""
        return self.instance.ordering(self.orders(row[None])[0][0])

    def encode(self, solution: Ordering) -> FloatArray:
        """Keys that rise along the order."""
        return keys_of(self.instance.positions(solution))

    def judge(self, rows: FloatArray, measures: Sequence[str] = ()) -> Judged:
        """Judge rows of keys."""
        del measures  # all are at hand
        _, peaks, totals = self.orders(rows)
        known = {"peak_bytes": peaks.astype(np.float64), "total_bytes": totals}
        excess = np.zeros((len(rows), len(self.limits)))
        if self.problem.limit_bytes is not None:
            excess[:, 0] = np.maximum(0, peaks - self.problem.limit_bytes) / max(1, self.problem.limit_bytes)
        return Judged(known["peak_bytes" if self.problem.objective == "peak" else "total_bytes"], excess, known)

    def repair(self, rows: FloatArray) -> FloatArray:
        """Evenly spaced keys for the same orders, so that equal orders are equal rows."""
        return np.asarray([keys_of(order) for order in self.orders(rows)[0]]).reshape(rows.shape)

    def seeds(self) -> Iterator[FloatArray]:
        """The baselines' orders."""
        return map(keys_of, starting_orders(self.instance, self.arrays))


register_encoding(MemoryOrdering, lambda problem, _run: OrderingEncoding(problem))
register_pymoo(MemoryOrdering)
