"""The arrays of placement's hot loops, and the list scheduler that these loops share.

A plan is an order of the operators (predecessors first) and a device for each. The scheduler runs the operators in that
order. Each starts as soon as its device is free, its predecessors have ended and its inputs have arrived. When a
consumer's turn comes, its inputs from other devices are sent as soon as they exist and both ports are free. Under
``delay`` there are no ports. Under ``one_port_tensor`` a tensor is sent to each device once.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, FloatMatrix, IntArray
from opweave.problems.errors import UnsupportedFeatureError
from opweave.problems.graph_arrays import Adjacency
from opweave.solvers.loops import loop

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
        For a mode that list scheduling does not know.
    """
    if problem.transfers == "blocking":
        raise UnsupportedFeatureError(f"list scheduling does not know {problem.mode}; solver 'calls' does")
    fits = instance.fitting()
    fits |= ~fits.any(axis=1, keepdims=True)  # what fits nowhere is for others to report
    return PlacementArrays(
        seconds=np.where(fits, instance.seconds, np.inf),
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


def durations(arrays: PlacementArrays) -> FloatArray:
    """Seconds of every flow between every two devices: 0 within one, inf without a link. Shape (flows, K, K)."""
    return np.asarray(arrays.latency + arrays.size[:, None, None] * arrays.per_byte)


@loop
def run_plan(
    arrays: PlacementArrays,
    order: IntArray,
    device: IntArray,
    start: FloatArray,
    begins: FloatArray,
    threshold: float,
) -> float:
    """Schedule a plan: fill in the start of every operator and transfer, and return the makespan.

    Transfers that are not needed keep their entry of ``begins``. It ends early once an end is above the threshold.
    """
    seconds, latency, per_byte, model = arrays.seconds, arrays.latency, arrays.per_byte, arrays.model
    source, tensor = arrays.source, arrays.tensor
    size, in_start, incoming = arrays.size, arrays.in_start, arrays.incoming
    before_start, before = arrays.before_start, arrays.before
    count, devices = seconds.shape
    end, free, makespan = np.zeros(count), np.zeros(3 * devices), 0.0
    arrived = np.full((arrays.tensors if model == PORT_TENSOR else 1, devices), -1.0)
    for at in range(count):
        v = order[at]
        k = device[v]
        ready = free[k]
        for i in range(before_start[v], before_start[v + 1]):
            ready = max(ready, end[before[i]])
        for i in range(in_start[v], in_start[v + 1]):
            f = incoming[i]
            u, a, t = source[f], device[source[f]], tensor[f]
            if a == k:
                continue
            if model == PORT_TENSOR and arrived[t, k] >= 0.0:
                ready = max(ready, arrived[t, k])
                continue
            begin, lasts = end[u], latency[a, k] + size[f] * per_byte[a, k]
            if model != DELAY:
                begin = max(begin, free[devices + a], free[2 * devices + k])
                free[devices + a] = free[2 * devices + k] = begin + lasts
                begins[f] = begin
            if model == PORT_TENSOR:
                arrived[t, k] = begin + lasts
            ready = max(ready, begin + lasts)
        start[v] = ready
        end[v] = free[k] = ready + seconds[v, k]
        makespan = max(makespan, end[v])
        if makespan > threshold:
            break
    return makespan


def length_within(arrays: PlacementArrays, order: IntArray, device: IntArray, threshold: float = np.inf) -> float:
    """Makespan of a plan, or the first end above ``threshold`` if there is one."""
    start, begins = np.empty(len(order)), np.empty(len(arrays.source))
    return float(run_plan(arrays, order, device, start, begins, threshold))


def mean_seconds(arrays: PlacementArrays) -> FloatArray:
    """Run time of every operator, averaged over the devices that may run it. Shape (operators,)."""
    allowed = np.isfinite(arrays.seconds)
    total = np.where(allowed, arrays.seconds, 0.0).sum(axis=1)
    return np.asarray(total / np.maximum(1, allowed.sum(axis=1)))


def mean_transfer(arrays: PlacementArrays) -> FloatArray:
    """Transfer time of every flow, averaged over all links between different devices. Shape (flows,)."""
    linked = np.isfinite(arrays.latency) & ~np.eye(len(arrays.latency), dtype=bool)
    if not linked.any():
        return np.zeros(len(arrays.size))
    seconds = float(arrays.latency[linked].mean()) + arrays.size * float(arrays.per_byte[linked].mean())
    return np.asarray(seconds, dtype=np.float64)


def upward_rank(arrays: PlacementArrays, seconds: FloatArray | None = None) -> FloatArray:
    """Longest path from every operator to an end, itself included, in mean run and transfer times (HEFT).

    ``seconds`` are other run times.
    """
    order = np.ascontiguousarray(order_of_graph(arrays)[::-1])
    seconds = mean_seconds(arrays) if seconds is None else seconds
    return np.asarray(seconds + depths(reversed_net(arrays), order, seconds, mean_transfer(arrays)))


def order_of_graph(arrays: PlacementArrays) -> IntArray:
    """Operators before their successors, otherwise in the order of the graph."""
    count = len(arrays.seconds)
    if (arrays.before < np.repeat(np.arange(count), np.diff(arrays.before_start))).all():  # the usual case
        return np.arange(count)
    waiting = np.diff(arrays.before_start).tolist()
    after = Adjacency(arrays.after_start, arrays.after).lists()
    ready = [v for v in range(count) if not waiting[v]]
    order = []
    while ready:
        v = heappop(ready)
        order.append(v)
        for w in after[v]:
            waiting[w] -= 1
            if not waiting[w]:
                heappush(ready, w)
    return np.asarray(order, dtype=np.int64)


def order_by(rank: FloatArray, order: IntArray) -> IntArray:
    """Operators by decreasing rank, which does not rise along arcs; where it is equal, as in ``order``."""
    return np.ascontiguousarray(order[np.argsort(-rank[order], kind="stable")])


def order_for(arrays: PlacementArrays, device: IntArray, order: IntArray | None = None) -> IntArray:
    """Operators by decreasing upward rank, from the run and transfer times of an assignment.

    ``order`` is any order with predecessors first.
    """
    order = order_of_graph(arrays) if order is None else order
    seconds = arrays.seconds[np.arange(len(device)), device]
    source, target = device[arrays.source], device[arrays.target]
    transfer = arrays.latency[source, target] + arrays.size * arrays.per_byte[source, target]
    backwards = np.ascontiguousarray(order[::-1])
    return order_by(seconds + depths(reversed_net(arrays), backwards, seconds, transfer), order)


@loop
def depths(arrays: PlacementArrays, order: IntArray, seconds: FloatArray, transfer: FloatArray) -> FloatArray:
    """Longest path from a beginning to every operator, itself excluded. Shape (operators,)."""
    before_start, before, in_start, incoming = arrays.before_start, arrays.before, arrays.in_start, arrays.incoming
    source, depth = arrays.source, np.zeros(len(seconds))
    for v in order:
        longest = 0.0
        for j in range(before_start[v], before_start[v + 1]):
            longest = max(longest, depth[before[j]] + seconds[before[j]])
        for j in range(in_start[v], in_start[v + 1]):
            f = incoming[j]
            longest = max(longest, depth[source[f]] + seconds[source[f]] + transfer[f])
        depth[v] = longest
    return depth
