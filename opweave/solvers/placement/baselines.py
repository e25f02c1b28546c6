"""Baselines of placement, cheapest first: one device, filled devices, and two published list rules.

``fill`` fills memory in the order of the model file, as runtimes that split a model over devices do by default: a
device receives operators until the next one does not fit; then the next device continues (``device_map="auto"`` of
Hugging Face accelerate, layer splits of llama.cpp).

HEFT takes operators by decreasing upward rank, and each takes the device where it ends soonest; operators and transfers
may fill gaps that earlier decisions left. m-ETF takes, step by step, the ready operator and the device that can start
first; the upward rank breaks ties. Ports, and for HEFT memory, are added here.

Sources: HEFT: H. Topcuoglu, S. Hariri, M.-Y. Wu, "Performance-effective and low-complexity task scheduling for
heterogeneous computing", IEEE TPDS 13(3), 2002, doi:10.1109/71.993206. ETF: J.-J. Hwang, Y.-C. Chow, F. D. Anger,
C.-Y. Lee, "Scheduling precedence graphs in systems with interprocessor communication times", SIAM J. Computing 18(2),
1989, doi:10.1137/0218016; with memory: B. Jeon et al., "Baechi: fast device placement of machine learning graphs",
SoCC 2020, doi:10.1145/3419111.3421302.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.placement.instance import SUPPORTS, PlacementInstance, lower, lower_unless_short
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.placement.spec import Placement, Schedule
from opweave.solvers.kernels.sorting import lengths_of
from opweave.solvers.loops import loop
from opweave.solvers.placement.arrays import (
    PORT_TENSOR,
    PlacementArrays,
    arrays_of,
    arrival,
    new_clock,
    place,
)
from opweave.solvers.placement.blocking.auto import carry_out_in_one_place
from opweave.solvers.placement.insertion import insert_all
from opweave.solvers.placement.memory_state import Clusters, clusters_of, has_room, new_room, settle
from opweave.solvers.placement.plans import Plan, fits, memory_used, plan_of, report, shortage, solution_of
from opweave.solvers.placement.ranks import order_by, order_of_graph, upward_rank
from opweave.solvers.rules import NoPlanError, plans_of, register_rule
from opweave.solvers.run import Run

Rule = Callable[[PlacementInstance, PlacementArrays], Plan]
"""Builds a plan that fits, or raises :class:`~opweave.solvers.rules.NoPlanError`."""


def one_device(instance: PlacementInstance, arrays: PlacementArrays) -> Plan:
    """The best single device that may run every operator and holds them all."""
    order = order_of_graph(arrays)
    reasons = []
    total = arrays.seconds.sum(axis=0)
    for k in np.argsort(total, kind="stable").tolist():
        device = np.full(len(order), k, dtype=np.int64)
        if not np.isfinite(total[k]):
            refused = instance.names[int(np.isinf(arrays.seconds[:, k]).argmax())]
            reasons.append(f"device {instance.devices[k]!r} cannot run operator {refused!r}")
        elif memory_used(arrays, device)[k] > arrays.capacity[k]:
            reasons.append(str(shortage(instance, arrays, device)))
        else:
            return plan_of(arrays, order, device)
    raise NoPlanError(f"no single device is enough: {'; '.join(reasons)}")


def fill(instance: PlacementInstance, arrays: PlacementArrays) -> Plan:
    """Fill each device as far as possible, in the order of the cluster.

    An operator that fits neither the current device nor a later one goes wherever it fits. As a last resort, the
    largest operators go first.
    """
    order, clusters = order_of_graph(arrays), clusters_of(instance, arrays)
    stuck = 0
    for candidate in (order, _largest_first(arrays, clusters)):
        device = np.full(len(order), -1, dtype=np.int64)
        stuck = int(fill_in_order(arrays, clusters, candidate, device))
        if stuck < 0:
            plan = plan_of(arrays, order, device)
            if np.isfinite(plan.makespan):
                return plan
            raise NoPlanError("filling the devices in turn needs a link that the cluster does not have")
    raise NoPlanError(no_device(instance, stuck))


def _largest_first(arrays: PlacementArrays, clusters: Clusters) -> IntArray:
    """Operators with the fewest possible devices first, then by decreasing bytes of their cluster."""
    owner = np.repeat(np.arange(len(clusters.memory)), np.diff(clusters.parameters_start))
    size = clusters.memory.astype(np.float64)
    np.add.at(size, owner, arrays.parameter_bytes[clusters.parameters])
    return np.lexsort((-size[clusters.of], np.isfinite(arrays.seconds).sum(axis=1))).astype(np.int64)


@loop
def fill_in_order(arrays: PlacementArrays, clusters: Clusters, order: IntArray, device: IntArray) -> int:
    """Give every operator the next device with room, from the current one on; return an operator without one, or -1."""
    devices = arrays.seconds.shape[1]
    room = new_room(arrays, clusters)
    present = 0
    for v in order:
        chosen, tied = -1, room.home[clusters.of[v]] >= 0
        for i in range(devices):
            k = (present + i) % devices
            tied = tied or arrays.seconds[v, k] == np.inf
            if chosen < 0 and has_room(arrays, clusters, room, v, k):
                chosen = k
        if chosen < 0:
            return int(v)
        if chosen > present and not tied:
            present = chosen
        device[v] = chosen
        settle(arrays, clusters, room, v, chosen)
    return -1


def heft(instance: PlacementInstance, arrays: PlacementArrays) -> Plan:
    """Schedule by upward rank, each operator on the device of its earliest end."""
    count = len(arrays.seconds)
    order, device = order_by(upward_rank(arrays), arrays), np.full(count, -1, dtype=np.int64)
    start, begins = np.zeros(count), np.full(len(arrays.source), -1.0)
    stuck = insert_all(arrays, clusters_of(instance, arrays), order, device, start, begins)
    if stuck >= 0:
        raise NoPlanError(no_device(instance, int(stuck)))
    by_start = order[np.argsort(start[order], kind="stable")]
    appended = plan_of(arrays, by_start, device)  # the same order without gaps can pack transfers better
    return min(_timed(arrays, by_start, device, start, begins), appended, key=lambda each: each.makespan)


def etf(instance: PlacementInstance, arrays: PlacementArrays) -> Plan:
    """Earliest start first; the longest remaining path breaks ties."""
    count = len(arrays.seconds)
    order, device = np.zeros(count, dtype=np.int64), np.full(count, -1, dtype=np.int64)
    start, begins = np.zeros(count), np.full(len(arrays.source), -1.0)
    clusters, priority = clusters_of(instance, arrays), upward_rank(arrays)
    stuck = start_all(arrays, clusters, priority, order, device, start, begins)
    if stuck >= 0:
        raise NoPlanError(no_device(instance, int(stuck)))
    return _timed(arrays, order, device, start, begins)


def _timed(arrays: PlacementArrays, order: IntArray, device: IntArray, start: FloatArray, begins: FloatArray) -> Plan:
    """The plan with these times."""
    end = start + arrays.seconds[np.arange(len(device)), device]
    return Plan(order, device, start, begins, float(end.max(initial=0.0)))


def no_device(instance: PlacementInstance, v: int) -> str:
    """A sentence that says why a heuristic stopped at an operator."""
    return (
        f"no device was left for operator {instance.names[v]!r}: none that may run it had memory and links for it "
        "after the operators before it were placed"
    )


@loop
def start_all(
    arrays: PlacementArrays,
    clusters: Clusters,
    priority: FloatArray,
    order: IntArray,
    device: IntArray,
    start: FloatArray,
    begins: FloatArray,
) -> int:
    """Fill order, devices and times of :func:`etf`; return an operator that found no device, or -1.

    ``soon`` holds when inputs could be on a device at the soonest. Ports only fill up, so what was worked out stays a
    lower bound until a tensor is brought to the device for another reader.
    """
    count, devices = arrays.seconds.shape
    clock, room = new_clock(arrays), new_room(arrays, clusters)
    waiting = lengths_of(arrays.before_start)
    soon, ready, size, done = np.zeros((count, devices)), np.empty(count, dtype=np.int64), 0, 0
    for v in range(count):
        if waiting[v] == 0:
            ready[size] = v
            size += 1
    while done < count:
        at, best, least = -1, -1, np.inf
        for i in range(size):
            v = ready[i]
            for k in range(devices):
                begin = max(soon[v, k], clock.free[k])
                if begin < least or (begin == least and at >= 0 and priority[v] > priority[ready[at]]):
                    at, best, least = i, k, begin
        if at < 0:
            return int(ready[0])
        v = ready[at]
        begin = np.inf
        if has_room(arrays, clusters, room, v, best):
            begin = arrival(arrays, clock, device, v, best)
        soon[v, best] = begin
        if begin > least:
            continue
        device[v] = best
        start[v] = place(arrays, clock, v, best, device) - arrays.seconds[v, best]
        settle(arrays, clusters, room, v, best)
        order[done] = v
        done += 1
        size -= 1
        ready[at] = ready[size]
        for i in range(arrays.in_start[v], arrays.in_start[v + 1]):
            f = arrays.incoming[i]
            if arrays.model == PORT_TENSOR and clock.begins[f] >= 0.0:
                u = arrays.source[f]
                for j in range(arrays.out_start[u], arrays.out_start[u + 1]):
                    w = arrays.target[arrays.outgoing[j]]
                    if soon[w, best] < np.inf:
                        soon[w, best] = 0.0
        for i in range(arrays.after_start[v], arrays.after_start[v + 1]):
            w = arrays.after[i]
            waiting[w] -= 1
            if waiting[w] == 0:
                ready[size] = w
                size += 1
    begins[:] = clock.begins
    return -1


RULES: dict[str, tuple[Rule, str]] = {
    "one_device": (one_device, "everything on the best single device that holds it"),
    "fill": (fill, "fills the devices' memory one after the other in the order of the model file"),
    "heft": (heft, "longest remaining path first, each operator on the device where it ends soonest"),
    "etf": (etf, "whatever can start first, on the device where it can, memory permitting (m-ETF)"),
}
"""Every rule by name, and what it does. The cheapest come first: a run whose time is up at once still has a plan."""


def carry_out(rule: Rule, problem: Placement, run: Run) -> None:
    """Build a rule's plan and report it."""
    if problem.reading is not None:
        carry_out_in_one_place(problem, run)
        return
    instance = lower_unless_short(problem)
    arrays = arrays_of(instance, problem)
    report(instance, arrays, rule(instance, arrays), run)


def best_list_schedule(problem: Placement) -> Schedule | None:
    """The best of the list schedules that obeys the whole problem; None when none does."""
    try:
        instance = lower(problem)
    except ContradictionError:
        return None
    arrays = arrays_of(instance, problem)
    plans = plans_of(partial(rule, instance, arrays) for rule, _ in RULES.values())
    usable = [plan for plan in plans if plan.makespan < math.inf and fits(arrays, plan.device)]
    for plan in sorted(usable, key=lambda plan: plan.makespan):
        schedule = solution_of(instance, arrays, plan)
        if problem.evaluate(schedule).feasible:
            return schedule
    return None


for _name, (_rule, _about) in RULES.items():
    register_rule(
        Placement,
        _name,
        partial(carry_out, _rule),
        _about,
        supports=SUPPORTS,
        baseline=True,
        readings=(None, "transfers='blocking'") if _rule is one_device else (None,),
    )
