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

Rows of your own, through ``solve(..., extend=f)`` or a constraint class, use variables that take names and can be added
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
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import permutations, product
from typing import ClassVar

import numpy as np

from opweave.formulations.formulation import ClusterFormulation, register_formulation
from opweave.formulations.modeling.intervals import MOST_TICKS, WHOLE, Interval, IntervalModel, fine_tick
from opweave.formulations.modeling.linear import Linear, Row, total
from opweave.formulations.modeling.model import FIT, NEGLIGIBLE, Key, LinearModel
from opweave.formulations.order_arcs import rows_of_closure
from opweave.formulations.placement.instance import TAKEN_IN, PlacementInstance, common_tick, lower_unless_short
from opweave.formulations.placement.model import Known, PlacementModel
from opweave.formulations.placement.windows import (
    Windows,
    flow_seconds,
    messages_of,
    serial_length,
    single_device_length,
    timetable,
    windows_of,
)
from opweave.problems.arrays import BoolArray, FloatArray, IntArray
from opweave.problems.constraints import Constraint, MaxDevices, Precede, Separate, means
from opweave.problems.errors import InfeasibleError
from opweave.problems.placement.spec import Placement, Schedule, TransferModel

UNITS = 1000.0
"""The horizon in the model's units of time, chosen for the absolute tolerances of engines."""

CEILING_SLACK = 1e-6
"""Relative tolerance above a known schedule's length within which schedules are kept, for the tolerances of engines."""


