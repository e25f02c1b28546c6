"""Orders as rows: one key for each operator."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from opweave.formulations.memory_ordering.instance import lower
from opweave.problems.arrays import FloatArray
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering
from opweave.solvers.evolution.encoding import Judged, KeyedGenes, keys_of
from opweave.solvers.evolution.solver import register_pymoo
from opweave.solvers.memory_ordering.arrays import arrays_of, peak, total
from opweave.solvers.memory_ordering.baselines import starting_orders


class OrderingEncoding(KeyedGenes):
    """Orders of a :class:`MemoryOrdering` as keys."""

    def __init__(self, problem: MemoryOrdering) -> None:
        self.problem = problem
        self.instance = lower(problem)
        self.arrays = arrays_of(self.instance)
        self.limits = () if problem.limit_bytes is None else ("limit_bytes",)
        super().__init__(np.zeros((0, 1), dtype=np.bool_), self.instance.before)

    def decode(self, row: FloatArray) -> Ordering:
        """The order that a row of keys stands for."""
        return self.instance.ordering(self.orders(row[None])[0])

    def encode(self, solution: Ordering) -> FloatArray:
        """Keys that rise along the order."""
        return keys_of(self.instance.positions(solution))

    def judge(self, rows: FloatArray) -> Judged:
        """Judge rows of keys."""
        orders, limit = self.orders(rows), self.problem.limit_bytes
        peaks = np.asarray([peak(self.arrays, order) for order in orders], dtype=np.float64)
        objective, excess = peaks, np.zeros((len(rows), len(self.limits)))
        if self.problem.objective == "total":
            objective = np.asarray([total(self.arrays, order) for order in orders], dtype=np.float64)
        if limit is not None:
            excess[:, 0] = np.maximum(0, peaks - limit) / max(1, limit)
        return Judged(objective, excess)

    def seeds(self) -> Iterator[FloatArray]:
        """The baselines' orders."""
        return map(keys_of, starting_orders(self.instance, self.arrays))


register_pymoo(MemoryOrdering, lambda problem, _run: OrderingEncoding(problem))
