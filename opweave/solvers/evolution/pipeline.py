"""Pipelines as rows: a key for every device, which orders the stages, and a gene for the share of the model it takes.

A device whose gene is at most ``IDLE`` has no stage. The shares count cut points; where one stage ends, the next one
begins.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import ClassVar

import numpy as np

from opweave.formulations.pipeline.instance import lower_unless_short
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.constraints import Colocate, Constraint, Forbid, MaxDevices, MemoryCap, Pin, Separate
from opweave.problems.pipeline.spec import Pipeline, Stages
from opweave.solvers.evolution.encoding import Encoding, Judged, keys_of
from opweave.solvers.evolution.solver import register_pymoo
from opweave.solvers.pipeline.baselines import by_memory, joint_greedy, one_device
from opweave.solvers.pipeline.plans import PipelinePlan, attempt, value_of
from opweave.solvers.rules import plans_of

IDLE = 0.5
"""Largest gene of a device without a stage; half of all random devices have none."""


class PipelineEncoding(Encoding):
    """Pipelines as keys and shares of devices."""

    taken_in: ClassVar[tuple[type[Constraint], ...]] = (Pin, Forbid, Colocate, Separate, MemoryCap, MaxDevices)
    limits = ("number of stages", "what stages may hold", "links")

    def __init__(self, problem: Pipeline) -> None:
        self.problem = problem
        self.instance = instance = lower_unless_short(problem)
        self.genes = 2 * len(instance.devices) if instance.names else 0
        self._lacking = np.zeros_like(instance.elapsed)
        if problem.costs is not None and problem.include_compute and instance.names:
            unknown = np.isnan(problem.costs.array(instance.names, instance.devices)).T
            before = np.concatenate([np.zeros((len(unknown), 1)), np.cumsum(unknown, axis=1)], axis=1)
            self._lacking = before[:, instance.position]  # operators without a time before each point

    def plan(self, row: FloatArray) -> PipelinePlan:
        """The stages that a row stands for."""
        devices = len(self.instance.devices)
        wanted = np.maximum(row[devices:] - IDLE, 0.0)
        if not wanted.any():
            wanted[row[devices:].argmax()] = 1.0
        order = np.argsort(row[:devices], kind="stable")
        shares = np.cumsum(wanted[order])
        ends = np.rint(shares / shares[-1] * self.instance.last).astype(np.int64)
        taking = np.diff(ends, prepend=0) > 0
        return PipelinePlan(tuple(ends[taking][:-1].tolist()), tuple(order[taking].tolist()))

    def decode(self, row: FloatArray) -> Stages:
        """The stages of a row."""
        if not self.instance.names:
            return Stages(stages=())
        plan = self.plan(row)
        return self.instance.stages(plan.cuts, plan.devices)

    def encode(self, solution: Stages) -> FloatArray:
        """Keys that rise along the pipeline, and shares in proportion to the stages' lengths."""
        points, devices = self.instance.plan(solution)
        return self._row(np.asarray(devices, dtype=np.int64), np.diff(points)) if devices else np.zeros(0)

    def _row(self, devices: IntArray, lengths: IntArray) -> FloatArray:
        """A row for devices in pipeline order and the lengths of their stages; 0 for none."""
        count = len(self.instance.devices)
        rest = np.setdiff1d(np.arange(count), devices)
        shares = np.zeros(count)
        there = lengths > 0
        shares[devices[there]] = IDLE + (1.0 - IDLE) * lengths[there] / lengths.max()
        return np.concatenate([keys_of(np.concatenate([devices, rest])), shares])

    def judge(self, rows: FloatArray) -> Judged:
        """Judge rows: stages, transfers and what they break."""
        if not self.instance.names:
            return Judged(np.zeros(len(rows)), np.zeros((len(rows), len(self.limits))))
        judged = np.asarray([self._judged(self.plan(row)) for row in rows]).reshape(len(rows), 1 + len(self.limits))
        return Judged(judged[:, 0], judged[:, 1:])

    def _judged(self, plan: PipelinePlan) -> tuple[float, ...]:
        """The objective, and by how much the plan breaks each limit."""
        instance, count = self.instance, len(plan.devices)
        stages = list(zip(plan.devices, [0, *plan.cuts], [*plan.cuts, instance.last], strict=True))
        number = max(0, instance.least - count, count - instance.most)
        over = sum(max(0, int(b - instance.reach[v, a])) for v, a, b in stages) / instance.last
        missing = int((instance.rate[list(plan.devices[:-1]), list(plan.devices[1:])] <= 0).sum())
        lacking = any(self._lacking[v, b] > self._lacking[v, a] for v, a, b in stages)
        return math.inf if lacking else value_of(instance, plan), number, over, missing

    def seeds(self) -> Iterator[FloatArray]:
        """The baselines' plans."""
        rules = (one_device, joint_greedy, by_memory) if self.instance.names else ()
        for plan in plans_of(partial(attempt, rule, self.instance, 0) for rule in rules):
            lengths = np.diff([0, *plan.cuts, self.instance.last])
            yield self._row(np.asarray(plan.devices, dtype=np.int64), lengths)


register_pymoo(Pipeline, lambda problem, _run: PipelineEncoding(problem))
