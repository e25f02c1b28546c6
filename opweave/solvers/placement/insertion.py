"""Memory of a placement under construction: which device has room for an operator and everything tied to it.

Operators that must share a device (Colocate) form a cluster. The first of them to be placed takes memory for all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.formulations.placement.instance import PlacementInstance
from opweave.problems.arrays import NO_LIMIT, FloatArray, FloatMatrix, IntArray, IntMatrix
from opweave.problems.graph_arrays import Adjacency
from opweave.solvers.kernels import Timeline, common_fit, first_fit, new_timeline, occupy
from opweave.solvers.loops import helper, loop
from opweave.solvers.placement.arrays import DELAY, PORT_TENSOR, PlacementArrays


class Room(NamedTuple):
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


def new_room(instance: PlacementInstance, arrays: PlacementArrays) -> Room:
    """Nothing placed; the bytes and parameters of every cluster."""
    of, devices = instance.cluster, len(arrays.capacity)
    count = int(of.max(initial=-1)) + 1
    memory = np.zeros(count, dtype=np.int64)
    np.add.at(memory, of, arrays.memory)
    owner = np.repeat(of, np.diff(arrays.parameters_start))
    parameters = Adjacency.from_pairs(count, owner, arrays.parameters)
    holds = np.zeros((len(arrays.parameter_bytes), devices), dtype=np.int64)
    used, home = np.zeros(devices, dtype=np.int64), np.full(count, -1, dtype=np.int64)
    need = (of, memory, parameters.start, parameters.items, arrays.parameter_bytes, arrays.capacity)
    return Room(*need, used, holds, home)


@helper
def has_room(room: Room, v: int, k: int) -> bool:
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
def settle(room: Room, v: int, k: int) -> None:
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
    room: Room,
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
    timeline: Timeline,
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
