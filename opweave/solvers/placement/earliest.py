"""Earliest-start list scheduling: again and again the ready operator and device that can start first.

The core of ETF, SCT and GETF. Each device keeps two heaps of the ready operators that may run on it: those whose inputs
would be there before the device is free, by priority, and those whose inputs come later, by that time. Ports only fill
up, so a time that was right when it was computed is a lower bound later; it is refreshed when it comes to the top.
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from opweave.formulations.placement.instance import FloatArray, PlacementInstance
from opweave.problems.graph_arrays import IntArray
from opweave.solvers.compiled import inlined, kernel
from opweave.solvers.placement.insertion import NoPlanError, no_device
from opweave.solvers.placement.net import DELAY, PORT_TENSOR, Clock, Net, new_clock, place
from opweave.solvers.placement.room import clusters_of, has_room, new_room, settle
from opweave.solvers.placement.schedule import Plan

Heap = list[tuple[float, float, int]]
"""Entries are (time, -priority, operator); the time is 0 among those that wait for the device only."""


def earliest_first(
    instance: PlacementInstance,
    net: Net,
    priority: FloatArray,
    *,
    allowed: BoolArray | None = None,
    favourite: IntArray | None = None,
) -> Plan:
    """Start whatever can start first; the higher priority where several can.

    Parameters
    ----------
    priority
        Shape (operators,).
    allowed
        Devices that an operator should take, shape (operators, devices); the others serve it only when none of these
        has room.
    favourite
        The successor that should follow every operator on its device, -1 for none. A device waits for it instead of
        taking an operator whose inputs are not there yet.

    Raises
    ------
    NoPlanError
        When an operator finds no device with room and links.
    """
    count, devices = net.seconds.shape
    if allowed is None:
        allowed = np.ones((count, devices), dtype=bool)
    if favourite is None:
        favourite = np.full(count, -1, dtype=np.int64)
    order, device = np.zeros(count, dtype=np.int64), np.full(count, -1, dtype=np.int64)
    start, begins = np.zeros(count), np.full(len(net.source), -1.0)
    work = 60 * devices * (count + len(net.source))
    stuck = start_all.sized(work)(
        net, clusters_of(instance, net), priority, allowed, favourite, order, device, start, begins
    )
    if stuck >= 0:
        raise NoPlanError(no_device(instance, int(stuck)))
    end = start + net.seconds[np.arange(count), device]
    return Plan(order, device, start, begins, float(end.max(initial=0.0)))


class State(NamedTuple):
    """A schedule under construction.

    Attributes
    ----------
    device
        Device of every placed operator, -1 for the others.
    open
        Whether a ready operator may still go to a device. Shape (operators, devices).
    waiting
        Predecessors of every operator that are not placed.
    """

    net: Net
    clusters: Clusters
    clock: Clock
    room: Room
    priority: FloatArray
    device: IntArray
    open: BoolArray
    waiting: IntArray


@kernel
def start_all(
    net: Net,
    clusters: Clusters,
    priority: FloatArray,
    allowed: BoolArray,
    favourite: IntArray,
    order: IntArray,
    device: IntArray,
    start: FloatArray,
    begins: FloatArray,
) -> int:
    """Fill order, devices and times; returns the operator that found no device, or -1."""
    count, devices = net.seconds.shape
    state = State(
        net=net,
        clusters=clusters,
        clock=new_clock(net),
        room=new_room(net, clusters),
        priority=priority,
        device=device,
        open=np.zeros((count, devices), dtype=np.bool_),
        waiting=net.before_start[1:] - net.before_start[:-1],
    )
    soon = [[(0.0, 0.0, 0)] for _ in range(devices)]
    later = [[(0.0, 0.0, 0)] for _ in range(devices)]
    for k in range(devices):
        soon[k].clear()
        later[k].clear()
    expected = np.full(devices, -1, dtype=np.int64)
    for v in range(count):
        if state.waiting[v] == 0 and not _offer(state, later, allowed, v):
            return v
    for step in range(count):
        best, least, chosen = -1, np.inf, -1
        for patient in range(2):  # first without those that would make a device break its word to a favourite
            for k in range(devices):
                v, begin = _candidate(state, soon[k], later[k], k, expected[k] if patient == 0 else -1)
                higher = best >= 0 and v >= 0 and begin == least and priority[v] > priority[chosen]
                if v >= 0 and (begin < least or higher):
                    best, least, chosen = k, begin, v
            if best >= 0:
                break
        if best < 0:
            return _widen(state, later, count)
        v = chosen
        device[v] = best
        start[v] = place(net, state.clock, v, best, device) - net.seconds[v, best]
        settle(net, clusters, state.room, v, best)
        order[step] = v
        expected[best] = favourite[v]
        if net.model == PORT_TENSOR:
            _tell_readers(state, later[best], v, best)
        for i in range(net.after_start[v], net.after_start[v + 1]):
            w = net.after[i]
            state.waiting[w] -= 1
            if state.waiting[w] == 0 and not _offer(state, later, allowed, w):
                return int(w)
    begins[:] = state.clock.begins
    return -1
