"""Placement with intervals, for constraint-programming engines; :mod:`.interval_model` writes all but memory.

Rows of your own, through ``solve(..., extend=f)`` or a constraint class, use ``model.on(op, device)`` (0/1),
``model.start(op)`` and ``model.end(op)`` (seconds), which can be added and compared like numbers:

>>> from opweave.formulations.expressions import express
>>> from opweave.problems.constraints import Constraint
>>> class Early(Constraint):
...     op: str
...     def violations(self, problem, solution):
...         begin, end = problem.intervals(solution)[self.op]
...         if end > 0.5 + 1e-6:
...             yield self.broken(f"{self.op} ends late")
>>> @express(Early, "intervals")
... def _early(formulation, model, constraint):
...     model.add(model.end(constraint.op) <= 0.5)

Rows hold to within two ticks, so a rule about times should tolerate a millionth of the makespan.
"""

from __future__ import annotations

from typing import ClassVar

from opweave.formulations.formulation import register_formulation
from opweave.formulations.modeling.model import LinearModel
from opweave.formulations.placement.instance import common_tick, lower_unless_short
from opweave.formulations.placement.interval_model import PlacementIntervals, intervals_of
from opweave.formulations.placement.messages import messages_of
from opweave.formulations.placement.program import ColumnProgram
from opweave.formulations.placement.retime import timetable
from opweave.formulations.ticks import MOST_TICKS, WHOLE, fine_tick
from opweave.problems.arrays import FloatArray
from opweave.problems.placement.spec import Placement, Schedule


@register_formulation
class Intervals(ColumnProgram):
    """A placement with optional intervals."""

    name: ClassVar[str] = "intervals"
    model_type: ClassVar[type[LinearModel]] = PlacementIntervals
    supports: ClassVar[tuple[str, ...]] = ("order_arcs", "assignment", "intervals")

    _activities: int = 0

    def build(self, problem: Placement) -> PlacementIntervals:
        """Write the model."""
        instance = lower_unless_short(problem)
        windows = self.windows(problem, instance)
        messages = messages_of(instance, problem.transfers, longest=windows.hopeless)
        needed = sum(len(message.routes) * (1 + len(message.readers)) for message in messages)
        rows = 3 * instance.operators + len(instance.source) * len(instance.devices) ** 2 + needed
        self.check_size(rows)
        self._activities = instance.operators + (len(messages) or len(instance.source))
        tick = fine_tick(self._activities, windows.horizon)
        if not self.context.extended:
            # added rows may need times that are no sums of durations
            tick = common_tick(instance, windows.horizon, MOST_TICKS) or tick
        self._unit = tick
        least = self.lower_bound(windows)
        model = intervals_of(instance, problem.transfers, messages, windows, tick, least, self.check_time)
        model.problem = problem
        model.memory()
        self.add_constraints(model, problem)
        return model

    def exact(self, model: PlacementIntervals, solution: Schedule) -> FloatArray:
        """Values of all columns, with starts that are not rounded to ticks."""
        table, values = timetable(model.instance, model.messages, solution), self.start(model, solution)
        values[model.starts_at], values[model.sent_at] = table.start / model.tick, table.sent / model.tick
        return values

    def resolution(self) -> float:
        """One tick per activity along a path, in seconds."""
        return self._unit * self._activities

    def objective_bound(self, problem: Placement, value: float) -> float:
        """Convert ticks to seconds, minus the error of durations that count as whole ticks but are slightly shorter."""
        return max(0.0, value * self._unit * (1 - 2 * WHOLE))
