"""Conversion of a model's decisions to a schedule: exact times for the devices and the order that it chose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from opweave.formulations.batched_mapping.instance import BatchedInstance
from opweave.problems.arrays import BoolArray, FloatArray, IntArray
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


def identified(instance: BatchedInstance, count: IntArray, flow: IntArray) -> IntArray | None:
    """Assign inputs to counts and flows, so that these are realised as closely as possible.

    Along a tree of edges, any flows can be realised. If edges form undirected cycles, an input goes to the device that
    agrees with most of its flows, among the devices that have links from all devices with its data.

    Parameters
    ----------
    count
        Inputs of every operator on every device. Shape (operators, devices).
    flow
        Inputs along every edge between every two devices. Shape (edges, devices, devices).

    Returns
    -------
    IntArray or None
        Device of every input of every operator. Shape (operators, batch). None if links are missing, and an operator's
        counts cannot be met over the existing links, given the inputs of the operators before it.
    """
    where = np.zeros((instance.operators, instance.batch), dtype=np.int64)
    left_flow = flow.copy()
    for i in instance.order.tolist():
        left = count[i].copy()
        edges = instance.incoming[i].tolist()
        reached = np.ones((instance.batch, len(left)), dtype=np.bool_)
        for e in edges:
            reached &= np.isfinite(instance.latency[where[instance.source[e]]])
        for inputs in range(instance.batch):
            if not (reached[inputs] & (left > 0)).any():
                moves = _moves(where[i, :inputs], reached, left)
                if moves is None:
                    return None
                for moved, u in moves:
                    before = int(where[i, moved])
                    left[before] += 1
                    left[u] -= 1
                    where[i, moved] = u
                    for e in edges:
                        left_flow[e, where[instance.source[e], moved], before] += 1
                        left_flow[e, where[instance.source[e], moved], u] -= 1
            wanted = np.zeros(len(left))
            for e in edges:
                wanted += left_flow[e, where[instance.source[e], inputs]] > 0
            u = int(np.where(reached[inputs] & (left > 0), wanted, -1.0).argmax())
            where[i, inputs] = u
            left[u] -= 1
            for e in edges:
                left_flow[e, where[instance.source[e], inputs], u] -= 1
    return where


def _moves(placed: IntArray, reached: BoolArray, left: IntArray) -> list[tuple[int, int]] | None:
    """The moves that make room for the input after ``placed``, a shortest augmenting path; None if there is none.

    Parameters
    ----------
    placed
        Devices of the inputs before it.
    reached
        Whether an input's data can reach a device. Shape (batch, devices).
    left
        Number of inputs that every device still lacks.
    """
    devices = np.flatnonzero(reached[len(placed)]).tolist()
    came_by: dict[int, tuple[int, int] | None] = dict.fromkeys(devices)
    for u in devices:  # grows during the loop
        for moved in np.flatnonzero(placed == u).tolist():
            for v in np.flatnonzero(reached[moved]).tolist():
                if v in came_by:
                    continue
                came_by[v] = moved, u
                devices.append(v)
                if left[v] > 0:
                    return _walked(came_by, v)
    return None


def _walked(came_by: Mapping[int, tuple[int, int] | None], last: int) -> list[tuple[int, int]]:
    """The moves that end on device ``last``, the last one first; each frees the place that the next one takes."""
    moves = []
    at = last
    while (step := came_by[at]) is not None:
        moved, before = step
        moves.append((moved, at))
        at = before
    return moves
