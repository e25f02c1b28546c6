"""The arrays of placement's hot loops, and the list scheduler that these loops share.

A plan is an order of the operators (predecessors first) and a device for each. The scheduler runs the operators in that
order. Each starts as soon as its device is free, its predecessors have ended and its inputs have arrived. When a
consumer's turn comes, its inputs from other devices are sent as soon as they exist and both ports are free. Under
``delay`` there are no ports. Under ``one_port_tensor`` a tensor is sent to each device once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, FloatMatrix, IntArray, IntMatrix
from opweave.problems.errors import UnsupportedFeatureError
from opweave.problems.graph_arrays import Adjacency
from opweave.solvers.loops import helper, loop

if TYPE_CHECKING:  # a child process needs only the arrays
    from opweave.formulations.placement.instance import PlacementInstance
    from opweave.problems.placement.spec import Placement, TransferModel

DELAY = 0
PORT_EDGE = 1
PORT_TENSOR = 2

NAMES: tuple[TransferModel, ...] = ("delay", "one_port_edge", "one_port_tensor")
"""What the problem calls these models."""


class PlacementArrays(NamedTuple):
    """A :class:`PlacementInstance` as a flat tuple of arrays; adjacencies are (start, items) pairs."""

    seconds: FloatMatrix
    source: IntArray
    target: IntArray
    tensor: IntArray
    size: IntArray
    in_start: IntArray
    incoming: IntArray
    out_start: IntArray
    outgoing: IntArray
    before_start: IntArray
    before: IntArray
    after_start: IntArray
    after: IntArray
    latency: FloatMatrix
    per_byte: FloatMatrix
    memory: IntArray
    parameters_start: IntArray
    parameters: IntArray
    parameter_bytes: IntArray
    capacity: IntArray
    tensors: int
    model: int


def arrays_of(instance: PlacementInstance, problem: Placement) -> PlacementArrays:
    """Flatten an instance.

    Raises
    ------
    UnsupportedFeatureError
        For a reading that list scheduling does not know.
    """
    if problem.reading is not None:
        raise UnsupportedFeatureError(f"list scheduling does not know {problem.reading}; solver 'calls' does")
    return PlacementArrays(
        seconds=instance.seconds,
        source=instance.source,
        target=instance.target,
        tensor=instance.tensor,
        size=instance.size,
        in_start=instance.incoming.start,
        incoming=instance.incoming.items,
        out_start=instance.outgoing.start,
        outgoing=instance.outgoing.items,
        before_start=instance.before.start,
        before=instance.before.items,
        after_start=instance.after.start,
        after=instance.after.items,
        latency=instance.latency,
        per_byte=instance.seconds_per_byte,
        memory=instance.memory,
        parameters_start=instance.parameters.start,
        parameters=instance.parameters.items,
        parameter_bytes=instance.parameter_bytes,
        capacity=instance.capacity,
        tensors=len(instance.tensors),
        model=NAMES.index(problem.transfers),
    )


def with_arcs(arrays: PlacementArrays, before: Adjacency) -> PlacementArrays:
    """The arrays with other arcs, given the predecessors of every operator."""
    after = before.reversed(len(before))
    return arrays._replace(before_start=before.start, before=before.items, after_start=after.start, after=after.items)


def reversed_net(arrays: PlacementArrays) -> PlacementArrays:
    """The same problem with time reversed: its heads are the tails."""
    return arrays._replace(
        source=arrays.target,
        target=arrays.source,
        in_start=arrays.out_start,
        incoming=arrays.outgoing,
        out_start=arrays.in_start,
        outgoing=arrays.incoming,
        before_start=arrays.after_start,
        before=arrays.after,
        after_start=arrays.before_start,
        after=arrays.before,
        latency=np.ascontiguousarray(arrays.latency.T),
        per_byte=np.ascontiguousarray(arrays.per_byte.T),
    )


class Clock(NamedTuple):
    """The state of a schedule under construction.

    Attributes
    ----------
    end
        End of every scheduled operator. Shape (operators,).
    free, sends, receives
        Time at which every device, send port and receive port is free again. Shape (devices,).
    arrived
        Under ``one_port_tensor``: time at which each tensor's copy arrives on each device, -1 until it is sent.
        Shape (tensors, devices); one row otherwise.
    begins
        Start of every flow's transfer, -1 where none was needed. Shape (flows,).
    """

    end: FloatArray
    free: FloatArray
    sends: FloatArray
    receives: FloatArray
    arrived: FloatArray
    begins: FloatArray


@helper
def new_clock(arrays: PlacementArrays) -> Clock:
    """Time zero."""
    devices = arrays.seconds.shape[1]
    return Clock(
        end=np.zeros(len(arrays.seconds)),
        free=np.zeros(devices),
        sends=np.zeros(devices),
        receives=np.zeros(devices),
        arrived=np.full((arrays.tensors if arrays.model == PORT_TENSOR else 1, devices), -1.0),
        begins=np.full(len(arrays.source), -1.0),
    )


@helper
def sending(arrays: PlacementArrays, f: int, a: int, b: int) -> float:
    """Seconds that flow f takes from device a to device b: 0 within a device, inf where nothing can be sent."""
    return float(arrays.latency[a, b] + arrays.size[f] * arrays.per_byte[a, b])


def durations(arrays: PlacementArrays) -> FloatArray:
    """Seconds of every flow between every two devices, as :func:`sending`. Shape (flows, K, K)."""
    return np.asarray(arrays.latency + arrays.size[:, None, None] * arrays.per_byte)


@helper
def place(arrays: PlacementArrays, clock: Clock, v: int, k: int, device: IntArray) -> float:
    """Schedule operator v on device k after everything scheduled so far; return its end."""
    ready = clock.free[k]
    for i in range(arrays.before_start[v], arrays.before_start[v + 1]):
        ready = max(ready, clock.end[arrays.before[i]])
    for i in range(arrays.in_start[v], arrays.in_start[v + 1]):
        f = arrays.incoming[i]
        u = arrays.source[f]
        a = device[u]
        if a == k:
            continue
        t = arrays.tensor[f]
        if arrays.model == PORT_TENSOR and clock.arrived[t, k] >= 0.0:
            ready = max(ready, clock.arrived[t, k])
            continue
        start = clock.end[u]
        lasts = sending(arrays, f, a, k)
        if arrays.model != DELAY:
            start = max(start, clock.sends[a], clock.receives[k])
            clock.sends[a] = start + lasts
            clock.receives[k] = start + lasts
            clock.begins[f] = start
        if arrays.model == PORT_TENSOR:
            clock.arrived[t, k] = start + lasts
        ready = max(ready, start + lasts)
    clock.end[v] = ready + arrays.seconds[v, k]
    clock.free[k] = clock.end[v]
    return float(clock.end[v])


@helper
def arrival(arrays: PlacementArrays, clock: Clock, device: IntArray, v: int, k: int) -> float:
    """When the inputs of operator v could be on device k, sent as in :func:`place`; inf if a link is missing."""
    ready, cursor = 0.0, clock.receives[k]
    for i in range(arrays.before_start[v], arrays.before_start[v + 1]):
        ready = max(ready, clock.end[arrays.before[i]])
    for i in range(arrays.in_start[v], arrays.in_start[v + 1]):
        f = arrays.incoming[i]
        u = arrays.source[f]
        a = device[u]
        if a == k:
            continue
        if arrays.latency[a, k] == np.inf:
            return np.inf
        if arrays.model == PORT_TENSOR and clock.arrived[arrays.tensor[f], k] >= 0.0:
            ready = max(ready, clock.arrived[arrays.tensor[f], k])
            continue
        begin = clock.end[u]
        lasts = sending(arrays, f, a, k)
        if arrays.model != DELAY:
            begin = max(begin, clock.sends[a], cursor)
            cursor = begin + lasts
        ready = max(ready, begin + lasts)
    return float(ready)


@helper
def makespan_below(arrays: PlacementArrays, order: IntArray, device: IntArray, threshold: float) -> float:
    """Makespan of a plan, or the first end above ``threshold`` if there is one."""
    clock = new_clock(arrays)
    makespan = 0.0
    for v in order:
        makespan = max(makespan, place(arrays, clock, v, device[v], device))
        if makespan > threshold:
            break
    return makespan


class Times(NamedTuple):
    """The times of one plan, by operator, flow and position in its order.

    Attributes
    ----------
    end
        End of every operator. Shape (operators,).
    arrived
        When every flow that is sent arrives. Shape (flows,).
    free
        When every device, send port and receive port is free before each position. Shape (operators + 1, 3 devices).
    copy
        Under ``one_port_tensor``: the flow with which every tensor is sent to each device, -1 for none. Shape (tensors,
        devices); one row otherwise.
    """

    end: FloatArray
    arrived: FloatArray
    free: FloatMatrix
    copy: IntMatrix


class Left(NamedTuple):
    """Longest paths to the end of one plan, in seconds.

    Attributes
    ----------
    operator, flow
        From the start of every operator, and of every flow that is sent (0 for others). Shapes (operators,), (flows,).
    free
        From where every device and port is free before each position. Shape (operators + 1, 3 devices).
    """

    operator: FloatArray
    flow: FloatArray
    free: FloatMatrix


class Trial(NamedTuple):
    """Space for a move that is tried: ends, arrivals of copies and the moves that sent them, devices and ports."""

    end: FloatArray
    arrived: FloatMatrix
    move: IntMatrix
    free: FloatArray


@helper
def new_times(arrays: PlacementArrays) -> Times:
    """Times before anything is timed."""
    count, devices = arrays.seconds.shape
    return Times(
        np.full(count, -1.0),
        np.full(len(arrays.source), -1.0),
        np.zeros((count + 1, 3 * devices)),
        np.full((arrays.tensors if arrays.model == PORT_TENSOR else 1, devices), -1, dtype=np.int64),
    )


@helper
def renewed(free: FloatArray, now: FloatArray) -> bool:
    """Write the times of devices and ports to one position's; return whether any differs."""
    changed = False
    for i in range(len(free)):
        if free[i] != now[i]:
            free[i], changed = now[i], True
    return changed


@loop
def run_plan(
    arrays: PlacementArrays, order: IntArray, device: IntArray, start: FloatArray, begins: FloatArray
) -> float:
    """Schedule a plan: fill in the start of every operator and transfer (-1: none) and return the makespan."""
    clock = new_clock(arrays)
    makespan = 0.0
    for v in order:
        makespan = max(makespan, place(arrays, clock, v, device[v], device))
        takes = arrays.seconds[v, device[v]]
        start[v] = clock.end[v] - takes if takes < np.inf else np.inf
    begins[:] = clock.begins
    return makespan


@loop
def makespan_within(arrays: PlacementArrays, order: IntArray, device: IntArray, threshold: float) -> float:
    """See :func:`makespan_below`."""
    return makespan_below(arrays, order, device, threshold)
