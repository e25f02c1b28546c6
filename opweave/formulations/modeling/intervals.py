"""Constraint programs: integer columns, conditional rows and intervals, with the users' variables of linear models.

An engine may run in another process, so what it receives, a :class:`WholeProgram`, holds only numbers.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import ClassVar

from opweave.formulations.modeling.linear import Linear, Row
from opweave.formulations.modeling.model import ADDED, LinearModel
from opweave.formulations.modeling.rows import RowFamily
from opweave.problems.arrays import FloatArray
from opweave.problems.errors import UnsupportedFeatureError


@dataclass(frozen=True, slots=True)
class WholeRow:
    """``low <= sum of coefficients * columns <= high`` if all columns of ``only_if`` are 1; a side may be None."""

    columns: tuple[int, ...]
    coefficients: tuple[int, ...]
    low: int | None
    high: int | None
    only_if: tuple[int, ...] = ()

    @classmethod
    def of(cls, terms: Mapping[int, int], low: int | None, high: int | None, only_if: Iterable[int] = ()) -> WholeRow:
        """The row without coefficients of 0."""
        kept = {column: value for column, value in terms.items() if value}
        return cls(tuple(kept), tuple(kept.values()), low, high, tuple(only_if))


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval of ``size`` from column ``start``; present if column ``present`` is 1, or always if that is None.

    Linear models take sizes that are not whole.
    """

    start: int
    size: int | float
    present: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class WholeProgram:
    """Minimise one column subject to rows, and intervals that must not overlap.

    Attributes
    ----------
    low, high
        Bounds of every column.
    apart
        Lists of intervals, no two of which overlap; an interval of size 0 may not lie inside another one either.
    goal
        The column to minimise.
    hint
        Values to start from, by column.
    own_objective
        Whether the objective is the formulation's own and not one that a user put in its place.
    """

    low: Sequence[int]
    high: Sequence[int]
    rows: Sequence[WholeRow]
    apart: Sequence[Sequence[Interval]]
    goal: int
    hint: Mapping[int, int] = field(default_factory=dict)
    own_objective: bool = True

    exact: ClassVar[bool] = True

    def hinted(self, start: FloatArray | None) -> WholeProgram:
        """The program with the known values to start from."""
        known = {} if start is None else {c: round(v) for c, v in enumerate(start.tolist()) if not math.isnan(v)}
        return replace(self, hint=known)

    @property
    def size(self) -> str:
        """The size in words."""
        return f"{len(self.low):,} variables, {len(self.rows):,} rows"

    def objective(self, values: FloatArray) -> float:
        """The cost of an engine's values, in the model's units."""
        return float(values[self.goal])

    def model_values(self, values: FloatArray) -> FloatArray:
        """The values themselves: the program's columns are the model's."""
        return values

    engine_values = model_values

    def broken(self, values: Sequence[float] | FloatArray) -> str | None:
        """How ``values`` violate the program; None if they are a solution."""
        if not all(float(value).is_integer() for value in values):
            return "values that are not whole numbers"
        values = [int(value) for value in values]
        if len(values) != len(self.low):
            return f"{len(values)} values for {len(self.low)} columns"
        for column, (value, low, high) in enumerate(zip(values, self.low, self.high, strict=True)):
            if not low <= value <= high:
                return f"{value} for column {column}, outside {low} to {high}"
        for number, row in enumerate(self.rows):
            if all(values[column] for column in row.only_if):
                total = sum(values[c] * factor for c, factor in zip(row.columns, row.coefficients, strict=True))
                if (row.low is not None and total < row.low) or (row.high is not None and total > row.high):
                    return f"values that break row {number}"
        for intervals in self.apart:
            there = sorted(
                (values[each.start], values[each.start] + each.size)
                for each in intervals
                if each.present is None or values[each.present]
            )
            if any(end > begin for (_, end), (begin, _) in pairwise(there)):
                return "intervals that overlap"
        return None


FINEST = 1_000_000
"""Fractions in rows are rounded to multiples of 1 over this number, to the side that keeps every solution."""

LARGEST_SIZE = 2**53
"""Largest coefficient of bytes."""

LARGEST_FACTOR = 1e9
"""Largest factor by which the numbers of a row are multiplied to make them integers."""


TICKS = 10_000_000
"""Ticks of the horizon per activity, if durations have no common measure; rounding errors add up along paths."""

MOST_TICKS = 2**28
"""Most ticks of the horizon. From about 2**33 on, CP-SAT's presolve loses solutions: it has called 7.0 optimal where
the optimum was 6.25, which it found without presolve."""

MOST_OF_ANY = 2**40
"""Most ticks of a duration. Nothing so long ends within a horizon, and thousands of them add up to 64-bit numbers."""

WHOLE = 1e-9
"""Relative distance from an integer number of ticks that still counts as one."""


