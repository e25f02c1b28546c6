"""Placement as a mixed-integer program, tightened: the paper's (4)-(8) with constants from the data.

Source: Zhang et al., "Moirai: Towards Optimal Placement for Distributed Inference on Heterogeneous Devices", equations
(4)-(8); their literal form is in :mod:`.moirai`. The rows are those of the constraint program (:mod:`.cp`), but for
the order of what shares a device or port. The columns for "which comes first" are linked to devices without a big M,
and to times with one big M per pair. Pairs whose windows cannot meet have no rows.

Rows of your own, through ``solve(..., extend=f)`` or a constraint class, use three handles of the model that take
names: ``model.on(op, device)`` is a 0/1 expression, ``model.start(op)`` and ``model.end(op)`` are in seconds. A rule
about times should tolerate the same error as engines, a millionth of the makespan.

>>> from opweave.formulations.expressions import express
>>> from opweave.problems.constraints import Constraint
>>> def extend(model, problem):
...     model.add(model.end("embed") <= 0.5 + model.on("embed", "gpu"))
>>> class NotBoth(Constraint):
...     first: str
...     second: str
...     device: str
...     def violations(self, problem, solution):
...         if solution.device[self.first] == solution.device[self.second] == self.device:
...             yield self.broken(f"{self.first} and {self.second} both run on {self.device}")
>>> @express(NotBoth, "disjunctive")
... def _not_both(formulation, model, constraint):
...     both = sum(model.on(op, constraint.device) for op in (constraint.first, constraint.second))
...     model.add(both <= 1)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import ClassVar

import numpy as np

from opweave.formulations.formulation import register_formulation
from opweave.formulations.modeling.linear import Linear, total
from opweave.formulations.modeling.model import Key, LinearModel
from opweave.formulations.order_arcs import ancestors, transposed
from opweave.formulations.placement.instance import lower_unless_short
from opweave.formulations.placement.messages import Timetable, messages_of
from opweave.formulations.placement.model import NEGLIGIBLE, UNITS, ColumnProgram, PlacementModel
from opweave.formulations.placement.windows import FIT
from opweave.problems.arrays import BoolArray, FloatArray
from opweave.problems.placement.spec import Placement

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

    def compared(self, problem: Placement) -> int:
        """All operators."""
        return len(problem.graph.operators)

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
