"""Placements as rows: a gene for the device of every group of tied operators, then a key for every operator.

The list scheduler runs the operators by their keys, as in the other searches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from opweave.formulations.placement.instance import lower_unless_short
from opweave.problems.arrays import FloatArray, FloatMatrix, IntArray, IntMatrix
from opweave.problems.constraints import Colocate, Constraint, Forbid, MemoryCap, Pin
from opweave.problems.placement.spec import Placement, Schedule
from opweave.solvers.evolution.encoding import (
    Choices,
    Judged,
    keys_of,
    knows_arcs_and,
    memory_limits,
    over_capacity,
    register_encoding,
)
from opweave.solvers.evolution.orders import order_by_keys
from opweave.solvers.evolution.solver import register_pymoo
from opweave.solvers.loops import loop
from opweave.solvers.placement.arrays import PlacementArrays, arrays_of, durations, makespan_below
from opweave.solvers.placement.baselines import FIRST
from opweave.solvers.placement.memory_state import Clusters, clusters_of, has_room, new_room, settle
from opweave.solvers.placement.plans import order_by_start, schedule_of, times_of
from opweave.solvers.rules import plans_of


@loop
def judge_plans(
    arrays: PlacementArrays,
    clusters: Clusters,
    member: IntArray,
    keys: FloatMatrix,
    device: IntMatrix,
    orders: IntMatrix,
    makespans: FloatArray,
    used: IntMatrix,
) -> None:
    """Fill every row's order, makespan (inf without a link), and bytes by device.

    ``member`` is one operator of each cluster.
    """
    for p in range(len(keys)):
        order_by_keys(arrays.before_start, arrays.after_start, arrays.after, keys[p], orders[p])
        makespans[p] = makespan_below(arrays, orders[p], device[p], np.inf)
        room = new_room(arrays, clusters)
        for v in member:
            settle(arrays, clusters, room, v, device[p, v])
        used[p][:] = room.used


@loop
def make_room(arrays: PlacementArrays, clusters: Clusters, member: IntArray, device: IntMatrix) -> None:
    """Move clusters that do not fit on their devices to those with the most room; plans that fit stay as they are."""
    for p in range(len(device)):
        room = new_room(arrays, clusters)
        for v in member:
            chosen = device[p, v]
            if not has_room(arrays, clusters, room, v, chosen):
                most = -1
                for k in range(arrays.seconds.shape[1]):
                    left = arrays.capacity[k] - room.used[k]
                    if left > most and has_room(arrays, clusters, room, v, k):
                        chosen, most = k, left
            settle(arrays, clusters, room, v, chosen)
        for v in range(device.shape[1]):
            device[p, v] = room.home[clusters.of[v]]


class PlacementEncoding:
    """Placements as device genes and keys."""

    whole_numbers = False
    measures = frozenset({"makespan", "peak_bytes"})

    def __init__(self, problem: Placement) -> None:
        self.problem = problem
        self.instance = instance = lower_unless_short(problem)
        self.arrays = arrays_of(instance, problem)
        self.clusters = clusters_of(instance, self.arrays)
        first = np.unique(instance.cluster, return_index=True)[1].astype(np.int64)
        self._first = first
        self._member = first[np.argsort(-self.clusters.memory, kind="stable")]  # the largest first
        self._choices = Choices.of(np.isfinite(instance.seconds[first]))
        genes = len(first) + instance.operators
        self.lower, self.upper = np.zeros(genes), np.ones(genes)
        self._links = bool(np.isinf(self.arrays.latency).any())
        links = ("links",) if self._links else ()
        self.limits: tuple[str, ...] = (*links, *memory_limits(instance.devices, instance.capacity))
        lasts = durations(self.arrays)
        slowest = np.where(np.isfinite(instance.seconds), instance.seconds, 0.0).max(axis=1, initial=0.0).sum()
        self.worst = float(slowest + np.where(np.isfinite(lasts), lasts, 0.0).max(axis=(1, 2), initial=0.0).sum())

    def knows(self, constraint: Constraint) -> bool:
        """Pin, Forbid and Colocate restrict the genes; MemoryCap is memory; precedences are arcs."""
        return knows_arcs_and(constraint, Pin, Forbid, Colocate, MemoryCap)

    def _devices(self, rows: FloatArray) -> IntArray:
        """Devices of all operators. Shape (rows, operators)."""
        picked = self._choices.pick(rows[:, : len(self._first)])
        return np.ascontiguousarray(picked[:, self.instance.cluster])

    def _played(self, rows: FloatArray, device: IntArray) -> tuple[IntArray, FloatArray, IntArray]:
        count = len(device)
        orders, makespans = np.zeros_like(device), np.zeros(count)
        used = np.zeros((count, len(self.instance.devices)), dtype=np.int64)
        keys = np.ascontiguousarray(rows[:, len(self._first) :])
        judge_plans(self.arrays, self.clusters, self._member, keys, device, orders, makespans, used)
        return orders, makespans, used

    def decode(self, row: FloatArray) -> Schedule:
        """The schedule that the list scheduler makes of a row."""
        device = self._devices(row[None])
        orders, _, _ = self._played(row[None], device)
        return schedule_of(self.instance, self.arrays, orders[0], device[0])

    def encode(self, solution: Schedule) -> FloatArray:
        """Its devices, and keys that rise with its starts."""
        starts, device = times_of(self.instance, solution)
        return self._row(starts, device)

    def _row(self, starts: FloatArray, device: IntArray) -> FloatArray:
        genes = self._choices.genes(device[self._first])
        return np.concatenate([genes, keys_of(order_by_start(self.instance, starts))])

    def judge(self, rows: FloatArray, measures: Sequence[str] = ()) -> Judged:
        """Judge rows; a missing link counts once for each flow over it."""
        del measures  # they are at hand
        device = self._devices(rows)
        _, makespans, used = self._played(rows, device)
        excess = over_capacity(used, self.instance.capacity)
        if self._links:
            leaves, arrives = device[:, self.arrays.source], device[:, self.arrays.target]
            missing = np.isinf(self.arrays.latency[leaves, arrives]).sum(axis=1)
            excess = np.concatenate([missing[:, None], excess], axis=1)
        peaks = used.max(axis=1, initial=0).astype(np.float64)
        return Judged(makespans, excess, {"makespan": makespans, "peak_bytes": peaks})

    def repair(self, rows: FloatArray) -> FloatArray:
        """Move what does not fit into its device's memory to where there is room."""
        if len(self.limits) == self._links:
            return rows
        device = self._devices(rows)
        make_room(self.arrays, self.clusters, self._member, device)
        genes = np.asarray([self._choices.genes(each[self._first]) for each in device])
        kept = self._choices.pick(genes) == self._choices.pick(rows[:, : len(self._first)])
        return np.concatenate([np.where(kept, rows[:, : len(self._first)], genes), rows[:, len(self._first) :]], axis=1)

    def seeds(self) -> Iterator[FloatArray]:
        """The list schedulers' plans."""
        rules = (partial(rule, self.instance, self.arrays) for rule in FIRST)
        return (self._row(plan.start, plan.device) for plan in plans_of(rules))


register_encoding(Placement, lambda problem, _run: PlacementEncoding(problem))
register_pymoo(Placement)
