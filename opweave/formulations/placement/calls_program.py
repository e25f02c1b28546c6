"""Placement with blocking calls as a mixed-integer program.

Source: Tarnawski et al., "Efficient Algorithms for Device Placement of DNN Graph Operators" (NeurIPS 2020), the integer
program for latency, with tensors that several operators read, any number of calls, and rows that tighten it.

For rows of your own, ``model.on(op, device)``, ``model.uses(device)`` and ``model.held(device)``.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from opweave.formulations.formulation import TimedFormulation, register_formulation
from opweave.formulations.modeling.linear import Linear, total
from opweave.formulations.modeling.model import LinearModel
from opweave.formulations.placement.calls import CallInstance, calls_of, lower_calls, schedule_of_calls
from opweave.formulations.placement.instance import TAKEN_IN
from opweave.formulations.placement.model import NEGLIGIBLE
from opweave.formulations.placement.shortage import shortage
from opweave.formulations.shortage import rules_in_the_way
from opweave.problems.arrays import NO_LIMIT, FloatArray, IntArray
from opweave.problems.constraints import Constraint, MaxDevices, Separate
from opweave.problems.placement.spec import Placement, Schedule

UNITS, SLACK = 1000.0, 1e-6
"""The horizon in the model's units of time, and the relative tolerance above a known makespan."""

ABSENT = -1


@dataclass(eq=False)
class CallModel(LinearModel):
    """The program and its columns.

    Attributes
    ----------
    place
        Column of "operator v is in call c", or ABSENT; the last entry is the host. Shape (operators, calls + 1).
    stored
        Expression of "device holds parameter p", by position of the device in the cluster.
    """

    instance: CallInstance
    place: IntArray = field(init=False)
    stored: dict[tuple[int, int], Linear] = field(init=False, default_factory=dict)

    def at(self, v: int, c: int) -> Linear:
        """1 if operator v is in call c (-1: on the host)."""
        column = int(self.place[v, c])
        return Linear() if column == ABSENT else Linear.of(column)

    def calls_of(self, device: int) -> list[int]:
        """Calls of a device, by its position in the cluster; -1 for the host."""
        if device == self.instance.host:
            return [-1]
        k = int(np.flatnonzero(self.instance.accelerators == device)[0])
        return list(range(k * self.instance.most, (k + 1) * self.instance.most))

    def runs_on(self, v: int, device: int) -> Linear:
        """1 if operator v runs on a device."""
        return total(self.at(v, c) for c in self.calls_of(device))

    def on(self, op: str, device: str) -> Linear:
        """1 if operator ``op`` runs on ``device``, otherwise 0."""
        whole = self.instance.whole
        return self.runs_on(whole.names.index(op), whole.devices.index(device))

    def uses(self, device: str) -> Linear:
        """1 if anything runs on ``device``, otherwise 0."""
        k = self.instance.whole.devices.index(device)
        parts = [self.runs_on(v, k) for v in range(self.instance.operators)]
        return Linear.of(self.any_column("used", device, parts))

    def held(self, device: str) -> Linear:
        """Bytes that ``device`` holds."""
        return self.bytes_on(self.instance.whole.devices.index(device))

    def bytes_on(self, device: int) -> Linear:
        """Bytes that a device holds."""
        whole = self.instance.whole
        held = total(self.runs_on(v, device) * float(whole.memory[v]) for v in range(self.instance.operators))
        for p, users in enumerate(whole.readers()):
            parts = [self.runs_on(v, device) for v in users.tolist()]
            if parts and whole.parameter_bytes[p] and (p, device) not in self.stored:
                column = self.any_column("stored", (f"parameter {p}", whole.devices[device]), parts, whole=False)
                self.stored[p, device] = Linear.of(column)
            if (p, device) in self.stored:
                held = held + self.stored[p, device] * float(whole.parameter_bytes[p])
        return held