class PlacementProgram(ClusterFormulation[Placement, Schedule], ABC):
    """A placement as a program; times are in units of ``_unit`` seconds."""

    problem_type: ClassVar[type[Placement]] = Placement
    built_in: ClassVar[tuple[type[Constraint], ...]] = (*TAKEN_IN, Precede, Separate, MaxDevices)

    _horizon: float = 0.0

    def windows(self, problem: Placement, instance: PlacementInstance) -> Windows:
        """Earliest and latest times of all activities.

        Raises
        ------
        InfeasibleError
            If the links leave an operator no device.
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
        """Length of a known schedule, with some tolerance; if rows may be added, an upper bound for all schedules."""
        if self.context.extended:
            return serial_length(instance) + self.context.waits
        ceiling = self.context.ceiling
        if ceiling is None and not any(means(constraint, Separate) for constraint in problem.constraints):
            ceiling = single_device_length(instance)
        return None if ceiling is None else float(ceiling) * (1 + CEILING_SLACK)

    def lower_bound(self, windows: Windows) -> float:
        """A lower bound of the makespan, in seconds."""
        return min(windows.horizon, max(windows.critical_path, float(self.context.lower_bound or 0.0)))

    def why_infeasible(self, problem: Placement) -> str:
        """Name the rules that may exclude all schedules, and the longest schedule that was considered."""
        considered = f" (schedules of at most {self._horizon:.6g} s were considered)" if self.context.extended else ""
        return super().why_infeasible(problem) + considered


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


@dataclass(frozen=True, slots=True, eq=False)
class Stay:
    """An activity that occupies things one at a time.

    Attributes
    ----------
    start
        Column of its start.
    size
        Its duration, by the 0/1 columns of which at most one is 1.
    at
        The columns that make it occupy a thing, by the number of the thing.
    """

    start: int
    size: dict[int, float] = field(default_factory=dict)
    at: dict[int, list[int]] = field(default_factory=dict)

    def length(self) -> Linear:
        """Its duration."""
        return Linear(0, {column: size for column, size in self.size.items() if size > NEGLIGIBLE})

    def middle(self, values: FloatArray) -> tuple[float, int]:
        """The middle between its start and end, by which activities are ordered; equal ones by their columns."""
        return float(values[self.start]) + self.length().at(values) / 2, self.start

    def meets(self, other: Stay, values: FloatArray) -> bool:
        """Whether both occupy the same thing."""
        shared = self.at.keys() & other.at.keys()
        return any(values[self.at[thing]].any() and values[other.at[thing]].any() for thing in shared)


@dataclass(eq=False)
class DisjunctiveModel(PlacementModel):
    """The program.

    Attributes
    ----------
    first
        Columns of :meth:`keep_apart`, and the two activities of which each says that the first ends before the second.
    """

    first: dict[int, tuple[Stay, Stay]] = field(init=False, default_factory=dict)

    def keep_apart(self, name: str, groups: Sequence[Sequence[Interval]], starts: IntArray, known: Known) -> None:
        """Pairs that cannot meet have no rows; of the others, one ends before the other starts."""
        stays = {start: Stay(start) for start in starts.tolist()}
        for thing, group in enumerate(groups):
            for each in group:
                assert each.present is not None
                stays[each.start].size[each.present] = each.size
                stays[each.start].at.setdefault(thing, []).append(each.present)
        due, implied = known()
        jobs = list(stays.values())
        ready = np.asarray(self.low)[starts]
        shortest = np.asarray([min(job.size.values(), default=0) for job in jobs])
        pairs = _meeting(jobs, len(groups), implied | (due <= ready[:, None]))
        self.check_size(4 * len(pairs))
        fits = ready[:, None] + shortest[:, None] + shortest <= due * (1 + FIT)
        ways = [(a, b) for pair in pairs for a, b in permutations(pair) if fits[a, b]]
        key = {
            column: key for each in self.families.values() for key, column in zip(each.keys, each.columns, strict=True)
        }
        keys: list[Key] = [(*_parts(key[jobs[a].start]), *_parts(key[jobs[b].start])) for a, b in ways]
        first = dict(zip(ways, self.binaries(name, keys).tolist(), strict=True))
        rows = self.rows(f"{name}_rows")
        for a, b in pairs:
            chosen = Linear.over(first[way] for way in ((a, b), (b, a)) if way in first)
            for thing in jobs[a].at.keys() & jobs[b].at.keys():
                rows.add(Linear.over((*jobs[a].at[thing], *jobs[b].at[thing])) - chosen <= 1)
            rows.add(chosen <= 1)
        for (a, b), column in first.items():
            self.first[column] = jobs[a], jobs[b]
            big = max(float(due[a]), self.high[jobs[a].start]) - float(ready[b])
            if big > NEGLIGIBLE:
                ends = total((Linear.of(jobs[a].start), jobs[a].length()))
                self.where(f"{name}_rows", ends <= Linear.of(jobs[b].start), (Linear.of(column),), big)

    def completed(self, values: FloatArray) -> FloatArray:
        """The values, with those of :attr:`first` set as the times require."""
        values = super().completed(values)
        for column, (early, late) in self.first.items():
            values[column] = early.meets(late, values) and early.middle(values) < late.middle(values)
        return values


def _parts(key: Key) -> tuple[str | int, ...]:
    return key if isinstance(key, tuple) else () if key is None else (key,)


def _meeting(jobs: Sequence[Stay], things: int, before: BoolArray) -> list[tuple[int, int]]:
    """Pairs that can occupy the same thing at the same time, with neither known to end before the other starts."""
    uses = np.zeros((len(jobs), things), dtype=np.float32)
    for a, job in enumerate(jobs):
        uses[a, list(job.at)] = 1.0
    return [(a, b) for a, b in np.argwhere(np.triu((uses @ uses.T > 0) & ~(before | before.T), 1)).tolist()]


@register_formulation
class Disjunctive(ColumnProgram):
    """The paper's program with big-M constants from the data, and constraints that tighten its relaxation.

    Columns: ``x`` (group of tied operators on device), ``y`` (a message goes from one device to another), ``S`` and
    ``T`` (starts of operators and messages), ``first`` and ``first_sent`` (which comes first), ``stored`` (a shared
    parameter is on a device), ``busy`` (a device runs anything), ``C_max``.
    """

    name: ClassVar[str] = "disjunctive"
    source: ClassVar[str] = "opweave, from Zhang et al. (Moirai) 2023, (4)-(8), doi:10.48550/arXiv.2312.04025"
    model_type: ClassVar[type[LinearModel]] = DisjunctiveModel
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

    def keep_apart(self, _name: str, groups: Sequence[Sequence[Interval]], _starts: IntArray, _known: Known) -> None:
        """Let no two intervals of a group overlap."""
        self.apart += [list(group) for group in groups if len(group) > 1]

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
