"""Insertion: operators in a given order, each on the device where it ends soonest, in gaps that others have left."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.kernels.sorting import sort_rising
from opweave.solvers.loops import helper, loop
from opweave.solvers.placement.arrays import DELAY, PORT_TENSOR, PlacementArrays, sending
from opweave.solvers.placement.memory_state import Clusters, Room, has_room, new_room, roomy, settle
from opweave.solvers.scheduling.busy_times import Timeline, common_fit, first_fit, new_timeline, occupy


class Gaps(NamedTuple):
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
    device: IntArray,
    start: FloatArray,
    begins: FloatArray,
) -> int:
    """Fill devices and times; return the operator that found no device, or -1."""
    count, devices = arrays.seconds.shape
    room, anywhere = new_room(arrays, clusters), roomy(arrays, clusters)
    state = Gaps(
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
        best, begin = _best_device(arrays, clusters, room, anywhere, state, flows, v)
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
def _by_producer_end(arrays: PlacementArrays, state: Gaps, v: int) -> IntArray:
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
    state: Gaps,
    flows: IntArray,
    v: int,
) -> tuple[int, float]:
    """The device where operator v ends soonest, and its start there; -1 when none has room and links."""
    ordered = 0.0
    for i in range(arrays.before_start[v], arrays.before_start[v + 1]):
        ordered = max(ordered, state.end[arrays.before[i]])
    best, begin, least = -1, np.inf, np.inf
    for k in range(arrays.seconds.shape[1]):
        if arrays.seconds[v, k] == np.inf or not (anywhere or has_room(arrays, clusters, room, v, k)):
            continue
        ready = _ready(arrays, state, flows, k, ordered, arrays.seconds[v, k], least)
        if ready == np.inf:
            continue
        start = first_fit(state.timeline, k, ready, arrays.seconds[v, k])
        end = start + arrays.seconds[v, k]
        if end < least:
            best, begin, least = k, start, end
    return best, begin


@helper
def _ready(
    arrays: PlacementArrays, state: Gaps, flows: IntArray, k: int, ordered: float, own: float, least: float
) -> float:
    """When all flows could be on device k, not before ``ordered``; inf if a link is missing or it would end too late.

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
def _send_to(arrays: PlacementArrays, state: Gaps, flows: IntArray, k: int) -> None:
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
