"""Batched mappings from the devices of inputs and an order: exact times."""

from __future__ import annotations

import numpy as np

from opweave.formulations.batched_mapping.instance import BatchedInstance
from opweave.formulations.order_arcs import Activity, earliest_starts
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.batched_mapping.spec import Batch, BatchedSchedule


def serial_length(instance: BatchedInstance) -> float:
    """The length of all batches and delays one after the other, at their longest; no schedule needs more time."""
    finite = np.where(np.isfinite(instance.seconds), instance.seconds, 0.0)
    linked = instance.latency[np.isfinite(instance.latency)]
    moved = instance.size * (instance.batch if instance.grows else 1)
    waits = float(linked.max(initial=0.0)) * len(moved)
    sending = float(moved.sum()) * float(instance.seconds_per_byte.max(initial=0))
    return float(finite.max(axis=2).sum()) + waits + sending


Place = tuple[int, int]
"""An operator and a device."""


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
    rank, released = np.argsort(instance.order).tolist(), np.zeros(count.shape) if release is None else release
    activities, before = dict[Place, Activity](), dict[Place, list[tuple[Place, float]]]()
    for i, u in zip(*(ends.tolist() for ends in np.nonzero(count)), strict=True):
        lasts = float(instance.seconds[i, u, count[i, u] // instance.granule])
        activities[i, u] = Activity(lasts, float(start[i, u]), rank[i], [u], float(released[i, u]))
        waits = [(h, w) for h in instance.waits[i].tolist() for w in np.flatnonzero(count[h]).tolist()]
        before[i, u] = [(place, 0.0) for place in waits]
        for e in instance.incoming[i].tolist():
            h = int(instance.source[e])
            devices, moved = np.unique(where[h, where[i] == u], return_counts=True)
            passing = zip(devices.tolist(), moved.tolist(), strict=True)
            before[i, u] += [((h, w), instance.delay(e, w, u, inputs)) for w, inputs in passing]
    batches = (
        Batch(
            operator=instance.names[i],
            device=instance.devices[u],
            inputs=tuple(np.flatnonzero(where[i] == u).tolist()),
            start=begins,
            end=begins + activities[i, u].seconds,
        )
        for (i, u), begins in earliest_starts(activities, before).items()
    )
    return BatchedSchedule(batches=tuple(batches))
