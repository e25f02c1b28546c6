"""Baselines of placement, cheapest first: one device, filled devices, and a published list rule.

``fill`` fills memory in the order of the model file, as runtimes that split a model over devices do by default: a
device receives operators until the next one does not fit; then the next device continues (``device_map="auto"`` of
Hugging Face accelerate, layer splits of llama.cpp).

HEFT takes operators by decreasing upward rank, and each takes the device where it ends soonest; operators and transfers
may fill gaps that earlier decisions left. Ports and memory are added here.

Source: HEFT: H. Topcuoglu, S. Hariri, M.-Y. Wu, "Performance-effective and low-complexity task scheduling for
heterogeneous computing", IEEE TPDS 13(3), 2002, doi:10.1109/71.993206.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np

from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.placement.instance import SUPPORTS, PlacementInstance, lower, lower_unless_short
from opweave.problems.arrays import NO_LIMIT, BoolArray, FloatArray, FloatMatrix, IntArray, IntMatrix
from opweave.problems.graph_arrays import Adjacency
from opweave.problems.placement.spec import Placement, Schedule
from opweave.solvers.kernels import IdleGaps, common_fit, first_fit, new_timeline, occupy
from opweave.solvers.loops import helper, loop
from opweave.solvers.placement.arrays import (
    DELAY,
    PORT_TENSOR,
    PlacementArrays,
    arrays_of,
    mean_seconds,
    order_by,
    order_of_graph,
    upward_rank,
)
from opweave.solvers.placement.plans import Plan, fits, memory_used, plan_of, report, shortage, solution_of
from opweave.solvers.rules import NoPlanError, plans_of, register_rule
from opweave.solvers.run import Run

SPREAD = 0.7
"""Logarithmic spread of the factors by which the order of devices differs from that of their speed."""

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
    order, stuck = order_of_graph(arrays), -1
    for candidate in (order, _largest_first(instance, arrays)):
        device = np.full(len(order), -1, dtype=np.int64)
        room = new_room(instance, arrays)
        turns = [(room, k) for k in range(len(arrays.capacity))]
        stuck = _fill_in_order(turns, np.isfinite(arrays.seconds), candidate, device)
        if stuck < 0:
            plan = plan_of(arrays, order, device)
            if np.isfinite(plan.makespan):
                return plan
            raise NoPlanError("filling the devices in turn needs a link that the cluster does not have")
    raise NoPlanError(no_device(instance, stuck))


def _largest_first(instance: PlacementInstance, arrays: PlacementArrays) -> IntArray:
    """Operators with the fewest possible devices first, then by decreasing bytes of their cluster."""
    need = new_room(instance, arrays)
    owner = np.repeat(np.arange(len(need.memory)), np.diff(need.start))
    size = need.memory.astype(np.float64)
    np.add.at(size, owner, need.bytes[need.items])
    return np.lexsort((-size[need.of], np.isfinite(arrays.seconds).sum(axis=1))).astype(np.int64)


def drawn_fill(instance: PlacementInstance, arrays: PlacementArrays, rng: np.random.Generator) -> IntArray | None:
    """Devices filled one after the other, with the order and the room of each drawn at random, then once more.

    Fast devices come early. About half of them keep a share of their memory for the second time, so the model may come
    back to a device. None if an operator finds no room. Shape (operators,).
    """
    able, order, room = np.isfinite(arrays.seconds), order_of_graph(arrays), new_room(instance, arrays)
    kept = np.maximum(0.0, 2.0 * rng.random(len(arrays.capacity)) - 1.0)
    first = room._replace(capacity=arrays.capacity - (arrays.capacity * kept).astype(np.int64))
    drawn = np.exp(SPREAD * rng.standard_normal(len(kept)))
    fastest = np.argsort(drawn * work_of(arrays)).tolist()
    device = np.full(len(order), -1, dtype=np.int64)
    turns = [(each, k) for each in (first, room) for k in fastest]
    return device if _fill_in_order(turns, able, order, device) < 0 else None


def work_of(arrays: PlacementArrays) -> FloatArray:
    """Seconds of all operators on every device; one that it cannot run counts as on average. Shape (devices,)."""
    able = np.isfinite(arrays.seconds)
    return np.asarray(np.where(able, arrays.seconds, mean_seconds(arrays)[:, None]).sum(axis=0))


def _fill_in_order(turns: list[tuple[ClusterRoom, int]], able: BoolArray, order: IntArray, device: IntArray) -> int:
    """Give every operator the next device whose turn has room, from the present turn on; return who has none, or -1."""
    present = 0
    for v in order.tolist():
        following = chain(range(present, len(turns)), range(present))
        chosen = next((i for i in following if able[v, turns[i][1]] and has_room(turns[i][0], v, turns[i][1])), -1)
        if chosen < 0:
            return int(v)
        room, k = turns[chosen]
        if chosen > present and able[v].all() and room.home[room.of[v]] < 0:
            present = chosen
        device[v] = k
        settle(room, v, k)
    return -1


def heft(instance: PlacementInstance, arrays: PlacementArrays) -> Plan:
    """Schedule by upward rank, each operator on the device of its earliest end."""
    return insertion(instance, arrays, order_by(upward_rank(arrays), order_of_graph(arrays)))


def insertion(instance: PlacementInstance, arrays: PlacementArrays, order: IntArray) -> Plan:
    """Operators in some order, each on the device of its earliest end."""
    room = new_room(instance, arrays)
    device = np.full(len(order), -1, dtype=np.int64)
    start = np.zeros(len(order))
    begins = np.full(len(arrays.source), -1.0)
    stuck = insert_all(arrays, room, room.is_free, order, device, start, begins)
    if stuck >= 0:
        raise NoPlanError(no_device(instance, int(stuck)))
    by_start = order[np.argsort(start[order], kind="stable")]
    appended = plan_of(arrays, by_start, device)  # the same order without gaps can pack transfers better
    end = start + arrays.seconds[np.arange(len(device)), device]
    inserted = Plan(by_start, device, start, begins, float(end.max(initial=0.0)))
    return min(inserted, appended, key=lambda each: each.makespan)


def no_device(instance: PlacementInstance, v: int) -> str:
    """A sentence that says why a heuristic stopped at an operator."""
    return (
        f"no device was left for operator {instance.names[v]!r}: none that may run it had memory and links for it "
        "after the operators before it were placed"
    )


RULES: dict[str, tuple[Rule, str]] = {
    "one_device": (one_device, "everything on the best single device that holds it"),
    "fill": (fill, "fills the devices' memory one after the other in the order of the model file"),
    "heft": (heft, "longest remaining path first, each operator on the device where it ends soonest"),
}
"""Every rule by name, and what it does. The cheapest come first: a run whose time is up at once still has a plan."""


def carry_out(rule: Rule, problem: Placement, run: Run) -> None:
    """Build a rule's plan and report it."""
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
    register_rule(Placement, _name, partial(carry_out, _rule), _about, supports=SUPPORTS, baseline=True)


