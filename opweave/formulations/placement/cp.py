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
from typing import ClassVar

import numpy as np

from opweave.formulations.formulation import register_formulation
from opweave.formulations.modeling.intervals import MOST_TICKS, WHOLE, IntervalModel, fine_tick
from opweave.formulations.modeling.linear import Linear, total
from opweave.formulations.modeling.model import Key, LinearModel
from opweave.formulations.modeling.whole import Interval
from opweave.formulations.placement.instance import PlacementInstance, common_tick, lower_unless_short
from opweave.formulations.placement.messages import Message, flow_seconds, links, messages_of, timetable
from opweave.formulations.placement.model import ColumnProgram, PlacementModel
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
    _columns(model, least)
    for write in (PlacementModel.one_device, _precedence, _links, _routes, _arrivals, _delays, _no_overlap):
        check_time()
        write(model)
    return model


def _columns(model: PlacementIntervals, least: float) -> None:
    """x, S, T, C_max and y."""
    model.add_places(model.together(model.windows.fits))
    model.add_times(least * (1 - WHOLE))
    model.minimise(Linear.of(model.length), model.tick)
    devices = model.instance.devices
    named = list(zip(model.message_keys(), model.messages, strict=True))
    keys: list[Key] = [
        (tensor, to, devices[way.source], devices[way.target]) for (tensor, to), m in named for way in m.routes
    ]
    fresh = iter(model.binaries("y", keys).tolist())
    model.takes = [{way: next(fresh) for way in message.routes} for message in model.messages]


def _precedence(model: PlacementIntervals) -> None:
    """(4a) S[v] >= C[u] along every arc; heads and tails."""
    model.heads_and_tails()
    for v in range(model.instance.operators):
        for u in model.instance.before[v].tolist():
            model.require(model.at(u) + model.lasts(u) <= model.at(v))


def _links(model: PlacementIntervals) -> None:
    """The two ends of a flow do not run on devices between which there is no link."""
    instance, linked = model.instance, links(model.instance)
    for u, v in zip(instance.source.tolist(), instance.target.tolist(), strict=True):
        for q in model.devices_of(u):
            for k in model.devices_of(v):
                if not linked[q, k] and model.place[u, q] != model.place[v, k]:
                    model.row({int(model.place[u, q]): 1, int(model.place[v, k]): 1}, None, 1)


def _routes(model: PlacementIntervals) -> None:
    """(7) A message takes the route from its producer's device to the device of a reader."""
    for message, takes in zip(model.messages, model.takes, strict=True):
        for way, y in takes.items():
            begin = model.runs_on(message.producer, way.source).terms
            ends = {column for v in message.readers for column in model.runs_on(v, way.target).terms}
            if not begin or not ends:
                model.row({y: 1}, 0, 0)
                continue
            (from_here,) = begin
            model.row({y: 1, from_here: -1}, None, 0)
            model.row({y: 1, **dict.fromkeys(ends, -1)}, None, 0)
            for end in ends:
                model.row({y: -1, from_here: 1, end: 1}, None, 1)


def _arrivals(model: PlacementIntervals) -> None:
    """(4a) T[m] >= C[u]; S[v] >= T[m] + its ticks for each reader v that needs m."""
    for message, at, takes in zip(model.messages, model.sent_at.tolist(), model.takes, strict=True):
        sent = Linear.of(at)
        model.require(model.at(message.producer) + model.lasts(message.producer) <= sent)
        arrival = sent + Linear(0, {y: model.ticks(way.seconds) for way, y in takes.items()})
        for v in message.readers:
            needed = () if message.target < 0 else model.runs_on(v, message.target).terms
            if message.target < 0 or needed:
                model.require(arrival <= model.at(v), needed)


def _delays(model: PlacementIntervals) -> None:
    """(4a) Without ports, S[v] >= C[u] + delay where u and v run at the two ends of a link.

    Columns of routes in place of these conditions make CP-SAT several times as slow.
    """
    instance = model.instance
    if model.transfers != "delay":
        return
    sent = flow_seconds(instance, longest=model.windows.hopeless)
    for f in np.flatnonzero(instance.cluster[instance.source] != instance.cluster[instance.target]).tolist():
        u, v = int(instance.source[f]), int(instance.target[f])
        for q in model.devices_of(u):
            lasts = model.ticks(float(instance.seconds[u, q]))
            for k in model.devices_of(v):
                delay = model.ticks(float(sent[f, q, k])) if q != k and np.isfinite(sent[f, q, k]) else 0
                if delay:
                    both = (int(model.place[u, q]), int(model.place[v, k]))
                    model.require(model.at(u) + (lasts + delay) <= model.at(v), both)


def _no_overlap(model: PlacementIntervals) -> None:
    """(6) One operator at a time on a device; (8) one message at a time out of a device, and one into it.

    All activities on a device or port also fit between the least head and the least tail there.
    """
    instance, windows = model.instance, model.windows
    for k, device in enumerate(instance.devices):
        runs = [v for v in range(instance.operators) if k in model.devices_of(v)]
        lasts = {v: model.ticks(float(instance.seconds[v, k])) for v in runs}
        _one_at_a_time(model, [Interval(int(model.starts_at[v]), lasts[v], int(model.place[v, k])) for v in runs])
        working = [v for v in runs if lasts[v]]
        if working:
            busy = model.any_column("busy", device, (model.runs_on(v, k) for v in working))
            outside = model.units(np.stack([windows.head[working, k], windows.tail[working, k]]).min(axis=1)).sum()
            work = total(model.runs_on(v, k) * lasts[v] for v in working)
            model.require(work + Linear.of(busy, int(outside)) <= Linear.of(model.length))
    if model.transfers == "delay":
        return
    ports: dict[tuple[str, int], list[Interval]] = {}
    for at, takes in zip(model.sent_at.tolist(), model.takes, strict=True):
        for way, y in takes.items():
            there = Interval(at, model.ticks(way.seconds), y)
            for port in (("out", way.source), ("in", way.target)):
                ports.setdefault(port, []).append(there)
    for sent in ports.values():
        _one_at_a_time(model, sent)
        model.require(total(Linear.of(each.present or 0, each.size) for each in sent) <= Linear.of(model.length))


def _one_at_a_time(model: PlacementIntervals, group: list[Interval]) -> None:
    if len(group) > 1:
        model.apart.append(group)


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
