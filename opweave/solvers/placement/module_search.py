"""Exact placement of a small module: branch and bound over devices, then over the orders of overlapping jobs.

Operators get their devices one after the other, predecessors first. A partial assignment is pruned when one of three
bounds reaches the incumbent's makespan: the critical path with the chosen devices fixed; the work at prices of time; or
the one-machine bound of a device or port, whose jobs are the operators and transfers settled so far, between their
heads and tails. Each bound holds for every completion. A full assignment goes to :mod:`.sequencing`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, FloatMatrix, IntArray
from opweave.solvers.loops import helper, loop
from opweave.solvers.placement.arrays import DELAY, PORT_TENSOR, PlacementArrays, order_of_graph, reversed_net
from opweave.solvers.placement.bounds.area import quick_area
from opweave.solvers.placement.bounds.critical_path import reach_of
from opweave.solvers.placement.plans import Plan
from opweave.solvers.placement.sequencing import CLOSE, Jobs, machine_bound, sequence


class Found(NamedTuple):
    """The result of a search on a module.

    Attributes
    ----------
    makespan
        The best makespan, or the given upper bound when nothing is better.
    proved
        Whether nothing shorter exists.
    device, start, begins
        Those of the plan; device -1 when none was found.
    bound
        The lower bound that the search proved, 0 for none.
    """

    makespan: float
    proved: bool
    device: IntArray
    start: FloatArray
    begins: FloatArray
    bound: float = 0.0

    def plan(self) -> Plan:
        """The plan, if one was found."""
        order = np.argsort(self.start, kind="stable").astype(np.int64)
        return Plan(order, self.device, self.start, self.begins, self.makespan)


@helper
def settled_jobs(
    arrays: PlacementArrays, device: IntArray, heads: FloatArray, tails: FloatArray, job_of: IntArray
) -> tuple[int, FloatArray, FloatArray, FloatArray, IntArray]:
    """Operators and transfers with known devices: count, heads, durations, tails, machines; fills the flows' jobs."""
    count, devices = heads.shape
    most = count + len(arrays.source)
    head, last, tail = np.zeros(most), np.zeros(most), np.zeros(most)
    machines = np.full((most, 2), -1, dtype=np.int64)
    jobs = count
    for v in range(count):
        k = device[v]
        if k >= 0:
            head[v], last[v], tail[v], machines[v, 0] = heads[v, k], arrays.seconds[v, k], tails[v, k], k
    for f in range(len(arrays.source)):
        job_of[f] = -1
    for f in range(len(arrays.source)):
        u, v = arrays.source[f], arrays.target[f]
        a, b = device[u], device[v]
        if arrays.model == DELAY or a < 0 or b < 0 or a == b:
            continue
        job = -1
        if arrays.model == PORT_TENSOR:
            for g in range(f):
                if job_of[g] >= 0 and arrays.tensor[g] == arrays.tensor[f] and device[arrays.target[g]] == b:
                    job = job_of[g]
        if job < 0:
            job = jobs
            jobs += 1
            head[job], last[job] = (
                heads[u, a] + arrays.seconds[u, a],
                (arrays.latency[a, b] + arrays.size[f] * arrays.per_byte[a, b]),
            )
            machines[job, 0], machines[job, 1] = devices + a, 2 * devices + b
        job_of[f] = job
        tail[job] = max(tail[job], arrays.seconds[v, b] + tails[v, b])
    return jobs, head, last, tail, machines


@helper
def partial_bound(arrays: PlacementArrays, device: IntArray, heads: FloatArray, tails: FloatArray) -> float:
    """Critical path and one-machine bounds of a partial assignment."""
    count, devices = heads.shape
    best = 0.0
    for v in range(count):
        least = np.inf
        for k in range(devices):
            if heads[v, k] < np.inf and (device[v] < 0 or device[v] == k):
                least = min(least, heads[v, k] + arrays.seconds[v, k] + tails[v, k])
        best = max(best, least)
    if best == np.inf:
        return best
    job_of = np.empty(len(arrays.source), dtype=np.int64)
    jobs, head, last, tail, machines = settled_jobs(arrays, device, heads, tails, job_of)
    members = np.empty(jobs, dtype=np.int64)
    for m in range(3 * devices):
        filled = 0
        for i in range(jobs):
            if last[i] > 0.0 and (machines[i, 0] == m or machines[i, 1] == m):
                members[filled] = i
                filled += 1
        if filled > 1:
            best = max(best, machine_bound(head, last, tail, members, filled))
    return best


