"""Pipeline as a mixed-integer program: one unit flows from the first point to the last, through stages and links.

Stage z[v, a, b] carries the unit from point a to point b on device v; link l[b, v, w] carries it from v to w at point
b. Points only increase, so there are no cycles. Each device has at most one stage. The paper's split into two steps and
its classes do not appear here: cuts and devices are chosen together.

Rows of your own, through ``solve(..., extend=f)`` or a constraint class, use the variables
``model.on(op, device)`` and ``model.uses(device)``, which are 0 or 1, ``model.stage(op)``, which counts from 0, and
``model.stages()``, the number of stages.

>>> from opweave.formulations.expressions import express
>>> from opweave.problems.arrays import FloatArray
>>> from opweave.problems.constraints import Constraint
>>> class AtLeast(Constraint):
...     count: int
...     def violations(self, problem, solution):
...         if len(solution.stages) < self.count:
...             yield self.broken("there are too few stages")
>>> @express(AtLeast, "model")
... def _at_least(model, constraint):
...     model.add(model.stages() >= constraint.count)
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from opweave.formulations.formulation import ClusterFormulation, register_formulation
from opweave.formulations.modeling.linear import Linear, total
from opweave.formulations.modeling.model import LinearModel
from opweave.formulations.pipeline.instance import SLACK, TAKEN_IN, PipelineInstance, lower_unless_short
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.constraints import Constraint
from opweave.problems.errors import InfeasibleError, UnsupportedFeatureError
from opweave.problems.pipeline.spec import Pipeline, Stages

UNITS = 1000.0
"""The largest sum of times in the model's units, chosen for the absolute tolerances of engines."""

NEGLIGIBLE = 1e-8
"""Shorter times, in units, count as 0, because engines refuse such coefficients; lower bounds stay valid."""

Point = tuple[int, int]
"""A cut point and a device."""


