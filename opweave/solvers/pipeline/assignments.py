"""Local search where devices share a memory and may have any number of stages: every operator has a device of its own.

Then neither an order nor contiguous stages bind, and what a device takes depends on its own operators alone. A move
puts one unit (operators of a ``Colocate``) on another device; simulated annealing accepts some moves for the worse.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from opweave.formulations.on_cluster import permitted
from opweave.problems.constraints import Colocate, means
from opweave.problems.pipeline.spec import Pipeline, Stage, Stages
from opweave.solvers.run import Run

ROUNDS = 40
"""Moves for each unit and device in one annealing."""

HOT, COLD = 0.1, 0.0005
"""Temperature at first and at last, as a share of the mean load."""

MIXED = 0.02
"""Weight of the mean of all loads beside the largest one, so that moves on other devices matter a little."""


@dataclass(eq=False)
class Assignments:
    """Loads of devices under a changing assignment.

    Attributes
    ----------
    problem
    where
        Device of every unit.
    """

    problem: Pipeline
    where: list[int]

    def __post_init__(self) -> None:
        problem, graph = self.problem, self.problem.graph
        index = graph.operator_index
        self.units = units_of(problem)
        unit_of = {v: number for number, unit in enumerate(self.units) for v in unit}
        names = graph.operator_ids
        devices = problem.usable_devices
        table = np.array([[problem.known_seconds[name].get(device, math.inf) for device in devices] for name in names])
        table = np.where(permitted(index, devices, problem.constraints), table, math.inf).reshape(len(names), -1)
        self.seconds = [[float(table[unit, v].sum()) for v in range(len(devices))] for unit in self.units]
        self.held = [problem.memory_of([names[v] for v in unit]) for unit in self.units]
        limits = [problem.memory_limits[name] for name in devices]
        self.limits = [math.inf if limit is None else limit for limit in limits]
        self._tensors: list[tuple[int, int, tuple[int, ...]]] = []
        self._touch: list[list[int]] = [[] for _ in self.units]
        readers: dict[str, set[int]] = {}
        for op in graph.operators:
            for name in op.inputs:
                readers.setdefault(name, set()).add(unit_of[index[op.id]])
        for tensor in graph.tensors:
            maker = graph.producer.get(tensor.id)
            others = readers.get(tensor.id, set()) - ({unit_of[index[maker]]} if maker is not None else set())
            if maker is not None and others:
                made = unit_of[index[maker]]
                for unit in (made, *others):
                    self._touch[unit].append(len(self._tensors))
                self._tensors.append((tensor.bytes, made, tuple(others)))
        cluster = problem.cluster
        rates = cluster.rates or (0.0,) * len(cluster.devices)
        self._slow = [
            1.0 / (problem.compression * rates[cluster.device_index[name]])
            if rates[cluster.device_index[name]]
            else math.inf
            for name in devices
        ]

    def _carry(self, tensors: Sequence[int], sign: float) -> None:
        """Add what tensors take to the loads, or take it away."""
        where, loads = self.where, self.loads
        for number in tensors:
            size, made, readers = self._tensors[number]
            home = where[made]
            others = {where[unit] for unit in readers}
            others.discard(home)
            if others and size:
                loads[home] += sign * size * self._slow[home]
                for v in others:
                    loads[v] += sign * size * self._slow[v]

    def reset(self) -> None:
        """Work out all loads anew."""
        self.loads = [0.0] * len(self.limits)
        self.bytes = [0] * len(self.limits)
        for unit, v in enumerate(self.where):
            self.loads[v] += self.seconds[unit][v]
            self.bytes[v] += self.held[unit]
        self._carry(range(len(self._tensors)), 1.0)

    def move(self, unit: int, v: int) -> None:
        """Put a unit on a device."""
        before = self.where[unit]
        self._carry(self._touch[unit], -1.0)
        self.loads[before] -= self.seconds[unit][before]
        self.bytes[before] -= self.held[unit]
        self.where[unit] = v
        self.loads[v] += self.seconds[unit][v]
        self.bytes[v] += self.held[unit]
        self._carry(self._touch[unit], 1.0)

    def score(self) -> float:
        """The largest load, or the sum of all, and a little of the mean."""
        if self.problem.objective != "bottleneck":
            return math.fsum(self.loads)
        return max(self.loads) + MIXED * sum(self.loads) / len(self.loads)

    def anneal(self, run: Run, rng: np.random.Generator) -> list[int]:
        """The best assignment on a way that begins where the assignment stands."""
        self.reset()
        score = best = self.score()
        kept = self.where.copy()
        devices = len(self.limits)
        steps = ROUNDS * len(self.units) * devices
        scale = sum(self.loads) / devices
        for step in range(steps):
            if step % 256 == 0 and run.should_stop():
                break
            heat = scale * HOT * (COLD / HOT) ** (step / steps)
            unit, v = int(rng.integers(len(self.units))), int(rng.integers(devices))
            before = self.where[unit]
            if (
                v == before
                or not math.isfinite(self.seconds[unit][v])
                or self.bytes[v] + self.held[unit] > self.limits[v]
            ):
                continue
            self.move(unit, v)
            found = self.score()
            if found <= score or rng.random() < math.exp(max(-700.0, (score - found) / max(heat, 1e-300))):
                score = found
                if found < best:
                    best, kept = found, self.where.copy()
            else:
                self.move(unit, before)
        return kept

    def stages(self, where: Sequence[int]) -> Stages:
        """Stages that run an assignment: each goes on with all operators of its device that are ready."""
        problem, graph = self.problem, self.problem.graph
        device = {v: where[number] for number, unit in enumerate(self.units) for v in unit}
        after, missing = graph.arrays.successors, np.diff(graph.arrays.predecessors.start).tolist()
        place = {name: position for position, name in enumerate(problem.running_order)}
        rank = [place[op.id] for op in graph.operators]
        ready: dict[int, list[int]] = {}
        for v, count in enumerate(missing):
            if not count:
                ready.setdefault(device[v], []).append(v)
        found: list[Stage] = []
        while ready:
            team = min(ready, key=lambda d: min(rank[v] for v in ready[d]))
            run, waiting = list[int](), ready.pop(team)
            while waiting:
                v = waiting.pop()
                run.append(v)
                for w in after[v].tolist():
                    missing[w] -= 1
                    if not missing[w]:
                        (waiting if device[w] == team else ready.setdefault(device[w], [])).append(w)
            names = tuple(graph.operators[v].id for v in sorted(run, key=rank.__getitem__))
            found.append(Stage(device=problem.usable_devices[team], operators=names))
        return Stages(stages=tuple(found))


def units_of(problem: Pipeline) -> list[list[int]]:
    """Operators that share a device: those of every ``Colocate``, and any other alone."""
    index = problem.graph.operator_index
    top = list(range(len(index)))

    def find(v: int) -> int:
        while top[v] != v:
            v = top[v]
        return v

    for each in problem.constraints:
        if means(each, Colocate):
            for name in each.ops[1:]:
                top[find(index[name])] = find(index[each.ops[0]])
    units: dict[int, list[int]] = {}
    for v in range(len(top)):
        units.setdefault(find(v), []).append(v)
    return list(units.values())
