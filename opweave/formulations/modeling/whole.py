"""Programs of integers and intervals as plain data, for constraint-programming engines.

Such engines may run in another process, so a program holds only numbers. Columns are integer variables with bounds. An
interval has a start column, a fixed size and, optionally, a 0/1 column that says whether it is present.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import ClassVar

from opweave.problems.arrays import FloatArray


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
    """An interval of ``size`` from column ``start``; present if column ``present`` is 1, or always if that is None."""

    start: int
    size: int
    present: int | None = None


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle: ``width`` from ``left`` along one axis, ``height`` from column ``low`` along the other.

    It is present if column ``present`` is 1, or always if that is None.
    """

    left: int
    width: int
    low: int
    height: int
    present: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class WholeProgram:
    """Minimise one column subject to rows, and intervals and boxes that must not overlap.

    Attributes
    ----------
    low, high
        Bounds of every column.
    apart
        Lists of intervals, no two of which overlap; an interval of size 0 may not lie inside another one either.
    goal
        The column to minimise.
    boxes
        Lists of boxes of positive width and height, no two of which overlap.
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
    boxes: Sequence[Sequence[Box]] = ()
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
        return "boxes that overlap" if any(_clash(boxes, values) for boxes in self.boxes) else None


def _clash(boxes: Sequence[Box], values: Sequence[float] | FloatArray) -> bool:
    """Whether two present boxes overlap."""
    there = [box for box in boxes if box.present is None or values[box.present]]
    open_boxes: list[tuple[int, float, float]] = []  # right, low and high side of those that reach the current one
    for box in sorted(there, key=lambda box: box.left):
        low, high = values[box.low], values[box.low] + box.height
        open_boxes = [each for each in open_boxes if each[0] > box.left]
        if any(below < high and low < above for _, below, above in open_boxes):
            return True
        open_boxes.append((box.left + box.width, low, high))
    return False
