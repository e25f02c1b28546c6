"""Placement with intervals, for constraint-programming engines: an operator or transfer is there or not.

Every operator has an optional interval on each device, every transfer one on each of its routes; those on a device or a
port do not overlap. The starts of an operator's intervals are the same column.

Time is counted in ticks. Durations are rounded down to whole ticks, unless all of them are whole multiples of one (to a
part of a billion). Rounding down keeps a lower bound one: take any schedule and round every start down; since
floor(a + b) >= floor(a) + floor(b), all precedences and orders still hold, and it ends no later. So the optimum in
ticks, times the tick, never exceeds the optimum in seconds. The schedule itself is timed again in seconds.

Rows of your own, through ``solve(..., extend=f)`` or a constraint class, use ``model.on(op, device)`` (0/1),
``model.starts(op)`` and ``model.ends(op)`` (seconds), added and compared like numbers:

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
...     formulation.add_row(model, model.ends(constraint.op) <= 0.5)

They hold to two ticks, so a rule about times should forgive a part of a million of the makespan.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from opweave.formulations.bulk import check_rows
from opweave.formulations.expressions import express
from opweave.formulations.intervals import Comparison, Interval, IntervalModel, Linear, whole_row
from opweave.formulations.placement.instance import PlacementInstance
from opweave.formulations.placement.memory import group_bytes, readers_of
from opweave.formulations.placement.messages import Message, Route, flow_seconds, links, messages_of
from opweave.formulations.placement.program import PlacementProgram, instance_of
from opweave.formulations.placement.retime import retimed
from opweave.formulations.placement.timetable import timetable
from opweave.formulations.placement.windows import FIT, Windows
from opweave.formulations.ticks import MOST_TICKS, WHOLE, fine_tick
from opweave.problems.arrays import NO_LIMIT, FloatArray
from opweave.problems.constraints import MaxDevices, Separate
from opweave.problems.placement.spec import Placement, Schedule

LARGEST_SIZE = 2**53


@dataclass(eq=False)
class PlacementIntervals(IntervalModel):
    """The model and what it was written from; its handles take names.

    Attributes
    ----------
    tick
        Seconds.
    x
        Column of "operator v runs on device k".
    starts_at, sent_at
        Columns of the starts of operators and messages, in ticks.
    takes
        For every message the column of each route.
    """

    problem: Placement = None  # type: ignore[assignment]  # set by the formulation
    instance: PlacementInstance = None  # type: ignore[assignment]
    messages: tuple[Message, ...] = ()
    windows: Windows = None  # type: ignore[assignment]
    tick: float = 1.0
    x: dict[tuple[int, int], int] = field(default_factory=dict)
    starts_at: list[int] = field(default_factory=list)
    sent_at: list[int] = field(default_factory=list)
    takes: list[dict[Route, int]] = field(default_factory=list)
    held: dict[tuple[int, int], int] = field(default_factory=dict)
    used: dict[int, int] = field(default_factory=dict)

    def ticks(self, seconds: float) -> int:
        """Whole ticks in a duration, rounded down; a little less than a whole one counts as one."""
        return math.floor(seconds / self.tick * (1 + WHOLE / 10) + WHOLE / 10)

    def on(self, op: str, device: str) -> Linear:
        """1 when operator ``op`` runs on ``device``, else 0."""
        key = (self.problem.graph.operator_index[op], self.problem.cluster.device_index[device])
        return Linear(0.0, {self.x[key]: 1.0} if key in self.x else {})

    def starts(self, op: str) -> Linear:
        """When operator ``op`` starts, in seconds."""
        return Linear(0.0, {self.starts_at[self.problem.graph.operator_index[op]]: self.tick})

    def ends(self, op: str) -> Linear:
        """When operator ``op`` ends, in seconds."""
        lasts = self.instance.seconds[self.problem.graph.operator_index[op]].tolist()
        runs = (self.on(op, name) * s for name, s in zip(self.instance.devices, lasts, strict=True) if s < math.inf)
        return sum(runs, self.starts(op))

    def devices_of(self, v: int) -> list[int]:
        """Devices that operator v may run on."""
        return [k for k in range(len(self.instance.devices)) if (v, k) in self.x]

    def length(self, v: int) -> dict[int, int]:
        """(4b) Run time of operator v in ticks, by column."""
        return self.weighted(v, self.instance.seconds)

    def weighted(self, v: int, seconds: FloatArray) -> dict[int, int]:
        """The entry of ``seconds`` for the device that operator v runs on, in ticks."""
        return {self.x[v, k]: self.ticks(float(seconds[v, k])) for k in self.devices_of(v)}


class Intervals(PlacementProgram):
    """A placement with optional intervals."""

    name: ClassVar[str] = "intervals"
    supports: ClassVar[tuple[str, ...]] = ("order_arcs", "assignment", "intervals")

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._activities = 0

    def build(self, problem: Placement) -> Any:
        """Write the model, families in the paper's order."""
        instance = instance_of(problem)
        windows = self.windows(problem, instance)
        messages = messages_of(instance, problem.transfers, longest=windows.hopeless)
        links_needed = sum(len(message.routes) * (1 + len(message.readers)) for message in messages)
        rows = 3 * instance.operators + len(instance.source) * len(instance.devices) ** 2 + links_needed
        check_rows(rows, self.name, self.context.limits)
        # rows that are not known yet may ask for times between those that durations measure
        activities = self._activities = instance.operators + len(messages)
        tick = fine_tick(activities, windows.horizon)
        if not self.context.extended:
            tick = common_tick(instance, windows.horizon) or tick
        model = PlacementIntervals(problem=problem, instance=instance, messages=messages, windows=windows, tick=tick)
        self._unit = model.tick
        for write in (
            self._columns,
            self._one_device,
            self._memory,
            self._precedence,
            self._links,
            self._routes,
            self._arrivals,
            self._no_overlap,
            self._work,
        ):
            self.check_time()
            write(model)
        self.add_constraints(model, problem)
        return model

    def _columns(self, model: PlacementIntervals) -> None:
        """x, S, T, y and C_max within their windows."""
        windows, instance = model.windows, model.instance
        shared: dict[tuple[int, int], int] = {}
        for v in range(instance.operators):
            tied = np.flatnonzero(instance.cluster == instance.cluster[v])
            for k in np.flatnonzero(windows.fits[tied].all(axis=0)).tolist():
                key = (int(instance.cluster[v]), k)
                if key not in shared:
                    shared[key] = model.binary()
                model.x[v, k] = shared[key]
        ready, latest = windows.earliest(), windows.latest_start()
        ended, due = windows.earliest_end(), windows.latest_end()
        for v in range(instance.operators):
            low = model.ticks(float(ready[v]))
            model.starts_at.append(model.whole(low, max(low, model.ticks(float(latest[v])) + 1)))
        for message in model.messages:
            low = model.ticks(float(ended[message.producer]))
            high = max(windows.message_due(message), float(due[message.producer]))
            model.sent_at.append(model.whole(low, max(low, model.ticks(high) + 1)))
            model.takes.append({way: model.binary() for way in message.routes})
        floor = model.ticks(self.floor(windows) * (1 - WHOLE))
        model.objective = model.whole(floor, max(floor, model.ticks(windows.horizon) + 1))

    def _one_device(self, model: PlacementIntervals) -> None:
        """(4c) Every operator runs on one device."""
        for v in range(model.instance.operators):
            model.row({model.x[v, k]: 1 for k in model.devices_of(v)}, 1, 1)

    def _memory(self, model: PlacementIntervals) -> None:
        """(5) Bytes on every device, a shared parameter once, are at most its memory."""
        instance = model.instance
        own, shared = group_bytes(instance)
        users = readers_of(instance)
        for k, capacity in enumerate(instance.capacity.tolist()):
            if capacity == NO_LIMIT:
                continue
            clip = min(capacity + 1, LARGEST_SIZE)
            terms = {
                model.x[v, k]: min(int(own[instance.cluster[v]]), clip)
                for v in range(instance.operators)
                if (v, k) in model.x
            }
            for p in shared:
                column = model.held[p, k] = model.binary()
                terms[column] = min(int(instance.parameter_bytes[p]), clip)
                for v in users[p].tolist():
                    if (v, k) in model.x:
                        model.row({model.x[v, k]: 1, column: -1}, None, 0)
            model.row(terms, None, capacity)

    def _precedence(self, model: PlacementIntervals) -> None:
        """(4a) S[v] >= C[u] along every arc, heads and tails; without ports also the seconds between devices."""
        instance, windows = model.instance, model.windows
        for v in range(instance.operators):
            start = {model.starts_at[v]: 1}
            model.row(_less(start, model.weighted(v, windows.head)), 0, None)
            model.row(_less({model.objective: 1}, start, model.weighted(v, instance.seconds + windows.tail)), 0, None)
            for u in instance.before[v].tolist():
                model.row(_less(start, {model.starts_at[u]: 1}, model.length(u)), 0, None)
        if model.problem.transfers == "delay":
            self._delays(model)

    def _delays(self, model: PlacementIntervals) -> None:
        """S[v] >= C[u] + seconds of the flow, where u runs on q and v on k."""
        instance, sent = model.instance, flow_seconds(model.instance, longest=model.windows.hopeless)
        for flow, (u, v) in enumerate(zip(instance.source.tolist(), instance.target.tolist(), strict=True)):
            if instance.cluster[u] == instance.cluster[v]:
                continue
            for q in model.devices_of(u):
                for k in model.devices_of(v):
                    lasts = float(sent[flow, q, k])
                    if 0 < lasts < math.inf:
                        least = model.ticks(float(instance.seconds[u, q])) + model.ticks(lasts)
                        gap = {model.starts_at[v]: 1, model.starts_at[u]: -1}
                        model.row(gap, least, None, (model.x[u, q], model.x[v, k]))

    def _routes(self, model: PlacementIntervals) -> None:
        """(7) A message takes the route from its producer's device to the one where a reader runs."""
        for message, takes in zip(model.messages, model.takes, strict=True):
            u = message.producer
            for way, y in takes.items():
                ends = {model.x[v, way.target] for v in message.readers if (v, way.target) in model.x}
                begin = model.x.get((u, way.source))
                if begin is None or not ends:
                    model.row({y: 1}, 0, 0)
                    continue
                model.row({y: 1, begin: -1}, None, 0)
                model.row({y: 1, **dict.fromkeys(ends, -1)}, None, 0)
                for end in ends:
                    model.row({y: -1, begin: 1, end: 1}, None, 1)

    def _links(self, model: PlacementIntervals) -> None:
        """The two ends of a flow do not run where no link leads from one to the other."""
        instance, linked = model.instance, links(model.instance)
        for u, v in zip(instance.source.tolist(), instance.target.tolist(), strict=True):
            for q in model.devices_of(u):
                for k in model.devices_of(v):
                    if not linked[q, k] and model.x[u, q] != model.x[v, k]:
                        model.row({model.x[u, q]: 1, model.x[v, k]: 1}, None, 1)

    def _arrivals(self, model: PlacementIntervals) -> None:
        """(4a) T[m] >= C[u]; S[v] >= T[m] + its ticks for each reader v that needs m."""
        for message, at, takes in zip(model.messages, model.sent_at, model.takes, strict=True):
            u = message.producer
            model.row(_less({at: 1}, {model.starts_at[u]: 1}, model.length(u)), 0, None)
            lasts = {y: model.ticks(way.seconds) for way, y in takes.items()}
            for v in message.readers:
                needed = () if message.target < 0 else (model.x.get((v, message.target)),)
                if None not in needed:
                    only_if = tuple(column for column in needed if column is not None)
                    model.row(_less({model.starts_at[v]: 1}, {at: 1}, lasts), 0, None, only_if)

    def _no_overlap(self, model: PlacementIntervals) -> None:
        """(6) One operator at a time on a device; (8) one message at a time out of it and into it."""
        devices = len(model.instance.devices)
        runs: list[list[Interval]] = [[] for _ in range(devices)]
        sends: list[list[Interval]] = [[] for _ in range(devices)]
        receives: list[list[Interval]] = [[] for _ in range(devices)]
        for (v, k), column in model.x.items():
            runs[k].append(Interval(model.starts_at[v], model.ticks(float(model.instance.seconds[v, k])), column))
        for at, takes in zip(model.sent_at, model.takes, strict=True):
            for way, y in takes.items():
                there = Interval(at, model.ticks(way.seconds), y)
                sends[way.source].append(there)
                receives[way.target].append(there)
        model.apart.extend(group for group in (*runs, *sends, *receives) if len(group) > 1)

    def _work(self, model: PlacementIntervals) -> None:
        """The work of every device fits between the first head and the last tail of all operators."""
        windows, instance = model.windows, model.instance
        begin = model.ticks(float(windows.earliest().min(initial=math.inf))) if instance.operators else 0
        for k in range(len(instance.devices)):
            total: dict[int, int] = {}
            for v in range(instance.operators):
                if (v, k) in model.x:
                    column = model.x[v, k]
                    total[column] = total.get(column, 0) + model.ticks(float(instance.seconds[v, k]))
            model.row(_less({model.objective: 1}, total), begin, None)

    def extract_values(self, model: PlacementIntervals, values: list[int]) -> Schedule:
        """The schedule of an engine's values."""
        instance = model.instance
        device = [next(k for k in model.devices_of(v) if values[model.x[v, k]]) for v in range(instance.operators)]
        start = np.asarray([values[column] for column in model.starts_at], dtype=np.float64) * model.tick
        sent = np.asarray([values[column] for column in model.sent_at], dtype=np.float64) * model.tick
        release = start if self.context.extended else None
        return retimed(model.problem, instance, model.messages, device, start, sent, release)

    def start(self, model: Any, solution: Schedule) -> None:
        """Hint every column."""
        table = timetable(model.instance, model.messages, solution)
        hint = {column: int(table.device[v] == k) for (v, k), column in model.x.items()}
        hint |= {column: model.ticks(float(s)) for column, s in zip(model.starts_at, table.start, strict=True)}
        hint |= {column: model.ticks(float(s)) for column, s in zip(model.sent_at, table.sent, strict=True)}
        for way, takes in zip(table.ways, model.takes, strict=True):
            hint |= {column: int(route == way) for route, column in takes.items()}
        users = readers_of(model.instance)
        hint |= {c: int(any(table.device[v] == k for v in users[p].tolist())) for (p, k), c in model.held.items()}
        hint |= {column: int(k in table.device) for k, column in model.used.items()}
        hint[model.objective] = max(model.low[model.objective], model.ticks(float(table.end.max(initial=0.0))))
        model.hint = hint

    def resolution(self) -> float:
        """A tick for every activity along a path, in seconds."""
        return self._unit * self._activities

    def objective_bound(self, problem: Placement, value: float) -> float:
        """Ticks as seconds, less what counts as a whole tick though it is not."""
        return max(0.0, value * self._unit * (1 - 2 * WHOLE))

    def times(self, model: Any) -> tuple[Collection[Any], float]:
        return frozenset((*model.starts_at, *model.sent_at, model.objective)), model.tick

    def add_row(self, model: Any, row: Any) -> None:
        """Add one row of a side constraint, such as ``model.ends("a") <= 0.5 + model.on("b", "gpu")``."""
        assert isinstance(row, Comparison)
        model.rows.append(whole_row(model, row, model.tick, frozenset(self.times(model)[0])))


