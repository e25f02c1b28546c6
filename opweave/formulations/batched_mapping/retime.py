"""From decisions to a schedule: exact times for the devices and the order that a model chose."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opweave.formulations.batched_mapping.instance import BatchedInstance
from opweave.formulations.placement.instance import FloatArray
from opweave.problems.batched_mapping import Batch, BatchedSchedule
from opweave.problems.graph_arrays import IntArray


def counts_of(where: IntArray, devices: int) -> IntArray:
    """Inputs of every operator on every device. Shape (operators, devices)."""
    count = np.zeros((len(where), devices), dtype=np.int64)
    np.add.at(count, (np.repeat(np.arange(len(where)), where.shape[1]), where.ravel()), 1)
    return count


def retimed(
    instance: BatchedInstance, where: IntArray, start: FloatArray, *, release: FloatArray | None = None
) -> BatchedSchedule:
    """Run every batch as soon as it can, on each device in the order of the given starts.

    Parameters
    ----------
    where
        Device of every input of every operator. Shape (operators, batch).
    start
        Shape (operators, devices); only its order on a device and along the data counts.
    release
        Earliest starts, shape (operators, devices); None for none.
    """
    count = counts_of(where, len(instance.devices))
    rank = np.empty(instance.operators, dtype=np.int64)
    rank[instance.order] = np.arange(instance.operators)
    nodes = [(float(start[i, u]), int(rank[i]), i, u) for i, u in zip(*np.nonzero(count), strict=True)]
    waiting = _settled(instance, where, count, sorted(nodes))
    free = np.zeros(len(instance.devices))
    end = np.zeros(count.shape)
    batches = []
    for i, u in waiting:
        begins = max(float(free[u]), _ready(instance, where, end, i, u))
        if release is not None:
            begins = max(begins, float(release[i, u]))
        lasts = float(instance.seconds[i, u, count[i, u] // instance.granule])
        end[i, u] = free[u] = begins + lasts
        inputs = tuple(np.flatnonzero(where[i] == u).tolist())
        batches.append(
            Batch(
                operator=instance.names[i], device=instance.devices[u], inputs=inputs, start=begins, end=begins + lasts
            )
        )
    return BatchedSchedule(batches=tuple(batches))


def _settled(
    instance: BatchedInstance, where: IntArray, count: IntArray, nodes: Sequence[tuple[float, int, int, int]]
) -> list[tuple[int, int]]:
    """Nodes in an order that the data allows, near to that of the starts: engines' times are a little off."""
    needs: dict[tuple[int, int], set[tuple[int, int]]] = {}
    for _, _, i, u in nodes:
        own = np.flatnonzero(where[i] == u)
        before = {
            (int(h), int(w))
            for e in instance.incoming[i]
            for h in [instance.source[e]]
            for w in np.unique(where[h, own])
        }
        before |= {(int(h), int(w)) for h in instance.waits[i] for w in np.flatnonzero(count[h])}
        needs[i, u] = before
    left = [(i, u) for _, _, i, u in nodes]
    done: set[tuple[int, int]] = set()
    order: list[tuple[int, int]] = []
    while left:
        first = next(node for node in left if needs[node] <= done)
        left.remove(first)
        done.add(first)
        order.append(first)
    return order


def _ready(instance: BatchedInstance, where: IntArray, end: FloatArray, i: int, u: int) -> float:
    """When the data of a batch is on its device."""
    own = np.flatnonzero(where[i] == u)
    ready = 0.0
    for e in instance.incoming[i].tolist():
        h = int(instance.source[e])
        devices, moved = np.unique(where[h, own], return_counts=True)
        for w, inputs in zip(devices.tolist(), moved.tolist(), strict=True):
            ready = max(ready, float(end[h, w]) + instance.delay(e, w, u, inputs))
    for h in instance.waits[i].tolist():
        ready = max(ready, float(end[h].max()))
    return ready


def identified(instance: BatchedInstance, count: IntArray, flow: IntArray) -> IntArray:
    """Give counts and flows their inputs, as nearly as they can be realised.

    Along a tree of edges any flows can be; where edges close a circle, an input goes to the device that agrees with
    most of its flows.

    Parameters
    ----------
    count
        Inputs of every operator on every device. Shape (operators, devices).
    flow
        Inputs along every edge between every two devices. Shape (edges, devices, devices).

    Returns
    -------
    IntArray
        Device of every input of every operator. Shape (operators, batch).
    """
    where = np.zeros((instance.operators, instance.batch), dtype=np.int64)
    left_flow = flow.copy()
    for i in instance.order.tolist():
        left = count[i].copy()
        edges = instance.incoming[i].tolist()
        for inputs in range(instance.batch):
            wanted = np.zeros(len(left))
            for e in edges:
                wanted += left_flow[e, where[instance.source[e], inputs]] > 0
            u = int(np.where(left > 0, wanted, -1.0).argmax())
            where[i, inputs] = u
            left[u] -= 1
            for e in edges:
                left_flow[e, where[instance.source[e], inputs], u] -= 1
    return where
