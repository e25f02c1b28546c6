"""Insertion-based list scheduling: operators and transfers may fill gaps that earlier decisions left.

Operators come in a given order, and each takes the device with the least end plus bias. Three published rules differ in
the order and the bias. HEFT takes operators by decreasing upward rank, without a bias. CPOP puts the operators of the
critical path on one device, with an infinite bias on all others. PEFT adds the least remaining time as bias. Ports and
memory limits are added here; an operator of CPOP's path that does not fit into the path's device goes where it ends
soonest. PEFT's table uses the actual link between any two devices, where the paper averages over all links.

Sources: HEFT, CPOP: H. Topcuoglu, S. Hariri, M.-Y. Wu, "Performance-effective and low-complexity task scheduling for
heterogeneous computing", IEEE TPDS 13(3), 2002, doi:10.1109/71.993206. PEFT: H. Arabnejad, J. G. Barbosa, "List
scheduling algorithm for heterogeneous systems by an optimistic cost table", IEEE TPDS 25(3), 2014,
doi:10.1109/TPDS.2013.57.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.formulations.placement.instance import PlacementInstance
from opweave.problems.arrays import BoolArray, FloatArray, FloatMatrix, IntArray
from opweave.solvers.kernels.sorting import sort_rising
from opweave.solvers.loops import helper, loop
from opweave.solvers.placement.arrays import DELAY, PORT_TENSOR, PlacementArrays, sending
from opweave.solvers.placement.bounds.critical_path import device_tails
from opweave.solvers.placement.memory_state import Clusters, Room, clusters_of, has_room, new_room, roomy, settle
from opweave.solvers.placement.plans import Plan, plan_of
from opweave.solvers.placement.ranks import downward_rank, order_by, upward_rank
from opweave.solvers.rules import NoPlanError
from opweave.solvers.scheduling.busy_times import Timeline, common_fit, first_fit, new_timeline, occupy

TIE = 1e-9
"""Priorities that differ by less than this share of the longest path count as equal."""


def heft(instance: PlacementInstance, arrays: PlacementArrays) -> Plan:
    """Schedule by upward rank, each operator on the device of its earliest end."""
    return inserted(instance, arrays, order_by(upward_rank(arrays), arrays), np.zeros(arrays.seconds.shape))


def peft(instance: PlacementInstance, arrays: PlacementArrays) -> Plan:
    """Schedule by the means of the optimistic cost table, each operator where its end plus its entry is least."""
    tails = device_tails(arrays)
    reachable = np.isfinite(tails)
    rank = np.where(reachable, tails, 0.0).sum(axis=1) / np.maximum(1, reachable.sum(axis=1))
    return inserted(instance, arrays, order_by(rank, arrays), tails)


def cpop(instance: PlacementInstance, arrays: PlacementArrays) -> Plan:
    """Priorities are the longest paths through each operator."""
    return cpop_by(instance, arrays, upward_rank(arrays), np.zeros(len(arrays.seconds)))


def cpop_by(instance: PlacementInstance, arrays: PlacementArrays, rank: FloatArray, own: FloatArray) -> Plan:
    """CPOP with given upward ranks, and with ``own`` of every operator's time in its downward rank as well."""
    priority = rank + downward_rank(arrays)
    critical = _critical_path(arrays, priority)
    bias = np.zeros(arrays.seconds.shape)
    if critical.any():
        bias[critical] = np.inf
        bias[critical, _path_device(arrays, critical)] = 0.0
    return inserted(instance, arrays, order_by(priority + own, arrays), bias)


def _critical_path(arrays: PlacementArrays, priority: FloatArray) -> BoolArray:
    """One path of operators whose priority equals the length of the longest path."""
    critical = np.zeros(len(priority), dtype=bool)
    if not len(priority):
        return critical
    longest = priority.max() * (1.0 - TIE)
    first = np.flatnonzero((priority >= longest) & (np.diff(arrays.before_start) == 0))
    v = int(first[0]) if len(first) else -1
    while v >= 0:
        critical[v] = True
        after = arrays.after[arrays.after_start[v] : arrays.after_start[v + 1]]
        following = after[priority[after] >= longest]
        v = int(following[0]) if len(following) else -1
    return critical