def common_tick(instance: PlacementInstance, horizon: float) -> float | None:
    """Seconds of the largest decimal tick that measures all durations, such as 0.5 for 0.5, 1.5 and 2; None if tiny.

    What takes longer than the horizon need not be measured: no schedule of interest contains it.
    """
    durations = np.concatenate([instance.seconds.ravel(), flow_seconds(instance).ravel()])
    durations = durations[durations <= horizon * (1 + FIT)]
    for digits in range(-3, 10):
        counts = durations * 10.0**digits
        whole = np.round(counts)
        if (np.abs(counts - whole) <= WHOLE / 10 * np.maximum(1.0, whole)).all():
            tick = math.gcd(*(int(count) for count in np.unique(whole))) / 10.0**digits
            if tick > 0 and horizon / tick <= MOST_TICKS:
                return tick
    return None


def _less(total: dict[int, int], *others: dict[int, int]) -> dict[int, int]:
    """``total`` minus the others."""
    result = dict(total)
    for other in others:
        for column, value in other.items():
            result[column] = result.get(column, 0) - value
    return result


@express(Separate, Intervals.name)
def _separate(formulation: Intervals, model: PlacementIntervals, constraint: Separate) -> None:
    for device in model.instance.devices:
        total = sum((model.on(op, device) for op in dict.fromkeys(constraint.ops)), Linear(0.0, {}))
        formulation.add_row(model, total <= 1)


@express(MaxDevices, Intervals.name)
def _max_devices(_formulation: Intervals, model: PlacementIntervals, constraint: MaxDevices) -> None:
    if not model.used:
        model.used = {k: model.binary() for k in range(len(model.instance.devices))}
        for column, k in {column: k for (_, k), column in model.x.items()}.items():
            model.row({column: 1, model.used[k]: -1}, None, 0)
    model.row(dict.fromkeys(model.used.values(), 1), None, constraint.count)
