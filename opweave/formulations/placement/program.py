"""What the mixed-integer programs of placement share: columns, handles for rows of one's own, side constraints."""

from __future__ import annotations

from abc import ABC
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from opweave.formulations.bulk import Terms, linear_expression
from opweave.formulations.expressions import express
from opweave.formulations.formulation import TOLERANCE, Formulation
from opweave.formulations.modeling.linear import InfeasibleError
from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.placement.instance import TAKEN_IN, PlacementInstance, lower
from opweave.formulations.placement.memory import overfull, readers_of
from opweave.formulations.placement.messages import Message, messages_of
from opweave.formulations.placement.retime import retimed
from opweave.formulations.placement.shortage import shortage
from opweave.formulations.placement.timetable import Timetable
from opweave.formulations.placement.windows import Windows, serial_length, single_device_length, windows_of
from opweave.formulations.shortage import rules_in_the_way
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.constraints import Constraint, MaxDevices, Precede, Separate, means
from opweave.problems.placement.spec import Placement, Schedule

if TYPE_CHECKING:
    from pyomo.core.expr.numeric_expr import LinearExpression
    from pyomo.core.expr.relational_expr import RelationalExpression
    from pyomo.environ import ConcreteModel

ABSENT = -1
"""In place of a column: the variable is 0 in every schedule."""

UNITS = 1000.0
"""The horizon in the model's units of time: engines' tolerances are absolute, so times are scaled to them."""

NEGLIGIBLE = 1e-9
"""Units of time that are left out of rows: engines would drop such coefficients, and a schedule is timed again."""

CEILING_SLACK = 1e-6
"""How far above a known schedule's length schedules are still kept, relative: room for engines' tolerances."""


@dataclass(eq=False)
class PlacementModel:
    """What a model was written from, kept with it as ``model.placement``; its handles take names.

    Attributes
    ----------
    unit
        Seconds of one unit of the model's time.
    on
        Column of "operator v runs on device k", or ABSENT; tied operators share columns. Shape (operators, devices).
    start, sent
        Columns of the starts of operators and messages.
    variables
        Pyomo variables of all columns.
    keeps_times
        Whether rows may be added that ask operators to wait, so that starts are kept as they are.
    """

    model: ConcreteModel
    problem: Placement
    instance: PlacementInstance
    messages: tuple[Message, ...]
    windows: Windows
    unit: float
    keeps_times: bool
    on: IntArray = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))
    start: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    sent: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    variables: list[Any] = field(default_factory=list)

    def binary(self, name: str, count: int) -> IntArray:
        """Add a family of 0/1 columns to the model."""
        from pyomo.environ import Binary, Var

        return self._family(name, Var(range(count), domain=Binary), count)

    def real(self, name: str, low: Sequence[float] | FloatArray, high: Sequence[float] | FloatArray) -> IntArray:
        """Add a family of continuous columns."""
        from pyomo.environ import Reals, Var

        bounds = [(float(a), float(b)) for a, b in zip(low, high, strict=True)]
        return self._family(name, Var(range(len(bounds)), domain=Reals, bounds=lambda _, i: bounds[i]), len(bounds))

    def _family(self, name: str, variable: Any, count: int) -> IntArray:
        first = len(self.variables)
        self.model.add_component(name, variable)
        self.variables.extend(variable.values())
        return np.arange(first, first + count, dtype=np.int64)

    def runs_on(self, v: int, k: int) -> Terms:
        """1 when operator v runs on device k."""
        return {} if self.on[v, k] == ABSENT else {int(self.on[v, k]): 1.0}

    def length(self, v: int) -> Terms:
        """(4b) Run time of operator v, in units: sum over k of p[v, k] x[v, k]."""
        return self.weighted(v, self.instance.seconds[v] / self.unit)

    def weighted(self, v: int, weights: FloatArray) -> Terms:
        """Sum over devices of weight times "operator v runs there"."""
        return {
            int(c): float(w) for c, w in zip(self.on[v], weights, strict=True) if c != ABSENT and abs(w) > NEGLIGIBLE
        }

    def handle_on(self, op: str, device: str) -> LinearExpression:
        """1 when operator ``op`` runs on ``device``, else 0: a linear expression."""
        v, k = self.problem.graph.operator_index[op], self.problem.cluster.device_index[device]
        return linear_expression(0.0, self.runs_on(v, k), self.variables)

    def handle_starts(self, op: str) -> LinearExpression:
        """When operator ``op`` starts, in seconds: a linear expression."""
        column = int(self.start[self.problem.graph.operator_index[op]])
        return linear_expression(0.0, {column: self.unit}, self.variables)

    def handle_ends(self, op: str) -> LinearExpression:
        """When operator ``op`` ends, in seconds: a linear expression."""
        v = self.problem.graph.operator_index[op]
        terms = {int(self.start[v]): self.unit, **self.weighted(v, self.instance.seconds[v])}
        return linear_expression(0.0, terms, self.variables)

    def set(self, columns: IntArray | int, values: FloatArray | IntArray | Sequence[float] | float) -> None:
        """Give columns their values."""
        for column, value in zip(np.atleast_1d(columns).tolist(), np.atleast_1d(values).tolist(), strict=True):
            if column != ABSENT:
                self.variables[column].set_value(float(value), skip_validation=True)

    def values(self, columns: IntArray) -> FloatArray:
        """Current values of columns, 0 where there is none."""
        flat = [0.0 if c == ABSENT else float(self.variables[c].value or 0.0) for c in columns.ravel().tolist()]
        return np.asarray(flat, dtype=np.float64).reshape(columns.shape)


