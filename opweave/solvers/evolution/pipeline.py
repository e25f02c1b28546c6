"""Pipelines as rows: a key for every device, which orders the stages, and a gene for the share of the model it takes.

A device whose gene is at most ``IDLE`` has no stage. The shares count cut points; where one stage ends, the next one
begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from opweave.formulations.pipeline.instance import lower_unless_short
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.constraints import Colocate, Constraint, Forbid, MaxDevices, MemoryCap, Pin, Separate, means
from opweave.problems.pipeline.spec import Pipeline, Stages
from opweave.solvers.evolution.encoding import Judged, keys_of, register_encoding
from opweave.solvers.evolution.solver import register_pymoo
from opweave.solvers.pipeline.baselines import by_memory, joint_greedy, one_device
from opweave.solvers.pipeline.plans import attempt
from opweave.solvers.rules import plans_of

IDLE = 0.5
"""Largest gene of a device without a stage; half of all random devices have none."""

LIMITS = ("number of stages", "what stages may hold", "links")


class PipelineEncoding:
    """Pipelines as keys and shares of devices."""

    whole_numbers = False
    measures: frozenset[str] = frozenset()
    limits: tuple[str, ...] = LIMITS

    def __init__(self, problem: Pipeline) -> None:
        self.problem = problem
        self.instance = instance = lower_unless_short(problem)
        genes = 2 * len(instance.devices) if instance.names else 0
        self.lower, self.upper = np.zeros(genes), np.ones(genes)
        rate = instance.rate
        slowest = float(rate[rate > 0].min(initial=np.inf))
        sending = instance.last * float(instance.latency.max(initial=0.0)) + float(instance.sent.sum()) / slowest
        self._lacking = np.zeros_like(instance.elapsed)
        if problem.costs is not None and problem.include_compute and instance.names:
            unknown = np.isnan(problem.costs.array(instance.names, instance.devices)).T
            before = np.concatenate([np.zeros((len(unknown), 1)), np.cumsum(unknown, axis=1)], axis=1)
            self._lacking = before[:, instance.position]  # operators without a time before each point
        self.worst = float(instance.seconds.max(axis=0, initial=0.0).sum()) + sending

    def knows(self, constraint: Constraint) -> bool:
        """The instance has written all of these into cut points, stages and devices."""
        return means(constraint, Pin, Forbid, Colocate, Separate, MemoryCap, MaxDevices)

    def _laid_out(self, rows: FloatArray) -> tuple[IntArray, IntArray]:
        """Devices in pipeline order, those without a stage last, and where their stages end. Shape (rows, devices)."""
        devices = len(self.instance.devices)
        wanted = np.maximum(rows[:, devices:] - IDLE, 0.0)
        none = wanted.sum(axis=1) <= 0.0
        wanted[none, rows[none, devices:].argmax(axis=1)] = 1.0
        order = np.argsort(rows[:, :devices], axis=1, kind="stable").astype(np.int64)
        shares = np.cumsum(np.take_along_axis(wanted, order, axis=1), axis=1)
        ends = np.rint(shares / shares[:, -1:] * self.instance.last).astype(np.int64)
        idle = np.diff(ends, axis=1, prepend=0) == 0
        front = np.argsort(idle, axis=1, kind="stable")
        packed = np.sort(np.where(idle, self.instance.last, ends), axis=1)
        return np.take_along_axis(order, front, axis=1), packed

    def decode(self, row: FloatArray) -> Stages:
        """The stages of a row."""
        if not self.instance.names:
            return Stages(stages=())
        devices, ends = (each[0].tolist() for each in self._laid_out(row[None]))
        count = ends.index(self.instance.last) + 1
        return self.instance.stages(ends[: count - 1], devices[:count])

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

    def judge(self, rows: FloatArray, measures: Sequence[str] = ()) -> Judged:
        """Judge rows: stages, transfers and what they break."""
        del measures  # the timeline has them
        instance, count = self.instance, len(rows)
        if not instance.names:
            return Judged(np.zeros(count), np.zeros((count, len(LIMITS))), {})
        devices, ends = self._laid_out(rows)
        begins = np.concatenate([np.zeros((count, 1), dtype=np.int64), ends[:, :-1]], axis=1)
        there = begins < ends
        computing = np.where(there, instance.elapsed[devices, ends] - instance.elapsed[devices, begins], 0.0)
        computing[self._lacking[devices, ends] > self._lacking[devices, begins]] = np.inf
        source, target, point = devices[:, :-1], devices[:, 1:], ends[:, :-1]
        crossing = there[:, 1:]
        rate = instance.rate[source, target]
        with np.errstate(divide="ignore", invalid="ignore"):
            lasts = instance.latency[source, target] + instance.sent[point] / rate
        sending = np.where(crossing, np.where(rate > 0, lasts, np.inf), 0.0)
        stages = there.sum(axis=1)
        excess = np.zeros((count, len(LIMITS)))
        excess[:, 0] = np.maximum(0, instance.least - stages) + np.maximum(0, stages - instance.most)
        over = np.where(there, np.maximum(0, ends - instance.reach[devices, begins]), 0)
        excess[:, 1] = over.sum(axis=1) / instance.last
        excess[:, 2] = (crossing & (rate <= 0)).sum(axis=1)
        objective = self._objective(computing, sending)
        objective[np.isinf(computing).any(axis=1)] = np.inf  # also where only transfers count
        return Judged(objective, excess, {})

    def _objective(self, computing: FloatArray, sending: FloatArray) -> FloatArray:
        instance = self.instance
        sent = sending.sum(axis=1)
        if instance.goal == "transfers":
            return np.asarray(sent)
        if instance.goal == "latency":
            return np.asarray(computing.sum(axis=1) + sent)
        if instance.summed:
            loads = np.pad(sending, ((0, 0), (1, 0))) + computing + np.pad(sending, ((0, 0), (0, 1)))
            return np.asarray(loads.max(axis=1))
        slowest = sent if instance.shared_channel else sending.max(axis=1, initial=0.0)
        return np.asarray(np.maximum(computing.max(axis=1), slowest))

    def repair(self, rows: FloatArray) -> FloatArray:
        """End stages where they have to end; what is left over goes to the next devices, also to those without one."""
        instance = self.instance
        if not instance.names:
            return rows
        devices, ends = self._laid_out(rows)
        mended = np.zeros_like(ends)
        begin = np.zeros(len(rows), dtype=np.int64)
        for j in range(ends.shape[1]):
            mended[:, j] = begin = np.maximum(begin, np.minimum(ends[:, j], instance.reach[devices[:, j], begin]))
        changed = (mended != ends).any(axis=1) & (mended[:, -1] == instance.last)
        found = rows.copy()
        for p in np.flatnonzero(changed).tolist():
            found[p] = self._row(devices[p], np.diff(mended[p], prepend=0))
        return found

    def seeds(self) -> Iterator[FloatArray]:
        """The baselines' plans."""
        rules = (one_device, joint_greedy, by_memory) if self.instance.names else ()
        for plan in plans_of(partial(attempt, rule, self.instance, 0) for rule in rules):
            lengths = np.diff([0, *plan.cuts, self.instance.last])
            yield self._row(np.asarray(plan.devices, dtype=np.int64), lengths)


register_encoding(Pipeline, lambda problem, _run: PipelineEncoding(problem))
register_pymoo(Pipeline)
