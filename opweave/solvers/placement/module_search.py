"""Exact placement of a small module: branch and bound over devices, then over the orders of overlapping jobs.

Operators get their devices one after the other, predecessors first. A partial assignment is pruned when one of three
bounds reaches the incumbent's makespan: the critical path with the chosen devices fixed; the work at prices of time; or
the one-machine bound of a device or port, whose jobs are the operators and transfers settled so far, between their
heads and tails. Each bound holds for every completion. A full assignment goes to :mod:`.sequencing`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, FloatMatrix, IntArray
from opweave.solvers.kernels import FIRST_STEPS
from opweave.solvers.loops import clock, helper, loop
from opweave.solvers.placement.arrays import DELAY, PORT_TENSOR, PlacementArrays, order_of_graph
from opweave.solvers.placement.bounds.area import quick_area
from opweave.solvers.placement.bounds.critical_path import reach_of
from opweave.solvers.placement.moves import SIZE, SOURCE, TARGET, TENSOR, Net, net_of
from opweave.solvers.placement.sequencing import CLOSE, Jobs, machine_bound, room_for, sequence

LARGEST_SEARCHED = 130
"""Most operators of a module or window that is searched."""

PAIRS = 200_000_000
"""Pairs of operators that a search looks at in a second, about: all of them in every node."""


def nodes_within(seconds: float, operators: int) -> int:
    """Nodes that a search visits in some seconds, about."""
    return int(PAIRS * seconds / operators**2)


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


class ModuleSpace(NamedTuple):
    """What a search works on, apart from the jobs of the assignment that is tried.

    Attributes
    ----------
    seconds
        Run times with only the chosen device of operators that have one. Shape (operators, devices).
    heads, tails, values
        Of the assignment that is tried, and the bounds of the devices at every depth. Shape (operators, devices).
    left, spent
        Least priced work of the operators from every depth on, and priced work before it. Shape (operators + 1,).
    job_of
        The job of every flow, -1 for none.
    """

    seconds: FloatMatrix
    heads: FloatMatrix
    tails: FloatMatrix
    values: FloatMatrix
    left: FloatArray
    spent: FloatArray
    job_of: IntArray


@helper
def settled_jobs(net: Net, device: IntArray, space: ModuleSpace, jobs: Jobs) -> int:
    """Write the operators and transfers with known devices as jobs; return their number."""
    seconds, links, flows, job_of = net.seconds, net.links, net.flows, space.job_of
    heads, tails, machines = space.heads, space.tails, jobs.machines
    count, devices = seconds.shape
    for v in range(count):
        k = device[v]
        jobs.heads[v] = jobs.lasts[v] = jobs.tails[v] = 0.0
        machines[v, 0], machines[v, 1] = k, -1
        if k >= 0:
            jobs.heads[v], jobs.lasts[v], jobs.tails[v] = heads[v, k], seconds[v, k], tails[v, k]
    size = count
    for f in range(len(flows)):
        job_of[f] = -1
        u, v = flows[f, SOURCE], flows[f, TARGET]
        a, b = device[u], device[v]
        if net.model == DELAY or a < 0 or b < 0 or a == b:
            continue
        job = -1
        for i in range(net.outs[u], net.outs[u + 1] if net.model == PORT_TENSOR else 0):
            g = net.outs[i]
            if g < f and job_of[g] >= 0 and flows[g, TENSOR] == flows[f, TENSOR] and device[flows[g, TARGET]] == b:
                job = job_of[g]
        if job < 0:
            job = size
            size += 1
            jobs.heads[job], jobs.tails[job] = heads[u, a] + seconds[u, a], 0.0
            jobs.lasts[job] = links[0, a, b] + flows[f, SIZE] * links[1, a, b]
            machines[job, 0], machines[job, 1] = devices + a, 2 * devices + b
        job_of[f] = job
        jobs.tails[job] = max(jobs.tails[job], seconds[v, b] + tails[v, b])
    return int(size)


@helper
def partial_bound(net: Net, device: IntArray, space: ModuleSpace, jobs: Jobs) -> float:
    """Critical path and one-machine bounds of a partial assignment."""
    heads, tails, best = space.heads, space.tails, 0.0
    count, devices = heads.shape
    for v in range(count):
        least = np.inf
        for k in range(devices):
            if heads[v, k] < np.inf and (device[v] < 0 or device[v] == k):
                least = min(least, heads[v, k] + net.seconds[v, k] + tails[v, k])
        best = max(best, least)
    if best == np.inf:
        return best
    size, members = settled_jobs(net, device, space, jobs), jobs.members[0]
    for m in range(3 * devices):
        filled = 0
        for i in range(size):
            if jobs.lasts[i] > 0.0 and (jobs.machines[i, 0] == m or jobs.machines[i, 1] == m):
                members[filled] = i
                filled += 1
        if filled > 1:
            best = max(best, machine_bound(jobs.heads, jobs.lasts, jobs.tails, members, filled))
    return best


@helper
def leave(net: Net, space: ModuleSpace, v: int, k: int) -> None:
    """Leave an operator the time of one device only; -1 for those of all."""
    for a in range(space.seconds.shape[1]):
        space.seconds[v, a] = net.seconds[v, a] if k < 0 or a == k else np.inf


@helper
def raise_heads(net: Net, seconds: FloatMatrix, order: IntArray, back: bool, heads: FloatMatrix) -> None:
    """Write the heads that the predecessors require, with ``seconds`` as run times; with ``back`` the tails."""
    before, ins = (net.after, net.outs) if back else (net.before, net.ins)
    links, flows, devices, near = net.links, net.flows, seconds.shape[1], TARGET if back else SOURCE
    for at in range(len(order)):
        v, ready = order[len(order) - 1 - at if back else at], 0.0
        for i in range(before[v], before[v + 1]):
            u, least = before[i], np.inf
            for a in range(devices):
                least = min(least, heads[u, a] + seconds[u, a])
            ready = max(ready, least)
        for k in range(devices):
            start = ready if seconds[v, k] < np.inf else np.inf
            for i in range(ins[v], ins[v + 1]):
                f = ins[i]
                u, least = flows[f, near], np.inf
                for a in range(devices):
                    x, y = (k, a) if back else (a, k)
                    sent = links[0, x, y] + flows[f, SIZE] * links[1, x, y]
                    least = min(least, heads[u, a] + seconds[u, a] + sent)
                start = max(start, least)
            heads[v, k] = start


@helper
def assigned_jobs(net: Net, device: IntArray, space: ModuleSpace, jobs: Jobs) -> int:
    """Write all jobs of a full assignment, with the arcs between them; return their number."""
    links, flows, before, lag, job_of = net.links, net.flows, net.before, jobs.lag, space.job_of
    size = settled_jobs(net, device, space, jobs)
    for i in range(size):
        for j in range(size):
            lag[i, j] = -1.0
    for v in range(len(device)):
        for i in range(before[v], before[v + 1]):
            lag[before[i], v] = 0.0
    for f in range(len(flows)):
        u, v = flows[f, SOURCE], flows[f, TARGET]
        a, b = device[u], device[v]
        if job_of[f] >= 0:
            lag[u, job_of[f]] = 0.0
            lag[job_of[f], v] = 0.0
        elif a != b:
            lag[u, v] = max(lag[u, v], links[0, a, b] + flows[f, SIZE] * links[1, a, b])
    return size


@helper
def try_devices(
    net: Net,
    order: IntArray,
    device: IntArray,
    depth: int,
    price: FloatArray,
    upper: float,
    space: ModuleSpace,
    jobs: Jobs,
) -> int:
    """Write the bounds of an operator's devices to the row of its depth; return how many were tried."""
    v, work, tried = order[depth], space.spent[depth] + space.left[depth + 1], 0
    for k in range(len(price)):
        space.values[depth, k] = np.inf
        area = work + price[k] * net.seconds[v, k]
        if net.seconds[v, k] == np.inf or area >= upper * (1.0 - CLOSE):
            continue
        tried += 1
        device[v] = k
        leave(net, space, v, k)
        for side in range(2):  # a second call compiles as long again
            raise_heads(net, space.seconds, order, side == 1, space.tails if side == 1 else space.heads)
        space.values[depth, k] = max(area, partial_bound(net, device, space, jobs))
    leave(net, space, v, -1)
    device[v] = -1
    return tried


