"""Memory layout as a mixed-integer linear program: for every two storages that live together, which is below the other.

The model is readable in Pyomo: ``place[storage]``, ``chosen[storage,pool]``, ``below[first,second]``, ``top[pool]``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from opweave.formulations.formulation import register_formulation
from opweave.formulations.memory_layout.program import LayoutProgram, OffsetModel
from opweave.formulations.modeling.linear import Linear, total
from opweave.formulations.modeling.model import LinearModel
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.memory_layout.spec import Layout, MemoryLayout

LARGEST = 2e5
"""Most units of an arena; engines keep whole units of that many apart."""


@register_formulation
class Sides(LayoutProgram):
    """Offsets as numbers, and a 0/1 column for each side of a pair."""

    name: ClassVar[str] = "sides"
    model_type: ClassVar[type[LinearModel]] = OffsetModel
    supports: ClassVar[tuple[str, ...]] = ("sides",)

    def build(self, problem: MemoryLayout) -> OffsetModel:
        """Write the model."""
        model = OffsetModel(self.prepare(problem, LARGEST), self._grain)
        model.check_time = self.check_time
        self.add_pools(model)
        self.add_places(model)
        self.add_sides(model)
        self.add_tops(model, float(model.instance.live.max(initial=0)) / self._grain)
        self.minimise(model)
        self.add_constraints(model, problem)
        return model

    def lengths(self, model: Any, name: str, keys: Iterable[str], low: Any, high: Any) -> IntArray:
        """Continuous columns, unless units are whole and rows may be added that a pushed down layout would break."""
        if self.context.extended and self._grain == self._step:
            return super().lengths(model, name, keys, low, high)
        columns: IntArray = model.reals(name, keys, low, high)
        return columns

    def add_sides(self, model: Any) -> None:
        """Of two blocks that live together in one pool, one ends below the other."""
        instance = model.instance
        big = self._units(self._height)
        for i, j in zip(*(rows.tolist() for rows in instance.meeting), strict=True):
            shared = [(model.stands(i, k), model.stands(j, k)) for k in range(len(instance.capacity))]
            shared = [(a, b) for a, b in shared if (a.terms or a.constant) and (b.terms or b.constant)]
            if not shared:
                continue
            sides = [self._below(model, first, second) for first, second in ((i, j), (j, i))]
            for a, b in shared:
                self._require(model, "one_below", total(sides) >= a + b - 1)
            for (first, second), side in zip(((i, j), (j, i)), sides, strict=True):
                if side.terms:
                    row = Linear.of(model.places[first]) + self.units_of(model, first) - Linear.of(model.places[second])
                    model.where("disjoint", row <= 0, (side,), big)

    def _below(self, model: Any, first: int, second: int) -> Linear:
        """1 if the first block ends below the second one; known to be 0 where fixed offsets say so."""
        instance = model.instance
        if instance.fixed[first] >= 0 and instance.fixed[second] >= 0:
            return Linear(float(instance.fixed[first] + instance.bytes[first] <= instance.fixed[second]))
        return Linear.of(int(model.binaries("below", [(instance.name(first), instance.name(second))])[0]))

    def telling(self, model: Any, solution: Layout) -> FloatArray:
        """The values that a layout implies, without the sides of blocks in different pools."""
        values = self.start(model, solution)
        row_of, (_, pool) = model.instance.row_of, model.instance.places(solution)
        for (first, second), column in model.columns_of("below"):
            if pool[row_of[first]] != pool[row_of[second]]:
                values[column] = np.nan
        return values

    def fill(self, model: Any, known: dict[int, float], offset: IntArray, pool: IntArray) -> FloatArray:
        """Sides as the offsets say, in one pool or not."""
        for key, column in model.columns_of("below"):
            first, second = (model.instance.row_of[name] for name in key)
            known[column] = float(offset[first] + model.instance.bytes[first] <= offset[second])
        return super().fill(model, known, offset, pool)