@helper
def leave(arrays: PlacementArrays, seconds: FloatMatrix, v: int, k: int) -> None:
    """Leave an operator the time of one device only; -1 for those of all."""
    for a in range(seconds.shape[1]):
        seconds[v, a] = arrays.seconds[v, a] if k < 0 or a == k else np.inf


@helper
def raise_heads(
    arrays: PlacementArrays, seconds: FloatMatrix, order: IntArray, backwards: bool, heads: FloatMatrix
) -> None:
    """Raise ``heads`` (lower bounds on entry) to what the predecessors require, with ``seconds`` as run times."""
    devices = seconds.shape[1]
    for at in range(len(order)):
        v, ready = order[len(order) - 1 - at if backwards else at], 0.0
        for i in range(arrays.before_start[v], arrays.before_start[v + 1]):
            u = arrays.before[i]
            least = np.inf
            for a in range(devices):
                least = min(least, heads[u, a] + seconds[u, a])
            ready = max(ready, least)
        for k in range(devices):
            if seconds[v, k] == np.inf:
                heads[v, k] = np.inf
                continue
            start = max(ready, heads[v, k])
            for i in range(arrays.in_start[v], arrays.in_start[v + 1]):
                f = arrays.incoming[i]
                u = arrays.source[f]
                least = np.inf
                for a in range(devices):
                    sent = arrays.latency[a, k] + arrays.size[f] * arrays.per_byte[a, k]
                    least = min(least, heads[u, a] + seconds[u, a] + sent)
                start = max(start, least)
            heads[v, k] = start


@helper
def assigned_jobs(arrays: PlacementArrays, device: IntArray, job_of: IntArray) -> Jobs:
    """All jobs of a full assignment, with the arcs between them."""
    count, devices = arrays.seconds.shape
    zeros = np.zeros((count, devices))
    jobs, _, last, _, machines = settled_jobs(arrays, device, zeros, zeros, job_of)
    lag = np.full((jobs, jobs), -1.0)
    for v in range(count):
        for i in range(arrays.before_start[v], arrays.before_start[v + 1]):
            lag[arrays.before[i], v] = 0.0
    for f in range(len(arrays.source)):
        u, v = arrays.source[f], arrays.target[f]
        if job_of[f] >= 0:
            lag[u, job_of[f]] = 0.0
            lag[job_of[f], v] = 0.0
        elif device[u] != device[v]:
            lag[u, v] = max(
                lag[u, v],
                (arrays.latency[device[u], device[v]] + arrays.size[f] * arrays.per_byte[device[u], device[v]]),
            )
    return Jobs(last, machines, lag)


@helper
def try_devices(
    arrays: PlacementArrays,
    back: PlacementArrays,
    order: IntArray,
    seconds: FloatMatrix,
    device: IntArray,
    v: int,
    work: float,
    price: FloatArray,
    upper: float,
    values: FloatMatrix,
    row: int,
) -> int:
    """Fill a row with the bounds of an operator's devices, given the priced ``work`` of all others; return how many."""
    count, devices = arrays.seconds.shape
    heads, tails = np.zeros((count, devices)), np.zeros((count, devices))
    tried = 0
    for k in range(devices):
        values[row, k] = np.inf
        if arrays.seconds[v, k] == np.inf:
            continue
        area = work + price[k] * arrays.seconds[v, k]
        if area >= upper * (1.0 - CLOSE):
            continue
        tried += 1
        device[v] = k
        leave(arrays, seconds, v, k)
        for u in range(count):
            for a in range(devices):
                heads[u, a] = tails[u, a] = 0.0
        raise_heads(arrays, seconds, order, False, heads)
        raise_heads(back, seconds, order, True, tails)
        values[row, k] = max(area, partial_bound(arrays, device, heads, tails))
    leave(arrays, seconds, v, -1)
    device[v] = -1
    return tried


@helper
def dues_left(arrays: PlacementArrays, order: IntArray, cost: FloatMatrix) -> FloatArray:
    """Least cost of the operators from every position on, each on a device that may run it. Shape (operators + 1,)."""
    count, devices = arrays.seconds.shape
    left = np.zeros(count + 1)
    for position in range(count - 1, -1, -1):
        v, least = order[position], np.inf
        for k in range(devices):
            if arrays.seconds[v, k] < np.inf:
                least = min(least, cost[v, k])
        left[position] = left[position + 1] + least
    return left