class PlacementProgram(Formulation[Placement, Schedule], ABC):
    """A placement as a mixed-integer program; times are in units of ``model.placement.unit`` seconds."""

    problem_type: ClassVar[type[Placement]] = Placement
    built_in: ClassVar[tuple[type[Constraint], ...]] = (*TAKEN_IN, Precede, Separate, MaxDevices)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._unit = 1.0
        self._horizon = 0.0

    def prepare(self, problem: Placement, model: ConcreteModel, instance: PlacementInstance) -> PlacementModel:
        """Windows, messages, unit of time; the handles ``model.on``, ``model.starts`` and ``model.ends``."""
        windows = self.windows(problem, instance)
        self._unit = windows.horizon / UNITS if windows.horizon > 0 else 1.0
        keeps = self.context.extended
        messages = messages_of(instance, problem.transfers, longest=windows.hopeless)
        written = PlacementModel(model, problem, instance, messages, windows, self._unit, keeps)
        model.placement = written
        model.on, model.starts, model.ends = written.handle_on, written.handle_starts, written.handle_ends
        return written

    def windows(self, problem: Placement, instance: PlacementInstance) -> Windows:
        """When everything can happen.

        Raises
        ------
        InfeasibleError
            When the links leave an operator no device.
        """
        self.check_time()
        windows = windows_of(instance, self._ceiling(problem, instance))
        self.check_time()
        self._horizon = windows.horizon
        nowhere = np.flatnonzero(~np.isfinite(windows.through).any(axis=1))
        if len(nowhere):
            raise InfeasibleError(
                f"operator {instance.names[nowhere[0]]!r} cannot run anywhere: no links join the devices that it and "
                "the operators around it may run on"
            )
        return windows

    def _ceiling(self, problem: Placement, instance: PlacementInstance) -> float | None:
        """Length of a known schedule, with some room; no less than any has to have while rows may come."""
        if self.context.extended:
            return serial_length(instance) + self.context.waits
        ceiling = self.context.ceiling
        if ceiling is None and not any(means(constraint, Separate) for constraint in problem.constraints):
            ceiling = single_device_length(instance)
        return None if ceiling is None else float(ceiling) * (1 + CEILING_SLACK)

    def times(self, model: Any) -> tuple[Collection[Any], float]:
        return ("S", "T", "C_max"), self._unit

    def floor(self, windows: Windows) -> float:
        """A lower bound of the makespan, in seconds."""
        return min(windows.horizon, max(windows.critical_path, float(self.context.floor or 0.0)))

    def resolution(self) -> float:
        """Engines' tolerances, in seconds."""
        return TOLERANCE * self._unit

    def objective_bound(self, problem: Placement, value: float) -> float:
        """Units of the model as seconds."""
        return max(0.0, value * self._unit)

    def extract(self, model: ConcreteModel) -> Schedule:
        """Devices and order from the values, exact times from those."""
        written: PlacementModel = model.placement
        device = written.values(written.on).argmax(axis=1).tolist() if len(written.on) else []
        start = written.values(written.start) * written.unit
        sent = written.values(written.sent) * written.unit
        release = start if written.keeps_times else None
        return retimed(written.problem, written.instance, written.messages, device, start, sent, release)

    def separate(self, model: ConcreteModel) -> int:
        """(5) Operators that overfill a device by less than engines see do not all run there."""
        written: PlacementModel = model.placement
        device = written.values(written.on).argmax(axis=1).tolist() if len(written.on) else []
        found = overfull(written.instance, device)
        for k, members in found:
            columns = {int(written.on[v, k]) for v in members}
            row = linear_expression(0.0, dict.fromkeys(columns, 1.0), written.variables) <= len(columns) - 1
            self.add_row(model, row)
        return len(found)

    def start_devices(self, model: ConcreteModel, table: Timetable) -> None:
        """Set what follows from the devices alone."""
        written: PlacementModel = model.placement
        placed = np.zeros(written.on.shape)
        placed[np.arange(len(table.device)), table.device] = 1.0
        written.set(written.on.ravel(), placed.ravel())
        users = readers_of(written.instance)
        for (p, k), column in model.holds.items():
            written.set(column, float(any(table.device[v] == k for v in users[p].tolist())))
        for k, used in model.used.items() if hasattr(model, "used") else ():
            used.set_value(float(k in table.device), skip_validation=True)

    def why_infeasible(self, problem: Placement) -> str:
        """Say what stands in the way, if that is easy to see; else what of the problem may."""
        reason = shortage(problem)
        if reason is not None:
            return reason
        extended = self.context.extended
        own_rows = extended and all(means(each, *self.built_in) for each in problem.constraints)
        reason = f"no schedule respects {rules_in_the_way(problem, rows_added=own_rows)}"
        return f"{reason} (schedules of at most {self._horizon:.6g} s were considered)" if extended else reason

    def add_row(self, model: ConcreteModel, row: RelationalExpression) -> None:
        """Add one row of a side constraint, such as ``model.ends("a") <= 0.5 + model.on("b", "gpu")``."""
        from pyomo.environ import ConstraintList

        if not hasattr(model, "side_constraints"):
            model.side_constraints = ConstraintList()
        model.side_constraints.add(row)


