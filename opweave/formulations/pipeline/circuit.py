"""Pipeline as a circuit through the devices, for constraint-programming engines.

Node 0 stands for both ends of the pipeline, and the other nodes for devices; an unused device has a loop. 0/1 columns
say where each device's stage begins and ends. An arc from one device to the next makes the second stage begin where the
first one ends.

Time is counted in ticks. Terms of sums are rounded down, so the optimum in ticks times the tick never exceeds the
optimum in seconds.

Rows of your own, through ``solve(..., extend=f)`` or a constraint class, use ``model.on(op, device)`` (0/1),
``model.stage(op)`` and ``model.stages()``, which can be added and compared like numbers.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from opweave.formulations.formulation import register_formulation
from opweave.formulations.modeling.intervals import IntervalModel
from opweave.formulations.modeling.linear import Linear
from opweave.formulations.modeling.model import LinearModel
from opweave.formulations.modeling.whole import Arc
from opweave.formulations.pipeline.flow import StageFormulation
from opweave.formulations.pipeline.instance import PipelineInstance
from opweave.problems.arrays import FloatArray
from opweave.problems.pipeline.spec import Pipeline, Stages

TICKS = 2**28
"""Ticks of the best known solution or, without one, of the largest sum of times. With 2**36, CP-SAT 9.15 called a
solution optimal that was not; with 2**30 and less it did not in hundreds of runs."""


@dataclass(eq=False)
class CircuitModel(IntervalModel):
    """The model, and the data from which it was written.

    Attributes
    ----------
    slowest
        Column of the objective, in ticks.
    begins_at, ends_at
        Column of "the stage of device v begins (ends) at point b".
    arcs
        Column of every arc; node v + 1 is device v.
    sent
        Column of the ticks that each device spends sending, if they are summed.
    received
        Column of the ticks that each device spends receiving, if a stage pays for them.
    """

    instance: PipelineInstance
    slowest: int = -1
    begins_at: dict[tuple[int, int], int] = field(default_factory=dict)
    ends_at: dict[tuple[int, int], int] = field(default_factory=dict)
    arcs: dict[tuple[int, int], int] = field(default_factory=dict)
    sent: dict[int, int] = field(default_factory=dict)
    received: dict[int, int] = field(default_factory=dict)

    more_words: ClassVar[tuple[str, ...]] = ("stages",)

    def ticks(self, seconds: float) -> int:
        """Whole ticks in a duration, rounded down. Durations too long for any useful solution count as one value."""
        return min(math.floor(seconds / self.tick), 2 * TICKS)

    def on(self, op: str, device: str) -> Linear:
        """1 if operator ``op`` runs on ``device``, otherwise 0: the stage has begun by then and not ended."""
        place, position = self.instance.names.index(op), self.instance.position
        if device not in self.instance.devices:
            return Linear()
        v = self.instance.devices.index(device)
        begun = (column for (u, a), column in self.begins_at.items() if u == v and position[a] <= place)
        ended = (column for (u, b), column in self.ends_at.items() if u == v and position[b] <= place)
        return Linear.over(begun) - Linear.over(ended)

    def uses(self, device: str) -> Linear:
        """1 if ``device`` has a stage, otherwise 0."""
        return Linear.over(column for (v, _), column in self.begins_at.items() if self.instance.devices[v] == device)

    def stage(self, op: str) -> Linear:
        """The stage of operator ``op``, counted from 0: the stages that have begun by then, less one."""
        place, position = self.instance.names.index(op), self.instance.position
        return Linear.over(column for (_, a), column in self.begins_at.items() if position[a] <= place) - 1

    def stages(self) -> Linear:
        """The number of stages."""
        return Linear.over(self.begins_at.values())


@register_formulation
class Circuit(StageFormulation):
    """A pipeline as a circuit."""

    name: ClassVar[str] = "circuit"
    model_type: ClassVar[type[LinearModel]] = CircuitModel
    supports: ClassVar[tuple[str, ...]] = ("stages", "circuit")
    _devices: int = 0

    def build(self, problem: Pipeline) -> CircuitModel:
        """Write the model."""
        instance = self.lowered(problem)
        devices, points = instance.reach.shape
        self._devices = len(instance.devices)
        links = int((instance.rate > 0).sum())
        windows = int((instance.reach - np.arange(points)).sum())
        self.check_size(2 * links * points + 4 * devices * points + windows)
        model = CircuitModel(instance)
        model.tick = self._unit_of(instance, TICKS)
        model.slowest = model.whole(0, 2 * TICKS, "slowest")
        model.minimise(Linear.of(model.slowest), model.tick)
        if instance.last:
            self._windows(model)
            self._circuit(model)
            self._count(model)
            self._times(model)
        self.add_constraints(model, problem)
        return model

    def _windows(self, model: CircuitModel) -> None:
        """A stage begins once, ends once, and ends within reach of its beginning."""
        instance = model.instance
        for v in range(len(instance.devices)):
            starts = [a for a in range(instance.last) if instance.reach[v, a] > a]
            for a in starts:
                model.begins_at[v, a] = model.binary("begins", (instance.devices[v], a))
            within = {b for a in starts for b in range(a + 1, int(instance.reach[v, a]) + 1)}
            for b in sorted(within):
                model.ends_at[v, b] = model.binary("ends", (instance.devices[v], b))
            for a in starts:
                window = {model.ends_at[v, b]: 1 for b in range(a + 1, int(instance.reach[v, a]) + 1)}
                model.row(window, 1, None, (model.begins_at[v, a],))
            begun = {model.begins_at[v, a]: 1 for a in starts}
            ended = {model.ends_at[v, b]: 1 for b in within}
            model.row(begun, None, 1)
            model.row({**begun, **dict.fromkeys(ended, -1)}, 0, 0)
        model.row({column: 1 for (_, a), column in model.begins_at.items() if a == 0}, 1, 1)
        model.row({column: 1 for (_, b), column in model.ends_at.items() if b == instance.last}, 1, 1)

    def _circuit(self, model: CircuitModel) -> None:
        """The arcs lead through the devices in use; each stage begins where the previous one ends."""
        instance = model.instance
        devices = range(len(instance.devices))
        for v in devices:
            loop, enter, leave = (model.binary(name, instance.devices[v]) for name in ("unused", "first", "last"))
            model.arcs |= {(v + 1, v + 1): loop, (0, v + 1): enter, (v + 1, 0): leave}
            begun = {model.begins_at[u, a]: 1 for u, a in model.begins_at if u == v}
            model.row({**begun, loop: 1}, 1, 1)
            for column, pair, there in ((enter, (v, 0), model.begins_at), (leave, (v, instance.last), model.ends_at)):
                model.row({column: 1, **({there[pair]: -1} if pair in there else {})}, 0, 0)
        for v, w in np.argwhere(instance.rate > 0).tolist():
            taken = model.arcs[v + 1, w + 1] = model.binary("next", (instance.devices[v], instance.devices[w]))
            for b in range(1, instance.last):
                ends, begins = model.ends_at.get((v, b)), model.begins_at.get((w, b))
                terms = {**({} if ends is None else {ends: 1}), **({} if begins is None else {begins: -1})}
                if terms:
                    model.row(terms, 0, 0, (taken,))
        model.circuits.append([Arc(tail, head, column) for (tail, head), column in model.arcs.items()])

    def _count(self, model: CircuitModel) -> None:
        """The number of stages is within its limits."""
        instance = model.instance
        model.row(dict.fromkeys(model.begins_at.values(), 1), instance.least, instance.most)

    def _times(self, model: CircuitModel) -> None:
        """Equation (1), or a sum."""
        instance, goal = model.instance, model.instance.goal
        summed = goal != "bottleneck" or instance.shared_channel
        devices = range(len(instance.devices))
        computing = [self._computing(model, v) for v in devices]
        for v, name in enumerate(instance.devices):
            if summed or instance.summed:
                model.sent[v] = model.whole(0, 2 * TICKS, "sent", name)
            if instance.summed:
                model.received[v] = model.whole(0, 2 * TICKS, "received", name)
        model.timed.update(model.sent.values(), model.received.values(), (model.slowest,))
        for v in devices if goal == "bottleneck" else ():
            carrying = [each[v] for each in (model.sent, model.received) if instance.summed]
            terms = {column: -value for column, value in computing[v].items()} | dict.fromkeys(carrying, -1)
            if terms:
                model.row({model.slowest: 1, **terms}, 0, None)
        self._sending(model)
        if summed:
            total = {model.slowest: 1, **dict.fromkeys(model.sent.values(), -1)}
            if goal == "latency":
                for terms in computing:
                    total |= {column: -value for column, value in terms.items()}
            model.row(total, 0, None)

    def _sending(self, model: CircuitModel) -> None:
        """A transfer takes its time on the sender, on the receiver, or within the bottleneck."""
        instance = model.instance
        for (tail, head), taken in model.arcs.items():
            v, w = tail - 1, head - 1
            if v < 0 or w < 0 or v == w:
                continue
            targets = [each[u] for each, u in ((model.sent, v), (model.received, w)) if each] or [model.slowest]
            for b in range(1, instance.last):
                if (v, b) in model.ends_at and (w, b) in model.begins_at:
                    ticks = model.ticks(instance.send_seconds(b, v, w))
                    for target in targets:
                        model.row({target: 1}, ticks, None, (taken, model.ends_at[v, b]))

    def _computing(self, model: CircuitModel, v: int) -> dict[int, int]:
        """The computing time of a device's stage in ticks, rounded down, by column."""
        elapsed = model.instance.elapsed[v] / model.tick
        terms = {column: math.floor(elapsed[b]) for (u, b), column in model.ends_at.items() if u == v}
        terms |= {column: -math.ceil(elapsed[a]) for (u, a), column in model.begins_at.items() if u == v}
        return {column: value for column, value in terms.items() if value}

    def extract(self, model: CircuitModel, values: FloatArray) -> Stages:
        """Follow the stages from point to point."""
        begins = sorted((a, v) for (v, a), column in model.begins_at.items() if values[column])
        return model.instance.stages([a for a, _ in begins[1:]], [v for _, v in begins])

    def start(self, model: CircuitModel, solution: Stages) -> FloatArray:
        """The columns of the solution's stages and arcs are 1; times are in ticks."""
        instance = model.instance
        values = np.zeros(len(model))
        points, devices = instance.plan(solution)
        nodes = [0, *(v + 1 for v in devices), 0] if devices else []
        for number, v in enumerate(devices):
            values[[model.begins_at[v, points[number]], model.ends_at[v, points[number + 1]]]] = 1
        for tail, head in itertools.pairwise(nodes):
            values[model.arcs[tail, head]] = 1
        for v in range(len(instance.devices)):
            if v not in devices and (v + 1, v + 1) in model.arcs:
                values[model.arcs[v + 1, v + 1]] = 1
        for column, ticks in self._hinted_times(model, devices, points).items():
            values[column] = ticks
        return values

    def _hinted_times(self, model: CircuitModel, devices: list[int], points: list[int]) -> dict[int, int]:
        instance = model.instance
        sending = [
            model.ticks(instance.send_seconds(b, v, w))
            for b, v, w in zip(points[1:-1], devices[:-1], devices[1:], strict=True)
        ]
        computing = []
        for v, a, b in zip(devices, points[:-1], points[1:], strict=True):
            terms = self._computing(model, v)
            computing.append(terms.get(model.ends_at[v, b], 0) + terms.get(model.begins_at[v, a], 0))
        hint = dict.fromkeys([*model.sent.values(), *model.received.values()], 0)
        hint |= {model.sent[v]: ticks for v, ticks in zip(devices[:-1], sending, strict=True) if model.sent}
        hint |= {model.received[v]: ticks for v, ticks in zip(devices[1:], sending, strict=True) if model.received}
        if instance.summed:
            computing = [sum(each) for each in zip([0, *sending], computing, [*sending, 0], strict=True)]
        together = sum(sending) if model.sent and not instance.summed else max(sending, default=0)
        if instance.goal == "latency":
            together += sum(computing)
        value = max([together, *computing]) if instance.goal == "bottleneck" else together
        return {**hint, model.slowest: max(0, value)}

    def resolution(self) -> float:
        """One tick per stage and transfer, in seconds."""
        return self._unit * 3 * self._devices
