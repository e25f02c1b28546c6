"""What the programs of batched mapping share: columns, handles for rows of one's own, side constraints."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from opweave.formulations.batched_mapping.instance import BatchedInstance, lower
from opweave.formulations.bulk import Rows, Terms, linear_expression
from opweave.formulations.expressions import express
from opweave.formulations.formulation import Formulation
from opweave.formulations.modeling.linear import InfeasibleError
from opweave.formulations.order_arcs import ContradictionError
from opweave.problems.arrays import IntArray
from opweave.problems.batched_mapping.spec import BatchedMapping, BatchedSchedule
from opweave.problems.constraints import Colocate, MaxDevices, Separate

if TYPE_CHECKING:
    from pyomo.core.expr.numeric_expr import LinearExpression
    from pyomo.core.expr.relational_expr import RelationalExpression
    from pyomo.environ import ConcreteModel


BatchedProgram = Formulation[BatchedMapping, BatchedSchedule]


@dataclass(eq=False)
class BatchedModel:
    """What a model was written from, kept with it as ``model.batched``.

    Attributes
    ----------
    unit
        Seconds of one unit of the model's time.
    extended
        Whether rows will be added that nobody knows yet.
    x
        Column of "input l of operator i runs on device u". Shape (operators, devices, batch).
    b
        Column of "the batch of i on u has c granules"; absent where it cannot run.
    start
        Column of the start of i's batch on u. Shape (operators, devices).
    y, p
        Columns of "input l passes along edge e from u to v" and "any does".
    d
        Column of "i's batch runs before j's on u", for i < j.
    used, held
        Columns of "device u is used" and "parameter p is on device u".
    """

    model: ConcreteModel
    problem: BatchedMapping
    instance: BatchedInstance
    horizon: float
    unit: float
    extended: bool
    x: IntArray = field(default_factory=lambda: np.zeros((0, 0, 0), dtype=np.int64))
    start: IntArray = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))
    b: dict[tuple[int, int, int], int] = field(default_factory=dict)
    y: dict[tuple[int, int, int, int], int] = field(default_factory=dict)
    p: dict[tuple[int, int, int], int] = field(default_factory=dict)
    d: dict[tuple[int, int, int], int] = field(default_factory=dict)
    used: dict[int, int] = field(default_factory=dict)
    held: dict[tuple[int, int], int] = field(default_factory=dict)
    makespan: int = -1
    variables: list[Any] = field(default_factory=list)

    def family(self, name: str, count: int, *, binary: bool, high: float = 1.0) -> list[int]:
        """Add columns from 0 to ``high``."""
        from pyomo.environ import Binary, NonNegativeReals, Var

        first = len(self.variables)
        variable = (
            Var(range(count), domain=Binary)
            if binary
            else Var(range(count), domain=NonNegativeReals, bounds=(0.0, high))
        )
        self.model.add_component(name, variable)
        self.variables.extend(variable.values())
        return list(range(first, first + count))

    def present(self, i: int, u: int) -> Terms:
        """1 when a batch of operator i runs on device u: the sum of b[i, u, s]."""
        return {self.b[i, u, c]: 1.0 for c in self.instance.sizes(i, u)}

    def length(self, i: int, u: int) -> Terms:
        """Run time of operator i's batch on device u, in units; 0 without one."""
        seconds = self.instance.seconds[i, u]
        return {self.b[i, u, c]: float(seconds[c]) / self.unit for c in self.instance.sizes(i, u)}

    def add_rows(self, name: str, rows: Rows) -> None:
        """Give the model a family of rows."""
        rows.add_to(self.model, name, self.variables)

    def handle(self, terms: Terms) -> LinearExpression:
        """A linear expression over the model's variables."""
        return linear_expression(0.0, terms, self.variables)

    def place(self, op: str, device: str) -> tuple[int, int]:
        """Positions of an operator and a device."""
        return self.problem.graph.operator_index[op], self.problem.cluster.device_index[device]


def instance_of(problem: BatchedMapping) -> BatchedInstance:
    """The problem as arrays.

    Raises
    ------
    InfeasibleError
        When its side constraints contradict each other.
    """
    try:
        return lower(problem)
    except ContradictionError as error:
        raise InfeasibleError(str(error)) from error


def serial_length(instance: BatchedInstance) -> float:
    """All batches and all delays one after the other, at their longest: no schedule needs to be longer."""
    finite = np.where(np.isfinite(instance.seconds), instance.seconds, 0.0)
    linked = instance.latency[np.isfinite(instance.latency)]
    moved = instance.size * (instance.batch if instance.grows else 1)
    way = float(linked.max(initial=0.0)) * len(moved) + float(moved.sum()) * float(
        instance.seconds_per_byte.max(initial=0)
    )
    return float(finite.max(axis=2).sum()) + way


def add_row(model: ConcreteModel, row: RelationalExpression) -> None:
    """Add one row of a side constraint, such as ``model.inputs("a", "gpu") <= 4``."""
    from pyomo.environ import ConstraintList

    if not hasattr(model, "side_constraints"):
        model.side_constraints = ConstraintList()
    model.side_constraints.add(row)


def _colocate(_formulation: BatchedProgram, model: ConcreteModel, constraint: Colocate) -> None:
    """All of them have a batch on a device, or none has."""
    for device in model.batched.instance.devices:
        for other in constraint.ops[1:]:
            add_row(model, model.on(constraint.ops[0], device) == model.on(other, device))


def _separate(_formulation: BatchedProgram, model: ConcreteModel, constraint: Separate) -> None:
    """At most one of them has a batch on a device."""
    for device in model.batched.instance.devices:
        total = sum(model.on(op, device) for op in dict.fromkeys(constraint.ops))
        add_row(model, total <= 1)


def _max_devices(_formulation: BatchedProgram, model: ConcreteModel, constraint: MaxDevices) -> None:
    """A device with a batch is used; at most so many are."""
    written: BatchedModel = model.batched
    if not written.used:
        columns = written.family("used", len(written.instance.devices), binary=True)
        written.used = dict(enumerate(columns))
        rows = Rows()
        for u, column in written.used.items():
            for i in range(written.instance.operators):
                rows.at_most({**written.present(i, u), column: -1.0}, 0.0)
        written.add_rows("uses", rows)
    add_row(model, written.handle(dict.fromkeys(written.used.values(), 1.0)) <= constraint.count)


def understand(name: str) -> None:
    """Register the side constraints of this module for a formulation's name."""
    express(Colocate, name)(_colocate)
    express(Separate, name)(_separate)
    express(MaxDevices, name)(_max_devices)
