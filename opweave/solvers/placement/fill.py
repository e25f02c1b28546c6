"""Filling memory in layer order, as runtimes that split a model over devices do by default.

Operators are taken in the order of the model file. A device receives operators until the next one does not fit; then
the next device continues (``device_map="auto"`` of Hugging Face accelerate, layer splits of llama.cpp). ``fill_even``
gives every device a share of the bytes in proportion to its memory, like uneven tensor splits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opweave.formulations.placement.instance import PlacementInstance
from opweave.problems.arrays import NO_LIMIT, IntArray
from opweave.solvers.compiled import kernel
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.insertion import no_device
from opweave.solvers.placement.memory_state import Clusters, clusters_of, extra_bytes, has_room, new_room, settle
from opweave.solvers.placement.plans import Plan, plan_of
from opweave.solvers.placement.ranks import order_of_graph
from opweave.solvers.rules import NoPlanError


def fill(instance: PlacementInstance, arrays: PlacementArrays) -> Plan:
    """Fill each device as far as possible, in the order of the cluster.

    An operator that fits neither the current device nor a later one goes wherever it fits. As a last resort, the
    largest operators go first.
    """
    return _filled(instance, arrays, arrays.capacity)


def fill_even(instance: PlacementInstance, arrays: PlacementArrays) -> Plan:
    """Fill the same share of every device's memory. A device without a limit counts as the largest device with one."""
    limits = arrays.capacity.astype(np.float64)
    limited = arrays.capacity != NO_LIMIT
    limits[~limited] = limits[limited].max(initial=0.0) or 1.0
    needed = float(arrays.memory.sum()) + float(arrays.parameter_bytes.sum())
    share = min(1.0, needed / limits.sum()) if limits.sum() > 0 else 1.0
    soft = np.where(limited | (share < 1.0), np.ceil(limits * share), float(2**62)).astype(np.int64)
    return _filled(instance, arrays, np.minimum(arrays.capacity, soft))


def _filled(instance: PlacementInstance, arrays: PlacementArrays, soft: IntArray) -> Plan:
    order, clusters = order_of_graph(arrays), clusters_of(instance, arrays)
    work = 20 * arrays.seconds.shape[1] * (len(order) + len(arrays.parameters))
    stuck = 0
    for candidate in (order, *_largest_first(arrays, clusters)):
        device = np.full(len(order), -1, dtype=np.int64)
        stuck = int(fill_in_order.sized(work)(arrays, clusters, candidate, soft, device))
        if stuck < 0:
            plan = plan_of(arrays, order, device)
            if np.isfinite(plan.makespan):
                return plan
            raise NoPlanError("filling the devices in turn needs a link that the cluster does not have")
    raise NoPlanError(no_device(instance, stuck))


def _largest_first(arrays: PlacementArrays, clusters: Clusters) -> Sequence[IntArray]:
    """Operators with the fewest possible devices first, then by decreasing bytes of their cluster."""
    owner = np.repeat(np.arange(len(clusters.memory)), np.diff(clusters.parameters_start))
    size = clusters.memory.astype(np.float64)
    np.add.at(size, owner, arrays.parameter_bytes[clusters.parameters])
    choices = np.isfinite(arrays.seconds).sum(axis=1)
    by_size = np.argsort(-size[clusters.of], kind="stable").astype(np.int64)
    return by_size, by_size[np.argsort(choices[by_size], kind="stable")]


@kernel
def fill_in_order(
    arrays: PlacementArrays, clusters: Clusters, order: IntArray, soft: IntArray, device: IntArray
) -> int:
    """Give every operator the next device with room, from the current one on; return an operator without one, or -1.

    Room is sought up to the ``soft`` limits first, then up to the capacities, then on any device.
    """
    devices = arrays.seconds.shape[1]
    room = new_room(arrays, clusters)
    present = 0
    for v in order:
        chosen = -1
        for k in range(present, devices):
            needed = extra_bytes(arrays, clusters, room, clusters.of[v], k)
            if chosen < 0 and has_room(arrays, clusters, room, v, k) and room.used[k] + needed <= soft[k]:
                chosen = k
        tied = room.home[clusters.of[v]] >= 0
        for k in range(devices):
            tied = tied or arrays.seconds[v, k] == np.inf
        if chosen > present and not tied:
            present = chosen
        for k in range(devices):
            if chosen < 0 and has_room(arrays, clusters, room, v, k):
                chosen = k
        if chosen < 0:
            return int(v)
        device[v] = chosen
        settle(arrays, clusters, room, v, chosen)
    return -1
