"""Linear programs as sparse rows, solved by HiGHS, with lower bounds that are safe against all tolerances.

This is how a lower bound remains valid in floating point, here and wherever opweave proves anything:

* **Linear programs.** An engine's optimum is correct only up to tolerances, and with coefficients from 1e-9 to 1e9 the
  error may be of any size. The bound therefore uses only the engine's *prices* of rows (its dual values). Any prices
  prove a bound (weak duality), and :func:`proved_value` computes that bound from the program itself, rounded outward.
  Bad prices make a weak bound, but never a false one. This requires a finite box for all columns. If a length has no
  limit, its box ends at a *ceiling*, beyond which nothing matters, and no bound above the ceiling is claimed.
* **Infeasible programs.** Prices of rows prove infeasibility too: with a cost of 0, they show that the cost is above 0.
* **Integer programs.** The bound of a tree (:mod:`opweave.solvers.tree`) is the smallest bound of its leaves, each
  proved as above. The tree bound of an engine is never used, because it depends on all tolerances at every node.
* **The program's own coefficients** are also rounded: seconds divided by a unit, bytes divided by a rate. The allowance
  of :func:`proved_value` is more than twice what its products need, which covers a few roundings of every coefficient.
  Heads and tails, which are long sums of seconds, have a relative error (see below). Rows that contain them are
  homogeneous in time, so a point of the exact program, scaled by that error, is a point of the rounded program, and the
  bound has the same relative error.
* **Sums of seconds** (critical paths, work at prices, operators in sequence along a chain) have terms of one sign. A
  sum of n such terms in any order has a relative error of at most n * 2**-53.
  :data:`~opweave.solvers.rounding.SUMMATION` is larger than that for every graph that fits into memory, and is
  subtracted when bounds are reported. Differences of large sums have no such property; a bound that needs them adds
  and subtracts exactly (:func:`sum_below`).
* **Bytes** are integers and stay Python or NumPy integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from opweave.problems.arrays import BoolArray, FloatArray, IntArray
from opweave.solvers.engines.highs_child import highspy_fits, never, passed, with_highs
from opweave.solvers.rounding import SUMMATION

if TYPE_CHECKING:  # scipy.sparse takes longer to import than most problems to solve
    from highspy import Highs
    from scipy.sparse import csr_matrix

UNIT_ROUNDOFF = 2.0**-53
"""Largest relative error of one floating-point operation."""

SMALLEST = 2.0**-1074
"""The smallest number above 0, which a product may lose by underflow."""


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
    _row: list[IntArray] = field(default_factory=lambda: [np.zeros(0, dtype=np.int64)])
    _column: list[IntArray] = field(default_factory=lambda: [np.zeros(0, dtype=np.int64)])
    _value: list[FloatArray] = field(default_factory=lambda: [np.zeros(0)])
    _right: list[FloatArray] = field(default_factory=lambda: [np.zeros(0)])

    def open(self, right: FloatArray) -> IntArray:
        """Numbers of new rows with these right-hand sides."""
        numbers = np.arange(self.count, self.count + len(right), dtype=np.int64)
        self.count += len(right)
        self._right.append(right)
        return numbers

    def put(self, row: IntArray, column: IntArray, value: FloatArray | float) -> None:
        """Add coefficients; the arrays are broadcast against each other."""
        shape = np.broadcast(row, column, value).shape
        self._row.append(np.full(shape, row).ravel())
        self._column.append(np.full(shape, column).ravel())
        self._value.append(np.full(shape, value, dtype=np.float64).ravel())

    def matrix(self, columns: int) -> tuple[csr_matrix, FloatArray]:
        """The rows and their right-hand sides."""
        from scipy.sparse import csr_matrix

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
        """The program with these rows, and columns from 0 to ``upper``."""
        columns = len(cost)
        return cls(cost, *(equal or SparseRows()).matrix(columns), *most.matrix(columns), np.zeros(columns), upper)

    def rows(self) -> tuple[csr_matrix, FloatArray, FloatArray]:
        """All rows with their lower and upper limits, inequalities first."""
        from scipy.sparse import vstack

        matrix = vstack([self.most, self.equal]).tocsr()
        matrix.sum_duplicates()
        low = np.concatenate([np.full(len(self.most_right), -np.inf), self.equal_right])
        return matrix, low, np.concatenate([self.most_right, self.equal_right])


def column_alone(column: int, columns: int) -> FloatArray:
    """The cost vector whose value is one column."""
    cost = np.zeros(columns)
    cost[column] = 1.0
    return cost


class Minimum(NamedTuple):
    """What the engine found: point, value, and the multipliers of equalities and inequalities."""

    point: FloatArray
    value: float
    equal_price: FloatArray
    most_price: FloatArray


def minimise(program: LinearProgram, time_limit: float | None) -> Minimum | None:
    """Solve a program; None if it is infeasible or was not solved to optimality within the time limit in seconds."""
    task = program, math.inf if time_limit is None else max(0.01, time_limit)
    return _minimum(task, never) if highspy_fits() else with_highs(_minimum, task, time_limit)


def highs_with(program: LinearProgram, whole: BoolArray | None = None, **options: str | float) -> Highs | None:
    """HiGHS with a program and options, ready to run; None if it refuses the program."""
    import highspy

    matrix, low, high = program.rows()
    columns, entries = (program.cost, program.lower, program.upper), (matrix.indptr, matrix.indices, matrix.data)
    engine, status = passed(columns, (low, high), entries, whole=whole)
    for name, value in options.items():
        engine.setOptionValue(name, value)
    return None if status == highspy.HighsStatus.kError or engine.getNumRow() != len(low) else engine


def _minimum(task: tuple[LinearProgram, float], _: Callable[[], bool]) -> Minimum | None:
    """Solve; runs where highspy can be loaded."""
    program, time_limit = task
    engine = highs_with(program, time_limit=time_limit)
    if engine is None:
        return None
    engine.run()
    if engine.getModelStatus().name != "kOptimal":
        return None
    solution = engine.getSolution()
    price, most = np.asarray(solution.row_dual, dtype=np.float64), len(program.most_right)
    point = np.asarray(solution.col_value, dtype=np.float64)
    if not np.isfinite(price).all():
        return None
    return Minimum(point, float(engine.getInfo().objective_function_value), price[most:], price[:most])


def proved_minimum(program: LinearProgram, time_limit: float | None) -> float | None:
    """A lower bound on the minimum; None if the program was not solved. All columns need finite bounds.

    The engine's multipliers prove the bound (:func:`proved_value`), whatever the engine's tolerances are.
    """
    found = minimise(program, time_limit)
    if found is None:
        return None
    prices = np.concatenate([found.most_price, found.equal_price])
    return proved_value(program.cost, *program.rows(), (program.lower, program.upper), prices)


def proved_value(
    cost: FloatArray,
    matrix: csr_matrix,
    low: FloatArray,
    high: FloatArray,
    box: tuple[FloatArray, FloatArray],
    prices: FloatArray,
) -> float:
    """A lower bound of cost x for low <= A x <= high and x in its box, proved by any prices p of the rows.

    For every such x, cost x = p A x + (cost - p A) x. The first part is at least p low (p high where a price is
    negative; prices of infinite sides count as 0). The second part is at least its minimum over the finite box. Both
    are sums of products. Every reduced cost, a sum of n products, has an error of at most n + 2 roundings of the sizes
    of its terms. Twice n + 4 roundings are subtracted at the farthest point of the box.

    Source: Neumaier and Shcherbina, "Safe bounds in linear and mixed-integer linear programming" (Mathematical
    Programming 99, 2004); Higham, "Accuracy and Stability of Numerical Algorithms", section 3.1, for sums of products.
    """
    return Dual(cost, matrix, low, high).value(prices, box)


@dataclass(frozen=True, slots=True, eq=False)
class Dual:
    """One program's rows, prepared for computing what prices prove for any box (see :func:`proved_value`)."""

    cost: FloatArray
    matrix: csr_matrix
    low: FloatArray
    high: FloatArray
    _columns: csr_matrix = field(init=False)
    _sizes: csr_matrix = field(init=False)
    _share: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        columns = self.matrix.T.tocsr()
        object.__setattr__(self, "_columns", columns)
        object.__setattr__(self, "_sizes", abs(columns))
        object.__setattr__(self, "_share", (np.diff(columns.indptr) + 4.0) * (2.0 * UNIT_ROUNDOFF))

    def value(self, prices: FloatArray, box: tuple[FloatArray, FloatArray]) -> float:
        """The bound; -inf if the prices, or sums with them, are not finite."""
        return self.priced(prices, box)[0]

    def priced(self, prices: FloatArray, box: tuple[FloatArray, FloatArray]) -> tuple[float, FloatArray]:
        """The bound, and the reduced costs from which it was computed. Shape (columns,)."""
        p = np.where(np.isfinite(np.where(prices > 0.0, self.low, self.high)), prices, 0.0)
        sides = p * np.where(p > 0.0, self.low, np.where(p < 0.0, self.high, 0.0))
        reduced = np.asarray(self.cost - self._columns @ p)
        errors = self._share * (np.abs(self.cost) + self._sizes @ np.abs(p)) + 4.0 * SMALLEST * len(p)
        rest = np.minimum(reduced * box[0], reduced * box[1])
        farthest = np.maximum(np.abs(box[0]), np.abs(box[1]))
        # a product has an error of one rounding, and of less than the smallest number if it underflows
        allowance = float((errors * farthest + UNIT_ROUNDOFF * np.abs(rest)).sum())
        allowance += UNIT_ROUNDOFF * float(np.abs(sides).sum()) + 4.0 * SMALLEST * (len(rest) + len(sides))
        return sum_below(np.concatenate([rest, sides]), (1.0 + SUMMATION) * allowance), reduced


def sum_below(terms: FloatArray, allowance: float = 0.0) -> float:
    """The sum of the terms minus an allowance, rounded down; the terms are added exactly."""
    if not (np.isfinite(terms).all() and math.isfinite(allowance)):
        return -math.inf
    return math.nextafter(math.fsum([*terms.tolist(), -math.nextafter(allowance, math.inf)]), -math.inf)
