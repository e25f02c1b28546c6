"""Rows of a model as arrays, passed to Pyomo in one piece; building them one by one is 20 to 60 times slower."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from opweave.formulations.modeling.linear import InfeasibleError
from opweave.formulations.modeling.rows import check_rows

if TYPE_CHECKING:
    from pyomo.core.expr.numeric_expr import LinearExpression
    from pyomo.environ import ConcreteModel, Objective

__all__ = ["Rows", "Terms", "check_rows", "linear_expression", "linear_objective"]

ROWS_BETWEEN_CHECKS = 4096

CONSTANT_TOLERANCE = 1e-8
"""Tolerance for a row without columns; terms that cancel out leave rounding errors."""

Terms = dict[int, float]
"""Coefficients of a linear expression, by column."""


class Rows:
    """One family of constraints, ``sum of coefficient * column <= upper`` or ``= upper``, collected as flat lists.

    A row whose columns cancel out is decided here, in the same way for all programs. If it holds, it is dropped; if
    not, the problem has no solution.

    Examples
    --------
    >>> rows = Rows()
    >>> rows.at_most({0: 1.0, 1: -1.0}, 0.0)
    >>> rows.at_most_each(np.array([[0, 2], [1, 2]]), (1.0, 1.0), 1.0)
    >>> len(rows)
    3
    """

    def __init__(self) -> None:
        self._lengths: list[int] = []
        self._columns: list[Iterable[int]] = []
        self._coefficients: list[Iterable[float]] = []
        self._uppers: list[float] = []
        self._equal: list[bool] = []

    def __len__(self) -> int:
        return len(self._uppers)

    def at_most(self, terms: Terms, upper: float) -> None:
        """Add one row ``sum terms <= upper``.

        Raises
        ------
        InfeasibleError
            If there are no terms and ``upper`` is below 0.
        """
        if terms:
            self._add(terms, upper, equal=False)
        elif upper < -CONSTANT_TOLERANCE:
            raise InfeasibleError

    def equal(self, terms: Terms, value: float) -> None:
        """Add one row ``sum terms = value``.

        Raises
        ------
        InfeasibleError
            If there are no terms and ``value`` is not 0.
        """
        if terms:
            self._add(terms, value, equal=True)
        elif abs(value) > CONSTANT_TOLERANCE:
            raise InfeasibleError

    def at_most_each(self, columns: NDArray[np.int64], coefficients: ArrayLike, upper: ArrayLike) -> None:
        """Add many rows of equal length. ``columns`` has shape (rows, terms); the other arguments are broadcast."""
        count, width = columns.shape
        self._lengths.extend([width] * count)
        self._columns.append(columns.ravel().tolist())
        self._coefficients.append(np.broadcast_to(np.asarray(coefficients, np.float64), columns.shape).ravel().tolist())
        self._uppers.extend(np.broadcast_to(np.asarray(upper, np.float64), (count,)).tolist())
        self._equal.extend([False] * count)

    def _add(self, terms: Terms, upper: float, *, equal: bool) -> None:
        self._lengths.append(len(terms))
        self._columns.append(terms.keys())
        self._coefficients.append(terms.values())
        self._uppers.append(upper)
        self._equal.append(equal)

    def each(self) -> Iterator[tuple[dict[int, float], float, bool]]:
        """Iterate over the rows: the terms, the upper side, and whether that is also the lower side."""
        columns = list(chain.from_iterable(self._columns))
        coefficients = list(chain.from_iterable(self._coefficients))
        begin = 0
        for length, upper, equal in zip(self._lengths, self._uppers, self._equal, strict=True):
            end = begin + length
            yield dict(zip(columns[begin:end], coefficients[begin:end], strict=True)), upper, equal
            begin = end

    def add_to(
        self,
        model: ConcreteModel,
        name: str,
        variables: Sequence[Any],
        check_time: Callable[[], None] = lambda: None,
    ) -> None:
        """Add the rows to ``model`` as one indexed constraint ``name`` over ``variables`` (by column).

        ``check_time`` is called now and then and may raise an exception.
        """
        from pyomo.common.gc_manager import PauseGC
        from pyomo.core.expr.numeric_expr import LinearExpression
        from pyomo.environ import Constraint

        coefficients = list(chain.from_iterable(self._coefficients))
        members = [variables[column] for column in chain.from_iterable(self._columns)]
        starts = [0, *accumulate(self._lengths)]

        rows = Constraint(range(len(self)))
        with PauseGC():
            model.add_component(name, rows)
            # one by one and not by a rule: Pyomo prints an error when a rule raises
            for index, upper in enumerate(self._uppers):
                if index % ROWS_BETWEEN_CHECKS == 0:
                    check_time()
                begin, end = starts[index], starts[index + 1]
                rows.add(
                    index,
                    (
                        upper if self._equal[index] else None,
                        LinearExpression(
                            constant=0.0, linear_coefs=coefficients[begin:end], linear_vars=members[begin:end]
                        ),
                        upper,
                    ),
                )


def linear_expression(constant: float, terms: Terms, variables: Sequence[Any]) -> LinearExpression:
    """Write ``constant + sum terms`` as a Pyomo expression that can be part of a row, even if it is only a constant."""
    from pyomo.core.expr.numeric_expr import LinearExpression

    members = [variables[column] for column in terms]
    return LinearExpression(constant=constant, linear_coefs=list(terms.values()), linear_vars=members)


def linear_objective(terms: Terms, constant: float, variables: Sequence[Any]) -> Objective:
    """Write ``minimise constant + sum terms`` as a Pyomo objective."""
    from pyomo.environ import Objective

    return Objective(expr=linear_expression(constant, terms, variables))
