"""How much longer schedules may have to be because of rows that a user added.

Models with times have a horizon. By the problem's own rules no optimal schedule ends after it, but added rows may make
operators wait. If every such row compares two times, or one time with a number, then for given devices and orders the
least times are longest paths. A path passes every row at most once, so no path ends later than the horizon plus the
sum of the numbers in all rows. Rows of other forms can require any length.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

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
    stretched = model.stretched
    for column, factor in row.terms.items():
        if column not in stretched:
            sides = (model.low[column], model.high[column]) if column < len(model) else ()
            rest += abs(factor) * max((abs(side) for side in sides if math.isfinite(side)), default=1.0)
    return _Row([factor for column, factor in row.terms.items() if column in stretched], rest)


def _compares(times: list[float]) -> bool:
    return len(times) == 1 or (len(times) == 2 and abs(sum(times)) <= 1e-9 * abs(times[0]))
