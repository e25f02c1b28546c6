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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import permutations, product
from typing import ClassVar

import numpy as np

from opweave.formulations.formulation import register_formulation
from opweave.formulations.modeling.intervals import MOST_TICKS, WHOLE, Interval, IntervalModel, fine_tick
from opweave.formulations.modeling.linear import Linear, total
from opweave.formulations.modeling.model import Key, LinearModel
from opweave.formulations.order_arcs import ancestors, rows_of_closure, transposed
from opweave.formulations.placement.instance import PlacementInstance, common_tick, lower_unless_short
from opweave.formulations.placement.model import ABSENT, NEGLIGIBLE, UNITS, ColumnProgram, PlacementModel
from opweave.formulations.placement.windows import (
    FIT,
    Message,
    Timetable,
    Windows,
    flow_seconds,
    messages_of,
    timetable,
)
from opweave.problems.arrays import BoolArray, FloatArray, IntArray
from opweave.problems.placement.spec import Placement, Schedule, TransferModel

Orders = dict[tuple[int, int], int]
"""Columns of "the first ends before the second starts"; a pair whose windows exclude that has none."""


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """An operator or a message, which occupies devices or ports one at a time; times are in units of the model.

    Attributes
    ----------
    start
        Column of the job's start.
    length
        The job's duration.
    uses
        For every device or port that it may occupy: 1 if it does.
    ready, due
        Earliest start; latest end if the job happens.
    shortest
        Least duration if the job happens.
    latest
        Largest value of start + length, also if the job does not happen.
    """

    start: int
    length: Linear
    uses: dict[tuple[str, int], Linear]
    ready: float
    due: float
    shortest: float
    latest: float


@dataclass(eq=False)
class DisjunctiveModel(PlacementModel):
    """The program.

    Attributes
    ----------
    orders, sent_orders
        Which operator, and which message, comes first.
    """

    orders: Orders = field(init=False, default_factory=dict)
    sent_orders: Orders = field(init=False, default_factory=dict)

    def operator_jobs(self) -> list[Job]:
        """Operators on devices."""
        ready, due = self.windows.earliest() / self.tick, self.windows.latest_end() / self.tick
        shortest = self.instance.seconds.min(axis=1, initial=np.inf) / self.tick
        return [
            Job(
                start=int(self.starts_at[v]),
                length=self.lasts(v),
                uses={("on", k): self.runs_on(v, k) for k in self.devices_of(v)},
                ready=float(ready[v]),
                due=float(due[v]),
                shortest=float(shortest[v]),
                latest=float(due[v]),
            )
            for v in range(self.instance.operators)
        ]

    def message_jobs(self) -> list[Job]:
        """Messages at ports."""
        windows, jobs, ports = self.windows, list[Job](), self.at_ports()
        for message, at, takes in zip(self.messages, self.sent_at.tolist(), self.takes, strict=True):
            own = {port: [y for way, y in takes.items() if port in way.ports] for way in takes for port in way.ports}
            jobs.append(
                Job(
                    start=at,
                    length=self.sending(takes),
                    uses={port: Linear.over(columns) for port, columns in own.items() if port in ports},
                    ready=windows.message_ready(message) / self.tick,
                    due=windows.message_due(message) / self.tick,
                    shortest=min(way.seconds for way in takes) / self.tick,
                    latest=self.high[at],
                )
            )
        return jobs

    def keep_apart(
        self,
        name: str,
        keys: Sequence[tuple[str, ...]],
        jobs: Sequence[Job],
        implied: BoolArray,
        check: Callable[[int], None],
    ) -> Orders:
        """(6), (8) No two jobs occupy the same device or port at the same time.

        Parameters
        ----------
        name, keys
            Name of the columns; names of the jobs.
        implied
            ``implied[b, a]`` says that a always ends before b starts.
        check
            Refuses so many rows if they are too many.
        """
        pairs = _meeting(jobs, implied)
        check(4 * len(pairs))
        ways = [(a, b) for pair in pairs for a, b in permutations(pair) if _fits(jobs[a], jobs[b])]
        named: list[Key] = [(*keys[a], *keys[b]) for a, b in ways]
        orders = dict(zip(ways, self.binaries(name, named).tolist(), strict=True))
        rows = self.rows(f"{name}_rows")
        for a, b in pairs:
            chosen = Linear.over(orders[way] for way in ((a, b), (b, a)) if way in orders)
            for shared in jobs[a].uses.keys() & jobs[b].uses.keys():
                rows.add(jobs[a].uses[shared] + jobs[b].uses[shared] - chosen <= 1)
            rows.add(chosen <= 1)
        for (a, b), column in orders.items():
            big = jobs[a].latest - jobs[b].ready
            if big > NEGLIGIBLE:
                ends = total((Linear.of(jobs[a].start), jobs[a].length))
                self.where(f"{name}_rows", ends <= Linear.of(jobs[b].start), (Linear.of(column),), big)
        return orders


