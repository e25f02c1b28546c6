"""How much longer schedules may have to be because of rows that a user added.

Models with times have a horizon. By the problem's own rules no optimal schedule ends after it, but added rows may make
operators wait. If every such row compares two times, or one time with a number, then for given devices and orders the
least times are longest paths. A path passes every row at most once, so no path ends later than the horizon plus the
sum of the numbers in all rows. Rows of other forms can require any length.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from opweave.formulations.intervals import IntervalModel
from opweave.formulations.modeling.linear import Row
from opweave.formulations.modeling.model import LinearModel


@dataclass(frozen=True, slots=True)
class Waits:
    """What added rows require of the horizon.

    Attributes
    ----------
    seconds
        How much longer than the problem's own horizon a schedule may have to be.
    bounded
        Whether that length is certain to be enough.
    """

    seconds: float
    bounded: bool


@dataclass(frozen=True, slots=True)
class _Row:
    """The coefficients of a row's times, and the largest value of its other terms."""

    times: list[float]
    rest: float


def built_of(model: Any) -> Collection[int]:
    """What a model consists of so far: the positions of rows, or the identities of components with rows."""
    if isinstance(model, IntervalModel):
        return range(len(model.rows))
    from pyomo.environ import Constraint

    return {id(component) for component in model.component_objects(Constraint)}


def waits_of(model: Any, built: Collection[int], times: Collection[Any], unit: float) -> Waits | None:
    """What those rows of a model require that are not among the built ones.

    Parameters
    ----------
    times
        Columns that hold times, or the names of components that do.
    unit
        The unit of those columns in seconds.

    Returns
    -------
    Waits or None
        None if no row concerns times.
    """
    read = _interval_rows if isinstance(model, IntervalModel) else _pyomo_rows
    rows = [row for row in read(model, built, times) if row.times]
    if not rows:
        return None
    seconds = sum(row.rest / min(map(abs, row.times)) * unit for row in rows)
    return Waits(seconds, all(_compares(row.times) for row in rows))


def waits_in(rows: Iterable[Row], model: LinearModel) -> Waits | None:
    """What added rows of a model require; None if none of them concerns times.

    Parameters
    ----------
    rows
        The rows, in natural units; columns beyond the model's own belong to a user.
    model
        The model; it knows which columns are times, and all bounds.
    """
    read = [row for row in (_read(row, model) for row in rows) if row.times]
    if not read:
        return None
    seconds = sum(row.rest / min(map(abs, row.times)) * model.tick for row in read)
    return Waits(seconds, all(_compares(row.times) for row in read))


def _read(row: Row, model: LinearModel) -> _Row:
    rest = max((abs(side) for side in (row.low, row.high) if math.isfinite(side)), default=0.0)
    for column, factor in row.terms.items():
        if column not in model.timed:
            sides = (model.low[column], model.high[column]) if column < len(model) else ()
            rest += abs(factor) * max((abs(side) for side in sides if math.isfinite(side)), default=1.0)
    return _Row([factor for column, factor in row.terms.items() if column in model.timed], rest)


def _compares(times: list[float]) -> bool:
    return len(times) == 1 or (len(times) == 2 and abs(sum(times)) <= 1e-9 * abs(times[0]))


def _interval_rows(model: IntervalModel, built: Collection[int], times: Collection[Any]) -> Iterator[_Row]:
    for row in model.rows[len(built) :]:
        terms = list(zip(row.columns, row.coefficients, strict=True))
        most = [abs(factor) * max(abs(model.low[c]), abs(model.high[c])) for c, factor in terms if c not in times]
        sides = [abs(side) for side in (row.low, row.high) if side is not None]
        yield _Row([float(factor) for c, factor in terms if c in times], float(sum(most) + max(sides, default=0)))


def _pyomo_rows(model: Any, built: Collection[int], times: Collection[Any]) -> Iterator[_Row]:
    from pyomo.environ import Constraint, value
    from pyomo.repn import generate_standard_repn

    for component in model.component_objects(Constraint, active=True):
        for row in () if id(component) in built else component.values():
            low, body, high = row.to_bounded_expression()
            repn = generate_standard_repn(body)
            terms = list(zip(repn.linear_vars, repn.linear_coefs, strict=True))
            about = [float(factor) for column, factor in terms if column.parent_component().local_name in times]
            most = (abs(factor) * _most(column.bounds) for column, factor in terms if _other(column, times))
            sides = [abs(value(side) - repn.constant) for side in (low, high) if side is not None]
            yield _Row(about, float(sum(most) + max(sides, default=0.0)))


def _other(column: Any, times: Collection[Any]) -> bool:
    return column.parent_component().local_name not in times


def _most(bounds: Iterable[float | None]) -> float:
    """The largest absolute value within bounds; 1 if there are none."""
    return max((abs(bound) for bound in bounds if bound is not None), default=1.0)
