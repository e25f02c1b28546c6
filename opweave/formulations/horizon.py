"""How long schedules may have to be because of rows that a user added.

Models with times have a horizon. No best schedule ends after it by the problem's own rules, but added rows may ask
operators to wait. Where every such row compares two times, or one time with a number, the least times of a choice of
devices and orders are longest paths: a path passes every row at most once, so that none ends later than the horizon
and the numbers in all rows added up. Rows of other shapes can ask for any length.
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
    """What added rows ask for.

    Attributes
    ----------
    seconds
        How much longer than the problem's own horizon a schedule may have to be.
    bounded
        Whether that is enough for certain.
    """

    seconds: float
    bounded: bool


@dataclass(frozen=True, slots=True)
class _Row:
    """Coefficients of a row's times, and the most that all the rest can come to."""

    times: list[float]
    rest: float


def built_of(model: Any) -> Collection[int]:
    """What a model consists of by now: places of rows, or identities of components with rows."""
    if isinstance(model, IntervalModel):
        return range(len(model.rows))
    from pyomo.environ import Constraint

    return {id(component) for component in model.component_objects(Constraint)}


def waits_of(model: Any, built: Collection[int], times: Collection[Any], unit: float) -> Waits | None:
    """What rows ask for that a model has beside the built ones.

    Parameters
    ----------
    times
        Columns that hold times, or names of components that do.
    unit
        Seconds of one unit of those columns.

    Returns
    -------
    Waits or None
        None where no row is about times.
    """
    read = _interval_rows if isinstance(model, IntervalModel) else _pyomo_rows
    rows = [row for row in read(model, built, times) if row.times]
    if not rows:
        return None
    seconds = sum(row.rest / min(map(abs, row.times)) * unit for row in rows)
    return Waits(seconds, all(_compares(row.times) for row in rows))


def waits_in(rows: Iterable[Row], model: LinearModel) -> Waits | None:
    """What added rows of a model ask for; None where none of them is about times.

    Parameters
    ----------
    rows
        In natural units; columns behind the model's own are a user's.
    model
        Knows which columns are times, and all bounds.
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
    """The largest size within bounds; 1 where there are none."""
    return max((abs(bound) for bound in bounds if bound is not None), default=1.0)
