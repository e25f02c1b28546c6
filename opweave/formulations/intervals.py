"""The older constraint programs, until all are ported to :mod:`.modeling`.

They are models of integers and intervals as plain data, written by formulations for constraint-programming engines.

Such engines may run in another process, so a model holds only numbers. Columns are integer variables with bounds. An
interval has a start column, a fixed size and, optionally, a 0/1 column that says whether it is present.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from opweave.formulations.modeling.linear import Linear
from opweave.formulations.modeling.linear import Row as Comparison
from opweave.formulations.modeling.whole import Arc, Interval, WholeProgram
from opweave.formulations.modeling.whole import WholeRow as Row

__all__ = ["Arc", "Comparison", "Interval", "IntervalModel", "Linear", "Row", "whole_row"]

FINEST = 1_000_000
"""Fractions in rows are rounded to multiples of 1 over this number, to the side that keeps every solution."""


LARGEST_FACTOR = 1e9
"""Largest factor by which the numbers of a row are multiplied to make them integers."""


@dataclass(eq=False)
class IntervalModel:
    """Minimise one column over rows, intervals that must not overlap, and circuits.

    Attributes
    ----------
    low, high
        Bounds of every column.
    apart
        Lists of intervals, no two of which overlap; an interval of size 0 may not lie inside another one either.
    objective
        The column to minimise.
    hint
        Values to start from, by column.
    circuits
        Lists of arcs. The chosen arcs of a list form one round through all nodes except those whose loop is chosen.
    """

    low: list[int] = field(default_factory=list)
    high: list[int] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    apart: list[list[Interval]] = field(default_factory=list)
    objective: int = -1
    hint: dict[int, int] = field(default_factory=dict)
    circuits: list[list[Arc]] = field(default_factory=list)

    def whole(self, low: int, high: int) -> int:
        """Add an integer column."""
        self.low.append(low)
        self.high.append(high)
        return len(self.low) - 1

    def binary(self) -> int:
        """Add a 0/1 column."""
        return self.whole(0, 1)

    def row(self, terms: Mapping[int, int], low: int | None, high: int | None, only_if: Iterable[int] = ()) -> None:
        """Add a row with integer coefficients."""
        kept = {column: value for column, value in terms.items() if value}
        self.rows.append(Row(tuple(kept), tuple(kept.values()), low, high, tuple(only_if)))

    def program(self) -> WholeProgram:
        """The model as plain data."""
        return WholeProgram(self.low, self.high, self.rows, self.apart, self.objective, self.circuits, self.hint)

    def broken(self, values: Sequence[int]) -> str | None:
        """How ``values`` violate the model; None if they are a solution."""
        return self.program().broken(values)


def whole_row(model: IntervalModel, row: Comparison, unit: float, ticks: frozenset[int]) -> Row:
    """A user's row in integers. Rounding may only relax it slightly.

    Parameters
    ----------
    model
        The model, for the bounds of its columns.
    row
        The row; a column that counts ticks has a coefficient in units of ``unit``.
    unit, ticks
        The unit, and the columns that are rounded down to it; they may be off by almost two ticks.
    """
    terms = {column: value for column, value in row.terms.items() if value}
    scale = 1.0 / unit if any(column in ticks for column in terms) else 1.0
    terms = {column: value * scale for column, value in terms.items()}
    exact = all(abs(value - round(value)) <= 1e-12 * abs(value) for value in terms.values())
    factor = 1.0 if exact else min(LARGEST_FACTOR, max(1.0, FINEST / max(map(abs, terms.values()), default=1.0)))
    loose = sum(2.0 * abs(value) * factor for column, value in terms.items() if column in ticks)
    for column, value in terms.items():
        loose += abs(value * factor - round(value * factor)) * max(abs(model.low[column]), abs(model.high[column]))
    sides = [
        None if math.isinf(side) else rounding(side * scale * factor + sign * (loose + 1e-9))
        for side, sign, rounding in ((row.low, -1, math.ceil), (row.high, 1, math.floor))
    ]
    return Row(tuple(terms), tuple(round(value * factor) for value in terms.values()), sides[0], sides[1])
