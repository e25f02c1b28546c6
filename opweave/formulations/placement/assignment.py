"""Placement without times: which device runs what, so that the device with the most bytes has as few as possible.

Any assignment that obeys memory, links and the side constraints about devices becomes a schedule: its operators run one
after the other in the order of the data. So this program is exact for ``objective="memory"``, and an assignment is what
every other placement needs at least.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from opweave.formulations.formulation import ClusterFormulation, register_formulation
from opweave.formulations.modeling.linear import Linear, Row, missing_handle
from opweave.formulations.modeling.model import LinearModel
from opweave.formulations.modeling.rows import Scale
from opweave.formulations.placement.instance import TAKEN_IN, PlacementInstance, lower, lower_unless_short
from opweave.formulations.placement.model import PlacementModel
from opweave.formulations.placement.windows import Windows, messages_of, retimed
from opweave.problems.arrays import FloatArray
from opweave.problems.constraints import Constraint, MaxDevices, Precede, Separate
from opweave.problems.on_cluster import MEMORY
from opweave.problems.placement.spec import Placement, Schedule


@dataclass(eq=False)
class AssignmentModel(PlacementModel):
    """Columns of operators on devices, with rows for memory and links."""

    @classmethod
    def words(cls) -> tuple[str, ...]:
        """The variables without those of times."""
        return ("on", "uses", "held")

    def at(self, v: int) -> Linear:
        """Refuse: there are no times."""
        raise missing_handle("start", self.words(), self.problem)

    @classmethod
    def of(cls, problem: Placement, instance: PlacementInstance) -> AssignmentModel:
        """Write the columns and these rows."""
        anywhere = np.zeros_like(instance.seconds)
        model = cls(instance, problem.transfers, (), Windows(instance, anywhere, anywhere, np.inf))
        model.problem = problem
        model.add_places(model.together(np.isfinite(instance.seconds)))
        model.one_device()
        model.memory()
        apart = np.argwhere(np.isinf(instance.latency)).tolist()
        for u, v in set(zip(instance.source.tolist(), instance.target.tolist(), strict=True)):
            for source, target in apart:
                model.rows("links").add(model.runs_on(u, source) + model.runs_on(v, target) <= 1)
        return model


@register_formulation
class Assignment(ClusterFormulation[Placement, Schedule]):
    """The smallest maximum of bytes on any device."""

    name: ClassVar[str] = "assignment"
    problem_type: ClassVar[type[Placement]] = Placement
    model_type: ClassVar[type[LinearModel]] = AssignmentModel
    supports: ClassVar[tuple[str, ...]] = ("order_arcs", "assignment")
    built_in: ClassVar[tuple[type[Constraint], ...]] = (*TAKEN_IN, Precede, Separate, MaxDevices)
    mode: ClassVar[str | None] = MEMORY
    requires: ClassVar[str] = MEMORY

    _unit = 0.0  # bounds are rounded up to what a device can hold

    def build(self, problem: Placement) -> AssignmentModel:
        """Write the model."""
        instance = lower_unless_short(problem)
        self.check_size(instance.operators * len(instance.devices))
        model, scale = AssignmentModel.of(problem, instance), _scale(instance)
        most = Linear.of(model.real("most"))
        for device in instance.devices:
            model.rows("least").add(model.held(device) / scale.unit <= most)
        model.minimise(most, scale.unit)
        self.add_constraints(model, problem)
        return model

    def extract(self, model: AssignmentModel, values: FloatArray) -> Schedule:
        """The devices of the values; operators run as early as they can, in the order of the data."""
        instance, transfers = model.instance, model.transfers
        messages = messages_of(instance, transfers)
        ready = (np.zeros(instance.operators), np.zeros(len(messages)))
        return retimed(transfers, instance, messages, model.device(values), *ready)

    def separate(self, model: AssignmentModel, values: FloatArray) -> list[Row]:
        """Operators that exceed a device's memory by less than engines can resolve do not all run there."""
        found = model.instance.overfull(model.device(values))
        together = [{int(model.place[v, k]) for v in members} for k, members in found]
        return [Linear.over(columns) <= len(columns) - 1 for columns in together]

    def start(self, model: AssignmentModel, solution: Schedule) -> FloatArray:
        """The columns of the solution's devices, and the most bytes."""
        instance, values = model.instance, np.zeros(len(model))
        for v, name in enumerate(instance.names):
            values[model.place[v, instance.devices.index(solution.device[name])]] = 1.0
        values = model.completed(values)
        most = model.column("most", None)
        values[most] = max((model.held(device).at(values) for device in instance.devices), default=0.0) / model.unit
        return values

    def objective_bound(self, problem: Placement, value: float) -> int:
        """Convert units to bytes, rounded so that a lower bound stays one."""
        return max(0, _scale(lower(problem)).bound(value))


def _scale(instance: PlacementInstance) -> Scale:
    """Units of the bytes that a device may hold."""
    sizes = [*instance.memory.tolist(), *instance.parameter_bytes.tolist()]
    return Scale.up_to(sum(sizes), math.gcd(*sizes) or 1)