def instance_of(problem: Placement) -> PlacementInstance:
    """The problem as arrays.

    Raises
    ------
    InfeasibleError
        When its side constraints contradict each other.
    """
    try:
        return lower(problem)
    except ContradictionError as error:
        raise InfeasibleError(shortage(problem) or str(error)) from error


def add(terms: Terms, more: Terms, factor: float = 1.0) -> Terms:
    """``terms + factor * more``."""
    total = dict(terms)
    for column, coefficient in more.items():
        total[column] = total.get(column, 0.0) + factor * coefficient
    return total


def _separate(formulation: PlacementProgram, model: ConcreteModel, constraint: Separate) -> None:
    """Sum of x[i, k] over the operators is at most 1 on every device k."""
    for device in model.placement.instance.devices:
        formulation.add_row(model, sum(model.on(op, device) for op in dict.fromkeys(constraint.ops)) <= 1)


def _max_devices(formulation: PlacementProgram, model: ConcreteModel, constraint: MaxDevices) -> None:
    """x[i, k] <= used[k]; the sum of used is at most the count."""
    from pyomo.environ import Binary, Var

    written: PlacementModel = model.placement
    if not hasattr(model, "used"):
        model.used = Var(range(len(written.instance.devices)), domain=Binary)
        for k, used in model.used.items():
            for column in np.unique(written.on[:, k]).tolist():
                if column != ABSENT:
                    formulation.add_row(model, written.variables[column] <= used)
    formulation.add_row(model, sum(model.used.values()) <= constraint.count)


def understand(name: str) -> None:
    """Register the side constraints of this module for a formulation's name."""
    express(Separate, name)(_separate)
    express(MaxDevices, name)(_max_devices)
