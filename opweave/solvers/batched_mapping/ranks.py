"""Orders of the operators for list scheduling."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np

from opweave.formulations.batched_mapping.instance import BatchedInstance
from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.batched_mapping.arrays import BatchArrays


def upward_rank(instance: BatchedInstance, arrays: BatchArrays) -> FloatArray:
    """Longest path from every operator to an end, with the whole batch on all devices at once and mean delays."""
    whole = instance.seconds[:, :, 1:]
    per_input = (whole / np.arange(1, instance.granules + 1)).min(axis=2, initial=np.inf)
    usable = np.isfinite(per_input) & (per_input > 0)
    speed = np.divide(1.0, per_input, out=np.zeros_like(per_input), where=usable).sum(axis=1)
    own = np.divide(float(instance.granules), speed, out=np.zeros_like(speed), where=speed > 0)
    share = max(1.0, instance.granules / max(1, len(instance.devices)))
    delays = arrays.base + arrays.slope * share
    linked = np.isfinite(delays)
    total = np.where(linked, delays, 0.0).sum(axis=(1, 2))
    mean = total / np.maximum(1, linked.sum(axis=(1, 2))) if len(delays) else np.zeros(0)
    rank = own.copy()
    for i in instance.order[::-1].tolist():
        edges = instance.outgoing[i]
        if len(edges):
            rank[i] = own[i] + float((mean[edges] + rank[instance.target[edges]]).max())
    waits = instance.waits.reversed(instance.operators)
    for i in instance.order[::-1].tolist():
        if len(waits[i]):
            rank[i] = max(rank[i], own[i] + float(rank[waits[i]].max()))
    return np.asarray(rank, dtype=np.float64)


def order_by(instance: BatchedInstance, rank: FloatArray) -> IntArray:
    """Operators by decreasing rank, each after its predecessors; equal ranks in topological order."""
    after: list[list[int]] = [[] for _ in range(instance.operators)]
    waiting = [0] * instance.operators
    arcs = [*zip(instance.source.tolist(), instance.target.tolist(), strict=True)]
    arcs += zip(instance.waits.items.tolist(), instance.waits.heads().tolist(), strict=True)
    for early, late in arcs:
        after[early].append(late)
        waiting[late] += 1
    place = np.empty(instance.operators, dtype=np.int64)
    place[instance.order] = np.arange(instance.operators)
    ready = [(-float(rank[i]), int(place[i]), i) for i in range(instance.operators) if not waiting[i]]
    heapify(ready)
    order = []
    while ready:
        i = heappop(ready)[2]
        order.append(i)
        for j in after[i]:
            waiting[j] -= 1
            if not waiting[j]:
                heappush(ready, (-float(rank[j]), int(place[j]), j))
    return np.asarray(order, dtype=np.int64)


def breadth_first(instance: BatchedInstance) -> IntArray:
    """Operators layer by layer: by the longest path of edges before them."""
    depth = np.zeros(instance.operators)
    for i in instance.order.tolist():
        for e in instance.incoming[i].tolist():
            depth[i] = max(depth[i], depth[instance.source[e]] + 1)
        for h in instance.waits[i].tolist():
            depth[i] = max(depth[i], depth[h] + 1)
    return order_by(instance, -depth)
