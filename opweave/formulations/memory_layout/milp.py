"""Memory layout as a mixed-integer linear program: for every two storages that live together, which is below the other.

A layout in which every storage rests on another one, on the ground, or on the next multiple of its alignment is never
worse than the layout that it was pushed down from. So offsets count whole units, and a layout that is read from an
engine's values is pushed down, which removes their rounding errors.

The model is readable in Pyomo: ``place[storage]``, ``chosen[storage,pool]``, ``below[first,second]``, ``top[pool]``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from opweave.formulations.formulation import TOLERANCE, BuildContext, Formulation, register_formulation
from opweave.formulations.memory_layout.instance import LayoutInstance, lower, pushed_down
from opweave.formulations.modeling.linear import Linear, total
from opweave.formulations.modeling.model import LinearModel
from opweave.formulations.modeling.rows import SMALLEST_COEFFICIENT
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.errors import InfeasibleError, InvalidInputError
from opweave.problems.memory_layout.spec import Layout, MemoryLayout
from opweave.problems.words import did_you_mean

LARGEST = 2e5
"""Most units of an arena; engines keep whole units of that many apart."""

COST_UNITS = 1000.0
"""Units of the most traffic."""

SLACK = 0.25
"""Units by which an engine may misjudge an arena of whole units."""

BLURRED = 1e-10
"""Relative error of an engine's offsets. It is less than a byte up to several gigabytes."""

SUMS = 1e-9
"""Relative allowance for sums of seconds, on the side that excludes no layout."""

GAPS = 8
"""How many times as high as all storages together a pool may be if rows are added that may ask for gaps."""


@dataclass(eq=False)
class LayoutModel(LinearModel):
    """A linear program of offsets, with variables over storages and pools.

    Attributes
    ----------
    instance
        What was written.
    grain
        Bytes of a unit.
    places
        Column of every block's offset, in units.
    chosen
        1 if the blocks of a team stand in a pool, by (team, pool).
    tops
        Units that every pool has to reserve; None where they do not matter.
    """

    more_words: ClassVar[tuple[str, ...]] = ("in_pool", "reserved", "offset")

    instance: LayoutInstance
    grain: float
    places: list[int] = field(default_factory=list)
    chosen: dict[tuple[int, int], Linear] = field(default_factory=dict)
    tops: list[Linear] = field(default_factory=list)

    def in_pool(self, storage: str, pool: str) -> Linear:
        """1 if a storage stands in a pool, otherwise 0."""
        return self.stands(
            _known("storage", storage, self.instance.row_of), _known("pool", pool, self.instance.problem.pool_index)
        )

    def reserved(self, pool: str) -> Linear:
        """Bytes that a pool has to reserve."""
        return self.tops[_known("pool", pool, self.instance.problem.pool_index)] * self.grain

    def offset(self, storage: str) -> Linear:
        """The offset of a storage in its pool, in bytes."""
        return Linear.of(self.places[_known("storage", storage, self.instance.row_of)]) * self.grain

    @property
    def stretched(self) -> set[int]:
        """The columns of offsets, which added rows may move up."""
        return set(self.places)

    def stands(self, row: int, pool: int) -> Linear:
        """1 if a block stands in a pool, otherwise 0."""
        return self.chosen.get((int(self.instance.team[row]), pool), Linear())


def _known(what: str, name: str, known: Mapping[str, int]) -> int:
    if name not in known:
        raise InvalidInputError(f"there is no {what} {name!r}{did_you_mean(name, known)}")
    return known[name]