@helper
def write_plan(
    space: ModuleSpace, jobs: Jobs, device: IntArray, plan: IntArray, start: FloatArray, begins: FloatArray
) -> None:
    """Write devices, starts, and the starts of transfers, each at the first of its flows; -1 at all others."""
    for v in range(len(device)):
        plan[v], start[v] = device[v], jobs.starts[v]
    for f in range(len(begins)):
        job, begins[f] = space.job_of[f], -1.0
        if job >= 0:
            begins[f], jobs.starts[job] = jobs.starts[job], -1.0


@loop
def search_assignments(
    net: Net,
    order: IntArray,
    price: FloatArray,
    upper: float,
    budget: int,
    space: ModuleSpace,
    jobs: Jobs,
    device: IntArray,
    best_device: IntArray,
    best_start: FloatArray,
    best_begins: FloatArray,
) -> tuple[float, bool]:
    """Best makespan below ``upper``, and whether the search finished; fills the plan when there is one."""
    count, devices = net.seconds.shape
    values, spent = space.values, space.spent
    depth, fresh = 0, True
    while depth >= 0:
        if depth == count:
            size = assigned_jobs(net, device, space, jobs)
            better, budget = sequence(jobs, size, upper, budget)
            if better < upper:
                upper = better
                write_plan(space, jobs, device, best_device, best_start, best_begins)
            if budget < 0:
                return upper, False
            depth, fresh = depth - 1, False
            continue
        v = order[depth]
        if fresh:
            budget -= try_devices(net, order, device, depth, price, upper, space, jobs)
            if budget < 0:
                return upper, False
        leave(net, space, v, -1)
        device[v] = -1
        k = 0
        for a in range(devices):
            k = a if values[depth, a] < values[depth, k] else k
        if values[depth, k] >= upper * (1.0 - CLOSE):
            depth, fresh = depth - 1, False
            continue
        values[depth, k] = np.inf
        device[v] = k
        leave(net, space, v, k)
        spent[depth + 1] = spent[depth] + price[k] * net.seconds[v, k]
        depth, fresh = depth + 1, True
    return upper, True


