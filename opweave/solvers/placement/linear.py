"""Linear programs that guide list scheduling: solved by HiGHS, and given up where they take too long."""

from __future__ import annotations

import numpy as np

from opweave.formulations.placement.instance import FloatArray
from opweave.problems.graph_arrays import IntArray

MOST_SECONDS = 20.0
"""A list scheduler is a quick method; what needs longer is replaced by a simple rule."""


class Rows:
    """Rows ``sum of value * column <= right``, gathered in blocks."""

    def __init__(self) -> None:
        self._rows: list[IntArray] = []
        self._columns: list[IntArray] = []
        self._values: list[FloatArray] = []
        self._right: list[FloatArray] = []
        self._count = 0

    def add(self, right: FloatArray, *terms: tuple[IntArray, IntArray, FloatArray]) -> None:
        """Add ``len(right)`` rows; a term is (row within the block, column, value) of its entries."""
        for rows, columns, values in terms:
            self._rows.append(rows + self._count)
            self._columns.append(columns)
            self._values.append(np.broadcast_to(values, columns.shape))
        self._right.append(right)
        self._count += len(right)

    def minimise(self, column: int, columns: int, upper: FloatArray) -> FloatArray | None:
        """The point with the least value of one column, all columns within 0 and ``upper``; None if not found."""
        from scipy.optimize import linprog
        from scipy.sparse import csr_array

        entries = (np.concatenate(self._rows), np.concatenate(self._columns))
        matrix = csr_array((np.concatenate(self._values), entries), shape=(self._count, columns))
        cost = np.zeros(columns)
        cost[column] = 1.0
        bounds = np.column_stack([np.zeros(columns), upper])
        right = np.concatenate(self._right)
        solved = linprog(
            cost, A_ub=matrix, b_ub=right, bounds=bounds, method="highs", options={"time_limit": MOST_SECONDS}
        )
        return np.asarray(solved.x, dtype=np.float64) if solved.status == 0 and solved.x is not None else None
