"""Plans of batched mapping: strings and an order, the times that follow from them, and the matching solution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opweave.formulations.batched_mapping.instance import BatchedInstance
from opweave.formulations.batched_mapping.plans import counts_of
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.batched_mapping.spec import Batch, BatchedSchedule
from opweave.solvers.batched_mapping.anneal import DRAWS, anneal, new_walk
from opweave.solvers.batched_mapping.arrays import BatchArrays, no_strings
from opweave.solvers.run import Run


@dataclass(frozen=True, slots=True, eq=False)
class BatchPlan:
    """A plan with all its times.

    Attributes
    ----------
    where
        Device of every granule of every operator. Shape (operators, G).
    order
        All (operator, device) nodes, numbered ``operator * devices + device``, in decoding order.
    end
        End of every batch, -1 where there is none. Shape (operators, devices).
    makespan
        Seconds; inf when the plan cannot run.
    """

    where: IntArray
    order: IntArray
    end: FloatArray
    makespan: float


def plan_of(arrays: BatchArrays, where: IntArray, order: IntArray) -> BatchPlan:
    """Decode strings in an order."""
    walk, nothing = new_walk(arrays, where), np.zeros((0, DRAWS))
    strings, tail = no_strings(arrays, where), np.zeros(walk.end.shape)
    makespan, _ = anneal(arrays, strings, order, tail, where, nothing, np.zeros(0), walk)
    return BatchPlan(where, order, walk.end, float(makespan))


def order_by_start(instance: BatchedInstance, where: IntArray, end: FloatArray) -> IntArray:
    """Nodes by the starts of their batches, zero times first; without a batch, by the operator's mean start."""
    operators, devices = end.shape
    rank = np.empty(operators, dtype=np.int64)
    rank[instance.order] = np.arange(operators)
    count = counts_of(where, devices)
    there = count > 0
    lasts = np.take_along_axis(instance.seconds, count[:, :, None], axis=2)[:, :, 0]
    start = np.where(there, end - np.where(np.isfinite(lasts), lasts, 0.0), 0.0)
    mean = start.sum(axis=1) / np.maximum(1, there.sum(axis=1))
    start = np.where(there, start, mean[:, None])
    return np.lexsort((np.repeat(rank, devices), end.ravel(), start.ravel())).astype(np.int64)


def solution_of(instance: BatchedInstance, plan: BatchPlan) -> BatchedSchedule:
    """The solution of a plan; transfers leave at once and are not listed."""
    count = counts_of(plan.where, len(instance.devices))
    operator, device = np.nonzero(count)
    number = count[operator, device]
    ends = plan.end[operator, device]
    starts = np.maximum(0.0, ends - instance.seconds[operator, device, number])
    inputs = np.argsort(np.repeat(plan.where, instance.granule, axis=1), axis=1, kind="stable").ravel()
    last = np.cumsum(number * instance.granule)
    first, numbers = (last - number * instance.granule).tolist(), inputs.tolist()
    parts = [tuple(numbers[a:b]) for a, b in zip(first, last.tolist(), strict=True)]
    rows = np.lexsort((ends, starts))
    batches = Batch.made_of_rows(
        operator=[instance.names[i] for i in operator[rows].tolist()],
        device=[instance.devices[u] for u in device[rows].tolist()],
        inputs=[parts[row] for row in rows.tolist()],
        start=starts[rows].tolist(),
        end=ends[rows].tolist(),
    )
    return BatchedSchedule.made_of(batches=tuple(batches), transfers=())


def inputs_of(instance: BatchedInstance, solution: BatchedSchedule) -> tuple[IntArray, FloatArray]:
    """Device of every input of every operator (operators, batch), and the ends of all batches (operators, devices)."""
    row = {name: i for i, name in enumerate(instance.names)}
    column = {name: u for u, name in enumerate(instance.devices)}
    where = np.zeros((instance.operators, instance.batch), dtype=np.int64)
    end = np.full((instance.operators, len(instance.devices)), -1.0)
    for batch in solution.batches:
        i, u = row[batch.operator], column[batch.device]
        where[i, list(batch.inputs)] = u
        end[i, u] = batch.end
    return where, end


def granules_of(instance: BatchedInstance, solution: BatchedSchedule) -> BatchPlan | None:
    """A solution as strings; None when some inputs of one granule run on different devices.

    The inputs are renumbered so that inputs with the same devices throughout are adjacent.
    """
    where, end = inputs_of(instance, solution)
    ordered = where[:, np.lexsort(where[::-1])] if len(where) else where
    blocks = ordered.reshape(len(where), instance.granules, instance.granule)
    if (blocks != blocks[:, :, :1]).any():
        return None
    strings = np.ascontiguousarray(blocks[:, :, 0])
    return BatchPlan(strings, order_by_start(instance, strings, end), end, float(end.max(initial=0.0)))


def report(instance: BatchedInstance, plan: BatchPlan, run: Run) -> bool:
    """Report a plan if it can run; return whether it is the best so far."""
    worse = run.objective is not None and plan.makespan >= run.objective
    if worse or not np.isfinite(plan.makespan):
        return False
    return run.found(solution_of(instance, plan), plan.makespan)
