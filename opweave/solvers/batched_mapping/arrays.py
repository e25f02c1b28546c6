"""The arrays of batched mapping's hot loops, and the decoder that these loops share.

A plan is a string of devices for every operator (one letter for each granule) and an order of all (operator, device)
nodes. The decoder walks the order and starts every batch as soon as its device is free and the data of its own granules
has arrived. Such plans always keep track of each input correctly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.formulations.batched_mapping.instance import BatchedInstance
from opweave.problems.arrays import NO_LIMIT, FloatCube, FloatMatrix, IntArray, IntCube, IntMatrix
from opweave.solvers.kernels import exceeds
from opweave.solvers.loops import helper

IN, IN_END, OUT, OUT_END, WAITS, WAITS_END, PARAMETERS, PARAMETERS_END, MEMORY = range(9)
"""Columns of ``BatchArrays.ops``."""


class BatchArrays(NamedTuple):
    """A :class:`BatchedInstance` as the loops need it.

    The edges out of an operator have successive numbers.

    Attributes
    ----------
    seconds
        As in the instance.
    ops
        Of every operator, ranges: of the edges into it in ``items``, of the edges out of it, of the operators that it
        waits for in ``items``, and of its parameters in ``items``; and the bytes that each granule takes.
    items
        What the ranges are about.
    edges
        Source and target of every edge. Shape (edges, 2).
    delays
        Delay of every edge from one device to another, and its growth with each granule, side by side. Shape (edges,
        devices, 2 devices).
    parameter_bytes, capacity
        Shapes (parameters,) and (devices,).
    limited
        Whether any device's memory is limited.
    """

    seconds: FloatCube
    ops: IntMatrix
    items: IntArray
    edges: IntMatrix
    delays: FloatCube
    parameter_bytes: IntArray
    capacity: IntArray
    limited: bool


def arrays_of(instance: BatchedInstance) -> BatchArrays:
    """Flatten an instance."""
    moved = instance.size[:, None, None] * instance.seconds_per_byte
    base = np.broadcast_to(instance.latency, moved.shape) + (0.0 if instance.grows else moved)
    slope = moved * (instance.granule if instance.grows else 0.0)
    columns, items, before = list[IntArray](), list[IntArray](), 0
    for rows in (instance.incoming, None, instance.waits, instance.parameters):
        start = instance.outgoing.start if rows is None else rows.start + before
        columns += [start[:-1], start[1:]]
        if rows is not None:
            items.append(rows.items)
            before += len(rows.items)
    return BatchArrays(
        seconds=instance.seconds,
        ops=np.stack([*columns, instance.memory * instance.granule], axis=1).astype(np.int64),
        items=np.concatenate(items),
        edges=np.stack([instance.source, instance.target], axis=1),
        delays=np.concatenate([base, slope], axis=2),
        parameter_bytes=instance.parameter_bytes,
        capacity=instance.capacity,
        limited=bool((instance.capacity != NO_LIMIT).any()),
    )


class Strings(NamedTuple):
    """The device of every granule of every operator, and the counts that follow from it.

    Attributes
    ----------
    where
        Device of every granule. Shape (operators, G).
    number
        Granules of every operator on every device. Shape (operators, devices).
    used
        Bytes on every device. Shape (devices,).
    holders
        Operators on each device that use each parameter. Shape (parameters, devices).
    flow
        Granules that pass along every edge from one device to another. Shape (edges, devices, devices).
    """

    where: IntMatrix
    number: IntMatrix
    used: IntArray
    holders: IntMatrix
    flow: IntCube


def no_strings(arrays: BatchArrays, where: IntMatrix) -> Strings:
    """Strings that count nothing yet; ``where`` is kept."""
    operators, devices = arrays.seconds.shape[:2]
    return Strings(
        where=where,
        number=np.zeros((operators, devices), dtype=np.int64),
        used=np.zeros(devices, dtype=np.int64),
        holders=np.zeros((len(arrays.parameter_bytes), devices), dtype=np.int64),
        flow=np.zeros((len(arrays.edges), devices, devices), dtype=np.int64),
    )


@helper
def count_all(arrays: BatchArrays, strings: Strings) -> None:
    """Count everything in strings that count nothing yet."""
    where, one = strings.where, 1
    for i in range(where.shape[0]):
        for g in range(where.shape[1]):
            count_granule(arrays, strings, i, where[i, g], one)
        count_flows(arrays, strings, i)


@helper
def count_flows(arrays: BatchArrays, strings: Strings, i: int) -> None:
    """Count the granules that pass along every edge into an operator."""
    where, flow = strings.where, strings.flow
    devices = flow.shape[1]
    for x in range(arrays.ops[i, IN], arrays.ops[i, IN_END]):
        e = arrays.items[x]
        j = arrays.edges[e, 0]
        for pair in range(devices * devices):
            flow[e, pair // devices, pair % devices] = 0
        for g in range(where.shape[1]):
            flow[e, where[j, g], where[i, g]] += 1


@helper
def count_granule(arrays: BatchArrays, strings: Strings, i: int, u: int, step: int) -> None:
    """Count one granule of an operator more (step 1) or less (step -1) on a device, with its memory."""
    number, used, holders = strings.number, strings.used, strings.holders
    edge = max(step, 0)  # the number after the first has come or the last has gone
    number[i, u] += step
    used[u] += step * arrays.ops[i, MEMORY]
    if number[i, u] == edge:
        for x in range(arrays.ops[i, PARAMETERS], arrays.ops[i, PARAMETERS_END]):
            p = arrays.items[x]
            holders[p, u] += step
            if holders[p, u] == edge:
                used[u] += step * arrays.parameter_bytes[p]


@helper
def move_granule(arrays: BatchArrays, strings: Strings, i: int, g: int, u: int) -> None:
    """Put one granule of an operator on a device and update all counts."""
    where, flow = strings.where, strings.flow
    before, more, less = where[i, g], 1, -1
    for x in range(arrays.ops[i, IN], arrays.ops[i, IN_END]):
        e = arrays.items[x]
        w = where[arrays.edges[e, 0], g]
        flow[e, w, before] -= 1
        flow[e, w, u] += 1
    for e in range(arrays.ops[i, OUT], arrays.ops[i, OUT_END]):
        w = where[arrays.edges[e, 1], g]
        flow[e, before, w] -= 1
        flow[e, u, w] += 1
    count_granule(arrays, strings, i, before, less)
    count_granule(arrays, strings, i, u, more)
    where[i, g] = u


@helper
def can_run(arrays: BatchArrays, strings: Strings, i: int) -> bool:
    """Whether every count of an operator is a batch that can run (0 counts as one unless forbidden)."""
    possible = True
    for u in range(arrays.seconds.shape[1]):
        possible = possible and arrays.seconds[i, u, strings.number[i, u]] < np.inf
    return possible


@helper
def overfull(arrays: BatchArrays, strings: Strings) -> bool:
    """Whether any device exceeds its memory."""
    return arrays.limited and exceeds(strings.used, arrays.capacity)


@helper
def ready_at(arrays: BatchArrays, strings: Strings, i: int, u: int, end: FloatMatrix) -> float:
    """When the data of an operator's batch is on device u, given the ends of batches (-1: none yet); inf if never."""
    devices, ready, flow, delays = end.shape[1], 0.0, strings.flow, arrays.delays
    for x in range(arrays.ops[i, IN], arrays.ops[i, IN_END]):
        e = arrays.items[x]
        j = arrays.edges[e, 0]
        for w in range(devices):
            moved = flow[e, w, u]
            if moved > 0:
                there = end[j, w]
                if there < 0.0:
                    return np.inf
                if w != u:
                    there += delays[e, w, u] + delays[e, w, devices + u] * moved
                ready = max(ready, there)
    for x in range(arrays.ops[i, WAITS], arrays.ops[i, WAITS_END]):
        h = arrays.items[x]
        for w in range(devices):
            if strings.number[h, w] > 0:
                if end[h, w] < 0.0:
                    return np.inf
                ready = max(ready, end[h, w])
    return ready


def nodes_of(instance: BatchedInstance, order: IntArray) -> IntArray:
    """All nodes, operator by operator in an order."""
    devices = len(instance.devices)
    return (order[:, None] * devices + np.arange(devices)).ravel()
