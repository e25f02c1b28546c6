"""Batched mappings as rows: a device gene for every granule of every operator, then a key for every possible batch.

Numbers of granules that make no batch of a supported size are changed to the nearest ones that do, and the granules
that have to move go to the first devices that lack some. The batches run by their keys as soon as the batches that they
need have run, so a row can also interleave the batches of several operators.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

import numpy as np

from opweave.formulations.batched_mapping.instance import lower_unless_short
from opweave.problems.arrays import FloatArray, FloatCube, FloatMatrix, IntArray, IntCube, IntMatrix
from opweave.problems.batched_mapping.spec import BatchedMapping, BatchedSchedule
from opweave.problems.constraints import Constraint, Forbid, MemoryCap, Pin, Share
from opweave.solvers.batched_mapping.arrays import BatchArrays, Strings, arrays_of, can_run, new_strings, play
from opweave.solvers.batched_mapping.baselines import attempts
from opweave.solvers.batched_mapping.candidates import all_strings, groups_of
from opweave.solvers.batched_mapping.plans import BatchPlan, inputs_of, order_by_start, solution_of
from opweave.solvers.evolution.encoding import (
    Choices,
    Judged,
    keys_of,
    knows_arcs_and,
    memory_limits,
    over_capacity,
    register_encoding,
)
from opweave.solvers.evolution.solver import register_pymoo
from opweave.solvers.loops import helper, loop

MOST_CELLS = 4_000_000
"""Granules and batches judged at once, which bounds the memory that judging takes."""


@helper
def nearest_counts(seconds: FloatArray, wanted: IntArray, count: IntArray, cost: FloatArray, choice: IntArray) -> bool:
    """Fill ``count`` with supported batches that add up to all granules, as near to the wanted ones as possible.

    ``seconds`` are those of one operator. Shape (devices, G + 1); ``cost`` and ``choice`` have one row more. Returns
    whether there are such batches.
    """
    devices, sizes = seconds.shape
    cost[:] = np.inf
    cost[devices, 0] = 0.0  # cost[u, r]: granules off the wanted numbers when devices u, u + 1, ... take r granules
    for u in range(devices - 1, -1, -1):
        for taken in range(sizes):
            if seconds[u, taken] < np.inf:
                off = float(abs(taken - wanted[u]))
                for rest in range(sizes - taken):
                    if cost[u + 1, rest] + off < cost[u, rest + taken]:
                        cost[u, rest + taken] = cost[u + 1, rest] + off
                        choice[u, rest + taken] = taken
    left = sizes - 1
    if cost[0, left] == np.inf:
        return False
    for u in range(devices):
        count[u] = choice[u, left]
        left -= count[u]
    return True


@helper
def make_batches(arrays: BatchArrays, where: IntArray) -> None:
    """Change strings in place so that every batch has a supported size, if that is possible."""
    operators, granules = where.shape
    devices = arrays.seconds.shape[1]
    wanted = np.zeros(devices, dtype=np.int64)
    count = np.zeros(devices, dtype=np.int64)
    cost = np.zeros((devices + 1, granules + 1))
    choice = np.zeros((devices + 1, granules + 1), dtype=np.int64)
    for i in range(operators):
        wanted[:] = 0
        for g in range(granules):
            wanted[where[i, g]] += 1
        runs = True
        for u in range(devices):
            runs = runs and arrays.seconds[i, u, wanted[u]] < np.inf
        if runs or not nearest_counts(arrays.seconds[i], wanted, count, cost, choice):
            continue
        lacking = 0
        for g in range(granules):  # a first pass keeps what may stay, a second one moves the others
            if count[where[i, g]] > 0:
                count[where[i, g]] -= 1
            else:
                where[i, g] = -1
        for g in range(granules):
            if where[i, g] < 0:
                while count[lacking] == 0:
                    lacking += 1
                where[i, g] = lacking
                count[lacking] -= 1


@helper
def order_batches(
    arrays: BatchArrays,
    follow_start: IntArray,
    follow: IntArray,
    strings: Strings,
    key: FloatArray,
    order: IntArray,
) -> None:
    """Fill ``order`` with all nodes: batches by their keys as soon as the batches that they need have run.

    ``follow`` are the operators that wait for each operator because of side constraints.
    """
    operators, devices = strings.number.shape
    waiting = np.zeros(operators * devices, dtype=np.int64)
    heap = [(0.0, 0)]
    heap.clear()
    for i in range(operators):
        for u in range(devices):
            if strings.number[i, u] == 0:
                continue
            needs = 0
            for x in range(arrays.in_start[i], arrays.in_start[i + 1]):
                for w in range(devices):
                    needs += strings.flow[arrays.incoming[x], w, u] > 0
            for x in range(arrays.waits_start[i], arrays.waits_start[i + 1]):
                for w in range(devices):
                    needs += strings.number[arrays.waits[x], w] > 0
            waiting[i * devices + u] = needs
            if needs == 0:
                heappush(heap, (key[i * devices + u], i * devices + u))
    place, last = 0, len(order) - 1
    while len(heap) > 0:
        node = heappop(heap)[1]
        order[place] = node
        place += 1
        h, w = node // devices, node % devices
        for x in range(arrays.out_start[h], arrays.out_start[h + 1]):
            e = arrays.outgoing[x]
            for u in range(devices):
                if strings.flow[e, w, u] > 0:
                    after = arrays.target[e] * devices + u
                    waiting[after] -= 1
                    if waiting[after] == 0:
                        heappush(heap, (key[after], after))
        for x in range(follow_start[h], follow_start[h + 1]):
            for u in range(devices):
                if strings.number[follow[x], u] > 0:
                    after = follow[x] * devices + u
                    waiting[after] -= 1
                    if waiting[after] == 0:
                        heappush(heap, (key[after], after))
    for i in range(operators):
        for u in range(devices):
            if strings.number[i, u] == 0:  # nothing runs there; the order still lists the node
                order[last] = i * devices + u
                last -= 1


@loop
def judge_strings(
    arrays: BatchArrays,
    follow_start: IntArray,
    follow: IntArray,
    keys: FloatMatrix,
    where: IntCube,
    orders: IntMatrix,
    ends: FloatCube,
    makespans: FloatArray,
    used: IntMatrix,
) -> None:
    """Make batches of every row's strings; fill its order, ends, makespan (inf if it cannot run), bytes by device."""
    operators, devices = arrays.seconds.shape[:2]
    tail = np.zeros(arrays.seconds.shape)
    for p in range(len(where)):
        make_batches(arrays, where[p])
        strings = new_strings(arrays, where[p])
        order_batches(arrays, follow_start, follow, strings, keys[p], orders[p])
        runs = True
        for i in range(operators):
            runs = runs and can_run(arrays, strings, i)
        makespans[p] = np.inf
        if runs:
            free = np.zeros(devices)
            makespans[p] = play(arrays, strings, orders[p], 0, len(orders[p]), free, ends[p], tail, np.inf)
        used[p][:] = strings.used