@helper
def _list_transfers(start: FloatArray, job_of: IntArray, begins: FloatArray) -> None:
    """Write the starts of transfers, each at the first of its flows; -1 at all others."""
    listed = np.zeros(len(start), dtype=np.bool_)
    for f in range(len(job_of)):
        begins[f] = -1.0
        if job_of[f] >= 0 and not listed[job_of[f]]:
            begins[f] = start[job_of[f]]
            listed[job_of[f]] = True


@loop
def search_assignments(
    arrays: PlacementArrays,
    back: PlacementArrays,
    order: IntArray,
    price: FloatArray,
    idle: float,
    upper: float,
    budget: int,
    best_device: IntArray,
    best_start: FloatArray,
    best_begins: FloatArray,
) -> tuple[float, bool]:
    """Best makespan below ``upper``, and whether the search finished; fills the plan when there is one.

    ``back`` holds the reversed arrays; ``idle`` plus the work at the prices of time is a valid bound.
    """
    count, devices = arrays.seconds.shape
    seconds = np.empty((count, devices))
    for v in range(count):
        leave(arrays, seconds, v, -1)
    device = np.full(count, -1, dtype=np.int64)
    job_of = np.full(len(arrays.source), -1, dtype=np.int64)
    values = np.full((count, devices), np.inf)
    worth = np.zeros((count, devices))
    for v in range(count):
        for k in range(devices):
            if arrays.seconds[v, k] < np.inf:
                worth[v, k] = price[k] * arrays.seconds[v, k]
    least = dues_left(arrays, order, worth)
    spent = np.full(count + 1, idle)
    depth, fresh = 0, True
    while depth >= 0:
        if depth == count:
            jobs = assigned_jobs(arrays, device, job_of)
            start = np.zeros(len(jobs.lag))
            better, budget = sequence(jobs, 3 * devices, upper, budget, start)
            if better < upper:
                upper = better
                for v in range(count):
                    best_device[v], best_start[v] = device[v], start[v]
                _list_transfers(start, job_of, best_begins)
            if budget < 0:
                return upper, False
            depth, fresh = depth - 1, False
            continue
        v = order[depth]
        if fresh:
            work = spent[depth] + least[depth + 1]
            budget -= try_devices(arrays, back, order, seconds, device, v, work, price, upper, values, depth)
            if budget < 0:
                return upper, False
        leave(arrays, seconds, v, -1)
        device[v] = -1
        k = 0
        for a in range(devices):
            k = a if values[depth, a] < values[depth, k] else k
        if values[depth, k] >= upper * (1.0 - CLOSE):
            depth, fresh = depth - 1, False
            continue
        values[depth, k] = np.inf
        device[v] = k
        leave(arrays, seconds, v, k)
        spent[depth + 1] = spent[depth] + price[k] * arrays.seconds[v, k]
        depth, fresh = depth + 1, True
    return upper, True


def search_module(
    arrays: PlacementArrays,
    upper: float,
    lower_bound: float,
    budget: int,
) -> Found:
    """The shortest plan of a small instance; of its constraints, only run times and arcs are seen, not memory.

    Parameters
    ----------
    arrays
        The problem.
    upper
        Only plans shorter than this are sought; inf for any.
    lower_bound
        Any lower bound.
    budget
        Most nodes to search.
    """
    order = order_of_graph(arrays)
    reach = reach_of(arrays, order)
    ends = np.minimum(reach.heads.min(axis=0) + reach.tails.min(axis=0), lower_bound)
    area = quick_area(arrays.seconds, ends)
    device = np.full(len(order), -1, dtype=np.int64)
    start, begins = np.zeros(len(order)), np.full(len(arrays.source), -1.0)
    # every end within a search is below this, and sums with it stay finite
    limit = min(upper, 1e300)
    value, proved = search_assignments(
        arrays,
        reversed_net(arrays),
        order,
        area.time,
        float(area.time @ ends),
        limit,
        budget,
        device,
        start,
        begins,
    )
    return Found(float(value) if device[0] >= 0 else upper, bool(proved), device, start, begins)
