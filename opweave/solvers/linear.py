"""Linear programs as sparse rows: written by families, solved by HiGHS, and bounds that no tolerance can spoil."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from opweave.formulations.placement.instance import FloatArray
from opweave.problems.graph_arrays import IntArray


@dataclass(eq=False)
class SparseRows:
    """Rows under construction, as coordinates.

    Examples
    --------
    >>> rows = SparseRows()
    >>> rows.put(rows.open(np.asarray([4.0, 6.0]))[:, None], np.asarray([[0, 1], [1, 2]]), 1.0)
    >>> matrix, right = rows.matrix(3)
    >>> matrix.toarray().tolist(), right.tolist()
    ([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]], [4.0, 6.0])
    """

    count: int = 0
    _row: list[IntArray] = field(default_factory=list)
    _column: list[IntArray] = field(default_factory=list)
    _value: list[FloatArray] = field(default_factory=list)
    _right: list[FloatArray] = field(default_factory=list)

    def open(self, right: FloatArray) -> IntArray:
        """Numbers of new rows with these right-hand sides."""
        numbers = np.arange(self.count, self.count + len(right), dtype=np.int64)
        self.count += len(right)
        self._right.append(right)
        return numbers

    def put(self, row: IntArray, column: IntArray, value: FloatArray | float) -> None:
        """Coefficients; arrays are broadcast against each other."""
        rows, columns, values = np.broadcast_arrays(row, column, value)
        self._row.append(rows.ravel())
        self._column.append(columns.ravel())
        self._value.append(values.ravel().astype(np.float64))

    def matrix(self, columns: int) -> tuple[csr_matrix, FloatArray]:
        """The rows and their right-hand sides."""
        if not self.count:
            return csr_matrix((0, columns)), np.zeros(0)
        if not self._row:
            return csr_matrix((self.count, columns)), np.concatenate(self._right)
        entries = (np.concatenate(self._value), (np.concatenate(self._row), np.concatenate(self._column)))
        return csr_matrix(entries, shape=(self.count, columns)), np.concatenate(self._right)


@dataclass(frozen=True, slots=True, eq=False)
class LinearProgram:
    """Minimise ``cost x`` subject to ``equal x = equal_right``, ``most x <= most_right``, ``lower <= x <= upper``."""

    cost: FloatArray
    equal: csr_matrix
    equal_right: FloatArray
    most: csr_matrix
    most_right: FloatArray
    lower: FloatArray
    upper: FloatArray

    @classmethod
    def of(
        cls, cost: FloatArray, upper: FloatArray, most: SparseRows, equal: SparseRows | None = None
    ) -> LinearProgram:
        """The program with these rows and columns from 0 to ``upper``."""
        columns = len(cost)
        return cls(cost, *(equal or SparseRows()).matrix(columns), *most.matrix(columns), np.zeros(columns), upper)


def column_alone(column: int, columns: int) -> FloatArray:
    """The cost that is one column's value."""
    cost = np.zeros(columns)
    cost[column] = 1.0
    return cost


class Minimum(NamedTuple):
    """An optimum as the engine found it: point, value, and the multipliers of both families of rows."""

    point: FloatArray
    value: float
    equal_price: FloatArray
    most_price: FloatArray


def minimise(program: LinearProgram, time_limit: float | None) -> Minimum | None:
    """Solve a program; None when it has no point, or none was proved best within the seconds given."""
    from scipy.optimize import linprog

    solved = linprog(
        program.cost,
        A_ub=program.most,
        b_ub=program.most_right,
        A_eq=program.equal,
        b_eq=program.equal_right,
        bounds=np.column_stack([program.lower, program.upper]),
        method="highs",
        options={} if time_limit is None else {"time_limit": max(0.01, time_limit)},
    )
    if solved.status != 0:
        return None
    return Minimum(solved.x, float(solved.fun), solved.eqlin.marginals, solved.ineqlin.marginals)


def proved_minimum(program: LinearProgram, time_limit: float | None) -> float | None:
    """A lower bound on the minimum; None when the program was not solved. All columns need finite bounds.

    Safe whatever the engine's tolerances: its multipliers y are put into b y + sum over columns of the least of
    (c - A y) times the column over its box, a lower bound for any y of the right sign (Neumaier and Shcherbina, "Safe
    bounds in linear and mixed-integer linear programming").
    """
    found = minimise(program, time_limit)
    if found is None:
        return None
    most = np.minimum(found.most_price, 0.0)
    reduced = program.cost - program.most.T @ most - program.equal.T @ found.equal_price
    value = most @ program.most_right + found.equal_price @ program.equal_right
    return float(value + np.minimum(reduced * program.lower, reduced * program.upper).sum())