class ClusterRoom(NamedTuple):
    """Memory in use, and what clusters of operators need.

    Attributes
    ----------
    of
        Cluster of every operator.
    memory
        Bytes of its operators without their parameters.
    start, items
        Its parameters, each listed once.
    bytes, capacity
        Of every parameter, and of every device.
    used
        Bytes on every device.
    holds
        1 where a device holds a parameter. Shape (parameters, devices).
    home
        Device of every cluster, -1 while none is chosen.
    """

    of: IntArray
    memory: IntArray
    start: IntArray
    items: IntArray
    bytes: IntArray
    capacity: IntArray
    used: IntArray
    holds: IntMatrix
    home: IntArray

    @property
    def is_free(self) -> bool:
        """Whether only run times restrict the devices: no memory is limited, and no operators are tied together."""
        return bool((self.capacity == NO_LIMIT).all()) and len(self.memory) == len(self.of)


def new_room(instance: PlacementInstance, arrays: PlacementArrays) -> ClusterRoom:
    """Nothing placed; the bytes and parameters of every cluster."""
    of, devices = instance.cluster, len(arrays.capacity)
    count = int(of.max(initial=-1)) + 1
    memory = np.zeros(count, dtype=np.int64)
    np.add.at(memory, of, arrays.memory)
    owner = np.repeat(of, np.diff(arrays.parameters_start))
    parameters = Adjacency.from_pairs(count, owner, arrays.parameters)
    holds = np.zeros((len(arrays.parameter_bytes), devices), dtype=np.int64)
    used = np.zeros(devices, dtype=np.int64)
    home = np.full(count, -1, dtype=np.int64)
    need = (of, memory, parameters.start, parameters.items, arrays.parameter_bytes, arrays.capacity)
    return ClusterRoom(*need, used, holds, home)


@helper
def has_room(room: ClusterRoom, v: int, k: int) -> bool:
    """Whether operator v may go to device k."""
    c, holds = room.of[v], room.holds
    if room.home[c] >= 0:
        return bool(room.home[c] == k)
    needed = room.used[k] + room.memory[c]
    for i in range(room.start[c], room.start[c + 1]):
        if holds[room.items[i], k] == 0:
            needed += room.bytes[room.items[i]]
    return bool(needed <= room.capacity[k])


