"""Earliest-start list scheduling: each step takes the ready operator and device that can start first.

This is m-ETF, and the core of m-SCT and GETF (:mod:`.guided`). Each device keeps two heaps of the ready operators that
may run on it: those whose inputs would be there before the device is free, by priority, and those whose inputs come
later, by that time. Ports only fill up, so a computed time stays a lower bound; it is refreshed when it reaches the top
of its heap.

Source: J.-J. Hwang, Y.-C. Chow, F. D. Anger, C.-Y. Lee, "Scheduling precedence graphs in systems with interprocessor
communication times", SIAM J. Computing 18(2), 1989, doi:10.1137/0218016; with memory: B. Jeon et al., "Baechi: fast
device placement of machine learning graphs", SoCC 2020, doi:10.1145/3419111.3421302.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from opweave.formulations.placement.instance import PlacementInstance
from opweave.problems.arrays import BoolArray, BoolMatrix, FloatArray, IntArray
from opweave.solvers.kernels.sorting import lengths_of
from opweave.solvers.loops import helper, loop
from opweave.solvers.placement.arrays import PORT_TENSOR, Clock, PlacementArrays, arrival, new_clock, place
from opweave.solvers.placement.insertion import no_device
from opweave.solvers.placement.memory_state import Clusters, Room, clusters_of, has_room, new_room, settle
from opweave.solvers.placement.plans import Plan
from opweave.solvers.placement.ranks import upward_rank
from opweave.solvers.rules import NoPlanError

Heap = list[tuple[float, float, int]]
"""Entries are (time, -priority, operator); the time is 0 among those that wait for the device only."""


def etf(instance: PlacementInstance, arrays: PlacementArrays) -> Plan:
    """Earliest start first; the longest remaining path breaks ties."""
    return earliest_first(instance, arrays, upward_rank(arrays))


def earliest_first(
    instance: PlacementInstance,
    arrays: PlacementArrays,
    priority: FloatArray,
    *,
    allowed: BoolArray | None = None,
    favourite: IntArray | None = None,
) -> Plan:
    """Start whatever can start first; among several, the operator with the highest priority.

    Parameters
    ----------
    priority
        Shape (operators,).
    allowed
        Devices that an operator should take, shape (operators, devices). Other devices are used only when none of these
        has room.
    favourite
        For every operator, the successor that should follow it on its device, -1 for none. A device waits for it
        instead of taking an operator whose inputs have not arrived yet.

    Raises
    ------
    NoPlanError
        When an operator finds no device with room and links.
    """
    count, devices = arrays.seconds.shape
    if allowed is None:
        allowed = np.ones((count, devices), dtype=bool)
    if favourite is None:
        favourite = np.full(count, -1, dtype=np.int64)
    order, device = np.zeros(count, dtype=np.int64), np.full(count, -1, dtype=np.int64)
    start, begins = np.zeros(count), np.full(len(arrays.source), -1.0)
    stuck = start_all(arrays, clusters_of(instance, arrays), priority, allowed, favourite, order, device, start, begins)
    if stuck >= 0:
        raise NoPlanError(no_device(instance, int(stuck)))
    end = start + arrays.seconds[np.arange(count), device]
    return Plan(order, device, start, begins, float(end.max(initial=0.0)))


class State(NamedTuple):
    """A schedule under construction.

    Attributes
    ----------
    device
        Device of every placed operator, -1 for the others.
    allowed
        Devices to prefer. Shape (operators, devices).
    open
        Whether a ready operator is in one of a device's heaps. Shape (operators, devices).
    waiting
        Number of every operator's predecessors that are not placed yet.
    stuck
        The operator that found no device, or -1. Shape (1,).
    """

    arrays: PlacementArrays
    clusters: Clusters
    clock: Clock
    room: Room
    priority: FloatArray
    device: IntArray
    allowed: BoolArray
    open: BoolArray
    waiting: IntArray
    stuck: IntArray


@loop
def start_all(
    arrays: PlacementArrays,
    clusters: Clusters,
    priority: FloatArray,
    allowed: BoolMatrix,
    favourite: IntArray,
    order: IntArray,
    device: IntArray,
    start: FloatArray,
    begins: FloatArray,
) -> int:
    """Fill order, devices and times; return the operator that found no device, or -1."""
    count, devices = arrays.seconds.shape
    waiting = lengths_of(arrays.before_start)
    state = State(
        arrays=arrays,
        clusters=clusters,
        clock=new_clock(arrays),
        room=new_room(arrays, clusters),
        priority=priority,
        device=device,
        allowed=allowed,
        open=np.zeros((count, devices), dtype=np.bool_),
        waiting=waiting,
        stuck=np.full(1, -1, dtype=np.int64),
    )
    soon = [[(0.0, 0.0, 0)] for _ in range(devices)]
    later = [[(0.0, 0.0, 0)] for _ in range(devices)]
    for k in range(devices):
        soon[k].clear()
        later[k].clear()
    expected = np.full(devices, -1, dtype=np.int64)
    for v in range(count):
        if state.waiting[v] == 0:
            _offer(state, later, v)
    for step in range(count):
        v, best = _first(state, soon, later, expected)
        if state.stuck[0] >= 0:
            return int(state.stuck[0])
        device[v] = best
        start[v] = place(arrays, state.clock, v, best, device) - arrays.seconds[v, best]
        settle(arrays, clusters, state.room, v, best)
        order[step] = v
        expected[best] = favourite[v]
        if arrays.model == PORT_TENSOR:
            _tell_readers(state, later[best], v, best)
        for i in range(arrays.after_start[v], arrays.after_start[v + 1]):
            w = arrays.after[i]
            waiting[w] -= 1
            if waiting[w] == 0:
                _offer(state, later, w)
    begins[:] = state.clock.begins
    return int(state.stuck[0])


@helper
def _first(state: State, soon: list[Heap], later: list[Heap], expected: IntArray) -> tuple[int, int]:
    """The operator and device that can start first, or (-1, -1).

    Devices keep waiting for the favourites of their last operators as long as anything can happen elsewhere.
    """
    best, least, chosen = -1, np.inf, -1
    for patience in range(2):
        for k in range(len(expected)):
            awaited = expected[k] if patience == 0 else -1
            v, begin = _candidate(state, soon[k], later, k, awaited)
            if v < 0:
                continue
            if begin < least or (begin == least and state.priority[v] > state.priority[chosen]):
                best, least, chosen = k, begin, v
        if best >= 0:
            break
    return chosen, best


@helper
def _candidate(state: State, soon: Heap, later: list[Heap], k: int, expected: int) -> tuple[int, float]:
    """The operator that device k would run next, and its start; (-1, inf) if there is none."""
    free = state.clock.free[k]
    reserved = expected >= 0 and state.device[expected] < 0
    if reserved and state.waiting[expected] == 0 and state.open[expected, k]:
        begin = max(free, arrival(state.arrays, state.clock, state.device, expected, k))
        if begin < np.inf and has_room(state.arrays, state.clusters, state.room, expected, k):
            return expected, begin
        reserved = False
    mine = later[k]
    while len(mine) > 0 and mine[0][0] <= free:
        entry = heappop(mine)
        heappush(soon, (0.0, entry[1], entry[2]))
    while len(soon) > 0:
        v = soon[0][2]
        if not _usable(state, later, v, k):
            heappop(soon)
            continue
        begin = arrival(state.arrays, state.clock, state.device, v, k)
        if begin <= free:
            return v, free
        entry = heappop(soon)
        heappush(mine, (begin, entry[1], v))
    if reserved and state.waiting[expected] > 0:
        return -1, np.inf
    while len(mine) > 0:
        entry = mine[0]
        v = entry[2]
        if not _usable(state, later, v, k):
            heappop(mine)
            continue
        begin = arrival(state.arrays, state.clock, state.device, v, k)
        if begin <= entry[0]:
            return v, max(begin, free)
        heappop(mine)
        heappush(mine, (begin, entry[1], v))
    return -1, np.inf


@helper
def _usable(state: State, later: list[Heap], v: int, k: int) -> bool:
    """Whether a heap entry is still valid; an operator whose preferred devices are full is offered to all devices."""
    if state.device[v] >= 0 or not state.open[v, k]:
        return False
    if has_room(state.arrays, state.clusters, state.room, v, k):
        return True
    state.open[v, k] = False
    for other in range(len(later)):
        if state.open[v, other]:
            return False
    _offer(state, later, v)
    return False


@helper
def _offer(state: State, later: list[Heap], v: int) -> None:
    """Put a ready operator into the heaps of its preferred devices, or else of all devices that can take it."""
    found = False
    for rank in range(2):
        if found:
            break
        for k in range(len(later)):
            if rank == 0 and not state.allowed[v, k]:
                continue
            begin = arrival(state.arrays, state.clock, state.device, v, k)
            if begin < np.inf and has_room(state.arrays, state.clusters, state.room, v, k):
                state.open[v, k] = True
                heappush(later[k], (begin, -state.priority[v], v))
                found = True
    if not found:
        state.stuck[0] = v


@helper
def _tell_readers(state: State, heap: Heap, v: int, k: int) -> None:
    """Update the other ready readers of the tensors that v brought to device k, since they can start there sooner."""
    arrays = state.arrays
    for i in range(arrays.in_start[v], arrays.in_start[v + 1]):
        f = arrays.incoming[i]
        if state.clock.begins[f] < 0.0:
            continue
        u = arrays.source[f]
        for j in range(arrays.out_start[u], arrays.out_start[u + 1]):
            g = arrays.outgoing[j]
            w = arrays.target[g]
            if (
                arrays.tensor[g] == arrays.tensor[f]
                and state.device[w] < 0
                and state.waiting[w] == 0
                and state.open[w, k]
            ):
                heappush(heap, (arrival(state.arrays, state.clock, state.device, w, k), -state.priority[w], w))