@register_formulation
class Sides(Formulation[MemoryLayout, Layout]):
    """Offsets as continuous variables, and a binary variable for each side of a pair."""

    name: ClassVar[str] = "sides"
    problem_type: ClassVar[type[MemoryLayout]] = MemoryLayout
    model_type: ClassVar[type[LinearModel]] = LayoutModel
    supports: ClassVar[tuple[str, ...]] = ("sides",)

    _grain: float = 1.0
    _step: int = 1
    _height: int = 0
    _cost_unit: float = 1.0
    _timed: bool = False
    _price: int = 1

    def build(self, problem: MemoryLayout) -> LayoutModel:
        """Write the model."""
        model = LayoutModel(self._prepared(problem), self._grain)
        model.check_time, model.tick = self.check_time, self._grain
        self._pools(model)
        self._places(model)
        self._sides(model)
        self._tops(model)
        self._minimise(model)
        self.add_constraints(model, problem)
        return model

    def _prepared(self, problem: MemoryLayout) -> LayoutInstance:
        """Choose units, of which an arena has at most :data:`LARGEST`.

        Raises
        ------
        InfeasibleError
            If a storage fits nowhere.
        LimitExceededError
            If there are too many storages.
        """
        instance, self._price = self._affordable(lower(problem)), _dearest(problem)
        if instance.impossible is not None:
            raise InfeasibleError(instance.impossible)
        self.check_size(self.least_rows(problem))
        self._step, self._height = instance.grain, instance.height
        if self.context.extended:  # added rows may speak of single bytes, and ask for gaps
            self._step, self._height = 1, GAPS * instance.height + math.ceil(self.context.waits)
        self._grain = self._step * max(1.0, self._height / self._step / LARGEST)
        return instance

    def _affordable(self, instance: LayoutInstance) -> LayoutInstance:
        """Without the pools in which a block alone takes longer than a known layout; they would only blur the unit."""
        ceiling = self.context.ceiling
        if instance.problem.objective != "traffic" or ceiling is None:
            return instance
        return replace(instance, allowed=instance.allowed & (instance.seconds <= ceiling * (1.0 + SUMS)))

    def least_rows(self, problem: MemoryLayout) -> int:
        """Those of the blocks, and of the pairs that meet; 0 if a storage fits nowhere, which says more."""
        instance = lower(problem)
        if instance.impossible is not None:
            return 0
        return len(instance.capacity) * (3 * instance.meetings + 4 * len(instance))

    def _pools(self, model: LayoutModel) -> None:
        """One pool for every team of blocks, and no pool for two blocks that must be apart."""
        instance = model.instance
        pools = range(len(instance.capacity))
        for team in np.unique(instance.team).tolist():
            rows = np.flatnonzero(instance.team == team)
            open_pools = np.flatnonzero(instance.allowed[rows].all(axis=0)).tolist()
            if not open_pools:
                names = ", ".join(repr(instance.name(row)) for row in rows[:3].tolist())
                raise InfeasibleError(f"storages that must share a pool ({names}) have none")
            keys = [(instance.name(int(rows[0])), instance.problem.pools[k].name) for k in open_pools]
            columns = model.binaries("chosen", keys) if len(open_pools) > 1 else ()
            chosen = [Linear.of(int(column)) for column in columns] or [Linear(1)]
            model.chosen |= {(team, k): each for k, each in zip(open_pools, chosen, strict=True)}
            if len(chosen) > 1:
                model.rows("one_pool").add(total(chosen) == 1)
        for a, b in instance.apart.tolist():
            for k in pools:
                both = model.stands(a, k) + model.stands(b, k)
                if both.terms or both.constant > 1:
                    model.rows("apart").add(both <= 1)

    def _tops(self, model: LayoutModel) -> None:
        """Every pool reserves what reaches highest in it, and at any time no less than what lives there."""
        instance, known = model.instance, self.context.ceiling
        least = float(instance.live.max(initial=0)) / self._grain
        arena = instance.problem.objective == "arena"
        most = np.minimum(instance.capacity, self._height)
        if arena and known is not None:
            most = np.where(instance.price > 0, np.minimum(most, int(known) // np.maximum(instance.price, 1)), most)
        names = [pool.name for pool in instance.problem.pools]
        low = [least if len(names) == 1 and arena else 0.0] * len(names)
        high = [self._units(int(size)) for size in most]
        if any(a > b for a, b in zip(low, high, strict=True)):
            raise InfeasibleError(self.why_infeasible(instance.problem))
        model.tops = [Linear.of(int(column)) for column in self._lengths(model, "top", names, low, high)]
        for k in range(len(names)):
            for row in range(len(instance)):
                there = model.stands(row, k)
                if instance.solid[row] and (there.terms or there.constant):
                    end = Linear.of(model.places[row]) + self._size(model, row)
                    big = self._units(self._height)
                    model.where("below_top", end - model.tops[k] <= 0, (there,) if there.terms else (), big)
            if len(names) > 1:
                for section in instance.full_sections():
                    live = total(model.stands(row, k) * self._size(model, row) for row in section.tolist())
                    model.rows("live").add(live - model.tops[k] <= 0)

    def _lengths(self, model: LayoutModel, name: str, keys: Iterable[str], low: Any, high: Any) -> IntArray:
        """Columns in units; whole ones if units are, and if rows are added that a pushed down layout may break."""
        return model.columns(name, keys, low, high, self.context.extended and self._grain == self._step)

    def _units(self, size: int) -> float:
        """Bytes in units, rounded down to whole ones if a unit is whole."""
        return size // self._step if self._grain == self._step else size / self._grain

    def _size(self, model: LayoutModel, row: int) -> float:
        """Bytes of a block in units."""
        size = int(model.instance.bytes[row])
        if self._grain == self._step:
            return size // self._step
        return size / self._grain if size > SMALLEST_COEFFICIENT * self._grain else 0.0

    def _places(self, model: LayoutModel) -> None:
        """Offsets, those given fixed, and multiples of the alignments that units do not already have."""
        instance = model.instance
        high = [self._units(self._height)] * len(instance)
        low = [0.0] * len(instance)
        for row in np.flatnonzero(instance.fixed >= 0).tolist():
            low[row] = high[row] = self._units(int(instance.fixed[row]))
        names = [instance.name(row) for row in range(len(instance))]
        model.places = self._lengths(model, "place", names, low, high).tolist()
        for row in range(len(instance)):
            for k, pool in enumerate(instance.problem.pools):
                there = model.stands(row, k)
                step = int(max(instance.alignment[row], instance.pool_alignment[k]))
                if self._step % step and instance.fixed[row] < 0 and (there.terms or there.constant):
                    self._align(model, row, pool.name, step, there)

    def _align(self, model: LayoutModel, row: int, pool: str, step: int, there: Linear) -> None:
        """The offset is a multiple of ``step`` bytes if the block is in the pool.

        Engines do not see steps that are far smaller than a unit, and misread counts of them. Without added rows,
        layouts are aligned when they are pushed down.
        """
        if step * len(model.instance) < self._grain and not self.context.extended:
            return
        most = math.ceil(self._height / step)
        (count,) = model.wholes("steps", [(model.instance.name(row), pool)], 0, most)
        factor = step // self._step if self._grain == self._step else step / self._grain
        off = Linear.of(model.places[row]) - Linear.of(int(count), factor)
        big, only_if = self._units(self._height + step), (there,) if there.terms else ()
        model.where("aligned", off <= 0, only_if, big)
        model.where("aligned", -off <= 0, only_if, big)

    def _minimise(self, model: LayoutModel) -> None:
        """The bytes of all pools, or the seconds of traffic."""
        instance = model.instance
        if instance.problem.objective == "arena":
            prices = instance.price.tolist()
            model.minimise(total(top * price for top, price in zip(model.tops, prices, strict=True)), self._grain)
            return
        largest = float(np.where(instance.allowed, instance.seconds, 0.0).max(axis=1, initial=0.0).sum())
        self._cost_unit, self._timed = largest / COST_UNITS or 1.0, True
        shares = (
            model.stands(row, k) * (float(instance.seconds[row, k]) / self._cost_unit)
            for row in range(len(instance))
            for k in np.flatnonzero(instance.allowed[row]).tolist()
            if instance.seconds[row, k] > 0.0
        )
        model.minimise(total(shares), self._cost_unit)

    def _sides(self, model: LayoutModel) -> None:
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
                model.rows("one_below").add(total(sides) >= a + b - 1)
            for (first, second), side in zip(((i, j), (j, i)), sides, strict=True):
                if side.terms:
                    row = Linear.of(model.places[first]) + self._size(model, first) - Linear.of(model.places[second])
                    model.where("disjoint", row <= 0, (side,), big)

    def _below(self, model: LayoutModel, first: int, second: int) -> Linear:
        """1 if the first block ends below the second one; known to be 0 where fixed offsets say so."""
        instance = model.instance
        if instance.fixed[first] >= 0 and instance.fixed[second] >= 0:
            return Linear(float(instance.fixed[first] + instance.bytes[first] <= instance.fixed[second]))
        return Linear.of(int(model.binaries("below", [(instance.name(first), instance.name(second))])[0]))

    def extract(self, model: LayoutModel, values: FloatArray) -> Layout:
        """The pools and offsets of the values, pushed down unless added rows may speak against that."""
        instance: LayoutInstance = model.instance
        asked = values[model.places] * model.grain
        pools = [
            [model.stands(row, k).at(values) for k in range(len(instance.capacity))] for row in range(len(instance))
        ]
        shares = np.asarray(pools, dtype=np.float64).reshape(len(instance), len(instance.capacity))
        pool = shares.argmax(axis=1).astype(np.int64)
        return instance.layout(laid(instance, asked, pool, self.context), pool)

    def start(self, model: LayoutModel, solution: Layout) -> FloatArray:
        """The values that a layout implies, pushed down unless added rows may speak against that."""
        offset, pool = model.instance.places(solution)
        offset = laid(model.instance, offset.astype(np.float64), pool, self.context)
        instance: LayoutInstance = model.instance
        known: dict[int, float] = {
            column: at / model.grain for column, at in zip(model.places, offset.tolist(), strict=True)
        }
        for (team, k), chosen in model.chosen.items():
            rows = np.flatnonzero(instance.team == team)
            known |= dict.fromkeys(chosen.terms, float(pool[rows[0]] == k))
        for k, top in enumerate(model.tops):
            inside = (pool == k) & instance.solid
            reached = float((offset + instance.bytes)[inside].max(initial=0)) / model.grain
            known |= {column: max(reached, model.low[column]) for column in top.terms}
        for (name, where), column in model.columns_of("steps"):
            row, k = instance.row_of[name], instance.problem.pool_index[where]
            step = int(max(instance.alignment[row], instance.pool_alignment[k]))
            known[column] = float(offset[row] // step)
        for key, column in model.columns_of("below"):  # as the offsets say, in one pool or not
            first, second = (instance.row_of[name] for name in key)
            known[column] = float(offset[first] + instance.bytes[first] <= offset[second])
        return model.filled(known)

    def telling(self, model: LayoutModel, solution: Layout) -> FloatArray:
        """The values that a layout implies, without the sides of blocks in different pools."""
        values = self.start(model, solution)
        row_of, (_, pool) = model.instance.row_of, model.instance.places(solution)
        for (first, second), column in model.columns_of("below"):
            if pool[row_of[first]] != pool[row_of[second]]:
                values[column] = np.nan
        return values

    def resolution(self) -> float:
        """Nothing for whole units of bytes, otherwise two units; the tolerances of engines for seconds."""
        if self._timed:
            return TOLERANCE * self._cost_unit
        return 0.0 if self._grain == self._step else 2.0 * self._grain * self._price

    def objective_bound(self, problem: MemoryLayout, value: float) -> int | float:
        """Convert units to bytes or seconds, rounded so that a lower bound stays one."""
        if problem.objective == "traffic":
            return max(0.0, value * self._cost_unit)
        if self._grain == self._step:
            return max(0, math.ceil(value - SLACK * _dearest(problem))) * self._step
        return max(0, math.floor(value * self._grain))

    def counts_units(self, problem: MemoryLayout) -> bool:
        """Every layout that is pushed down has an arena of whole units."""
        whole = self._grain == self._step and _dearest(problem) == 1
        return problem.objective == "arena" and whole and not self.context.extended

    def why_infeasible(self, problem: MemoryLayout) -> str:
        """Name the pools."""
        rows = " or breaks some added row" if self.context.extended or problem.constraints else ""
        several = "no choice of pools and offsets" if len(problem.pools) > 1 else "no choice of offsets"
        return f"{several} keeps storages that live together apart within the bytes of the pools{rows}"


def _dearest(problem: MemoryLayout) -> int:
    """The highest price of a pool, but at least 1: an engine's error grows with it."""
    return max(1, *(pool.price for pool in problem.pools))


def laid(instance: LayoutInstance, asked: FloatArray, pool: IntArray, context: BuildContext) -> IntArray:
    """Offsets of values: pushed down, unless added rows may speak against that; rounding errors are pushed up then."""
    if not context.extended:
        return pushed_down(instance, asked, pool)
    least = np.ceil(np.maximum(asked * (1.0 - BLURRED) - TOLERANCE, 0.0)).astype(np.int64)
    return pushed_down(instance, asked, pool, least)