@dataclass(eq=False)
class IntervalModel(LinearModel):
    """Minimise one column subject to rows of integers, and intervals that must not overlap.

    Attributes
    ----------
    whole_rows
        The rows; they replace the families of rows.
    apart
        As in :class:`~opweave.formulations.modeling.intervals.WholeProgram`.
    timed, tick
        Columns that count ticks, rounded down, and the length of a tick in seconds.

    Examples
    --------
    >>> from opweave.formulations.modeling.linear import Linear
    >>> model = IntervalModel()
    >>> (end,), (there,) = model.wholes("end", [None], 0, 9).tolist(), model.binaries("there", [None]).tolist()
    >>> model.row({end: 1}, 4, None, only_if=[there])
    >>> model.minimise(Linear.of(end))
    >>> model.broken([3, 1]), model.broken([3, 0])
    ('values that break row 0', None)
    """

    whole_rows: list[WholeRow] = field(init=False, default_factory=list)
    apart: list[list[Interval]] = field(init=False, default_factory=list)

    def rows(self, name: str) -> RowFamily:
        """A family of rows with integer coefficients, in the model's own units."""
        return _WholeRows(self)

    def require(self, row: Row, only_if: Collection[int] = ()) -> None:
        """Add a row with integer coefficients. It must hold if all columns of ``only_if`` are 1."""
        if only_if or not row.decided():
            low, high = (None if math.isinf(side) else int(side) for side in (row.low, row.high))
            self.row({column: int(value) for column, value in row.terms.items()}, low, high, only_if)

    def within(self, name: str, held: Linear, capacity: int) -> None:
        """Add the row that ``held`` bytes are at most ``capacity``; larger terms count as one byte too many."""
        sizes = {column: min(int(size), capacity + 1, LARGEST_SIZE) for column, size in held.terms.items()}
        self.require(Linear(0, sizes) <= capacity)

    def where(self, name: str, row: Row, only_if: Sequence[Linear], big: float) -> None:
        """Add a row that must hold if all 0/1 columns of ``only_if`` are 1."""
        if all(condition.terms for condition in only_if):
            columns = [tuple(condition.terms) for condition in only_if]
            self.require(row, [column for (column,) in columns])

    def ticks(self, seconds: float) -> int:
        """Whole ticks in a duration, rounded down; a duration slightly below a whole tick counts as the whole tick.

        What lasts longer than any horizon counts as :data:`MOST_OF_ANY`, because engines count in 64 bits.
        """
        return math.floor(min(seconds / self.tick * (1 + WHOLE / 10) + WHOLE / 10, MOST_OF_ANY))

    def row(self, terms: Mapping[int, int], low: int | None, high: int | None, only_if: Iterable[int] = ()) -> None:
        """Add a row with integer coefficients. It must hold if all columns of ``only_if`` are 1."""
        self.whole_rows.append(WholeRow.of(terms, low, high, only_if))

    def add(self, row: Row, name: str = ADDED) -> None:
        """Add a row in seconds, bytes and counts. Rounding may only relax it slightly."""
        if Row.checked(row).decided():
            return
        self.whole_rows.append(self.rounded(row))
        self.added.append(row)

    @property
    def goal(self) -> int:
        """The column to minimise.

        Raises
        ------
        UnsupportedFeatureError
            If the cost is not a single column.
        """
        (column,) = self.cost.terms or (None,)
        if column is None or len(self.cost.terms) != 1 or self.cost.terms[column] != 1.0:
            raise UnsupportedFeatureError("constraint programs minimise one column")
        return column

    def program(self) -> WholeProgram:
        """The model as plain data."""
        low, high = [int(value) for value in self.low], [int(value) for value in self.high]
        return WholeProgram(low, high, self.whole_rows, self.apart, self.goal)

    def broken(self, values: Sequence[float] | FloatArray) -> str | None:
        """How ``values`` violate the model; None if they are a solution."""
        return self.program().broken(values)

    def rounded(self, row: Row) -> WholeRow:
        """Convert a row to integers. Rounding may only relax it slightly.

        Columns of :attr:`timed` are rounded down to ticks, so they may be off by almost two.
        """
        terms = {column: value for column, value in row.terms.items() if value}
        scale = 1.0 / self.tick if any(column in self.timed for column in terms) else 1.0
        terms = {column: value * scale for column, value in terms.items()}
        exact = all(abs(value - round(value)) <= 1e-12 * abs(value) for value in terms.values())
        factor = 1.0 if exact else min(LARGEST_FACTOR, max(1.0, FINEST / max(map(abs, terms.values()), default=1.0)))
        loose = sum(2.0 * abs(value) * factor for column, value in terms.items() if column in self.timed)
        for column, value in terms.items():
            farthest = max(abs(self.low[column]), abs(self.high[column]))
            loose += abs(value * factor - round(value * factor)) * farthest
        sides = [
            None if math.isinf(side) else rounding(side * scale * factor + sign * (loose + 1e-9))
            for side, sign, rounding in ((row.low, -1, math.ceil), (row.high, 1, math.floor))
        ]
        return WholeRow(tuple(terms), tuple(round(value * factor) for value in terms.values()), sides[0], sides[1])


class _WholeRows(RowFamily):
    """Rows of a constraint program, which keeps no families."""

    def __init__(self, model: IntervalModel) -> None:
        super().__init__(model.check_time)
        self._model = model

    def add(self, row: Row) -> None:
        """Add one row; its numbers are integers."""
        self._model.require(row)


def fine_tick(activities: int, horizon: float) -> float:
    """A tick in seconds, so small that rounding does not matter even when summed along a path of all activities."""
    return horizon / min(TICKS * max(1, activities), MOST_TICKS) if horizon > 0 else 1.0