def search_module(
    arrays: PlacementArrays,
    upper: float,
    lower_bound: float,
    budget: int,
    stop: Callable[[float], bool] = lambda _: False,
) -> Found:
    """The shortest plan of a small instance; of its constraints, only run times and arcs are seen, not memory.

    A search that visits more than a few nodes begins again, below the best plan so far, with twice as many each time.

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
    stop
        Asked whether to end rather than to search for about so many seconds more.
    """
    order = order_of_graph(arrays)
    reach = reach_of(arrays, order)
    ends = np.minimum(reach.heads.min(axis=0) + reach.tails.min(axis=0), lower_bound)
    area = quick_area(arrays.seconds, ends)
    count, flows = len(order), len(arrays.source)
    able = np.isfinite(arrays.seconds)
    worth = np.where(able, area.time * np.where(able, arrays.seconds, 0.0), np.inf).min(axis=1)[order]
    left = np.concatenate([np.cumsum(worth[::-1])[::-1], [0.0]])
    spent = np.full(count + 1, float(area.time @ ends))
    heads, tails, values = (np.zeros((count, len(ends))) for _ in range(3))
    space = ModuleSpace(arrays.seconds.copy(), heads, tails, values, left, spent, np.full(flows, -1))
    jobs = room_for(count + flows, 3 * len(ends))
    device, chosen = np.full(count, -1), np.full(count, -1)
    start, begins = np.zeros(count), np.full(flows, -1.0)
    # every end within a search is below this, and sums with it stay finite
    net, value, nodes = net_of(arrays), min(upper, 1e300), min(FIRST_STEPS, budget)
    while True:
        began = clock()
        space.seconds[:], chosen[:] = arrays.seconds, -1
        value, proved = search_assignments(
            net, order, area.time, value, nodes, space, jobs, chosen, device, start, begins
        )
        if proved or nodes == budget or stop(2.0 * (clock() - began)):
            break
        nodes = min(2 * nodes, budget)
    return Found(float(value) if device[0] >= 0 else upper, bool(proved), device, start, begins)
