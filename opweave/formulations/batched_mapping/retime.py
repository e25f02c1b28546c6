"""Conversion of a model's decisions to a schedule: exact times for the devices and the order that it chose."""

from __future__ import annotations

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
    rank = np.argsort(instance.order)
    there = list(zip(*(ends.tolist() for ends in np.nonzero(count)), strict=True))
    lasts = {(i, u): float(instance.seconds[i, u, count[i, u] // instance.granule]) for i, u in there}
    # by their middles: an instant batch comes before others that start with it, and engines' times are slightly off
    waiting = sorted(there, key=lambda node: (float(start[node]) + lasts[node] / 2.0, int(rank[node[0]])))
    free, end = np.zeros(len(instance.devices)), np.where(count > 0, np.inf, 0.0)  # inf: has not run
    earliest = np.zeros(count.shape) if release is None else release
    batches = []
    while waiting:
        able = (node for node in waiting if np.isfinite(_ready(instance, where, end, *node)))
        i, u = next(able, waiting[0])
        waiting.remove((i, u))
        begins = max(float(free[u]), _ready(instance, where, end, i, u), float(earliest[i, u]))
        end[i, u] = free[u] = begins + lasts[i, u]
        batches.append(
            Batch(
                operator=instance.names[i],
                device=instance.devices[u],
                inputs=tuple(np.flatnonzero(where[i] == u).tolist()),
                start=begins,
                end=begins + lasts[i, u],
            )
        )
    return BatchedSchedule(batches=tuple(batches))


def _ready(instance: BatchedInstance, where: IntArray, end: FloatArray, i: int, u: int) -> float:
    """The time at which the data of a batch is on its device; infinite if a batch that it waits for has not run."""
    own = np.flatnonzero(where[i] == u)
    ready = 0.0
    for e in instance.incoming[i].tolist():
        h = int(instance.source[e])
        devices, moved = np.unique(where[h, own], return_counts=True)
        for w, inputs in zip(devices.tolist(), moved.tolist(), strict=True):
            ready = max(ready, float(end[h, w]) + instance.delay(e, w, u, inputs))
    return max(ready, *(float(end[h].max()) for h in instance.waits[i].tolist()), 0.0)
