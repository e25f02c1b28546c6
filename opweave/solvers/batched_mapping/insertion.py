"""List scheduling of batches: every operator in turn takes the string whose last batch ends first.

Batches are appended to their device's schedule (greedy) or put into the first gap that is long enough (HEFT). Memory
and links are respected throughout.
"""

from __future__ import annotations

import numpy as np

from opweave.formulations.batched_mapping.instance import BatchedInstance
from opweave.problems.arrays import BoolArray, FloatArray, FloatMatrix, IntArray, IntMatrix
from opweave.problems.graph_arrays import Adjacency, topological_order
from opweave.solvers.batched_mapping.arrays import BatchArrays
from opweave.solvers.batched_mapping.modules import arcs_of, depths
from opweave.solvers.batched_mapping.plans import BatchPlan, order_by_start, plan_of
from opweave.solvers.compiled import inlined, kernel
from opweave.solvers.rules import NoPlanError
from opweave.solvers.scheduling.busy_times import first_fit, new_timeline, occupy


def upward_rank(instance: BatchedInstance, arrays: BatchArrays) -> FloatArray:
    """Longest path from every operator to an end, with the whole batch on all devices at once and mean delays."""
    whole = instance.seconds[:, :, 1:]
    per_input = (whole / np.arange(1, instance.granules + 1)).min(axis=2, initial=np.inf)
    usable = np.isfinite(per_input) & (per_input > 0)
    speed = np.divide(1.0, per_input, out=np.zeros_like(per_input), where=usable).sum(axis=1)
    own = np.divide(float(instance.granules), speed, out=np.zeros_like(speed), where=speed > 0)
    share = max(1.0, instance.granules / max(1, len(instance.devices)))
    delays = arrays.base + arrays.slope * share
    linked = np.isfinite(delays)
    total = np.where(linked, delays, 0.0).sum(axis=(1, 2))
    mean = total / np.maximum(1, linked.sum(axis=(1, 2))) if len(delays) else np.zeros(0)
    rank = own.copy()
    waits = instance.waits.reversed(instance.operators)
    for i in instance.order[::-1].tolist():
        edges = instance.outgoing[i]
        behind = max((mean[edges] + rank[instance.target[edges]]).max(initial=0.0), rank[waits[i]].max(initial=0.0))
        rank[i] += behind
    return np.asarray(rank, dtype=np.float64)


def order_by(instance: BatchedInstance, rank: FloatArray | IntArray) -> IntArray:
    """Operators by decreasing rank, each after its predecessors; equal ranks in topological order."""
    place = np.argsort(instance.order)
    wanted = np.lexsort((place, -rank))
    position = np.argsort(wanted)
    early, late = arcs_of(instance)
    return wanted[topological_order(Adjacency.from_pairs(len(rank), position[early], position[late]))]


def breadth_first(instance: BatchedInstance) -> IntArray:
    """Operators layer by layer: by the longest path of edges before them."""
    return order_by(instance, -depths(instance))


def inserted(
    instance: BatchedInstance,
    arrays: BatchArrays,
    order: IntArray,
    strings: IntArray,
    *,
    busy_price: float = 0.0,
    gaps: bool = True,
) -> BatchPlan:
    """Schedule operators in an order, each by the string with the least score.

    Parameters
    ----------
    order
        Operators, predecessors first.
    strings
        Candidates for every operator, shape (strings, G); the strings of its predecessors are tried, too.
    busy_price
        Weight of the device seconds that a string takes.
    gaps
        Whether batches may fill gaps.

    Raises
    ------
    NoPlanError
        When an operator finds no string with run times, room and links.
    """
    operators, devices = arrays.seconds.shape[:2]
    where = np.zeros((operators, instance.granules), dtype=np.int64)
    end = np.full((operators, devices), -1.0)
    work = 8 * len(strings) * instance.granules * (operators + len(arrays.source))
    stuck = insert_all.sized(work)(arrays, order, strings, busy_price, gaps, where, end)
    if stuck >= 0:
        raise NoPlanError(
            f"operator {instance.names[stuck]!r} could not be spread over devices: batch sizes, memory or links "
            "did not fit after the operators before it were placed"
        )
    plan = plan_of(arrays, where, order_by_start(instance, where, end))  # the same order, every batch as soon as it can
    makespan = float(end.max(initial=0.0))
    return plan if plan.makespan <= makespan else BatchPlan(where, plan.order, end, makespan)


