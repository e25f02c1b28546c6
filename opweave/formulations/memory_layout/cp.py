"""Memory layout for constraint-programming engines: storages are boxes in time and space that must not overlap."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from opweave.formulations.formulation import register_formulation
from opweave.formulations.memory_layout.program import BoxModel, LayoutProgram
from opweave.formulations.modeling.intervals import MOST_TICKS, Box
from opweave.formulations.modeling.linear import Linear
from opweave.formulations.modeling.model import LinearModel
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.errors import LimitExceededError
from opweave.problems.memory_layout.spec import MemoryLayout

LARGEST = 2**31
"""Most units of an arena."""


@register_formulation
class Boxes(LayoutProgram):
    """A box for every storage in every pool where it may stand."""

    name: ClassVar[str] = "boxes"
    model_type: ClassVar[type[LinearModel]] = BoxModel
    supports: ClassVar[tuple[str, ...]] = ("boxes",)
    cost_units: ClassVar[float] = MOST_TICKS
    _blocks: int = 0

    def build(self, problem: MemoryLayout) -> BoxModel:
        """Write the model.

        Raises
        ------
        LimitExceededError
            If the arena has too many units.
        """
        instance = self.prepare(problem, math.inf)
        self._blocks = len(instance)
        if self._height // self._step > LARGEST:
            raise LimitExceededError(
                f"formulation {self.name!r} counts whole units of {self._step:,} bytes, of which these storages have "
                "too many; use another solver"
            )
        model = BoxModel(instance, self._step)
        model.check_time = self.check_time
        self.add_pools(model)
        self.add_places(model)
        for k in range(len(instance.capacity)):
            model.boxes.append([box for row in np.flatnonzero(instance.solid).tolist() for box in _box(model, row, k)])
        self.add_tops(model, int(instance.live.max(initial=0)) // self._step)
        self.minimise(model)
        self.add_constraints(model, problem)
        return model

    def minimise_sum(self, model: Any, cost: Linear, unit: float) -> None:
        """One column that is as large as the sum, in whole units; coefficients are rounded down."""
        terms = {column: math.floor(value) for column, value in cost.terms.items()}
        least = math.floor(cost.constant) + sum(value * model.lowest(column) for column, value in terms.items())
        most = math.floor(cost.constant) + sum(value * model.highest(column) for column, value in terms.items())
        (goal,) = model.wholes("total", (None,), least, most)
        model.require(Linear(math.floor(cost.constant), terms) - Linear.of(int(goal)) <= 0)
        model.minimise(Linear.of(int(goal)), unit)

    def fill(self, model: Any, known: dict[int, float], offset: IntArray, pool: IntArray) -> FloatArray:
        """The goal is the sum of the other columns."""
        values = super().fill(model, known, offset, pool)
        goal = model.column("total", None)
        (sums,) = (row for row in model.whole_rows if goal in row.columns)
        others = [(column, factor) for column, factor in zip(sums.columns, sums.coefficients, strict=True)]
        reached = sum(factor * values[column] for column, factor in others if column != goal) - (sums.high or 0)
        values[goal] = max(model.lowest(goal), reached)
        return values

    def resolution(self) -> float:
        """A tick for every block, in seconds."""
        return self._cost_unit * self._blocks if self._timed else super().resolution()

    def objective_bound(self, problem: MemoryLayout, value: float) -> int | float:
        """Convert units to bytes or ticks to seconds."""
        if problem.objective == "traffic":
            return max(0.0, math.ceil(value - 0.01) * self._cost_unit)
        return super().objective_bound(problem, value)


def _box(model: BoxModel, row: int, pool: int) -> list[Box]:
    """The box of a block in a pool, if it may stand there."""
    instance, there = model.instance, model.stands(row, pool)
    if not there.terms and not there.constant:
        return []
    (present,) = there.terms or (None,)
    begin, end = int(instance.begin[row]), int(instance.end[row])
    return [Box(begin, end - begin, model.places[row], int(instance.bytes[row]) // int(model.grain), present)]
