"""Placement as a mixed-integer program, tightened: the paper's (4)-(8) with constants from the data.

Source: Zhang et al., "Moirai: Towards Optimal Placement for Distributed Inference on Heterogeneous Devices", equations
(4)-(8); their literal form is in :mod:`.milp_paper`. What differs: devices are linked by the marginals of every flow
instead of products; "who is first" is linked to devices without a big M, and to times with one for each pair; pairs
whose windows cannot meet have no rows; rows on work and traffic in windows cut the relaxation.

Rows of your own, through ``solve(..., extend=f)`` or a constraint class, use three handles of the model that take
names: ``model.on(op, device)`` is a 0/1 expression, ``model.starts(op)`` and ``model.ends(op)`` are seconds. A rule
about times should forgive as much as engines do: a part of a million of the makespan.

>>> from opweave.formulations.expressions import express
>>> from opweave.problems.constraints import Constraint
>>> def extend(model, problem):
...     model.add_component("early", pyo.Constraint(expr=model.ends("embed") <= 0.5 + model.on("embed", "gpu")))
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
...     formulation.add_row(model, both <= 1)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from opweave.formulations.bulk import Rows, Terms, check_rows, linear_objective
from opweave.formulations.formulation import register_formulation
from opweave.formulations.placement.cuts import head_rows, port_rows, tail_rows, work_rows
from opweave.formulations.placement.jobs import Job, Pairs, apart_rows, chosen_orders, meeting, order_columns
from opweave.formulations.placement.memory_rows import memory_rows
from opweave.formulations.placement.messages import Route, flow_seconds, links
from opweave.formulations.placement.program import (
    ABSENT,
    NEGLIGIBLE,
    PlacementModel,
    PlacementProgram,
    add,
    instance_of,
    understand,
)
from opweave.formulations.placement.timetable import timetable
from opweave.formulations.precedence import ancestors, check_closure
from opweave.problems.arrays import BoolArray, IntArray
from opweave.problems.placement.spec import Placement, Schedule

if TYPE_CHECKING:
    from pyomo.environ import ConcreteModel


@dataclass(eq=False)
class Links:
    """Columns of "u runs on q and v on k", one matrix for each two groups of operators that a flow joins."""

    between: dict[tuple[int, int], IntArray] = field(default_factory=dict)
    takes: list[dict[Route, int]] = field(default_factory=list)
    """For every message: the column of each of its routes."""


@register_formulation
class Disjunctive(PlacementProgram):
    """The tightened program.

    Columns: ``model.x`` (group of tied operators on device), ``model.z`` (both ends of a flow), ``model.y`` (a tensor
    goes from here to there), ``model.S`` and ``model.T`` (starts of operators and messages), ``model.first`` and
    ``model.first_sent`` (who is first), ``model.held`` (a shared parameter is on a device), ``model.C_max``.
    """

    name: ClassVar[str] = "disjunctive"
    supports: ClassVar[tuple[str, ...]] = ("order_arcs", "assignment", "disjunctive")

    def build(self, problem: Placement) -> ConcreteModel:
        """Write the model, families in the paper's order."""
        from pyomo.environ import ConcreteModel

        instance = instance_of(problem)
        check_closure(instance.operators, self.name, self.context.limits)
        model = ConcreteModel()
        written = self.prepare(problem, model, instance)
        least = len(instance.source) * (1 + len(instance.devices)) + len(written.messages)
        check_rows(least, self.name, self.context.limits)
        self._place_columns(written)
        self._link_columns(written)
        self._time_columns(written)
        self._objective(model, written)
        self._one_device(model, written)
        memory_rows(model, written)
        self._marginals(model, written)
        self._precedence(model, written)
        self._arrivals(model, written)
        closed = ancestors(instance.after)
        self._no_overlap(model, written, closed)
        self._ports(model, written, closed)
        self._cuts(model, written)
        self.add_constraints(model, problem)
        return model

    def _place_columns(self, written: PlacementModel) -> None:
        """x[i, k] for every group of tied operators and each device whose longest path fits the horizon."""
        windows, instance = written.windows, written.instance
        groups = int(instance.cluster.max(initial=-1)) + 1
        together = np.ones((groups, len(instance.devices)), dtype=bool)
        np.logical_and.at(together, instance.cluster, windows.fits)
        columns = np.full(together.shape, ABSENT, dtype=np.int64)
        columns[together] = written.binary("x", int(together.sum()))
        written.on = columns[instance.cluster]

    def _link_columns(self, written: PlacementModel) -> None:
        """z[u, v, q, k] for groups joined by a flow; y[t, q, k] where a tensor has several readers for one device."""
        instance, linked = written.instance, links(written.instance)
        held = Links()
        written.model.links = held
        wanted: list[tuple[tuple[int, int], BoolArray]] = []
        for u, v in zip(instance.source.tolist(), instance.target.tolist(), strict=True):
            key = (int(instance.cluster[u]), int(instance.cluster[v]))
            if key[0] != key[1] and key not in held.between:
                open_ = (written.on[u] != ABSENT)[:, None] & (written.on[v] != ABSENT)[None, :] & linked
                held.between[key] = np.full(open_.shape, ABSENT, dtype=np.int64)
                wanted.append((key, open_))
        count = sum(int(open_.sum()) for _, open_ in wanted)
        columns = written.real("z", np.zeros(count), np.ones(count))
        used = 0
        for key, open_ in wanted:
            size = int(open_.sum())
            held.between[key][open_] = columns[used : used + size]
            used += size
        self._route_columns(written, held)

    def _route_columns(self, written: PlacementModel, held: Links) -> None:
        """Columns of every message's routes: z itself where one flow alone decides."""
        several = [(m, way) for m in written.messages if len(m.flows) > 1 for way in m.routes]
        fresh = iter(written.real("y", np.zeros(len(several)), np.ones(len(several))).tolist())
        for message in written.messages:
            if len(message.flows) > 1:
                held.takes.append({way: next(fresh) for way in message.routes})
                continue
            link = link_of(written, message.flows[0])
            ways = {way: int(link[way.source, way.target]) for way in message.routes}
            held.takes.append({way: column for way, column in ways.items() if column != ABSENT})

    def _time_columns(self, written: PlacementModel) -> None:
        """S[i], T[m] and C_max, in units, within their windows."""
        windows, unit = written.windows, written.unit
        ready, latest = windows.earliest() / unit, windows.latest_start() / unit
        written.start = written.real("S", ready, np.maximum(ready, latest))
        ready, latest = windows.earliest_end() / unit, windows.latest_end() / unit
        low = [ready[message.producer] for message in written.messages]
        high = [
            max(windows.message_due(message) / unit, latest[message.producer], ready[message.producer])
            for message in written.messages
        ]
        written.sent = written.real("T", low, high)

    def _objective(self, model: ConcreteModel, written: PlacementModel) -> None:
        """(4) Minimise C_max, in units, between the best bound and the horizon."""
        windows = written.windows
        (column,) = written.real(
            "C_max", [self.floor(windows) / written.unit], [windows.horizon / written.unit]
        ).tolist()
        model.length = column
        model.objective = linear_objective({column: 1.0}, 0.0, written.variables)

    def _one_device(self, model: ConcreteModel, written: PlacementModel) -> None:
        """(4c) Sum over k of x[i, k] = 1."""
        rows, instance = Rows(), written.instance
        _, first = np.unique(instance.cluster, return_index=True)
        for v in first.tolist():
            rows.equal(written.weighted(v, np.ones(len(instance.devices))), 1.0)
        rows.add_to(model, "one_device", written.variables, self.check_time)

    def _marginals(self, model: ConcreteModel, written: PlacementModel) -> None:
        """(7) Sum over k of z[u, v, q, k] = x[u, q], sum over q = x[v, k]; y[t, q, k] >= z of each of its flows."""
        rows, instance, held = Rows(), written.instance, model.links
        place = {int(c): written.on[v] for v, c in enumerate(instance.cluster.tolist())}
        for (u, v), link in held.between.items():
            for matrix, on in ((link, place[u]), (link.T, place[v])):
                for k, column in enumerate(on.tolist()):
                    terms = {int(c): 1.0 for c in matrix[k] if c != ABSENT}
                    if column != ABSENT or terms:
                        rows.equal(add(terms, {} if column == ABSENT else {column: -1.0}), 0.0)
        for message, takes in zip(written.messages, held.takes, strict=True):
            if len(message.flows) == 1:
                continue
            for way, y in takes.items():
                rows.at_most(add({y: 1.0}, written.runs_on(message.producer, way.source), -1.0), 0.0)
                for flow in message.flows:
                    z = int(link_of(written, flow)[way.source, way.target])
                    if z != ABSENT:
                        rows.at_most({z: 1.0, y: -1.0}, 0.0)
        rows.add_to(model, "marginals", written.variables, self.check_time)

    def _precedence(self, model: ConcreteModel, written: PlacementModel) -> None:
        """(4a) S[v] >= C[u] + seconds of the flow between their devices, along every arc."""
        rows, instance = Rows(), written.instance
        transfer = flow_seconds(instance, longest=written.windows.hopeless) / written.unit
        carried = {(int(u), int(v)) for u, v in zip(instance.source, instance.target, strict=True)}
        for v, u in zip(instance.before.heads().tolist(), instance.before.items.tolist(), strict=True):
            if (u, v) not in carried:
                rows.at_most(add({int(written.start[u]): 1.0, int(written.start[v]): -1.0}, written.length(u)), 0.0)
        for flow, (u, v) in enumerate(zip(instance.source.tolist(), instance.target.tolist(), strict=True)):
            terms = add({int(written.start[u]): 1.0, int(written.start[v]): -1.0}, written.length(u))
            if instance.cluster[u] != instance.cluster[v]:
                link = link_of(written, flow)
                for q, k in np.argwhere((link != ABSENT) & (transfer[flow] > NEGLIGIBLE)).tolist():
                    terms = add(terms, {int(link[q, k]): float(transfer[flow, q, k])})
            rows.at_most(terms, 0.0)
        rows.add_to(model, "precedence", written.variables, self.check_time)

    def _arrivals(self, model: ConcreteModel, written: PlacementModel) -> None:
        """(4a) T[m] >= C[u], and S[v] >= T[m] + its seconds for each reader v that needs m."""
        rows, windows = Rows(), written.windows
        ready = windows.earliest() / written.unit
        jobs = self.message_jobs(written)
        for message, job in zip(written.messages, jobs, strict=True):
            u = message.producer
            rows.at_most(add({int(written.start[u]): 1.0, job.start: -1.0}, written.length(u)), 0.0)
            for v in message.readers:
                terms = add({job.start: 1.0, int(written.start[v]): -1.0}, job.length)
                big = job.latest - float(ready[v])
                if message.target < 0:
                    rows.at_most(terms, 0.0)
                elif written.on[v, message.target] != ABSENT and big > NEGLIGIBLE:
                    rows.at_most(add(terms, {int(written.on[v, message.target]): big}), big)
        rows.add_to(model, "arrivals", written.variables, self.check_time)

    def _no_overlap(self, model: ConcreteModel, written: PlacementModel, closed: BoolArray) -> None:
        """(6) No two operators at a time on a device."""
        jobs = self.operator_jobs(written)
        pairs = meeting(jobs, closed, self.name, self.context.limits)
        model.pairs = order_columns(written, "first", jobs, pairs)
        apart_rows(jobs, model.pairs).add_to(model, "no_overlap", written.variables, self.check_time)

    def _ports(self, model: ConcreteModel, written: PlacementModel, closed: BoolArray) -> None:
        """(8) No two messages at a time out of a device, or into one."""
        jobs = self.message_jobs(written)
        reached = closed | np.eye(len(closed), dtype=bool)
        implied = np.zeros((len(jobs), len(jobs)), dtype=bool)
        producers = [message.producer for message in written.messages]
        for number, message in enumerate(written.messages):
            implied[:, number] = reached[np.ix_(producers, message.readers)].all(axis=1)
        pairs = meeting(jobs, implied, self.name, self.context.limits)
        model.sent_pairs = order_columns(written, "first_sent", jobs, pairs)
        apart_rows(jobs, model.sent_pairs).add_to(model, "ports", written.variables, self.check_time)

    def _cuts(self, model: ConcreteModel, written: PlacementModel) -> None:
        """Rows that the others imply, but their relaxation does not."""
        length = int(model.length)
        for name, rows in (
            ("heads", head_rows(written)),
            ("tails", tail_rows(written, length)),
            ("work", work_rows(written, length)),
            ("traffic", port_rows(written, self.message_jobs(written), length)),
        ):
            rows.add_to(model, name, written.variables, self.check_time)

    def operator_jobs(self, written: PlacementModel) -> list[Job]:
        """Operators on devices."""
        windows, unit = written.windows, written.unit
        ready, due = windows.earliest() / unit, windows.latest_end() / unit
        shortest = written.instance.seconds.min(axis=1, initial=np.inf) / unit
        return [
            Job(
                start=int(written.start[v]),
                length=written.length(v),
                uses={k: {int(c): 1.0} for k, c in enumerate(written.on[v].tolist()) if c != ABSENT},
                ready=float(ready[v]),
                due=float(due[v]),
                shortest=float(shortest[v]),
                latest=float(due[v]),
            )
            for v in range(written.instance.operators)
        ]

    def message_jobs(self, written: PlacementModel) -> list[Job]:
        """Messages at ports: device k sends as port 2 k and receives as port 2 k + 1."""
        windows, unit, jobs = written.windows, written.unit, []
        ended = windows.latest_end() / unit
        for number, message in enumerate(written.messages):
            takes: dict[Route, int] = written.model.links.takes[number]
            uses: dict[int, Terms] = {}
            for way, column in takes.items():
                for port in (2 * way.source, 2 * way.target + 1):
                    uses.setdefault(port, {})[column] = 1.0
            due = windows.message_due(message) / unit
            jobs.append(
                Job(
                    start=int(written.sent[number]),
                    length={c: way.seconds / unit for way, c in takes.items() if way.seconds > NEGLIGIBLE * unit},
                    uses=uses,
                    ready=windows.message_ready(message) / unit,
                    due=due,
                    shortest=min((way.seconds for way in takes), default=0.0) / unit,
                    latest=max(due, float(ended[message.producer])),
                )
            )
        return jobs

    def start(self, model: ConcreteModel, solution: Schedule) -> None:
        """Set every column."""
        written: PlacementModel = model.placement
        instance, unit = written.instance, written.unit
        table = timetable(instance, written.messages, solution)
        self.start_devices(model, table)
        representative = dict(zip(instance.cluster.tolist(), table.device, strict=True))
        for (u, v), link in model.links.between.items():
            both = np.zeros(link.shape)
            both[representative[u], representative[v]] = 1.0
            written.set(link.ravel(), both.ravel())
        for way, takes in zip(table.ways, model.links.takes, strict=True):
            for route, column in takes.items():
                written.set(column, float(route == way))
        written.set(written.start, table.start / unit)
        written.set(written.sent, table.sent / unit)
        written.set(int(model.length), max(float(table.end.max(initial=0.0)) / unit, model.C_max[0].lb))
        occupied = [{k} for k in table.device]
        _set_orders(written, model.pairs, occupied, table.operator_middles())
        _set_orders(written, model.sent_pairs, table.ports(), table.message_middles())


def link_of(written: PlacementModel, flow: int) -> IntArray:
    """The columns z of a flow. Shape (devices, devices)."""
    instance = written.instance
    ends = instance.cluster[instance.source[flow]], instance.cluster[instance.target[flow]]
    columns: IntArray = written.model.links.between[int(ends[0]), int(ends[1])]
    return columns


def _set_orders(written: PlacementModel, pairs: Pairs, occupied: list[set[int]], middle: list[float]) -> None:
    forward, backward = chosen_orders(pairs, occupied, middle)
    written.set(pairs.forward, forward)
    written.set(pairs.backward, backward)


understand(Disjunctive.name)