@helper
def settle(room: ClusterRoom, v: int, k: int) -> None:
    """Assign the cluster of operator v to device k, unless it already has a device."""
    c, holds, used = room.of[v], room.holds, room.used
    if room.home[c] >= 0:
        return
    room.home[c] = k
    used[k] += room.memory[c]
    for i in range(room.start[c], room.start[c + 1]):
        p = room.items[i]
        used[k] += room.bytes[p] * (1 - holds[p, k])
        holds[p, k] = 1


@loop
def insert_all(
    arrays: PlacementArrays,
    room: ClusterRoom,
    anywhere: bool,
    order: IntArray,
    device: IntArray,
    start: FloatArray,
    begins: FloatArray,
) -> int:
    """Fill devices and times; return the operator that found no device, or -1.

    ``anywhere``: memory and ties need not be looked at.
    """
    seconds, source, incoming, in_start = arrays.seconds, arrays.source, arrays.incoming, arrays.in_start
    count, devices = seconds.shape
    timeline = new_timeline(3 * devices, max(count, len(source)))
    arrived = np.full((arrays.tensors if arrays.model == PORT_TENSOR else 1, devices), -1.0)
    end, row, sent = np.zeros(count), np.empty(len(source), np.int64), np.empty((devices, len(source)))
    for v in order:
        ordered, flows = 0.0, 0
        for i in range(arrays.before_start[v], arrays.before_start[v + 1]):
            ordered = max(ordered, end[arrays.before[i]])
        for i in range(in_start[v], in_start[v + 1]):  # by the ends of their producers
            j = flows
            while j > 0 and end[source[row[j - 1]]] > end[source[incoming[i]]]:
                row[j] = row[j - 1]
                j -= 1
            row[j] = incoming[i]
            flows += 1
        best, begin, least = -1, np.inf, np.inf
        for k in range(devices):
            if seconds[v, k] == np.inf or not (anywhere or has_room(room, v, k)):
                continue
            ready = brought(arrays, timeline, row, flows, device, end, arrived, sent, k, ordered, least - seconds[v, k])
            if ready < np.inf:
                now = first_fit(timeline, k, ready, seconds[v, k])
                if now + seconds[v, k] < least:
                    best, begin, least = k, now, now + seconds[v, k]
        if best < 0:
            return int(v)
        for i in range(flows):
            f = row[i]
            if sent[best, f] >= 0.0:
                a = device[source[f]]
                until = sent[best, f] + arrays.latency[a, best] + arrays.size[f] * arrays.per_byte[a, best]
                occupy(timeline, devices + a, sent[best, f], until)
                occupy(timeline, 2 * devices + best, sent[best, f], until)
                begins[f] = sent[best, f]
                if arrays.model == PORT_TENSOR:
                    arrived[arrays.tensor[f], best] = until
        start[v], device[v], end[v] = begin, best, least
        occupy(timeline, best, begin, least)
        if not anywhere:
            settle(room, v, best)
    return -1


@helper
def brought(
    arrays: PlacementArrays,
    timeline: IdleGaps,
    row: IntArray,
    flows: int,
    device: IntArray,
    end: FloatArray,
    arrived: FloatMatrix,
    sent: FloatMatrix,
    k: int,
    ordered: float,
    latest: float,
) -> float:
    """When the first ``flows`` of ``row`` could be on device k, not before ``ordered``; inf if that is too late.

    It fills in when each would be sent, -1 where nothing has to be, and changes nothing else. The transfers of one
    operator follow each other at its receive port, so each depends only on the one before it.
    """
    devices, model, tensor = arrays.seconds.shape[1], arrays.model, arrays.tensor
    ready, cursor = ordered, 0.0
    for i in range(flows):
        f = row[i]
        a = device[arrays.source[f]]
        sent[k, f] = -1.0
        if a == k:
            continue
        if arrays.latency[a, k] == np.inf or ready > latest:
            return np.inf
        if model == PORT_TENSOR and arrived[tensor[f], k] >= 0.0:
            ready = max(ready, arrived[tensor[f], k])
            continue
        lasts, begin = arrays.latency[a, k] + arrays.size[f] * arrays.per_byte[a, k], end[arrays.source[f]]
        if model != DELAY:
            begin = common_fit(timeline, devices + a, 2 * devices + k, max(begin, cursor), lasts)
            cursor = begin + lasts
            sent[k, f] = begin
        ready = max(ready, begin + lasts)
    return ready
