"""Batched mappings as rows: a gene picks how every operator's inputs are split, then a key for every operator.

The ways to split are those that list schedulers try; of these, an operator has the ones with batches of supported
sizes. The batches of an operator follow each other in the order of the keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from opweave.formulations.batched_mapping.instance import lower_unless_short
from opweave.formulations.batched_mapping.plans import counts_of
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.batched_mapping.spec import BatchedMapping, BatchedSchedule
from opweave.problems.constraints import Constraint, Forbid, MemoryCap, Pin, Share
from opweave.problems.graph_arrays import Adjacency
from opweave.solvers.batched_mapping.arrays import MEMORY, arrays_of, nodes_of
from opweave.solvers.batched_mapping.baselines import all_strings, attempts, groups_of
from opweave.solvers.batched_mapping.plans import BatchPlan, inputs_of, order_by_start, plan_of, solution_of
from opweave.solvers.evolution.encoding import ScheduleGenes
from opweave.solvers.evolution.solver import register_pymoo


class BatchedEncoding(ScheduleGenes):
    """Batched mappings as ways to split and keys."""

    taken_in: ClassVar[tuple[type[Constraint], ...]] = (Pin, Forbid, Share, MemoryCap)

    def __init__(self, problem: BatchedMapping) -> None:
        self.instance = instance = lower_unless_short(problem)
        self.arrays = arrays_of(instance)
        devices = np.arange(len(instance.devices))
        self._strings = all_strings(instance, groups_of(problem))
        self._counts = counts_of(self._strings, len(devices))
        runs = [np.isfinite(seconds[devices, self._counts]).all(axis=1) for seconds in instance.seconds]
        allowed = np.asarray(runs, dtype=np.bool_).reshape(instance.operators, len(self._strings))
        allowed[~allowed.any(axis=1)] = True
        late = np.concatenate([instance.target, instance.waits.heads()])
        early = np.concatenate([instance.source, instance.waits.items])
        before = Adjacency.from_pairs(instance.operators, late, early)
        super().__init__(allowed, before, instance.devices, instance.capacity, "links and batch sizes")

    def _plan(self, option: IntArray, order: IntArray) -> BatchPlan:
        return plan_of(self.arrays, self._strings[option], nodes_of(self.instance, order))

    def decode(self, row: FloatArray) -> BatchedSchedule:
        """The batches of a row, with their times."""
        return solution_of(self.instance, self._plan(self.options(row[None])[0], self.orders(row[None])[0]))

    def encode(self, solution: BatchedSchedule) -> FloatArray:
        """A row with its numbers of inputs on the devices, where list schedulers try these, and keys by start.

        The inputs are sorted so that inputs with the same devices are adjacent. Inputs of one granule that run on
        different devices all get the device of the first.
        """
        where, end = inputs_of(self.instance, solution)
        ordered = where[:, np.lexsort(where[::-1])] if len(where) else where
        return self._row(np.ascontiguousarray(ordered[:, :: self.instance.granule]), end)

    def _row(self, strings: IntArray, end: FloatArray) -> FloatArray:
        devices, option = len(self.instance.devices), np.zeros(len(strings), dtype=np.int64)
        for i, count in enumerate(counts_of(strings, devices)):
            off = np.abs(self._counts - count).sum(axis=1)
            same = (self._strings == strings[i]).sum(axis=1)
            tried = np.asarray(self.options_of(i))
            option[i] = tried[np.lexsort((-same[tried], off[tried]))[0]]
        operators = order_by_start(self.instance, strings, end) // devices
        return self.row(option, operators[np.sort(np.unique(operators, return_index=True)[1])])

    def carry_out(self, option: IntArray, order: IntArray) -> tuple[float, IntArray, int]:
        """Makespan, bytes, and whether the plan can run at all."""
        makespan = self._plan(option, order).makespan
        return makespan, self._used(option), int(not np.isfinite(makespan))

    def _used(self, option: IntArray) -> IntArray:
        """Bytes on every device. Shape (devices,)."""
        count, parameters = self._counts[option], self.instance.parameters
        held = np.zeros((len(self.instance.parameter_bytes), count.shape[1]), dtype=np.bool_)
        np.logical_or.at(held, parameters.items, count[parameters.heads()] > 0)
        return np.asarray(self.arrays.ops[:, MEMORY] @ count + self.instance.parameter_bytes @ held)

    def seeds(self) -> Iterator[FloatArray]:
        """The list schedulers' plans, split and whole."""
        plans = attempts(self.instance, self.arrays, self._strings)
        return (self._row(plan.where, plan.end) for plan in plans if np.isfinite(plan.makespan))


register_pymoo(BatchedMapping, lambda problem, _run: BatchedEncoding(problem))
