"""Programs of whole numbers and intervals as plain data: what constraint-programming engines are given.

Engines of this kind may live in another process, so a program holds nothing but numbers. Columns are whole-number
variables with bounds; an interval has a start column, a fixed size and perhaps a 0/1 column that says if it is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class WholeRow:
    """``low <= sum of coefficients * columns <= high`` where all columns of ``only_if`` are 1; None for no side."""

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


@dataclass(frozen=True, slots=True, eq=False)
class WholeProgram:
    """Minimise one column over rows, intervals that must not overlap, and circuits.

    Attributes
    ----------
    low, high
        Bounds of every column.
    apart
        Lists of intervals of which no two overlap; one of size 0 does not lie inside another either.
    goal
        The column to minimise.
    circuits
        Lists of arcs of which those taken visit every node once in one round, but for those with a loop.
    hint
        Values to begin from, by column.
    """

    low: Sequence[int]
    high: Sequence[int]
    rows: Sequence[WholeRow]
    apart: Sequence[Sequence[Interval]]
    goal: int
    circuits: Sequence[Sequence[Arc]] = ()
    hint: Mapping[int, int] = field(default_factory=dict)

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
