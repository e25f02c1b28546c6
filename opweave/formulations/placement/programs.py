"""The two programs of placement for engines: one in 0/1 columns for linear engines, one of intervals for CP-SAT.

Source: Zhang et al., "Moirai: Towards Optimal Placement for Distributed Inference on Heterogeneous Devices", equations
(4)-(8); their literal form is in :mod:`.moirai`. The rows of both programs are in :mod:`.model`, but for the order of
what shares a device or port. Constants come from the data: one big M per pair, and none that links the columns for
"which comes first" to devices. Pairs whose windows cannot meet have no rows.

The constraint program has an optional interval of every operator on each device, and of every transfer on each of its
routes where there are ports. Time is counted in ticks. Durations are rounded down to whole ticks, unless all of them
are whole multiples of a tick (to within a billionth). Rounding down keeps lower bounds valid: take any schedule and
round every start down. Since floor(a + b) >= floor(a) + floor(b), all precedences and orders still hold, and the
schedule ends no later. The schedule itself is timed again in seconds.

Rows of your own, through ``solve(..., extend=f)`` or a constraint class, use handles that take names and can be added
and compared like numbers: ``model.on(op, device)`` is 0 or 1, ``model.start(op)`` and ``model.end(op)`` are in seconds.
A rule about times should tolerate the same error as engines, a millionth of the makespan.

>>> from opweave.formulations.expressions import express
>>> from opweave.problems.constraints import Constraint
>>> def extend(model, problem):
...     model.add(model.end("embed") <= 0.5 + model.on("embed", "gpu"))
>>> class Early(Constraint):
...     op: str
...     def violations(self, problem, solution):
...         begin, end = problem.intervals(solution)[self.op]
...         if end > 0.5 + 1e-6:
...             yield self.broken(f"{self.op} ends late")
>>> @express(Early, "model")
... def _early(model, constraint):
...     model.add(model.end(constraint.op) <= 0.5)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import numpy as np

from opweave.formulations.formulation import register_formulation
from opweave.formulations.modeling.intervals import MOST_TICKS, WHOLE, IntervalModel, fine_tick
from opweave.formulations.modeling.linear import Linear, Row
from opweave.formulations.modeling.model import LinearModel
from opweave.formulations.order_arcs import rows_of_closure
from opweave.formulations.placement.instance import common_tick, lower_unless_short
from opweave.formulations.placement.model import UNITS, PlacementModel, PlacementProgram
from opweave.formulations.placement.windows import flow_seconds, messages_of, timetable
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.placement.spec import Placement, Schedule, TransferModel


class ColumnProgram(PlacementProgram, ABC):
    """A program of the modelling layer; values and schedules are converted in the same way for all engines."""

    model_type: ClassVar[type[LinearModel]] = PlacementModel

    def build(self, problem: Placement) -> PlacementModel:
        """Write the model; row families are in the paper's order."""
        instance = lower_unless_short(problem)
        self.check_problem(problem)
        windows = self.windows(problem, instance)
        messages = messages_of(instance, self.sendings(problem), longest=windows.hopeless)
        ways = [len(message.routes) * (1 + len(message.readers)) for message in messages]
        self.check_size(3 * instance.operators + (sum(ways) or len(instance.source) * len(instance.devices) ** 2))
        made: type[PlacementModel] = self.model_type  # type: ignore[assignment]
        model = made(instance, problem.transfers, messages, windows)
        model.problem, model.check_time, model.check_size = problem, self.check_time, self.check_size
        model.tick = self._unit = self.tick_of(model)
        model.write(self.lower_bound(windows), self.check_time)
        model.memory()
        self.add_constraints(model, problem)
        return model

    def sendings(self, problem: Placement) -> TransferModel:
        """The transfers about which there are messages."""
        return problem.transfers

    @abstractmethod
    def tick_of(self, model: PlacementModel) -> float:
        """The unit of a model's times, in seconds."""

    def extract(self, model: PlacementModel, values: FloatArray) -> Schedule:
        """The devices and order of the values, with exact times."""
        return model.schedule(values, keeps_times=self.context.extended)

    def separate(self, model: PlacementModel, values: FloatArray) -> list[Row]:
        """(5) Operators that exceed a device's memory by less than engines can resolve do not all run there."""
        found = model.instance.overfull(model.device(values))
        together = [{int(model.place[v, k]) for v in members} for k, members in found]
        return [Linear.over(columns) <= len(columns) - 1 for columns in together]

    def start(self, model: PlacementModel, solution: Schedule) -> FloatArray:
        """Values of all columns."""
        return model.written(timetable(model.instance, model.messages, solution))


