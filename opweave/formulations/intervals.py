"""Models of whole numbers and intervals, as plain data: what formulations write for constraint-programming engines.

Engines of this kind may live in another process, so a model holds nothing but numbers. Columns are whole-number
variables with bounds; an interval has a start column, a fixed size and perhaps a 0/1 column that says if it is there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

FINEST = 1_000_000
"""Fractions in rows are rounded to parts of this, to the side that keeps every solution."""


LARGEST_FACTOR = 1e9
"""Largest factor that makes the numbers of a row whole."""


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """``constant + sum of coefficient * column``; comparing it with another one or a number gives a row.

    Examples
    --------
    >>> row = 2 * Linear(0.0, {0: 1.0}) + 1 <= Linear(0.0, {1: 1.0})
    >>> row.terms, row.low, row.high
    ({0: 2.0, 1: -1.0}, -inf, -1.0)
    """

    constant: float
    terms: Mapping[int, float]

    def __add__(self, other: Linear | float) -> Linear:
        other = _linear(other)
        terms = dict(self.terms)
        for column, coefficient in other.terms.items():
            terms[column] = terms.get(column, 0.0) + coefficient
        return Linear(self.constant + other.constant, terms)

    def __mul__(self, factor: float) -> Linear:
        return Linear(self.constant * factor, {column: value * factor for column, value in self.terms.items()})

    def __neg__(self) -> Linear:
        return self * -1.0

    def __sub__(self, other: Linear | float) -> Linear:
        return self + -_linear(other)

    def __rsub__(self, other: float) -> Linear:
        return -self + other

    __radd__ = __add__
    __rmul__ = __mul__

    def __le__(self, other: Linear | float) -> Comparison:
        difference = self - other
        return Comparison(difference.terms, -math.inf, -difference.constant)

    def __ge__(self, other: Linear | float) -> Comparison:
        difference = self - other
        return Comparison(difference.terms, -difference.constant, math.inf)

    def __eq__(self, other: object) -> Comparison:  # type: ignore[override]  # rows are written like this
        assert isinstance(other, Linear | float | int)
        difference = self - other
        return Comparison(difference.terms, -difference.constant, -difference.constant)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A row over real coefficients, as a user writes it: ``low <= sum terms <= high``."""

    terms: Mapping[int, float]
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Row:
    """``low <= sum of coefficients * columns <= high`` where all columns of ``only_if`` are 1; None for no side."""

    columns: tuple[int, ...]
    coefficients: tuple[int, ...]
    low: int | None
    high: int | None
    only_if: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Interval:
    """From column ``start`` for ``size``; there if column ``present`` is 1, or always if that is None."""

    start: int
    size: int
    present: int | None = None


@dataclass(frozen=True, slots=True)
class Arc:
    """From node to node, taken if its column is 1; a loop says that its node is left out of the circuit."""

    tail: int
    head: int
    taken: int


@dataclass(eq=False)
class IntervalModel:
    """Minimise one column over rows, intervals that must not overlap, and circuits.

    Attributes
    ----------
    low, high
        Bounds of every column.
    apart
        Lists of intervals of which no two overlap; one of size 0 does not lie inside another either.
    objective
        The column to minimise.
    hint
        Values to begin from, by column.
    circuits
        Lists of arcs of which those taken visit every node once in one round, but for those with a loop.
    """

    low: list[int] = field(default_factory=list)
    high: list[int] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    apart: list[list[Interval]] = field(default_factory=list)
    objective: int = -1
    hint: dict[int, int] = field(default_factory=dict)
    circuits: list[list[Arc]] = field(default_factory=list)

    def whole(self, low: int, high: int) -> int:
        """Add a whole-number column."""
        self.low.append(low)
        self.high.append(high)
        return len(self.low) - 1

    def binary(self) -> int:
        """Add a 0/1 column."""
        return self.whole(0, 1)

    def row(self, terms: Mapping[int, int], low: int | None, high: int | None, only_if: Iterable[int] = ()) -> None:
        """Add a row with whole coefficients."""
        kept = {column: value for column, value in terms.items() if value}
        self.rows.append(Row(tuple(kept), tuple(kept.values()), low, high, tuple(only_if)))

    def broken(self, values: Sequence[int]) -> str | None:
        """What is wrong with ``values`` as a solution; None when nothing is."""
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
        if not all(_is_round(arcs, values) for arcs in self.circuits):
            return "arcs that are no circuit"
        return None


def _is_round(arcs: Sequence[Arc], values: Sequence[int]) -> bool:
    """Whether the arcs taken leave and enter every node once and make one round without the loops."""
    taken = [(arc.tail, arc.head) for arc in arcs if values[arc.taken]]
    onward = dict(taken)
    nodes = {node for arc in arcs for node in (arc.tail, arc.head)}
    if len(taken) != len(nodes) or onward.keys() != nodes or set(onward.values()) != nodes:
        return False
    visited = [node for node in nodes if onward[node] != node]
    if not visited:
        return True
    node, length = onward[visited[0]], 1
    while node != visited[0]:
        node, length = onward[node], length + 1
    return length == len(visited)


def whole_row(model: IntervalModel, row: Comparison, unit: float, ticks: frozenset[int]) -> Row:
    """A user's row in whole numbers; rounding only ever lets a little more through.

    Parameters
    ----------
    model
        For the columns' bounds.
    row
        With a coefficient of ``unit`` where a column counts ticks of so many units.
    unit, ticks
        The unit, and the columns that are rounded down to it: they may be almost two ticks off.
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


def _linear(value: Linear | float) -> Linear:
    return value if isinstance(value, Linear) else Linear(float(value), {})