@register_formulation
class Calls(TimedFormulation[Placement, Schedule]):
    """Operators in calls; calls as long as what they bring in, run and return."""

    name: ClassVar[str] = "calls"
    problem_type: ClassVar[type[Placement]] = Placement
    model_type: ClassVar[type[LinearModel]] = CallModel
    supports: ClassVar[tuple[str, ...]] = ("assignment",)
    built_in: ClassVar[tuple[type[Constraint], ...]] = (*TAKEN_IN, Separate, MaxDevices)
    reading: ClassVar[str | None] = "transfers='blocking'"
    requires: ClassVar[str] = "transfers='blocking'"
    source: ClassVar[str] = "Tarnawski et al. 2020, latency, doi:10.48550/arXiv.2006.16423"

    def build(self, problem: Placement) -> CallModel:
        """Write the model."""
        instance = lower_calls(problem)
        horizon = self._horizon(instance)
        instance = _no_longer_than(instance, horizon)
        calls = instance.most * len(instance.accelerators)
        edges = len(instance.readers.items) + instance.operators
        self.check_size((calls + 1) * edges * 6)
        model = CallModel(instance)
        model.check_time = self.check_time
        self._unit = horizon / UNITS if horizon > 0.0 else 1.0
        model.tick = self._unit
        self._places(model)
        loads = self._carried(model)
        self._contiguous(model)
        end = self._times(model, loads, horizon)
        self._cores(model, end, horizon / self._unit)
        self._memory(model)
        self.add_constraints(model, problem)
        return model

    def _horizon(self, instance: CallInstance) -> float:
        """Seconds that no plan worth finding exceeds."""
        ceiling = self.context.ceiling
        if ceiling is not None and not self.context.extended:
            return float(ceiling) * (1.0 + SLACK)
        known = np.where(np.isfinite(instance.whole.seconds), instance.whole.seconds, 0.0)
        readers = np.diff(instance.readers.start)
        carried = [np.where(np.isfinite(each), each, 0.0).max(axis=1, initial=0.0) for each in self._ways(instance)]
        return float(known.max(axis=1).sum() + (carried[0] * readers + carried[1]).sum()) + self.context.waits

    @staticmethod
    def _ways(instance: CallInstance) -> tuple[FloatArray, FloatArray]:
        return instance.bring, instance.give

    def _units(self, seconds: float) -> float:
        """Seconds in units of the model; what engines would drop counts as nothing, which only relaxes the model."""
        units = float(seconds) / self._unit
        return units if units > NEGLIGIBLE else 0.0

    def _places(self, model: CallModel) -> None:
        """Every operator is in one call or on the host; tied operators share a device."""
        instance = model.instance
        whole, calls = instance.whole, instance.most * len(instance.accelerators)
        able = np.ones((instance.operators, calls + 1), dtype=bool)
        able[:, :calls] = np.repeat(np.isfinite(instance.seconds), instance.most, axis=1)
        able[:, calls] = np.isfinite(instance.host_seconds)
        names = [f"{whole.devices[k]} {n + 1}" for k in instance.accelerators for n in range(instance.most)]
        names.append(whole.devices[instance.host])
        model.place = np.full(able.shape, ABSENT, dtype=np.int64)
        model.place[able] = model.binaries("x", [(whole.names[v], names[c]) for v, c in np.argwhere(able).tolist()])
        first: dict[int, int] = {}
        for v in range(instance.operators):
            model.rows("one_place").add(total(model.at(v, c) for c in range(calls + 1)) == 1)
            leader = first.setdefault(int(whole.cluster[v]), v)
            if leader != v:
                for k in range(len(whole.devices)):
                    model.rows("tied").add(model.runs_on(v, k) - model.runs_on(leader, k) == 0)

    def _carried(self, model: CallModel) -> list[Linear]:
        """What every call brings in, runs and returns, in units; a tensor that no link carries stays."""
        instance = model.instance
        calls = instance.most * len(instance.accelerators)
        loads = [Linear() for _ in range(calls)]
        for c in range(calls):
            k, bring, give = c // instance.most, {}, {}
            for v in np.flatnonzero(np.isfinite(instance.seconds[:, k])).tolist():
                loads[c] = loads[c] + model.at(v, c) * self._units(instance.seconds[v, k])
            for t, maker in enumerate(instance.producer.tolist()):
                linked = np.isfinite([instance.bring[t, k], instance.give[t, k]])
                bring[t], give[t] = model.reals("moved", [("in", t, c), ("out", t, c)], 0.0, linked).tolist()
                made = model.at(maker, c)
                for v in instance.readers[t].tolist():
                    model.rows("brought").add(model.at(v, c) - made <= Linear.of(bring[t]))
                    model.rows("given").add(made - model.at(v, c) <= Linear.of(give[t]))
                if linked[0]:
                    loads[c] = loads[c] + Linear.of(bring[t]) * self._units(instance.bring[t, k])
                if linked[1]:
                    loads[c] = loads[c] + Linear.of(give[t]) * self._units(instance.give[t, k])
            self.check_time()
        return loads

    def _contiguous(self, model: CallModel) -> None:
        """No data leave a call and come back: z falls along the edges and is 1 in the call."""
        instance = model.instance
        sources, targets = self._edges(instance)
        for c in range(instance.most * len(instance.accelerators)):
            z = model.reals("reaches", [(v, c) for v in range(instance.operators)], 0.0, 1.0).tolist()
            for v in range(instance.operators):
                model.rows("reached").add(model.at(v, c) <= Linear.of(z[v]))
            for u, v in zip(sources, targets, strict=True):
                model.rows("falls").add(Linear.of(z[v]) <= Linear.of(z[u]))
                model.rows("left").add(Linear.of(z[v]) + model.at(u, c) - model.at(v, c) <= 1)
            self.check_time()

    @staticmethod
    def _edges(instance: CallInstance) -> tuple[list[int], list[int]]:
        return instance.whole.before.items.tolist(), instance.whole.before.heads().tolist()

    def _times(self, model: CallModel, loads: list[Linear], horizon: float) -> list[Linear]:
        """Ends of operators and begins of calls; the makespan is the last end. Returns the ends."""
        instance, unit = model.instance, self._unit
        big, most = horizon / unit, instance.most
        least = min(big, float(self.context.lower_bound or 0.0) / unit)
        end = [Linear.of(int(e)) for e in model.reals("E", instance.whole.names, 0.0, big)]
        begin = [Linear.of(int(s)) for s in model.reals("S", range(len(loads)), 0.0, big)]
        last = Linear.of(model.real("C_max", least, max(big, least)))
        model.timed.update(range(min(end[0].terms, default=0) if end else 0, len(model)))
        own = [self._units(each) if np.isfinite(each) else 0.0 for each in instance.host_seconds.tolist()]
        for v in range(instance.operators):
            model.rows("last").add(end[v] <= last)
            model.rows("on_host").add(model.at(v, -1) * own[v] <= end[v])
            for c, load in enumerate(loads):
                if model.place[v, c] != ABSENT:
                    row = begin[c] + load - end[v] + model.at(v, c) * big <= big
                    model.rows("in_call").add(row)
        for t, maker in enumerate(instance.producer.tolist()):
            for v in instance.readers[t].tolist():
                step = model.at(v, -1) * own[v]
                for c in range(len(loads)):
                    k = c // most
                    if model.place[v, c] == ABSENT or not np.isfinite(instance.bring[t, k]):
                        continue
                    enters = model.at(v, c) - model.at(maker, c)
                    step = step + enters * self._units(instance.seconds[v, k] + instance.bring[t, k])
                    model.rows("waits").add(end[maker] - begin[c] + enters * big <= big)
                model.rows("after").add(end[maker] + step <= end[v])
                model.rows("follows").add(end[maker] + model.at(v, -1) * own[v] <= end[v])
            self.check_time()
        for c, load in enumerate(loads):
            if c % most:
                model.rows("in_turn").add(begin[c - 1] + loads[c - 1] <= begin[c])
            model.rows("within").add(begin[c] + load <= last)
        model.minimise(last, unit)
        return end

    def _cores(self, model: CallModel, end: list[Linear], big: float) -> None:
        """Every operator on the host has a core; of two on a core, one ends before the other starts."""
        instance = model.instance
        able = [v for v in range(instance.operators) if model.place[v, -1] != ABSENT]
        if len(able) <= instance.cores:
            return
        cores = {v: model.binaries("core", [(v, c) for c in range(instance.cores)]).tolist() for v in able}
        own = {v: self._units(instance.host_seconds[v]) for v in able}
        for v in able:
            model.rows("a_core").add(Linear.over(cores[v]) - model.at(v, -1) == 0)
        apart = [each for each in itertools.combinations(able, 2) if not instance.in_turn(*each)]
        firsts = model.binaries("first", apart).tolist()
        for (u, v), column in zip(apart, firsts, strict=True):
            first = Linear.of(column)
            for one, other in zip(cores[u], cores[v], strict=True):
                both, most = Linear.of(one) + Linear.of(other), big + own[u] + own[v]
                ends, back = end[u] + own[v] - end[v], end[v] + own[u] - end[u]
                model.rows("in_core").add(ends + (both + first) * most <= 3 * most)
                model.rows("in_core").add(back + (both - first) * most <= 2 * most)
            self.check_time()

    def _memory(self, model: CallModel) -> None:
        """No device holds more than it can."""
        whole = model.instance.whole
        for k, capacity in enumerate(whole.capacity.tolist()):
            if capacity != NO_LIMIT:
                held = model.bytes_on(k)
                if held.terms:
                    model.within("memory", held, capacity)

    def extract(self, model: CallModel, values: FloatArray) -> Schedule:
        """The calls of the values, with exact times."""
        shown = np.where(model.place == ABSENT, -1.0, values[model.place])
        call = shown.argmax(axis=1)
        calls = model.place.shape[1] - 1
        whole, known = model.instance.whole, np.zeros(len(call))
        for v, name in enumerate(whole.names):
            own = float(model.instance.host_seconds[v]) / self._unit
            known[v] = values[model.column("E", name)] - (own if call[v] == calls else 0.0)
        return schedule_of_calls(model.instance, np.where(call == calls, -1, call), known)

    def start(self, model: CallModel, solution: Schedule) -> FloatArray:
        """Values of the columns of places."""
        known = dict[int, float]()
        for v, c in enumerate(calls_of(model.instance, solution).tolist()):
            known |= {column: 0.0 for column in model.place[v].tolist() if column != ABSENT}
            known[int(model.place[v, c])] = 1.0
        return model.filled(known)

    def why_infeasible(self, problem: Placement) -> str:
        """Say why there is no schedule if that is easy to see; otherwise name the rules that may exclude all."""
        reason = shortage(problem)
        return reason or f"no schedule respects {rules_in_the_way(problem, rows_added=self.context.extended)}"


def _no_longer_than(instance: CallInstance, horizon: float) -> CallInstance:
    """The instance without places and ways that take longer than any plan worth finding."""

    def short(seconds: FloatArray) -> FloatArray:
        return np.where(seconds <= horizon, seconds, np.inf)

    whole = replace(instance.whole, seconds=short(instance.whole.seconds))
    return replace(instance, whole=whole, bring=short(instance.bring), give=short(instance.give))