class BatchedEncoding:
    """Batched mappings as device genes and keys."""

    whole_numbers = False
    measures = frozenset({"makespan", "peak_bytes"})

    def __init__(self, problem: BatchedMapping) -> None:
        self.problem = problem
        self.instance = instance = lower_unless_short(problem)
        self.arrays = arrays_of(instance)
        self._follow = instance.waits.reversed(instance.operators)
        self._choices = Choices.of(np.asarray(np.isfinite(instance.seconds[:, :, 1:]).any(axis=2)))
        self._granules = instance.operators * instance.granules
        genes = self._granules + instance.operators * len(instance.devices)
        self.lower, self.upper = np.zeros(genes), np.ones(genes)
        self.limits = ("links and batch sizes", *memory_limits(instance.devices, instance.capacity))
        sending = self.arrays.base + self.arrays.slope * instance.granules
        slowest = (np.where(np.isfinite(each), each, 0.0) for each in (instance.seconds, sending))
        self.worst = float(sum(each.max(axis=(1, 2), initial=0.0).sum() for each in slowest)) * len(instance.devices)

    def knows(self, constraint: Constraint) -> bool:
        """Pin, Forbid and Share restrict the batches; MemoryCap is memory; operators wait for precedences."""
        return knows_arcs_and(constraint, Pin, Forbid, Share, MemoryCap)

    def _strings(self, rows: FloatArray) -> IntArray:
        """Devices of all granules, before sizes are made supported ones. Shape (rows, operators, G)."""
        shape = (len(rows), self.instance.operators, self.instance.granules)
        return np.ascontiguousarray(self._choices.pick(rows[:, : self._granules].reshape(shape)))

    def _played(self, rows: FloatArray) -> tuple[IntArray, FloatArray, FloatArray, IntArray]:
        """Strings, ends, makespans and bytes by device; also of plans that overfill a device."""
        where, count = self._strings(rows), len(rows)
        devices = len(self.instance.devices)
        orders = np.zeros((count, self.instance.operators * devices), dtype=np.int64)
        ends = np.full((count, self.instance.operators, devices), -1.0)
        makespans, used = np.zeros(count), np.zeros((count, devices), dtype=np.int64)
        keys = np.ascontiguousarray(rows[:, self._granules :])
        judge_strings(self.arrays, self._follow.start, self._follow.items, keys, where, orders, ends, makespans, used)
        return where, ends, makespans, used

    def decode(self, row: FloatArray) -> BatchedSchedule:
        """The batches of a row, with their times."""
        where, ends, makespans, _ = self._played(row[None])
        order = order_by_start(self.instance, where[0], ends[0])
        return solution_of(self.instance, BatchPlan(where[0], order, ends[0], float(makespans[0])))

    def encode(self, solution: BatchedSchedule) -> FloatArray:
        """The devices of its inputs, sorted so that inputs with the same devices are adjacent, and keys by start.

        Inputs of one granule that run on different devices all get the device of the first.
        """
        where, end = inputs_of(self.instance, solution)
        ordered = where[:, np.lexsort(where[::-1])] if len(where) else where
        return self._row(np.ascontiguousarray(ordered[:, :: self.instance.granule]), end)

    def _row(self, strings: IntArray, end: FloatArray) -> FloatArray:
        genes = self._choices.genes(strings).ravel()
        return np.concatenate([genes, keys_of(order_by_start(self.instance, strings, end))])

    def judge(self, rows: FloatArray, measures: Sequence[str] = ()) -> Judged:
        """Judge rows; the first limit says whether links and batch sizes are there at all."""
        del measures  # they are at hand
        makespans, peaks, excess = np.zeros(len(rows)), np.zeros(len(rows)), np.zeros((len(rows), len(self.limits)))
        at_once = max(1, MOST_CELLS // max(1, rows.shape[1]))
        for first in range(0, len(rows), at_once):
            part = slice(first, first + at_once)
            _, _, makespans[part], used = self._played(rows[part])
            peaks[part] = used.max(axis=1, initial=0)
            excess[part, 1:] = over_capacity(used, self.instance.capacity)
        excess[:, 0] = ~np.isfinite(makespans)
        return Judged(makespans, excess, {"makespan": makespans, "peak_bytes": peaks})

    def repair(self, rows: FloatArray) -> FloatArray:
        """Write the supported batch sizes back into the genes."""
        where, before = self._played(rows)[0], self._strings(rows)
        genes = np.asarray([self._choices.genes(each) for each in where]).reshape(len(rows), -1)
        kept = (where == before).reshape(len(rows), -1)
        return np.concatenate([np.where(kept, rows[:, : self._granules], genes), rows[:, self._granules :]], axis=1)

    def seeds(self) -> Iterator[FloatArray]:
        """The list schedulers' plans, split and whole."""
        strings = all_strings(self.instance, groups_of(self.problem))
        plans = attempts(self.instance, self.arrays, strings) if self.instance.operators else ()
        return (self._row(plan.where, plan.end) for plan in plans if np.isfinite(plan.makespan))


register_encoding(BatchedMapping, lambda problem, _run: BatchedEncoding(problem))
register_pymoo(BatchedMapping)
