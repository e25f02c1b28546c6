"""A linear program as plain arrays: the input of engines, against which their answers are checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from opweave.formulations.modeling.linear import CONSTANT_TOLERANCE, Linear, Row
from opweave.formulations.modeling.model import LinearModel
from opweave.formulations.modeling.rows import (
    FEASIBILITY,
    INFINITE,
    LARGEST_COEFFICIENT,
    RowBlock,
    RowFamily,
    join_blocks,
    refuse,
    row_names,
)
from opweave.problems.arrays import BoolArray, FloatArray, IntArray
from opweave.problems.errors import Interruption, InvalidInputError

WHOLE_TOLERANCE = 1e-9
"""Tolerance for rounding the bounds of integer columns to integers."""


class TriviallyInfeasibleError(Interruption):
    """A row without variables can never hold, or a variable has no value between its bounds."""


@dataclass(frozen=True, slots=True, eq=False)
class MatrixModel:
    """Minimise ``offset + cost x`` subject to ``rows``, ``lower <= x <= upper``, and some integer columns.

    Attributes
    ----------
    cost, lower, upper
        Shape (columns,).
    whole
        Whether each column is restricted to integers.
    names
        Name of every column, for messages.
    """

    cost: FloatArray
    offset: float
    lower: FloatArray
    upper: FloatArray
    whole: BoolArray
    rows: RowBlock
    names: Sequence[str]

    @property
    def columns(self) -> int:
        """Number of columns."""
        return len(self.cost)

    def check(self) -> None:
        """Refuse numbers that engines would drop or misread.

        Raises
        ------
        InvalidInputError
            If there is such a number; the message names the row or variable.
        """
        each = np.arange(self.columns)
        bad_cost = ~np.isfinite(self.cost) | (np.abs(self.cost) >= LARGEST_COEFFICIENT)
        refuse(bad_cost, self.names, each, "has an objective coefficient that is not finite or too large")
        refuse(np.isnan(self.lower) | np.isnan(self.upper), self.names, each, "has a bound that is not a number")
        wrong = (self.lower >= INFINITE) | (self.upper <= -INFINITE)
        refuse(wrong, self.names, each, "has a bound that is infinite the wrong way")
        if not np.isfinite(self.offset):
            raise InvalidInputError("the model's objective has a constant that is not a finite number")
        self.rows.check()

    def broken(self, values: FloatArray) -> str | None:
        """How ``values`` fail (not finite, outside a bound, fractional, or a broken row); None if they do not."""
        if values.shape != (self.columns,) or not np.isfinite(values).all():
            return "values that are missing or not finite"
        slack = FEASIBILITY * np.maximum(1.0, np.abs(values))
        outside = (values < self.lower - slack) | (values > self.upper + slack)
        if outside.any():
            return f"{self.names[int(np.argmax(outside))]} outside its bounds"
        split = self.whole & (np.abs(values - np.round(values)) > slack)
        if split.any():
            return f"a fraction for {self.names[int(np.argmax(split))]}"
        row = self.rows.broken(values)
        return None if row is None else f"values that break row {row}"

    def objective(self, values: FloatArray) -> float:
        """Objective of ``values``."""
        return float(self.offset + self.cost @ values)


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """The program that an engine receives, and the relation between its columns and the model's.

    Attributes
    ----------
    matrix
        The program.
    column
        The program's column for each column of the model; -1 for one that a user fixed. Shape (model's columns,).
    fixed
        Values of the fixed columns. Shape (model's columns,).
    spare
        Values of the program's columns that the model lacks, NaN if unknown. Shape (program's columns,).
    own_objective
        Whether the objective is the formulation's own and not one that a user put in its place.
    """

    matrix: MatrixModel
    column: IntArray
    fixed: FloatArray
    spare: FloatArray
    own_objective: bool = True

    exact: ClassVar[bool] = False

    @property
    def size(self) -> str:
        """The size in words."""
        return f"{self.matrix.columns:,} variables, {len(self.matrix.rows):,} rows"

    def broken(self, values: FloatArray) -> str | None:
        """How an engine's values violate the program; None if they do not."""
        return self.matrix.broken(values)

    def objective(self, values: FloatArray) -> float:
        """The cost of an engine's values, in the model's units."""
        return self.matrix.objective(values)

    def model_values(self, values: FloatArray) -> FloatArray:
        """Convert an engine's values to values by column of the model; integer ones are rounded."""
        clean = np.where(self.matrix.whole, np.round(values), values)
        return np.where(self.column >= 0, clean[self.column], self.fixed) if len(clean) else self.fixed.copy()

    def engine_values(self, values: FloatArray) -> FloatArray:
        """Convert a model's values to values by column of the program."""
        result = self.spare.copy()
        there = self.column >= 0
        result[self.column[there]] = values[: len(there)][there]
        return result

    def block(self, rows: Sequence[Row]) -> RowBlock:
        """Convert rows over the model's columns to rows of the program."""
        collected = RowFamily()
        for row in rows:
            terms: dict[int, float] = {}
            shift = 0.0
            for column, value in row.terms.items():
                if self.column[column] >= 0:
                    terms[int(self.column[column])] = value
                else:
                    shift += value * float(self.fixed[column])
            collected.add(Row(terms, row.low - shift, row.high - shift))
        found = collected.block()
        block = join_blocks([found], row_names({"late": len(found)}))
        block.check()
        return block