@dataclass(eq=False)
class FlowModel(LinearModel):
    """The program, and the data from which it was written.

    Attributes
    ----------
    stages_at
        Column z of every stage (v, a, b).
    links_at
        Column l of every link (b, v, w).
    """

    instance: PipelineInstance
    stages_at: dict[tuple[int, int, int], int] = field(default_factory=dict)
    links_at: dict[tuple[int, int, int], int] = field(default_factory=dict)

    def seconds(self, v: int, a: int, b: int) -> float:
        """Duration of a stage, in units."""
        return float(self.instance.elapsed[v, b] - self.instance.elapsed[v, a]) / self.unit

    def sending(self, b: int, v: int, w: int) -> float:
        """Duration of a transfer, in units."""
        return self.instance.send_seconds(b, v, w) / self.unit

    @cached_property
    def spans(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Device, first place, place after the last, and column of every stage."""
        v, a, b = np.asarray([*self.stages_at], dtype=np.int64).reshape(-1, 3).T
        position, columns = self.instance.position, np.asarray([*self.stages_at.values()], dtype=np.int64)
        return v, position[a], position[b], columns

    def on(self, op: str, device: str) -> Linear:
        """1 if operator ``op`` runs on ``device``, otherwise 0."""
        self.check_time()  # there may be a million stages
        place, (devices, first, end, columns) = self.instance.names.index(op), self.spans
        spanned = columns[(devices == self.instance.devices.index(device)) & (first <= place) & (place < end)]
        return Linear.over(spanned.tolist())

    def uses(self, device: str) -> Linear:
        """1 if ``device`` has a stage, otherwise 0."""
        return Linear.over(self.spans[3][self.spans[0] == self.instance.devices.index(device)].tolist())

    def stage(self, op: str) -> Linear:
        """The stage of operator ``op``, counted from 0: the stages that have begun by then, less one."""
        self.check_time()
        place, (_, first, _, columns) = self.instance.names.index(op), self.spans
        return Linear.over(columns[first <= place].tolist()) - 1

    def stages(self) -> Linear:
        """The number of stages."""
        return Linear.over(self.stages_at.values())


@register_formulation
class Flow(ClusterFormulation[Pipeline, Stages]):
    """A pipeline as one unit of flow."""

    name: ClassVar[str] = "flow"
    noun: ClassVar[str] = "pipeline"
    problem_type: ClassVar[type[Pipeline]] = Pipeline
    model_type: ClassVar[type[LinearModel]] = FlowModel
    supports: ClassVar[tuple[str, ...]] = ("stages", "flow")
    built_in: ClassVar[tuple[type[Constraint], ...]] = TAKEN_IN

    def build(self, problem: Pipeline) -> FlowModel:
        """Write the model.

        Raises
        ------
        UnsupportedFeatureError
            For stages with replicas; the message names a solver that takes them.
        """
        if problem.max_replicas > 1:
            asked = f"max_replicas={problem.max_replicas}"
            raise UnsupportedFeatureError(
                f"formulation {self.name!r} cannot express {asked}; 'exact' can, but does not take 'extend'"
            )
        instance = lower_unless_short(problem, self.context.ceiling)
        model = FlowModel(instance)
        self._unit = model.unit = self._unit_of(instance)
        model.check_time = self.check_time
        self._columns(model)
        if instance.last:
            self._flow(model)
            model.rows("stage_count").add(model.stages() <= instance.most)
            model.rows("stage_count").add(model.stages() >= instance.least)
        self._objective(model)
        self.add_constraints(model, problem)
        return model

    def _unit_of(self, instance: PipelineInstance) -> float:
        """A fixed share of the best known solution's objective; without a solution, of the longest sum of times."""
        horizon = float(self.context.ceiling or 0.0)
        if horizon <= 0.0:
            rate = float(instance.rate.min(initial=np.inf, where=instance.rate > 0))
            sending = float(instance.sent.max(initial=0.0)) / rate + float(instance.latency.max(initial=0.0))
            horizon = (float(instance.elapsed.max(initial=0.0)) + sending) * max(1, instance.most)
        return horizon / UNITS if horizon > 0 else 1.0

    def _columns(self, model: FlowModel) -> None:
        """z[v, a, b] if device v can hold the stage, l[b, v, w] if a link exists; none slower than a known solution."""
        instance, most = model.instance, math.inf
        if self.context.ceiling is not None:
            most = float(self.context.ceiling) * (1 + SLACK) / model.unit
        longest = math.inf if instance.goal == "transfers" else most
        rows = 2 * instance.last * len(instance.devices) + 3 * len(instance.devices)
        points = np.arange(instance.last + 1)
        stages: list[tuple[int, int, int]] = []
        for v, elapsed in enumerate(instance.elapsed):
            soon = np.searchsorted(elapsed, elapsed + longest * model.unit, side="right") - 1
            ends = np.minimum(instance.reach[v], soon)  # of the longest stage that begins at each point
            self.check_size(rows + len(stages) + int(np.maximum(ends - points, 0).sum()))
            stages += [(v, a, b) for a, end in enumerate(ends.tolist()) for b in range(a + 1, end + 1)]
            self.check_time()
        linked = instance.rate > 0
        links: list[tuple[int, int, int]] = []
        for b in range(1, instance.last):
            near = linked & (instance.send_seconds_between(b) / model.unit <= most)
            self.check_size(rows + len(stages) + len(links) + int(near.sum()))
            links += [(b, v, w) for v, w in np.argwhere(near).tolist()]
            self.check_time()
        names = instance.devices
        z = model.binaries("z", [(names[v], a, b) for v, a, b in stages])
        links_at = model.reals("l", [(b, names[v], names[w]) for b, v, w in links], high=1.0)
        model.stages_at = dict(zip(stages, z.tolist(), strict=True))
        model.links_at = dict(zip(links, links_at.tolist(), strict=True))
        self.check_time()

    def _flow(self, model: FlowModel) -> None:
        """One unit leaves point 0 and reaches the last point; links carry on what stages bring to a point."""
        rows, last = model.rows("flow"), model.instance.last
        arrives, leaves = defaultdict[Point, dict[int, float]](dict), defaultdict[Point, dict[int, float]](dict)
        for (v, a, b), column in model.stages_at.items():
            leaves[a, v][column] = arrives[b, v][column] = 1.0
        for (b, v, w), column in model.links_at.items():
            arrives[b, v][column] = leaves[b, w][column] = -1.0
        rows.add(total(Linear(0.0, terms) for (a, _), terms in leaves.items() if a == 0) == 1)
        rows.add(total(Linear(0.0, terms) for (b, _), terms in arrives.items() if b == last) == 1)
        for (b, _), terms in [*arrives.items(), *leaves.items()]:
            if 0 < b < last:
                rows.add(Linear(0.0, terms) == 0)

    def _objective(self, model: FlowModel) -> None:
        """Equation (1): no stage and no transfer takes longer than beta, or no stage with its transfers; or a sum.

        Each device has at most one stage.
        """
        instance = model.instance
        sending = _felt({column: model.sending(*key) for key, column in model.links_at.items()})
        computing = _felt({column: model.seconds(*key) for key, column in model.stages_at.items()})
        stages, busy, sent = (defaultdict[int, dict[int, float]](dict) for _ in range(3))
        for (v, _, _), column in model.stages_at.items():
            stages[v][column] = 1.0
            busy[v] |= {column: computing[column]} if column in computing else {}
        for columns in stages.values():
            model.rows("one_stage").add(Linear(0.0, columns) <= 1)
        if instance.goal != "bottleneck":
            model.minimise(Linear(0.0, {**sending, **(computing if instance.goal == "latency" else {})}), model.unit)
            return
        for (_, v, w), column in model.links_at.items():
            if column in sending and instance.summed:
                busy[v][column] = busy[w][column] = sending[column]
            elif column in sending:
                sent[0 if instance.shared_channel else v][column] = sending[column]
        beta = Linear.of(model.real("beta"))
        model.minimise(beta, model.unit)
        for terms in (*busy.values(), *sent.values()):
            model.rows("bottleneck").add(Linear(0.0, terms) <= beta)

    def extract(self, model: FlowModel, values: FloatArray) -> Stages:
        """Follow the unit."""
        taken = sorted((a, b, v) for (v, a, b), column in model.stages_at.items() if values[column] > 0.5)
        return model.instance.stages([b for _, b, _ in taken[:-1]], [v for _, _, v in taken])

    def start(self, model: FlowModel, solution: Stages) -> FloatArray:
        """The columns of the solution's stages and links are 1; beta is the solution's bottleneck."""
        instance = model.instance
        points, devices = instance.plan(solution)
        ends = points[1:]
        chosen = list(zip(devices, points, ends, strict=False))
        crossed = list(zip(ends[:-1], devices[:-1], devices[1:], strict=True))
        values = np.zeros(len(model))
        values[[model.stages_at[stage] for stage in chosen if stage in model.stages_at]] = 1.0
        values[[model.links_at[link] for link in crossed if link in model.links_at]] = 1.0
        if instance.goal == "bottleneck":
            computing = [model.seconds(*stage) for stage in chosen]
            sending = [model.sending(*link) for link in crossed]
            if instance.summed:
                computing = [sum(each) for each in zip([0.0, *sending], computing, [*sending, 0.0], strict=True)]
            together = [sum(sending)] if instance.shared_channel else sending
            values[model.column("beta", None)] = max([*computing, *together, 0.0])
        return values

    @classmethod
    def tells_apart(cls, _problem: Pipeline) -> bool:
        """The devices of all operators are the pipeline."""
        return True

    def exclude(self, model: Any, solution: Stages) -> None:
        """Add the row that not every operator runs on the device that it has in a solution."""
        there = [model.on(op, stage.device) for stage in solution.stages for op in stage.operators]
        if not there:
            raise InfeasibleError
        model.add(sum(there) <= len(there) - 1)


def _felt(terms: dict[int, float]) -> dict[int, float]:
    """Leave out terms whose time counts as 0."""
    return {column: value for column, value in terms.items() if value > NEGLIGIBLE}