@kernel
def insert_all(
    arrays: BatchArrays,
    order: IntArray,
    strings: IntMatrix,
    busy_price: float,
    gaps: bool,
    where: IntMatrix,
    end: FloatMatrix,
) -> int:
    """Fill strings and ends; return the operator that found no string, or -1."""
    operators, devices = arrays.seconds.shape[:2]
    granules = strings.shape[1]
    timeline = new_timeline(devices, operators)
    used = np.zeros(devices, dtype=np.int64)
    holds = np.zeros((len(arrays.parameter_bytes), devices), dtype=np.bool_)
    ready = np.zeros(devices)
    count, best_count = np.zeros(devices, dtype=np.int64), np.zeros(devices, dtype=np.int64)
    flow = np.zeros((devices, devices), dtype=np.int64)
    for i in order:
        least, least_end = np.inf, np.inf
        own = arrays.in_start[i + 1] - arrays.in_start[i]
        for s in range(len(strings) + own):
            string = (
                strings[s]
                if s < len(strings)
                else where[arrays.source[arrays.incoming[arrays.in_start[i] + s - len(strings)]]]
            )
            count[:] = 0
            for g in range(granules):
                count[string[g]] += 1
            if not _fits(arrays, i, count, used, holds):
                continue
            _arrivals(arrays, i, string, where, end, flow, ready)
            busy, last = 0.0, 0.0
            for u in range(devices):
                if count[u] > 0:
                    lasts = arrays.seconds[i, u, count[u]]
                    last = max(last, first_fit(timeline, u, ready[u], lasts) + lasts)
                    busy += lasts
            score = last + busy_price * busy
            if score < least or (score == least and last < least_end):
                least, least_end = score, last
                where[i] = string
                best_count[:] = count
        if least == np.inf:
            return int(i)
        _arrivals(arrays, i, where[i], where, end, flow, ready)
        for u in range(devices):
            if best_count[u] > 0:
                lasts = arrays.seconds[i, u, best_count[u]]
                start = first_fit(timeline, u, ready[u], lasts)
                end[i, u] = start + lasts
                occupy(timeline, u, start if gaps else timeline.opens[u, 0], end[i, u])
                _hold(arrays, i, u, best_count[u], used, holds)
    return -1


@inlined
def _hold(arrays: BatchArrays, i: int, u: int, granules: int, used: IntArray, holds: BoolArray) -> None:
    """Allocate the memory of a batch of operator i on device u."""
    used[u] += arrays.memory[i] * granules
    for x in range(arrays.parameters_start[i], arrays.parameters_start[i + 1]):
        p = arrays.parameters[x]
        if not holds[p, u]:
            holds[p, u] = True
            used[u] += arrays.parameter_bytes[p]


@inlined
def _fits(arrays: BatchArrays, i: int, count: IntArray, used: IntArray, holds: BoolArray) -> bool:
    """Whether the counts are batches that can run and that fit into memory."""
    for u in range(len(count)):
        if arrays.seconds[i, u, count[u]] == np.inf:
            return False
        if arrays.limited and count[u] > 0:
            needed = used[u] + arrays.memory[i] * count[u]
            for x in range(arrays.parameters_start[i], arrays.parameters_start[i + 1]):
                if not holds[arrays.parameters[x], u]:
                    needed += arrays.parameter_bytes[arrays.parameters[x]]
            if needed > arrays.capacity[u]:
                return False
    return True


@inlined
def _arrivals(
    arrays: BatchArrays, i: int, string: IntArray, where: IntArray, end: FloatArray, flow: IntArray, ready: FloatArray
) -> None:
    """Write to ``ready`` the time at which the data of an operator's granules is on every device."""
    ready[:] = 0.0
    for x in range(arrays.in_start[i], arrays.in_start[i + 1]):
        e = arrays.incoming[x]
        h = arrays.source[e]
        for g in range(len(string)):
            flow[where[h, g], string[g]] += 1
        for g in range(len(string)):
            w, u = where[h, g], string[g]
            if flow[w, u] > 0:
                sent = 0.0 if w == u else arrays.base[e, w, u] + arrays.slope[e, w, u] * flow[w, u]
                ready[u] = max(ready[u], end[h, w] + sent)
                flow[w, u] = 0
    for x in range(arrays.waits_start[i], arrays.waits_start[i + 1]):
        latest = 0.0
        for u in range(len(ready)):
            latest = max(latest, end[arrays.waits[x], u])
        for u in range(len(ready)):
            ready[u] = max(ready[u], latest)