def to_arrays(model: LinearModel) -> Program:
    """Write a model as arrays and check every number in it.

    Raises
    ------
    InvalidInputError
        If there are NaN, infinite or extreme numbers; the message names the row or variable.
    TriviallyInfeasibleError
        If a row without variables can never hold, or a variable has no value left.
    """
    count = len(model)
    low, high = np.asarray(model.low, dtype=np.float64), np.asarray(model.high, dtype=np.float64)
    whole = np.asarray(model.integral, dtype=bool)
    names = model.names()
    lower, upper = whole_bounds(low, high, whole, names)
    cost = np.zeros(count)
    cost[list(model.cost.terms)] = list(model.cost.terms.values())
    matrix = MatrixModel(cost, float(model.cost.constant), lower, upper, whole, rows_of(model), names)
    matrix.check()
    return Program(matrix, np.arange(count, dtype=np.int64), np.zeros(count), np.full(count, np.nan))


def of_arrays(matrix: MatrixModel) -> LinearModel:
    """Convert arrays to a model with columns ``x`` (continuous or integer) and rows ``rows``, by number."""
    model = LinearModel()
    model.columns("x", range(matrix.columns), matrix.lower, matrix.upper, matrix.whole)
    model.rows("rows").extend(matrix.rows)
    model.minimise(Linear(matrix.offset, {k: cost for k, cost in enumerate(matrix.cost.tolist()) if cost}))
    return model


def rows_of(model: LinearModel) -> RowBlock:
    """All rows of a model without coefficients of 0.

    Raises
    ------
    TriviallyInfeasibleError
        If a row without variables can never hold.
    """
    blocks = {name: rows.block() for name, rows in model.row_families.items()}
    names = row_names({name: len(block) for name, block in blocks.items()})
    return without_zeros(join_blocks(list(blocks.values()), names))


def without_zeros(block: RowBlock) -> RowBlock:
    """The rows without coefficients of 0, and without rows that always hold.

    Raises
    ------
    TriviallyInfeasibleError
        If a row has no coefficients left and does not hold.
    """
    kept = block.value != 0.0
    lengths = np.diff(block.start)
    owner = np.repeat(np.arange(len(block)), lengths)
    left = lengths if kept.all() else np.bincount(owner[kept], minlength=len(block))
    idle = left == 0
    wrong = idle & ((block.lower > CONSTANT_TOLERANCE) | (block.upper < -CONSTANT_TOLERANCE))
    if wrong.any():
        raise TriviallyInfeasibleError(f"row {block.names[int(np.argmax(wrong))]} can never hold")
    endless = ~idle & (block.lower == -np.inf) & (block.upper == np.inf)
    if kept.all() and not (idle | endless).any():
        return block
    stays = ~(idle | endless)
    kept &= stays[owner]
    start = np.zeros(int(stays.sum()) + 1, dtype=np.int32)
    np.cumsum(left[stays], out=start[1:])
    chosen, known = np.flatnonzero(stays), block.names
    names = [known[index] for index in chosen.tolist()]
    return RowBlock(start, block.index[kept], block.value[kept], block.lower[stays], block.upper[stays], names)


def whole_bounds(
    low: FloatArray, high: FloatArray, whole: BoolArray, names: Sequence[str]
) -> tuple[FloatArray, FloatArray]:
    """Round the bounds of integer columns to integers, because some engines refuse others.

    Raises
    ------
    TriviallyInfeasibleError
        If a variable has no value left.
    """
    lower = np.where(whole, np.ceil(low - WHOLE_TOLERANCE), low)
    upper = np.where(whole, np.floor(high + WHOLE_TOLERANCE), high)
    if (lower > upper).any():
        raise TriviallyInfeasibleError(f"variable {names[int(np.argmax(lower > upper))]} has no value left")
    return lower, upper
