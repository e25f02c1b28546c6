"""Rows by family, collected as flat lists and arrays; they are written one by one or in bulk."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from opweave.formulations.modeling.linear import Row
from opweave.problems.arrays import BoolArray, FloatArray, IntArray
from opweave.problems.errors import InvalidInputError, LimitExceededError
from opweave.problems.limits import Limits

ROWS_BETWEEN_CHECKS = 4096

LARGEST_COEFFICIENT = 1e15
SMALLEST_COEFFICIENT = 1e-9
"""Engines silently drop coefficients beyond these and solve another model."""

INFINITE = 1e20
"""Engines read larger bounds as no bound."""

FEASIBILITY = 1e-5
"""Tolerance of a returned value for rows and bounds, relative to the largest term of the row."""


@dataclass(frozen=True, slots=True, eq=False)
class RowBlock:
    """Rows ``lower <= A x <= upper`` in compressed sparse row format.

    Attributes
    ----------
    start, index, value
        Row r holds columns ``index[start[r]:start[r + 1]]`` with coefficients ``value``.
    lower, upper
        Shape (rows,); -inf or inf for a missing side.
    names
        Name of every row, for messages.
    """

    start: NDArray[np.int32]
    index: NDArray[np.int32]
    value: FloatArray
    lower: FloatArray
    upper: FloatArray
    names: Sequence[str]

    def __len__(self) -> int:
        return len(self.lower)

    def joined(self, other: RowBlock) -> RowBlock:
        """These rows, followed by those of another block of the same model."""
        return join_blocks((self, other), [*self.names, *other.names])

    def check(self) -> None:
        """Refuse numbers that engines would drop or misread.

        Raises
        ------
        InvalidInputError
            If there is such a number; the message names the row.
        """
        row = np.repeat(np.arange(len(self)), np.diff(self.start))
        size = np.abs(self.value)
        refuse(~np.isfinite(self.value), self.names, row, "has a coefficient that is not a finite number")
        far = "engines would misread it, because numbers of the problem or of an added row lie too far apart"
        huge = size >= LARGEST_COEFFICIENT
        refuse(huge, self.names, row, f"has a coefficient of {LARGEST_COEFFICIENT:g} or more; {far}")
        tiny = (size > 0) & (size <= SMALLEST_COEFFICIENT)
        refuse(tiny, self.names, row, f"has a coefficient of {SMALLEST_COEFFICIENT:g} or less; {far}")
        each = np.arange(len(self))
        refuse(np.isnan(self.lower) | np.isnan(self.upper), self.names, each, "has a side that is not a number")
        wrong = (self.lower >= INFINITE) | (self.upper <= -INFINITE)
        refuse(wrong, self.names, each, "can never hold: a side is infinite the wrong way")

    def broken(self, values: FloatArray) -> str | None:
        """Name of a row that ``values`` violate, or None."""
        if len(self) == 0:
            return None
        terms = self.value * values[self.index]
        filled = np.diff(self.start) > 0
        activity, largest = np.zeros(len(self)), np.zeros(len(self))
        begin = self.start[:-1][filled]
        activity[filled] = np.add.reduceat(terms, begin)
        largest[filled] = np.maximum.reduceat(np.abs(terms), begin)
        slack = FEASIBILITY * np.maximum(1.0, largest)
        bad = (activity < self.lower - slack) | (activity > self.upper + slack)
        return self.names[int(np.argmax(bad))] if bad.any() else None


def row_names(sizes: Mapping[str, int]) -> list[str]:
    """Names of the rows of consecutive families, given their numbers of rows."""
    return [f"{family}[{index}]" for family, count in sizes.items() for index in range(count)]


def refuse(bad: BoolArray, names: Sequence[str], owner: IntArray, what: str) -> None:
    """Raise an error for the first bad number, with the name of its owner.

    Raises
    ------
    InvalidInputError
        If any number is bad.
    """
    if bad.any():
        raise InvalidInputError(f"{names[int(owner[int(np.argmax(bad))])]} of the model {what}")


class RowFamily:
    """One family of rows. A row with two different sides becomes two rows.

    A row whose columns cancel out is decided here, in the same way for all programs. If it holds, it is dropped; if
    not, the problem has no solution.

    Examples
    --------
    >>> from opweave.formulations.modeling.linear import Linear
    >>> rows = RowFamily()
    >>> rows.add(Linear.of(0) <= Linear.of(1))
    >>> len(rows)
    1
    """

    def __init__(self, check_time: Callable[[], None] = lambda: None) -> None:
        self._check_time = check_time
        self._count = 0
        self._written: list[Row] = []
        self._finished: list[RowBlock] = []

    def __len__(self) -> int:
        return self._count

    def add(self, row: Row) -> None:
        """Add one row.

        Raises
        ------
        InfeasibleError
            If it has no columns and does not hold.
        """
        if row.decided():
            return
        if row.low < row.high and math.isfinite(row.low) and math.isfinite(row.high):
            self.add(Row(row.terms, row.low, math.inf))  # the files of engines allow one side per row
            row = Row(row.terms, -math.inf, row.high)
        if self._count % ROWS_BETWEEN_CHECKS == 0:
            self._check_time()
        self._written.append(row)
        self._count += 1

    def extend(self, block: RowBlock) -> None:
        """Add all rows of a block."""
        self._finish()
        self._finished.append(block)
        self._count += len(block)

    def _finish(self) -> None:
        """Convert the rows that were written one by one to arrays."""
        if not self._written:
            return
        rows, self._written = self._written, []
        start = np.cumsum([0, *(len(row.terms) for row in rows)]).astype(np.int32)
        entries = int(start[-1])
        self._finished.append(
            RowBlock(
                start=start,
                index=np.fromiter(chain.from_iterable(row.terms for row in rows), np.int32, entries),
                value=np.fromiter(chain.from_iterable(row.terms.values() for row in rows), np.float64, entries),
                lower=np.asarray([row.low for row in rows], dtype=np.float64),
                upper=np.asarray([row.high for row in rows], dtype=np.float64),
                names=(),
            )
        )

    def block(self) -> RowBlock:
        """All rows so far, without names."""
        self._finish()
        self._finished = [join_blocks(self._finished)]
        return self._finished[0]


def join_blocks(blocks: Sequence[RowBlock], names: Sequence[str] = ()) -> RowBlock:
    """All rows of several blocks of one model."""
    lengths = np.concatenate([np.zeros(1, dtype=np.int64), *(np.diff(block.start) for block in blocks)])
    empty = np.zeros(0)
    return RowBlock(
        start=np.cumsum(lengths).astype(np.int32),
        index=np.concatenate([empty.astype(np.int32), *(block.index for block in blocks)]),
        value=np.concatenate([empty, *(block.value for block in blocks)]),
        lower=np.concatenate([empty, *(block.lower for block in blocks)]),
        upper=np.concatenate([empty, *(block.upper for block in blocks)]),
        names=names,
    )


def check_rows(count: int, formulation: str, limits: Limits) -> None:
    """Refuse a model before it is written.

    Raises
    ------
    LimitExceededError
        If ``count`` exceeds ``limits.model_rows``.
    """
    if count > limits.model_rows:
        raise LimitExceededError(
            f"formulation {formulation!r} would need {count:,} rows for this problem; at most {limits.model_rows:,} "
            "are built (Limits.model_rows); use another solver or a smaller graph"
        )


LARGEST_IN_UNITS = 2**30
"""Largest coefficient; beyond it, the absolute tolerances of an engine would be coarser than one unit."""

SLACK = 0.01
RELATIVE_SLACK = 1e-10
"""Largest error of an engine's bound, in units and relative to the bound."""


@dataclass(frozen=True, slots=True)
class Scale:
    """A scale in which one unit is ``unit`` bytes; every footprint is a multiple of ``step`` bytes.

    Examples
    --------
    >>> scale = Scale(step=1024, unit=1024)
    >>> scale.room(2047), scale.bound(6367.3)
    (1024, 6520832)
    """

    step: int
    unit: int

    @classmethod
    def up_to(cls, largest: int, step: int) -> Scale:
        """The scale for footprints of at most ``largest`` bytes."""
        return cls(step, step * max(1, math.ceil(largest / (step * LARGEST_IN_UNITS))))

    @property
    def whole(self) -> bool:
        """Whether every footprint is an integer number of units."""
        return self.unit == self.step

    def room(self, limit: int) -> int:
        """The largest footprint in bytes that a limit allows, a multiple of ``step``."""
        return limit // self.step * self.step

    def bound(self, value: float) -> int:
        """Convert an engine's lower bound to bytes: subtract its possible error, round up to a multiple of ``step``."""
        safe = value - SLACK - RELATIVE_SLACK * abs(value)
        return math.ceil(safe * (self.unit / self.step)) * self.step
