"""Conversion of a model's decisions to a schedule: exact times for the devices and the order that it chose."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opweave.formulations.batched_mapping.instance import BatchedInstance
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.batched_mapping.spec import Batch, BatchedSchedule


def counts_of(where: IntArray, devices: int) -> IntArray:
    """Inputs (or granules) of every operator on every device. Shape (operators, devices)."""
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
        Seconds, shape (operators, devices); only the order on a device and along the data counts.
    release
        Earliest starts, shape (operators, devices); None for none.
    """
    count = counts_of(where, len(instance.devices))
    rank = np.empty(instance.operators, dtype=np.int64)
    rank[instance.order] = np.arange(instance.operators)
    there = list(zip(*np.nonzero(count), strict=True))
    lasts = {(i, u): float(instance.seconds[i, u, count[i, u] // instance.granule]) for i, u in there}
    # by their middles: an instant batch comes before others that start with it, and engines' times are slightly off
    nodes = [(float(start[i, u]) + lasts[i, u] / 2.0, int(rank[i]), i, u) for i, u in there]
    waiting = _settled(instance, where, count, sorted(nodes))
    free = np.zeros(len(instance.devices))
    end = np.zeros(count.shape)
    batches = []
    for i, u in waiting:
        begins = max(float(free[u]), _ready(instance, where, end, i, u))
        if release is not None:
            begins = max(begins, float(release[i, u]))
        end[i, u] = free[u] = begins + lasts[i, u]
        inputs = tuple(np.flatnonzero(where[i] == u).tolist())
        batches.append(
            Batch(
                operator=instance.names[i],
                device=instance.devices[u],
                inputs=inputs,
                start=begins,
                end=begins + lasts[i, u],
            )
        )
    return BatchedSchedule(batches=tuple(batches))


def _settled(
    instance: BatchedInstance, where: IntArray, count: IntArray, nodes: Sequence[tuple[float, int, int, int]]
) -> list[tuple[int, int]]:
    """Nodes in an order that the data allows, close to the given one."""
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
    """The time at which the data of a batch is on its device."""
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
