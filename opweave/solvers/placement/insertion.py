"""Insertion-based list scheduling: operators and transfers may fill gaps that earlier decisions left.

Operators come in a given order, and each takes the device with the least end plus bias. Without a bias this is HEFT,
with an infinite bias on forbidden devices CPOP, and with the optimistic cost table as bias PEFT. Memory limits are
respected throughout.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.formulations.placement.instance import PlacementInstance
from opweave.problems.arrays import FloatArray, FloatMatrix, IntArray
from opweave.solvers.compiled import inlined, kernel
from opweave.solvers.loops import sort_rising
from opweave.solvers.placement.arrays import DELAY, PORT_TENSOR, PlacementArrays
from opweave.solvers.placement.memory_state import Clusters, Room, clusters_of, has_room, new_room, roomy, settle
from opweave.solvers.placement.plans import Plan, plan_of
from opweave.solvers.rules import NoPlanError
from opweave.solvers.scheduling.busy_times import Timeline, common_fit, first_fit, new_timeline, occupy


def inserted(instance: PlacementInstance, arrays: PlacementArrays, order: IntArray, bias: FloatArray) -> Plan:
    """Schedule operators in an order (predecessors first), each on the device where its end plus bias is least.

    Parameters
    ----------
    bias
        Seconds, shape (operators, devices). Where it is infinite, the device is taken only when no other is possible.

    Raises
    ------
    NoPlanError
        When an operator finds no device with room and links.
    """
    count, devices = arrays.seconds.shape
    device = np.full(count, -1, dtype=np.int64)
    start, begins = np.zeros(count), np.full(len(arrays.source), -1.0)
    work = 40 * devices * (count + len(arrays.source))
    stuck = insert_all.sized(work)(arrays, clusters_of(instance, arrays), order, bias, device, start, begins)
    if stuck >= 0:
        raise NoPlanError(no_device(instance, int(stuck)))
    by_start = order[np.argsort(start[order], kind="stable")]
    end = start + arrays.seconds[np.arange(count), device]
    plan = Plan(by_start, device, start, begins, float(end.max(initial=0.0)))
    appended = plan_of(arrays, by_start, device)  # the same order without gaps can pack transfers better
    return min(plan, appended, key=lambda each: each.makespan)


def no_device(instance: PlacementInstance, v: int) -> str:
    """A sentence that says why a heuristic stopped at an operator."""
    return (
        f"no device was left for operator {instance.names[v]!r}: none that may run it had memory and links for it "
        "after the operators before it were placed"
    )


class State(NamedTuple):
    """A schedule under construction; fields as in :class:`~opweave.solvers.placement.plans.Plan`.

    Attributes
    ----------
    made
        End of each flow's producer, for the flows of the current operator.
    spare
        Scratch space for sorting them.
    """

    timeline: Timeline
    device: IntArray
    end: FloatArray
    begins: FloatArray
    arrived: FloatArray
    made: FloatArray
    spare: IntArray


@kernel
def insert_all(
    arrays: PlacementArrays,
    clusters: Clusters,
    order: IntArray,
    bias: FloatMatrix,
    device: IntArray,
    start: FloatArray,
    begins: FloatArray,
) -> int:
    """Fill devices and times; return the operator that found no device, or -1."""
    count, devices = arrays.seconds.shape
    room, anywhere = new_room(arrays, clusters), roomy(arrays, clusters)
    state = State(
        timeline=new_timeline(3 * devices, max(count, len(arrays.source))),
        device=device,
        end=np.zeros(count),
        begins=begins,
        arrived=np.full((arrays.tensors if arrays.model == PORT_TENSOR else 1, devices), -1.0),
        made=np.empty(len(arrays.source)),
        spare=np.empty(len(arrays.source), dtype=np.int64),
    )
    for v in order:
        flows = _by_producer_end(arrays, state, v)
        best = _best_device(arrays, clusters, room, anywhere, state, flows, bias, v)
        if best < 0:
            return int(v)
        start[v] = _send_to(arrays, state, flows, v, best)
        state.end[v] = start[v] + arrays.seconds[v, best]
        device[v] = best
        occupy(state.timeline, best, start[v], state.end[v])
        if not anywhere:
            settle(arrays, clusters, room, v, best)
    return -1


@inlined
def _by_producer_end(arrays: PlacementArrays, state: State, v: int) -> IntArray:
    """Incoming flows of an operator, by the end of their producers."""
    flows = np.empty(arrays.in_start[v + 1] - arrays.in_start[v], dtype=np.int64)
    for i in range(len(flows)):
        f = arrays.incoming[arrays.in_start[v] + i]
        flows[i] = f
        state.made[f] = state.end[arrays.source[f]]
    sort_rising(state.made, flows, state.spare)
    return flows


@inlined
def _best_device(
    arrays: PlacementArrays,
    clusters: Clusters,
    room: Room,
    anywhere: bool,
    state: State,
    flows: IntArray,
    bias: FloatArray,
    v: int,
) -> int:
    """The device where operator v ends soonest, bias included; -1 when none has room and links. It changes nothing.

    The transfers of one operator follow each other at its receive port, so each depends only on the one before it.
    """
    devices = arrays.seconds.shape[1]
    ordered = 0.0
    for i in range(arrays.before_start[v], arrays.before_start[v + 1]):
        ordered = max(ordered, state.end[arrays.before[i]])
    best, least, least_end = -1, np.inf, np.inf
    for k in range(devices):
        if arrays.seconds[v, k] == np.inf or not (anywhere or has_room(arrays, clusters, room, v, k)):
            continue
        own = arrays.seconds[v, k] + bias[v, k]
        ready, cursor = ordered, 0.0
        for f in flows:
            a = state.device[arrays.source[f]]
            if a == k:
                continue
            if arrays.latency[a, k] == np.inf or ready + own > least:
                ready = np.inf
                break
            if arrays.model == PORT_TENSOR and state.arrived[arrays.tensor[f], k] >= 0.0:
                ready = max(ready, state.arrived[arrays.tensor[f], k])
                continue
            lasts = arrays.latency[a, k] + arrays.size[f] * arrays.per_byte[a, k]
            begin = state.end[arrays.source[f]]
            if arrays.model != DELAY:
                begin = common_fit(state.timeline, devices + a, 2 * devices + k, max(begin, cursor), lasts)
                cursor = begin + lasts
            ready = max(ready, begin + lasts)
        if ready == np.inf:
            continue
        end = first_fit(state.timeline, k, ready, arrays.seconds[v, k]) + arrays.seconds[v, k]
        score = end + bias[v, k]
        if score < least or (score == least and end < least_end):
            best, least, least_end = k, score, end
    return best


@inlined
def _send_to(arrays: PlacementArrays, state: State, flows: IntArray, v: int, k: int) -> float:
    """Schedule the transfers that operator v needs on device k; return its earliest start. Leaves the device free."""
    devices = arrays.seconds.shape[1]
    ready, cursor = 0.0, 0.0
    for i in range(arrays.before_start[v], arrays.before_start[v + 1]):
        ready = max(ready, state.end[arrays.before[i]])
    for f in flows:
        a = state.device[arrays.source[f]]
        if a == k:
            continue
        if arrays.model == PORT_TENSOR and state.arrived[arrays.tensor[f], k] >= 0.0:
            ready = max(ready, state.arrived[arrays.tensor[f], k])
            continue
        lasts = arrays.latency[a, k] + arrays.size[f] * arrays.per_byte[a, k]
        begin = state.end[arrays.source[f]]
        if arrays.model != DELAY:
            begin = common_fit(state.timeline, devices + a, 2 * devices + k, max(begin, cursor), lasts)
            cursor = begin + lasts
            occupy(state.timeline, devices + a, begin, cursor)
            occupy(state.timeline, 2 * devices + k, begin, cursor)
            state.begins[f] = begin
        if arrays.model == PORT_TENSOR:
            state.arrived[arrays.tensor[f], k] = begin + lasts
        ready = max(ready, begin + lasts)
    return first_fit(state.timeline, k, ready, arrays.seconds[v, k])
