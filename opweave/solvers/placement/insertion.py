"""Insertion-based list scheduling: operators and transfers may use gaps that earlier decisions left.

Operators come in a given order and each takes the device with the least end plus bias; that is HEFT without a bias,
CPOP with a bias that forbids, PEFT with the optimistic cost table as bias. Memory is respected throughout.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.formulations.placement.instance import FloatArray, PlacementInstance
from opweave.problems.graph_arrays import IntArray
from opweave.solvers.compiled import inlined, kernel
from opweave.solvers.placement.net import DELAY, PORT_TENSOR, Net
from opweave.solvers.placement.room import Clusters, clusters_of, has_room, new_room, settle
from opweave.solvers.placement.schedule import Plan, plan_of
from opweave.solvers.placement.timeline import Timeline, common_fit, first_fit, new_timeline, occupy


class NoPlanError(Exception):
    """A heuristic found no plan; the message says where it got stuck."""


def inserted(instance: PlacementInstance, net: Net, order: IntArray, bias: FloatArray) -> Plan:
    """Schedule operators in an order (predecessors first), each where its end plus bias is least.

    Parameters
    ----------
    bias
        Seconds, shape (operators, devices). Where it is infinite, the device is taken only when no other is possible.

    Raises
    ------
    NoPlanError
        When an operator finds no device with room and links.
    """
    count, devices = net.seconds.shape
    device = np.full(count, -1, dtype=np.int64)
    start, begins = np.zeros(count), np.full(len(net.source), -1.0)
    work = 40 * devices * (count + len(net.source))
    stuck = insert_all.sized(work)(net, clusters_of(instance, net), order, bias, device, start, begins)
    if stuck >= 0:
        raise NoPlanError(no_device(instance, int(stuck)))
    by_start = order[np.argsort(start[order], kind="stable")]
    end = start + net.seconds[np.arange(count), device]
    plan = Plan(by_start, device, start, begins, float(end.max(initial=0.0)))
    appended = plan_of(net, by_start, device)  # the same order without gaps in mind can pack transfers better
    return min(plan, appended, key=lambda each: each.makespan)


def no_device(instance: PlacementInstance, v: int) -> str:
    """Why a heuristic stopped at an operator."""
    return (
        f"no device was left for operator {instance.names[v]!r}: none that may run it had memory and links for it "
        "after the operators before it were placed"
    )


class State(NamedTuple):
    """A schedule under construction; fields as in :class:`~opweave.solvers.placement.schedule.Plan`."""

    timeline: Timeline
    device: IntArray
    end: FloatArray
    begins: FloatArray
    arrived: FloatArray


@kernel
def insert_all(
    net: Net,
    clusters: Clusters,
    order: IntArray,
    bias: FloatArray,
    device: IntArray,
    start: FloatArray,
    begins: FloatArray,
) -> int:
    """Fill devices and times; returns the operator that found no device, or -1."""
    count, devices = net.seconds.shape
    room = new_room(net, clusters)
    state = State(
        timeline=new_timeline(3 * devices, max(count, len(net.source))),
        device=device,
        end=np.zeros(count),
        begins=begins,
        arrived=np.full((net.tensors if net.model == PORT_TENSOR else 1, devices), -1.0),
    )
    for v in order:
        flows = _by_producer_end(net, state, v)
        best, least, least_end = -1, np.inf, np.inf
        for k in range(devices):
            if not has_room(net, clusters, room, v, k):
                continue
            end = _start_on(net, state, flows, v, k) + net.seconds[v, k]
            score = end + bias[v, k]
            if score < least or (score == least and end < least_end):
                best, least, least_end = k, score, end
        if least_end == np.inf:
            return int(v)
        start[v] = _send_to(net, state, flows, v, best)
        state.end[v] = start[v] + net.seconds[v, best]
        device[v] = best
        occupy(state.timeline, best, start[v], state.end[v])
        settle(net, clusters, room, v, best)
    return -1


@inlined
def _by_producer_end(net: Net, state: State, v: int) -> IntArray:
    """Incoming flows of an operator, the earliest made first."""
    flows = net.incoming[net.in_start[v] : net.in_start[v + 1]]
    if len(flows) < 2:
        return flows
    return flows[np.argsort(state.end[net.source[flows]], kind="mergesort")]


@inlined
def _start_on(net: Net, state: State, flows: IntArray, v: int, k: int) -> float:
    """Earliest start of operator v on device k; inf where a link is missing. Changes nothing.

    The transfers of one operator follow each other at its receive port, so none needs to know more of the others.
    """
    devices = net.seconds.shape[1]
    ready = 0.0
    cursor = 0.0
    for i in range(net.before_start[v], net.before_start[v + 1]):
        ready = max(ready, state.end[net.before[i]])
    for f in flows:
        u = net.source[f]
        a = state.device[u]
        if a == k:
            continue
        if net.latency[a, k] == np.inf:
            return np.inf
        if net.model == PORT_TENSOR and state.arrived[net.tensor[f], k] >= 0.0:
            ready = max(ready, state.arrived[net.tensor[f], k])
            continue
        lasts = net.latency[a, k] + net.size[f] * net.per_byte[a, k]
        begin = state.end[u]
        if net.model != DELAY:
            begin = common_fit(state.timeline, devices + a, 2 * devices + k, max(begin, cursor), lasts)
            cursor = begin + lasts
        ready = max(ready, begin + lasts)
    return first_fit(state.timeline, k, ready, net.seconds[v, k])


@inlined
def _send_to(net: Net, state: State, flows: IntArray, v: int, k: int) -> float:
    """Do what :func:`_start_on` only looked at, up to the start of the operator itself."""
    devices = net.seconds.shape[1]
    start = _start_on(net, state, flows, v, k)
    if net.model == DELAY:
        return start
    cursor = 0.0
    for f in flows:
        a = state.device[net.source[f]]
        if a == k or (net.model == PORT_TENSOR and state.arrived[net.tensor[f], k] >= 0.0):
            continue
        lasts = net.latency[a, k] + net.size[f] * net.per_byte[a, k]
        ready = max(state.end[net.source[f]], cursor)
        begin = common_fit(state.timeline, devices + a, 2 * devices + k, ready, lasts)
        cursor = begin + lasts
        occupy(state.timeline, devices + a, begin, cursor)
        occupy(state.timeline, 2 * devices + k, begin, cursor)
        state.begins[f] = begin
        if net.model == PORT_TENSOR:
            state.arrived[net.tensor[f], k] = cursor
    return start