def _meeting(jobs: Sequence[Job], implied: BoolArray) -> list[tuple[int, int]]:
    """Pairs of jobs that can occupy the same thing at the same time, with neither implied to be before the other."""
    number: dict[tuple[str, int], int] = {}
    for job in jobs:
        number |= {thing: len(number) + k for k, thing in enumerate(job.uses.keys() - number.keys())}
    uses = np.zeros((len(jobs), len(number)), dtype=np.float32)
    for a, job in enumerate(jobs):
        uses[a, [number[thing] for thing in job.uses]] = 1.0
    ready, due = np.asarray([job.ready for job in jobs]), np.asarray([job.due for job in jobs])
    before = implied | (due[None, :] <= ready[:, None])
    return [(a, b) for a, b in np.argwhere(np.triu((uses @ uses.T > 0) & ~(before | transposed(before)), 1)).tolist()]


def _fits(early: Job, late: Job) -> bool:
    return early.ready + early.shortest + late.shortest <= late.due * (1 + FIT)


@register_formulation
class Disjunctive(ColumnProgram):
    """The paper's program with constants from the data, and rows that tighten its relaxation.

    Columns: ``x`` (group of tied operators on device), ``y`` (a message goes from one device to another), ``S`` and
    ``T`` (starts of operators and messages), ``first`` and ``first_sent`` (which comes first), ``stored`` (a shared
    parameter is on a device), ``busy`` (a device runs anything), ``C_max``.
    """

    name: ClassVar[str] = "disjunctive"
    source: ClassVar[str] = "opweave, from Zhang et al. (Moirai) 2023, (4)-(8), doi:10.48550/arXiv.2312.04025"
    model_type: ClassVar[type[LinearModel]] = DisjunctiveModel
    supports: ClassVar[tuple[str, ...]] = ("order_arcs", "assignment", "disjunctive")

    def build(self, problem: Placement) -> DisjunctiveModel:
        """Write the model; row families are in the paper's order."""
        instance = lower_unless_short(problem)
        self.check_problem(problem)
        windows = self.windows(problem, instance)
        transfers = "one_port_edge" if problem.transfers == "delay" else problem.transfers  # then without ports
        messages = messages_of(instance, transfers, longest=windows.hopeless)
        model = DisjunctiveModel(instance, problem.transfers, messages, windows)
        model.problem, model.check_time = problem, self.check_time
        model.tick = self._unit = windows.horizon / UNITS if windows.horizon > 0 else 1.0
        self.check_size(len(instance.source) * (1 + len(instance.devices)) + len(messages))
        closed = ancestors(instance.after)
        model.add_places(model.together(windows.fits))
        model.add_times(self.lower_bound(windows))
        model.add_routes(whole=False)
        model.minimise(Linear.of(model.length), model.tick)
        model.one_device()
        model.memory()
        for write in (model.precedence, model.routes, model.arrivals, model.heads_and_tails, model.area):
            self.check_time()
            write()
        names = [(name,) for name in instance.names]
        model.orders = model.keep_apart("first", names, model.operator_jobs(), closed, self.check_size)
        if problem.transfers != "delay":
            reached, producers = closed | np.eye(len(closed), dtype=bool), [each.producer for each in messages]
            implied = np.zeros((len(messages), len(messages)), dtype=bool)
            for number, message in enumerate(messages):
                implied[:, number] = reached[np.ix_(producers, message.readers)].all(axis=1)
            keys, jobs = model.message_keys(), model.message_jobs()
            model.sent_orders = model.keep_apart("first_sent", keys, jobs, implied, self.check_size)
        self.add_constraints(model, problem)
        return model

    def least_rows(self, problem: Placement) -> int:
        """Those that weigh as much as the closure of all operators."""
        return rows_of_closure(len(problem.graph.operators))

    def complete(self, model: DisjunctiveModel, table: Timetable, values: FloatArray) -> None:
        """Set which comes first, where two share a device or port."""
        there: list[set[tuple[str, int]]] = [{("on", k)} for k in table.device]
        ports = [set() if way is None else set(way.ports) for way in table.ways]
        for orders, at, middle in (
            (model.orders, there, table.operator_middles()),
            (model.sent_orders, ports, table.message_middles()),
        ):
            for (a, b), column in orders.items():
                values[column] = bool(at[a] & at[b]) and (middle[a], a) < (middle[b], b)


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
