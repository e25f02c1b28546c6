"""Placements as rows: a gene for the device of every group of tied operators, then a key for every operator.

The list scheduler runs the operators by their keys, as in the other searches.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import ClassVar

import numpy as np

from opweave.formulations.placement.instance import lower_unless_short
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.constraints import Colocate, Constraint, Forbid, MemoryCap, Pin
from opweave.problems.placement.spec import Placement, Schedule
from opweave.solvers.evolution.encoding import ScheduleGenes
from opweave.solvers.evolution.solver import register_pymoo
from opweave.solvers.placement.arrays import arrays_of
from opweave.solvers.placement.baselines import RULES
from opweave.solvers.placement.plans import memory_used, order_by_start, plan_of, schedule_of, times_of
from opweave.solvers.rules import plans_of


class PlacementEncoding(ScheduleGenes):
    """Placements as device genes and keys."""

    taken_in: ClassVar[tuple[type[Constraint], ...]] = (Pin, Forbid, Colocate, MemoryCap)

    def __init__(self, problem: Placement) -> None:
        self.instance = instance = lower_unless_short(problem)
        self.arrays = arrays_of(instance, problem)
        self._first = np.unique(instance.cluster, return_index=True)[1].astype(np.int64)  # an operator of each group
        allowed = np.isfinite(instance.seconds[self._first])
        super().__init__(allowed, instance.before, instance.devices, instance.capacity, "links")

    def devices(self, rows: FloatArray) -> IntArray:
        """Devices of all operators. Shape (rows, operators)."""
        return np.ascontiguousarray(self.options(rows)[:, self.instance.cluster])

    def decode(self, row: FloatArray) -> Schedule:
        """The schedule that the list scheduler makes of a row."""
        return schedule_of(self.instance, self.arrays, self.orders(row[None])[0], self.devices(row[None])[0])

    def encode(self, solution: Schedule) -> FloatArray:
        """Its devices, and keys that rise with its starts."""
        starts, device = times_of(self.instance, solution)
        return self.row(device[self._first], order_by_start(self.instance, starts))

    def carry_out(self, option: IntArray, order: IntArray) -> tuple[float, IntArray, int]:
        """Makespan, bytes, and missing links; each counts once for every flow over it."""
        arrays, device = self.arrays, np.ascontiguousarray(option[self.instance.cluster])
        missing = np.isinf(arrays.latency[device[arrays.source], device[arrays.target]]).sum()
        return plan_of(arrays, order, device).makespan, memory_used(arrays, device), int(missing)

    def repair(self, rows: FloatArray) -> FloatArray:
        """Move groups that do not fit into their devices' memory to where there is most room, the largest first."""
        capacity, repaired = self.instance.capacity, rows.copy()
        need = np.bincount(self.instance.cluster, self._bytes_alone(), len(self._first)).astype(np.int64)
        option = self.options(rows)
        for p, device in enumerate(self.devices(rows)):
            if (memory_used(self.arrays, device) <= capacity).all():
                continue
            left = capacity.copy()
            for c in np.argsort(-need, kind="stable").tolist():
                k = option[p, c]
                roomiest = max(self.options_of(c), key=lambda k: left[k])
                if left[k] < need[c] <= left[roomiest]:
                    k = roomiest
                    option[p, c] = k
                left[k] -= need[c]
            repaired[p, : len(self._first)] = self.genes_of(option[p])
        return repaired

    def _bytes_alone(self) -> IntArray:
        """Bytes of every operator with all its parameters, also those that others share."""
        arrays = self.arrays
        owner = np.repeat(np.arange(len(arrays.memory)), np.diff(arrays.parameters_start))
        own = np.bincount(owner, arrays.parameter_bytes[arrays.parameters], len(arrays.memory))
        return np.asarray(arrays.memory + own.astype(np.int64))

    def seeds(self) -> Iterator[FloatArray]:
        """The list schedulers' plans."""
        rules = (partial(rule, self.instance, self.arrays) for rule, _ in RULES.values())
        for plan in plans_of(rules):
            yield self.row(plan.device[self._first], order_by_start(self.instance, plan.start))


register_pymoo(Placement, lambda problem, _run: PlacementEncoding(problem))
