"""Linear programs as sparse rows: written by families, solved by HiGHS, and bounds that no tolerance can spoil."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, vstack

from opweave.formulations.placement.instance import FloatArray
from opweave.problems.graph_arrays import IntArray
from opweave.solvers.patience import patiently

ROUNDING = 1e-14
"""Of all terms of a proof, added up: what sums in floating point may be wrong by."""


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

    solved = patiently(
        lambda: linprog(
            program.cost,
            A_ub=program.most,
            b_ub=program.most_right,
            A_eq=program.equal,
            b_eq=program.equal_right,
            bounds=np.column_stack([program.lower, program.upper]),
            method="highs",
            options={} if time_limit is None else {"time_limit": max(0.01, time_limit)},
        )
    )
    if solved.status != 0:
        return None
    return Minimum(solved.x, float(solved.fun), solved.eqlin.marginals, solved.ineqlin.marginals)


def proved_minimum(program: LinearProgram, time_limit: float | None) -> float | None:
    """A lower bound on the minimum; None when the program was not solved. All columns need finite bounds.

    It is what the engine's multipliers prove (:func:`proved_value`), safe whatever its tolerances.
    """
    found = minimise(program, time_limit)
    if found is None:
        return None
    return proved_value(
        program.cost,
        vstack([program.most, program.equal]).tocsr(),
        np.concatenate([np.full(len(program.most_right), -np.inf), program.equal_right]),
        np.concatenate([program.most_right, program.equal_right]),
        (program.lower, program.upper),
        np.concatenate([found.most_price, found.equal_price]),
    )


def proved_value(
    cost: FloatArray,
    matrix: csr_matrix,
    low: FloatArray,
    high: FloatArray,
    box: tuple[FloatArray, FloatArray],
    prices: FloatArray,
) -> float:
    """What prices of rows prove, whatever they are: a lower bound of cost x for low <= A x <= high and x in its box.

    For every such x, cost x = p A x + (cost - p A) x. The first part is at least p low (p high where a price is
    negative; prices of sides that are endless count as 0), the second the least over the finite box. Rounding, at most
    a share of all terms added up, is taken off.

    Source: Neumaier and Shcherbina, "Safe bounds in linear and mixed-integer linear programming" (Mathematical
    Programming 99, 2004).
    """
    p = np.where(np.isfinite(np.where(prices > 0.0, low, high)), prices, 0.0)
    sides = p * np.where(p > 0.0, low, np.where(p < 0.0, high, 0.0))
    reduced = cost - matrix.T @ p
    rest = np.minimum(reduced * box[0], reduced * box[1])
    farthest = np.maximum(np.abs(box[0]), np.abs(box[1]))
    sizes = np.abs(sides).sum() + float(farthest @ (np.abs(cost) + abs(matrix).T @ np.abs(p)))
    return float(sides.sum() + rest.sum() - ROUNDING * sizes)
