"""Placement as a mixed-integer program, tightened: the paper's (4)-(8) with constants from the data.

Source: Zhang et al., "Moirai: Towards Optimal Placement for Distributed Inference on Heterogeneous Devices", equations
(4)-(8); their literal form is in :mod:`.moirai`. There are four differences. Devices are linked by the marginals of
every flow instead of products. The columns for "which comes first" are linked to devices without a big M, and to times
with one big M per pair. Pairs whose windows cannot meet have no rows. Rows on work and traffic in windows cut the
relaxation.

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

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from opweave.formulations.formulation import register_formulation
from opweave.formulations.modeling.linear import Linear, total
from opweave.formulations.modeling.model import Key, LinearModel
from opweave.formulations.order_arcs import ancestors
from opweave.formulations.placement.instance import lower_unless_short
from opweave.formulations.placement.jobs import (
    Job,
    Pairs,
    apart_rows,
    meeting,
    order_columns,
    port_rows,
    set_orders,
    users,
    work_rows,
)
from opweave.formulations.placement.messages import Timetable, flow_seconds, links, messages_of
from opweave.formulations.placement.model import ABSENT, NEGLIGIBLE, UNITS, ColumnProgram, PlacementModel
from opweave.problems.arrays import BoolArray, FloatArray, IntArray
from opweave.problems.placement.spec import Placement


@dataclass(eq=False)
class DisjunctiveModel(PlacementModel):
    """The program.

    Attributes
    ----------
    between
        Columns of "u runs on q and v on k", one matrix for each two groups of operators that are joined by a flow.
    pairs, sent_pairs
        Which comes first, for operators and for messages.
    """

    between: dict[tuple[int, int], IntArray] = field(init=False, default_factory=dict)
    pairs: Pairs = field(init=False)
    sent_pairs: Pairs = field(init=False)

    def link(self, flow: int) -> IntArray:
        """The columns z of a flow. Shape (devices, devices)."""
        cluster = self.instance.cluster[[self.instance.source[flow], self.instance.target[flow]]]
        return self.between[int(cluster[0]), int(cluster[1])]

    def linked(self, flow: int, weights: FloatArray) -> Linear:
        """The entry of ``weights`` for the devices at the two ends of a flow, in units. Shape (devices, devices)."""
        link = self.link(flow)
        counts = (link != ABSENT) & (weights > NEGLIGIBLE)
        return Linear(0, dict(zip(link[counts].tolist(), weights[counts].tolist(), strict=True)))

    def operator_jobs(self) -> list[Job]:
        """Operators on devices."""
        windows, unit = self.windows, self.tick
        ready, due = windows.earliest() / unit, windows.latest_end() / unit
        shortest = self.instance.seconds.min(axis=1, initial=np.inf) / unit
        return [
            Job(
                start=int(self.starts_at[v]),
                length=self.lasts(v),
                uses={k: self.runs_on(v, k) for k in self.devices_of(v)},
                ready=float(ready[v]),
                due=float(due[v]),
                shortest=float(shortest[v]),
                latest=float(due[v]),
            )
            for v in range(self.instance.operators)
        ]

    def message_jobs(self) -> list[Job]:
        """Messages at ports: device k sends through port 2 k and receives through port 2 k + 1."""
        windows, unit, jobs = self.windows, self.tick, []
        ended = windows.latest_end() / unit
        for message, at, takes in zip(self.messages, self.sent_at.tolist(), self.takes, strict=True):
            uses: dict[int, list[int]] = {}
            for way, column in takes.items():
                for port in (2 * way.source, 2 * way.target + 1):
                    uses.setdefault(port, []).append(column)
            due = windows.message_due(message) / unit
            lasts = {c: way.seconds / unit for way, c in takes.items() if way.seconds > NEGLIGIBLE * unit}
            jobs.append(
                Job(
                    start=at,
                    length=Linear(0, lasts),
                    uses={port: Linear.over(columns) for port, columns in uses.items()},
                    ready=windows.message_ready(message) / unit,
                    due=due,
                    shortest=min((way.seconds for way in takes), default=0.0) / unit,
                    latest=max(due, float(ended[message.producer])),
                )
            )
        return jobs


@register_formulation
class Disjunctive(ColumnProgram):
    """The paper's program with constants from the data, and rows that tighten its relaxation.

    Columns: ``x`` (group of tied operators on device), ``z`` (both ends of a flow), ``y`` (a tensor goes from one
    device to another), ``S`` and ``T`` (starts of operators and messages), ``first`` and ``first_sent`` (which comes
    first), ``stored`` (a shared parameter is on a device), ``C_max``.
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
        messages = messages_of(instance, problem.transfers, longest=windows.hopeless)
        model = DisjunctiveModel(instance, problem.transfers, messages, windows)
        model.problem, model.check_time = problem, self.check_time
        model.tick = self._unit = windows.horizon / UNITS if windows.horizon > 0 else 1.0
        self.check_size(len(instance.source) * (1 + len(instance.devices)) + len(messages))
        model.add_places(model.together(windows.fits))
        closed = ancestors(instance.after)
        meet = self._meeting_operators(model, closed)  # before rows are written, in case there are too many
        self.check_time()
        self._link_columns(model)
        self._route_columns(model)
        model.add_times(self.lower_bound(windows))
        model.minimise(Linear.of(model.length), model.tick)
        model.one_device()
        model.memory()
        self._marginals(model)
        self._precedence(model)
        self._arrivals(model)
        self._no_overlap(model, meet)
        self._ports(model, closed)
        self._cuts(model)
        self.add_constraints(model, problem)
        return model

    def compared(self, problem: Placement) -> int:
        """All operators."""
        return len(problem.graph.operators)

    def _link_columns(self, model: DisjunctiveModel) -> None:
        """z[u, v, q, k] for groups that are joined by a flow."""
        instance, linked = model.instance, links(model.instance)
        names, devices = instance.names, instance.devices
        keys: list[Key] = []
        first = len(model)
        for u, v in zip(instance.source.tolist(), instance.target.tolist(), strict=True):
            key = (int(instance.cluster[u]), int(instance.cluster[v]))
            if key[0] != key[1] and key not in model.between:
                open_ = (model.place[u] != ABSENT)[:, None] & (model.place[v] != ABSENT)[None, :] & linked
                columns = model.between[key] = np.full(open_.shape, ABSENT, dtype=np.int64)
                columns[open_] = first + len(keys) + np.arange(int(open_.sum()))
                keys += [(names[u], names[v], devices[q], devices[k]) for q, k in np.argwhere(open_).tolist()]
        model.reals("z", keys, high=1.0)

    def _route_columns(self, model: DisjunctiveModel) -> None:
        """y[t, q, k] if a tensor has several readers for one device; z itself if one flow alone decides."""
        tensors, devices = model.instance.tensors, model.instance.devices
        several = [(m.tensor, way) for m in model.messages if len(m.flows) > 1 for way in m.routes]
        keys: list[Key] = [(tensors[t], devices[way.source], devices[way.target]) for t, way in several]
        fresh = iter(model.reals("y", keys, high=1.0).tolist())
        for message in model.messages:
            if len(message.flows) > 1:
                model.takes.append({way: next(fresh) for way in message.routes})
                continue
            link = model.link(message.flows[0])
            ways = {way: int(link[way.source, way.target]) for way in message.routes}
            model.takes.append({way: column for way, column in ways.items() if column != ABSENT})

    def _marginals(self, model: DisjunctiveModel) -> None:
        """(7) Sum over k of z[u, v, q, k] = x[u, q], sum over q = x[v, k]; y[t, q, k] >= z of each of its flows."""
        rows, place = model.rows("marginals"), dict(zip(model.instance.cluster.tolist(), model.place, strict=True))
        for (u, v), link in model.between.items():
            for matrix, on in ((link, place[u]), (link.T, place[v])):
                for ends, column in zip(matrix, on.tolist(), strict=True):
                    runs = Linear() if column == ABSENT else Linear.of(column)
                    rows.add(Linear.over(ends[ends != ABSENT].tolist()) == runs)
        for message, takes in zip(model.messages, model.takes, strict=True):
            if len(message.flows) == 1:
                continue
            for way, y in takes.items():
                rows.add(Linear.of(y) <= model.runs_on(message.producer, way.source))
                for flow in message.flows:
                    z = int(model.link(flow)[way.source, way.target])
                    if z != ABSENT:
                        rows.add(Linear.of(z) <= Linear.of(y))

    def _precedence(self, model: DisjunctiveModel) -> None:
        """(4a) S[v] >= C[u] + seconds of the flow between their devices, along every arc."""
        rows, instance = model.rows("precedence"), model.instance
        transfer = flow_seconds(instance, longest=model.windows.hopeless) / model.tick
        carried = {(int(u), int(v)) for u, v in zip(instance.source, instance.target, strict=True)}
        for v, u in zip(instance.before.heads().tolist(), instance.before.items.tolist(), strict=True):
            if (u, v) not in carried:
                rows.add(model.at(u) + model.lasts(u) <= model.at(v))
        for flow, (u, v) in enumerate(zip(instance.source.tolist(), instance.target.tolist(), strict=True)):
            apart = instance.cluster[u] != instance.cluster[v]
            travels = model.linked(flow, transfer[flow]) if apart else Linear()
            rows.add(total((model.at(u), model.lasts(u), travels)) <= model.at(v))

    def _arrivals(self, model: DisjunctiveModel) -> None:
        """(4a) T[m] >= C[u], and S[v] >= T[m] + the seconds of m for each reader v that needs m."""
        rows, ready = model.rows("arrivals"), model.windows.earliest() / model.tick
        for message, job in zip(model.messages, model.message_jobs(), strict=True):
            u, sent = message.producer, Linear.of(job.start)
            rows.add(model.at(u) + model.lasts(u) <= sent)
            for v in message.readers:
                big = job.latest - float(ready[v])
                if message.target < 0:
                    rows.add(sent + job.length <= model.at(v))
                elif model.place[v, message.target] != ABSENT and big > NEGLIGIBLE:
                    needed = model.runs_on(v, message.target)
                    rows.add(total((sent, job.length, needed * big)) <= model.at(v) + big)

    def _meeting_operators(self, model: DisjunctiveModel, closed: BoolArray) -> tuple[IntArray, IntArray]:
        """Pairs of operators that may run at the same time on a device."""
        windows = (model.windows.earliest() / model.tick, model.windows.latest_end() / model.tick)
        return meeting(model.place != ABSENT, windows, closed, self.name, self.context.limits)

    def _no_overlap(self, model: DisjunctiveModel, pairs: tuple[IntArray, IntArray]) -> None:
        """(6) No two operators run at the same time on a device."""
        jobs = model.operator_jobs()
        names = [(name,) for name in model.instance.names]
        model.pairs = order_columns(model, "first", names, jobs, pairs)
        apart_rows(model.rows("no_overlap"), jobs, model.pairs)

    def _ports(self, model: DisjunctiveModel, closed: BoolArray) -> None:
        """(8) No two messages leave a device at the same time, and no two enter it at the same time."""
        jobs = model.message_jobs()
        reached = closed | np.eye(len(closed), dtype=bool)
        implied = np.zeros((len(jobs), len(jobs)), dtype=bool)
        producers = [message.producer for message in model.messages]
        for number, message in enumerate(model.messages):
            implied[:, number] = reached[np.ix_(producers, message.readers)].all(axis=1)
        windows = (np.asarray([job.ready for job in jobs]), np.asarray([job.due for job in jobs]))
        pairs = meeting(users(jobs), windows, implied, self.name, self.context.limits)
        model.sent_pairs = order_columns(model, "first_sent", model.message_keys(), jobs, pairs)
        apart_rows(model.rows("ports"), jobs, model.sent_pairs)

    def _cuts(self, model: DisjunctiveModel) -> None:
        """Rows that follow from the others, but not from their relaxation."""
        model.heads_and_tails()
        families = {
            "work": work_rows(model),
            "traffic": port_rows(model, model.message_jobs()),
        }
        for name, rows in families.items():
            for row in rows:
                model.rows(name).add(row)

    def complete(self, model: DisjunctiveModel, table: Timetable, values: FloatArray) -> None:
        """Set the columns of both ends of flows, and of which comes first."""
        representative = dict(zip(model.instance.cluster.tolist(), table.device, strict=True))
        for (u, v), link in model.between.items():
            values[link[link != ABSENT]] = 0.0
            if link[representative[u], representative[v]] != ABSENT:
                values[link[representative[u], representative[v]]] = 1.0
        set_orders(values, model.pairs, [{k} for k in table.device], table.operator_middles())
        set_orders(values, model.sent_pairs, table.ports(), table.message_middles())
