"""Order and offsets in one program: which operator runs before which, and which storage stands below which.

A 0/1 column for every pair of operators whose order is open says which of them runs first; three of them never close a
circle. Two storages stand one below the other, as in :mod:`opweave.formulations.memory_layout.milp`, unless one of them
is gone before the other begins: then all that use it run before the operator that makes the other. While an operator
runs, the arena holds at least what lives then. One program serves engines for linear programs and CP-SAT.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Any, ClassVar

import numpy as np

from opweave.formulations.formulation import Formulation, register_formulation
from opweave.formulations.memory_layout.instance import LayoutInstance
from opweave.formulations.memory_layout.instance import lower as lower_layout
from opweave.formulations.memory_layout.milp import LARGEST, Sides
from opweave.formulations.memory_layout.program import BoxModel, LayoutHandles, LayoutProgram, OffsetModel, laid
from opweave.formulations.memory_ordering.instance import OrderingInstance, lower
from opweave.formulations.modeling.linear import Linear, total
from opweave.formulations.modeling.model import LinearModel
from opweave.formulations.precedence import ancestors
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.constraints import objections
from opweave.problems.errors import InvalidInputError, LimitExceededError, RuleError, UnsupportedFeatureError
from opweave.problems.graph_arrays import topological_order
from opweave.problems.memory_layout.spec import Layout, MemoryLayout
from opweave.problems.memory_ordering.spec import Ordering
from opweave.problems.ordered_layout import OrderedLayout, OrderedOffsets
from opweave.problems.spec import FrozenDict
from opweave.problems.storage_lives import WORKSPACE

MOST_UNITS = 2**31
"""Most units of an arena in a constraint program."""


@dataclass(frozen=True, slots=True)
class Use:
    """Who makes a storage, and who uses it.

    Attributes
    ----------
    maker
        The operator that makes it; None if it is there from the beginning.
    users
        Its maker and its readers, without those that run before another one of them in every order.
    kept
        Whether it stays to the end.
    """

    maker: int | None
    users: tuple[int, ...]
    kept: bool


class Orders:
    """Columns of open pairs of operators, and expressions over them.

    Parameters
    ----------
    model
        Receives the columns.
    instance
        The operators.
    """

    def __init__(self, model: LinearModel, instance: OrderingInstance) -> None:
        self.names, self._model = instance.names, model
        self.earlier = ancestors(instance.after)
        self.open = [
            (u, v) for u, v in combinations(range(len(self.names)), 2) if not self.earlier[u, v] | self.earlier[v, u]
        ]
        columns = model.binaries("first", [(self.names[u], self.names[v]) for u, v in self.open]).tolist()
        self.column = dict(zip(self.open, columns, strict=True))
        self.all_before: dict[frozenset[tuple[int, int]], Linear] = {}

    def before(self, u: int, v: int) -> Linear:
        """1 if operator u runs before operator v, otherwise 0."""
        if (u, v) in self.column:
            return Linear.of(self.column[u, v])
        if (v, u) in self.column:
            return 1 - Linear.of(self.column[v, u])
        return Linear(float(self.earlier[v, u]))

    def position(self, v: int) -> Linear:
        """The step in which operator v runs, counted from 0."""
        return total(self.before(u, v) for u in range(len(self.names)))

    def gone(self, first: Use, second: Use) -> Linear:
        """At most 1, and 0 unless one storage is gone before another one is made."""
        if first.kept or second.maker is None or second.maker in first.users:
            return Linear()
        pairs = frozenset((u, second.maker) for u in first.users)
        if pairs not in self.all_before:
            self.all_before[pairs] = self._every([self.before(u, v) for u, v in sorted(pairs)])
        return self.all_before[pairs]

    def _every(self, parts: list[Linear]) -> Linear:
        """At most 1, and 0 if one of the parts is."""
        if any(not part.terms and not part.constant for part in parts):
            return Linear()
        some = [part for part in parts if part.terms]
        if len(some) < 2:
            return some[0] if some else Linear(1)
        (column,) = self._model.binaries("gone", [len(self._model)])
        for part in some:
            self._model.rows("gone_if").add(Linear.of(int(column)) - part <= 0)
        return Linear.of(int(column))

    def close(self) -> None:
        """Add the rows that keep three operators from running in a circle."""
        for u, v, w in combinations(range(len(self.names)), 3):
            circle = self.before(u, v) + self.before(v, w) + self.before(w, u)
            if len(circle.terms) > 1:
                self._model.rows("no_circle").add(circle <= 2)
                self._model.rows("no_circle").add(circle >= 1)


class OrderedHandles(LayoutHandles):
    """Handles over operators in addition to those over storages.

    Attributes
    ----------
    orders
        Which operator runs before which.
    users_of
        Who makes and uses the storage of every row.
    """

    orders: Orders
    users_of: list[Use]

    def before(self, first: str, second: str) -> Linear:
        """1 if operator ``first`` runs before operator ``second``, otherwise 0."""
        return self.orders.before(self.orders.names.index(first), self.orders.names.index(second))

    def position(self, op: str) -> Linear:
        """The step in which operator ``op`` runs, counted from 0."""
        return self.orders.position(self.orders.names.index(op))


@dataclass(eq=False)
class OrderedOffsetModel(OrderedHandles, OffsetModel):
    """A linear program of order and offsets; see :class:`OrderedHandles`."""

    orders: Orders = field(init=False)
    users_of: list[Use] = field(init=False)


@dataclass(eq=False)
class OrderedBoxModel(OrderedHandles, BoxModel):
    """A constraint program of order and offsets; see :class:`OrderedHandles`."""

    orders: Orders = field(init=False)
    users_of: list[Use] = field(init=False)


class _InTurn(Sides):
    """Offsets of storages that need not stand one below the other if one is gone before the other begins."""

    def in_turn(self, model: Any, first: int, second: int) -> Linear:
        orders: Orders = model.orders
        a, b = model.users_of[first], model.users_of[second]
        return orders.gone(a, b) + orders.gone(b, a)


class _WholeInTurn(_InTurn):
    """The same in whole units."""

    def lengths(self, model: Any, name: str, keys: Iterable[str], low: Any, high: Any) -> IntArray:
        return LayoutProgram.lengths(self, model, name, keys, low, high)


class OrderedProgram(Formulation[OrderedLayout, OrderedOffsets]):
    """Order and offsets; a subclass says for which engines."""

    problem_type: ClassVar[type[OrderedLayout]] = OrderedLayout
    requires: ClassVar[str] = "in_place='none'"
    offsets: ClassVar[type[Sides]]
    _inner: Sides
    _storages: MemoryLayout

    @abstractmethod
    def empty(self) -> Any:
        """A model without columns, once the storages are known."""

    def build(self, problem: OrderedLayout) -> Any:
        """Write the model.

        Raises
        ------
        UnsupportedFeatureError
            If a result may be written over an input, or a tensor has the name of a workspace.
        LimitExceededError
            If there are too many operators and storages.
        """
        instance = lower(problem.ordering)
        if instance.overwrite.items.size:
            raise UnsupportedFeatureError(f"formulation {self.name!r} requires {self.requires}")
        self.check_size(self.least_rows(problem))  # storages and the pairs that meet take long to list
        self._storages = storages_of(problem, instance)
        self._inner = inner = self.offsets(self.context)
        model = self.empty()
        self.check_size(self.least_rows(problem) + 2 * instance.operators * len(model.instance))
        model.check_time, model.orders = self.check_time, Orders(model, instance)
        model.users_of = uses_of(problem, model, model.orders)
        model.orders.close()
        inner.add_pools(model)
        inner.add_places(model)
        inner.add_sides(model)
        inner.add_tops(model, 0)
        self._add_loads(model)
        inner.minimise(model)
        self.add_constraints(model, problem)
        return model

    def least_rows(self, problem: OrderedLayout) -> int:
        """Those of the order."""
        return len(problem.graph.operators) ** 3 // 3

    def _add_loads(self, model: Any) -> None:
        """The arena is at least as large as what lives while an operator runs."""
        for v, name in enumerate(model.orders.names):
            self.check_time()
            held = [
                self._lives(model, row, v, name) * self._inner.units_of(model, row)
                for row in np.flatnonzero(model.instance.solid).tolist()
            ]
            row = total(held) - model.tops[0] <= 0
            if row.terms:
                model.rows("live").add(row)

    def _lives(self, model: Any, row: int, v: int, name: str) -> Linear:
        """At least 1 if the storage of a row lives while operator v runs."""
        use: Use = model.users_of[row]
        before = model.orders.before
        begun = Linear(1) if use.maker in (None, v) else before(use.maker, v)
        if use.kept or (not begun.terms and not begun.constant):
            return begun
        if v in use.users:
            return Linear(1)
        later = [before(v, u) for u in use.users if u != use.maker]
        both = [begun + each - 1 for each in later if each.terms or each.constant]
        if len(both) < 2 and all(len(each.terms) < 2 for each in both):
            return both[0] if both else Linear()
        (column,) = model.binaries("lives", [(model.instance.name(row), name)])
        for each in both:
            model.rows("lives_if").add(Linear.of(int(column)) - each >= 0)
        return Linear.of(int(column))

    def extract(self, model: Any, values: FloatArray) -> OrderedOffsets:
        """The order of the pairs and the offsets, pushed down unless added rows may speak against that.

        Offsets that the tolerances of an engine have spoiled are pushed down in any case.
        """
        orders: Orders = model.orders
        steps = [orders.position(v).at(values) for v in range(len(orders.names))]
        order = Ordering(order=tuple(orders.names[v] for v in np.argsort(steps, kind="stable").tolist()))
        real = self._real(model, order)
        found = [values[model.places[model.instance.row_of[real.name(row)]]] * model.grain for row in range(len(real))]
        offset = np.asarray(found, dtype=np.float64)
        places = laid(real, offset, np.zeros(len(real), dtype=np.int64), self.context)
        return OrderedOffsets(order=order.order, offset=real.layout(places).offset)

    def _real(self, model: Any, order: Ordering) -> LayoutInstance:
        """The storages of one order."""
        if (layout := model.problem.layout(order)) is None:
            raise InvalidInputError("the order cannot be played")
        return lower_layout(layout)

    def start(self, model: Any, solution: OrderedOffsets) -> FloatArray:
        """The values that an order and its offsets imply."""
        orders: Orders = model.orders
        step = {name: k for k, name in enumerate(solution.order)}
        real = self._real(model, solution)
        offset, pool = real.places(Layout(offset=FrozenDict({name: solution.offset[name] for name in real.row_of})))
        offset = laid(real, offset.astype(np.float64), pool, self.context)
        at = {real.name(row): place for row, place in enumerate(offset.tolist())}
        names = [model.instance.name(row) for row in range(len(model.instance))]
        placed = np.asarray([at[name] for name in names], dtype=np.int64)
        values = self._inner.values_at(model, placed, np.zeros(len(names), dtype=np.int64))
        for (u, v), column in orders.column.items():
            values[column] = float(step[orders.names[u]] < step[orders.names[v]])
        self._follow(model, values)
        return values

    def _follow(self, model: Any, values: FloatArray) -> None:
        """Complete the columns that follow from the order."""
        before = model.orders.before
        for pairs, gone in model.orders.all_before.items():
            for column in gone.terms:
                if math.isnan(values[column]):
                    values[column] = min(before(u, v).at(values) for u, v in pairs)
        names = {name: v for v, name in enumerate(model.orders.names)}
        for (storage, op), column in model.columns_of("lives"):
            use, v = model.users_of[model.instance.row_of[storage]], names[op]
            begun = use.maker in (None, v) or before(use.maker, v).at(values) > 0.5
            values[column] = begun and any(before(v, u).at(values) > 0.5 for u in use.users)

    def exclude(self, model: Any, solution: OrderedOffsets) -> None:
        """Add the row that the operators run in another order, if a rule objects to the order whatever the offsets."""
        if not _objects_to_order(model.problem, solution):
            super().exclude(model, solution)
            return
        steps = pairwise(map(model.orders.names.index, solution.order))
        kept = [model.orders.before(first, second) for first, second in steps]
        model.rows("excluded").add(total(kept) <= len(kept) - 1)

    def resolution(self) -> float:
        return self._inner.resolution()

    def objective_bound(self, problem: OrderedLayout, value: float) -> int | float:
        return self._inner.objective_bound(self._storages, value)

    def counts_units(self, problem: OrderedLayout) -> bool:
        return self._inner.counts_units(self._storages)

    def why_infeasible(self, problem: OrderedLayout) -> str:
        """Name the limit."""
        rows = " or breaks some added row" if self.context.extended or problem.constraints else ""
        limit = "" if problem.limit_bytes is None else f" in the limit of {problem.limit_bytes:,} bytes"
        return f"no order can be laid out{limit}{rows}"


@register_formulation
class OrderedSides(OrderedProgram):
    """Order and offsets for linear engines."""

    name: ClassVar[str] = "ordered_sides"
    model_type: ClassVar[type[LinearModel]] = OrderedOffsetModel
    supports: ClassVar[tuple[str, ...]] = ("order_arcs", "ordered_sides")
    offsets: ClassVar[type[Sides]] = _InTurn

    def empty(self) -> OrderedOffsetModel:
        return OrderedOffsetModel(self._inner.prepare(self._storages, LARGEST), self._inner.unit_bytes)


@register_formulation
class OrderedBoxes(OrderedProgram):
    """Order and offsets in whole units for CP-SAT."""

    name: ClassVar[str] = "ordered_boxes"
    model_type: ClassVar[type[LinearModel]] = OrderedBoxModel
    supports: ClassVar[tuple[str, ...]] = ("order_arcs", "ordered_boxes")
    offsets: ClassVar[type[Sides]] = _WholeInTurn

    def empty(self) -> OrderedBoxModel:
        instance = self._inner.prepare(self._storages, math.inf)
        model = OrderedBoxModel(instance, self._inner.unit_bytes)
        if instance.height // int(model.grain) > MOST_UNITS:
            raise LimitExceededError(
                f"formulation {self.name!r} counts whole units of {int(model.grain):,} bytes, of which these storages "
                "have too many; use another solver"
            )
        return model


def _objects_to_order(problem: OrderedLayout, solution: OrderedOffsets) -> bool:
    for rule in problem.constraints:
        with suppress(RuleError):  # it reads the offsets
            if any(True for _ in objections(rule, problem, Ordering(order=solution.order))):
                return True
    return False


def storages_of(problem: OrderedLayout, instance: OrderingInstance) -> MemoryLayout:
    """The storages as a layout problem in which all of them that ever live do so at one time."""
    workspaces = {WORKSPACE.format(op.id) for op in problem.graph.operators if op.workspace_bytes}
    if workspaces & problem.graph.tensor_index.keys():
        raise UnsupportedFeatureError("a tensor has the name of a workspace; rename it, or use the default solver")
    layout = problem.layout(instance.ordering(topological_order(instance.after)))
    assert layout is not None
    lives = (each.model_copy(update={"begin": 0.0, "end": float(each.end > each.begin)}) for each in layout.lifetimes)
    return layout.model_copy(update={"lifetimes": tuple(lives), "in_place": ()})


def uses_of(problem: OrderedLayout, model: OrderedHandles, orders: Orders) -> list[Use]:
    """Who makes and uses every storage."""
    graph, index = problem.graph, problem.graph.operator_index
    outputs = {graph.storage[name] for name in graph.outputs}
    found = []
    for block in model.instance.problem.blocks:
        (storage,) = block.members
        users = [index[name] for name in storage.operators]
        last = tuple(u for u in users if not any(orders.earlier[w, u] for w in users))
        name = graph.producer.get(storage.id) if storage.id in graph.tensor_index else storage.operators[0]
        maker = None if name is None else index[name]
        kept = storage.id in outputs or (maker is None and problem.inputs == "kept")
        found.append(Use(maker, last, kept))
    return found