def _path_device(arrays: PlacementArrays, critical: BoolArray) -> int:
    """The device that runs the path fastest, among those that may run most of it."""
    seconds = arrays.seconds[critical]
    allowed = np.isfinite(seconds)
    total = np.where(allowed, seconds, 0.0).sum(axis=0)
    return int(np.lexsort((total, -allowed.sum(axis=0)))[0])


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
    count = len(arrays.seconds)
    device = np.full(count, -1, dtype=np.int64)
    start, begins = np.zeros(count), np.full(len(arrays.source), -1.0)
    stuck = insert_all(arrays, clusters_of(instance, arrays), order, bias, device, start, begins)
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
    sent
        When each of them would be sent to every device, -1 where nothing has to be. Shape (devices, flows).
    """

    timeline: Timeline
    device: IntArray
    end: FloatArray
    begins: FloatArray
    arrived: FloatArray
    made: FloatArray
    spare: IntArray
    sent: FloatArray


@loop
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
        sent=np.empty((devices, len(arrays.source))),
    )
    for v in order:
        flows = _by_producer_end(arrays, state, v)
        best, begin = _best_device(arrays, clusters, room, anywhere, state, flows, bias, v)
        if best < 0:
            return int(v)
        _send_to(arrays, state, flows, best)
        start[v] = begin
        state.end[v] = begin + arrays.seconds[v, best]
        device[v] = best
        occupy(state.timeline, best, begin, state.end[v])
        if not anywhere:
            settle(arrays, clusters, room, v, best)
    return -1


@helper
def _by_producer_end(arrays: PlacementArrays, state: State, v: int) -> IntArray:
    """Incoming flows of an operator, by the end of their producers."""
    flows = arrays.incoming[arrays.in_start[v] : arrays.in_start[v + 1]].copy()
    for f in flows:
        state.made[f] = state.end[arrays.source[f]]
    sort_rising(state.made, flows, state.spare)
    return flows


@helper
def _best_device(
    arrays: PlacementArrays,
    clusters: Clusters,
    room: Room,
    anywhere: bool,
    state: State,
    flows: IntArray,
    bias: FloatArray,
    v: int,
) -> tuple[int, float]:
    """The device where operator v ends soonest, bias included, and its start there; -1 when none has room and links."""
    ordered = 0.0
    for i in range(arrays.before_start[v], arrays.before_start[v + 1]):
        ordered = max(ordered, state.end[arrays.before[i]])
    best, begin, least, least_end = -1, np.inf, np.inf, np.inf
    for k in range(arrays.seconds.shape[1]):
        if arrays.seconds[v, k] == np.inf or not (anywhere or has_room(arrays, clusters, room, v, k)):
            continue
        ready = _ready(arrays, state, flows, k, ordered, arrays.seconds[v, k] + bias[v, k], least)
        if ready == np.inf:
            continue
        start = first_fit(state.timeline, k, ready, arrays.seconds[v, k])
        end = start + arrays.seconds[v, k]
        score = end + bias[v, k]
        if score < least or (score == least and end < least_end):
            best, begin, least, least_end = k, start, score, end
    return best, begin


@helper
def _ready(
    arrays: PlacementArrays, state: State, flows: IntArray, k: int, ordered: float, own: float, least: float
) -> float:
    """When all flows could be on device k, not before ``ordered``; inf if a link is missing or the score is too high.

    It fills in ``state.sent`` and changes nothing else. The transfers of one operator follow each other at its receive
    port, so each depends only on the one before it.
    """
    devices = arrays.seconds.shape[1]
    ready, cursor = ordered, 0.0
    for f in flows:
        a, t = state.device[arrays.source[f]], arrays.tensor[f]
        state.sent[k, f] = -1.0
        if a == k:
            continue
        if arrays.latency[a, k] == np.inf or ready + own > least:
            return np.inf
        if arrays.model == PORT_TENSOR and state.arrived[t, k] >= 0.0:
            ready = max(ready, state.arrived[t, k])
            continue
        lasts = sending(arrays, f, a, k)
        begin = state.end[arrays.source[f]]
        if arrays.model != DELAY:
            begin = common_fit(state.timeline, devices + a, 2 * devices + k, max(begin, cursor), lasts)
            cursor = begin + lasts
            state.sent[k, f] = begin
        ready = max(ready, begin + lasts)
    return float(ready)


@helper
def _send_to(arrays: PlacementArrays, state: State, flows: IntArray, k: int) -> None:
    """Occupy the ports for the transfers that :func:`_ready` found for device k."""
    devices = arrays.seconds.shape[1]
    for f in flows:
        begin = state.sent[k, f]
        if begin >= 0.0:
            a = state.device[arrays.source[f]]
            end = begin + sending(arrays, f, a, k)
            occupy(state.timeline, devices + a, begin, end)
            occupy(state.timeline, 2 * devices + k, begin, end)
            state.begins[f] = begin
            if arrays.model == PORT_TENSOR:
                state.arrived[arrays.tensor[f], k] = end
