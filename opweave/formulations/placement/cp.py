"""Placement with intervals, for constraint-programming engines: an operator or transfer is present or not.

Every operator has an optional interval on each device. Where there are ports, every transfer has one on each of its
routes. Intervals on the same device or port do not overlap. All intervals of an operator share one start column.

Time is counted in ticks. Durations are rounded down to whole ticks, unless all of them are whole multiples of a tick
(to within a billionth). Rounding down keeps lower bounds valid: take any schedule and round every start down. Since
floor(a + b) >= floor(a) + floor(b), all precedences and orders still hold, and the schedule ends no later. So the
optimum in ticks times the tick never exceeds the optimum in seconds. The schedule itself is timed again in seconds.

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

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import numpy as np

from opweave.formulations.formulation import register_formulation
from opweave.formulations.modeling.intervals import MOST_TICKS, WHOLE, IntervalModel, fine_tick
from opweave.formulations.modeling.linear import Linear
from opweave.formulations.modeling.model import LinearModel
from opweave.formulations.modeling.whole import Interval
from opweave.formulations.placement.instance import PlacementInstance, common_tick, lower_unless_short
from opweave.formulations.placement.messages import Message, flow_seconds, messages_of, timetable
from opweave.formulations.placement.model import ABSENT, ColumnProgram, PlacementModel
from opweave.formulations.placement.windows import Windows
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.placement.spec import Placement, Schedule, TransferModel


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

    def no_overlap(self) -> None:
        """(6) One operator at a time on a device; (8) one message at a time out of a device, and one into it."""
        groups = [
            [
                Interval(int(self.starts_at[v]), self.ticks(float(lasts[v])), int(self.place[v, k]))
                for v in np.flatnonzero(self.place[:, k] != ABSENT).tolist()
            ]
            for k, lasts in enumerate(self.instance.seconds.T)
        ]
        shared = {  # one object for the two ports of a route
            column: Interval(at, self.ticks(way.seconds), column)
            for at, takes in zip(self.sent_at.tolist(), self.takes, strict=True)
            for way, column in takes.items()
        }
        ports = self.at_ports().values()
        groups += [[shared[column] for _, takes in taken for column in takes.values()] for taken in ports]
        self.apart += [group for group in groups if len(group) > 1]


def intervals_of(
    instance: PlacementInstance,
    transfers: TransferModel,
    messages: tuple[Message, ...],
    windows: Windows,
    tick: float,
    least: float,
    check_time: Callable[[], None] = lambda: None,
) -> PlacementIntervals:
    """Write everything but memory and side constraints; row families are in the paper's order.

    Parameters
    ----------
    instance, transfers, messages
        The problem as arrays, its kind of transfers, and its messages; without ports there are none.
    windows
        Earliest and latest times of all activities.
    tick
        Length of a tick in seconds.
    least
        A lower bound of the makespan in seconds.
    check_time
        Called now and then; may raise an exception.
    """
    model = PlacementIntervals(instance, transfers, messages, windows)
    model.tick = tick
    model.add_places(model.together(windows.fits))
    model.add_times(least * (1 - WHOLE))
    model.minimise(Linear.of(model.length), model.tick)
    model.add_routes(whole=True)
    for write in (
        model.one_device,
        model.heads_and_tails,
        model.precedence,
        model.routes,
        model.arrivals,
        model.delays,
        model.no_overlap,
        model.area,
    ):
        check_time()
        write()
    return model


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