@register_formulation
class Disjunctive(ColumnProgram):
    """The paper's program with constants from the data, and rows that tighten its relaxation.

    Columns: ``x`` (group of tied operators on device), ``y`` (a message goes from one device to another), ``S`` and
    ``T`` (starts of operators and messages), ``first`` and ``first_sent`` (which comes first), ``stored`` (a shared
    parameter is on a device), ``busy`` (a device runs anything), ``C_max``.
    """

    name: ClassVar[str] = "disjunctive"
    source: ClassVar[str] = "opweave, from Zhang et al. (Moirai) 2023, (4)-(8), doi:10.48550/arXiv.2312.04025"
    supports: ClassVar[tuple[str, ...]] = ("order_arcs", "assignment", "disjunctive")

    def least_rows(self, problem: Placement) -> int:
        """Those that weigh as much as the closure of all operators."""
        return rows_of_closure(len(problem.graph.operators))

    def sendings(self, problem: Placement) -> TransferModel:
        """Every flow is a message; without ports, it waits for nothing."""
        return "one_port_edge" if problem.transfers == "delay" else problem.transfers

    def tick_of(self, model: PlacementModel) -> float:
        """A thousandth of the horizon."""
        return model.windows.horizon / UNITS if model.windows.horizon > 0 else 1.0


@dataclass(eq=False)
class PlacementIntervals(PlacementModel, IntervalModel):
    """The model; times are in ticks."""

    rounds: ClassVar[bool] = True

    def units(self, seconds: FloatArray) -> IntArray:
        """Whole ticks in durations, rounded down; a duration slightly below a whole tick counts as the whole tick."""
        return np.floor(seconds / self.tick * (1 + WHOLE / 10) + WHOLE / 10).astype(np.int64)

    def delays(self) -> None:
        """(4a) Without ports, S[v] >= C[u] + delay where u and v run at the two ends of a link.

        Columns of routes in place of these conditions make CP-SAT several times as slow.
        """
        instance = self.instance
        if self.transfers != "delay":
            return
        sent = flow_seconds(instance, longest=self.windows.hopeless)
        for f in np.flatnonzero(instance.cluster[instance.source] != instance.cluster[instance.target]).tolist():
            u, v = int(instance.source[f]), int(instance.target[f])
            for q, k in product(self.devices_of(u), self.devices_of(v)):
                delay = self.ticks(float(sent[f, q, k])) if q != k and np.isfinite(sent[f, q, k]) else 0
                if delay:
                    both = (int(self.place[u, q]), int(self.place[v, k]))
                    lasts = self.ticks(float(instance.seconds[u, q]))
                    self.require(self.at(u) + (lasts + delay) <= self.at(v), both)


@register_formulation
class Intervals(ColumnProgram):
    """A placement with optional intervals."""

    name: ClassVar[str] = "intervals"
    model_type: ClassVar[type[LinearModel]] = PlacementIntervals
    supports: ClassVar[tuple[str, ...]] = ("order_arcs", "assignment", "intervals")

    def tick_of(self, model: PlacementModel) -> float:
        """A measure that all durations have, or a tiny share of the horizon."""
        instance, horizon = model.instance, model.windows.horizon
        self._activities = instance.operators + (len(model.messages) or len(instance.source))
        # added rows may need times that are no sums of durations
        common = None if self.context.extended else common_tick(instance, horizon, MOST_TICKS)
        return common or fine_tick(self._activities, horizon)

    def exact(self, model: PlacementIntervals, solution: Schedule) -> FloatArray:
        """Values of all columns, with starts that are not rounded to ticks."""
        table, values = timetable(model.instance, model.messages, solution), self.start(model, solution)
        values[model.starts_at], values[model.sent_at] = table.start / model.tick, table.sent / model.tick
        return values
