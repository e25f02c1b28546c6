"""Memory of a placement under construction: which device has room for an operator and everything tied to it.

Operators that must share a device (Colocate) form a cluster. The first of them to be placed takes memory for all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.formulations.placement.instance import PlacementInstance
from opweave.problems.arrays import NO_LIMIT, BoolArray, IntArray
from opweave.problems.graph_arrays import Adjacency
from opweave.solvers.loops import helper
from opweave.solvers.placement.arrays import PlacementArrays


class Clusters(NamedTuple):
    """Operators tied to one device, as arrays over clusters.

    Attributes
    ----------
    of
        Cluster of every operator.
    memory
        Bytes of its operators without their parameters.
    parameters_start, parameters
        Its parameters, each listed once.
    """

    of: IntArray
    memory: IntArray
    parameters_start: IntArray
    parameters: IntArray


def clusters_of(instance: PlacementInstance, arrays: PlacementArrays) -> Clusters:
    """Collect the bytes and parameters of every cluster."""
    of = instance.cluster
    count = int(of.max(initial=-1)) + 1
    memory = np.zeros(count, dtype=np.int64)
    np.add.at(memory, of, arrays.memory)
    owner = np.repeat(of, np.diff(arrays.parameters_start))
    parameters = Adjacency.from_pairs(count, owner, arrays.parameters)
    return Clusters(of, memory, parameters.start, parameters.items)


class Room(NamedTuple):
    """Memory in use.

    Attributes
    ----------
    used
        Bytes on every device.
    holds
        Whether a device holds a parameter. Shape (parameters, devices).
    home
        Device of every cluster, -1 while none is chosen.
    """

    used: IntArray
    holds: BoolArray
    home: IntArray


@helper
def new_room(arrays: PlacementArrays, clusters: Clusters) -> Room:
    """Nothing placed."""
    devices = arrays.seconds.shape[1]
    return Room(
        used=np.zeros(devices, dtype=np.int64),
        holds=np.zeros((len(arrays.parameter_bytes), devices), dtype=np.bool_),
        home=np.full(len(clusters.memory), -1, dtype=np.int64),
    )


@helper
def roomy(arrays: PlacementArrays, clusters: Clusters) -> bool:
    """Whether only run times restrict the devices: no memory is limited, and no operators are tied together.

    Loops ask this once; asking :func:`has_room` for every operator and device would take most of their time.
    """
    for capacity in arrays.capacity:
        if capacity != NO_LIMIT:
            return False
    return len(clusters.memory) == len(arrays.seconds)


@helper
def extra_bytes(arrays: PlacementArrays, clusters: Clusters, room: Room, c: int, k: int) -> int:
    """Bytes that cluster c would add to device k."""
    needed = clusters.memory[c]
    for i in range(clusters.parameters_start[c], clusters.parameters_start[c + 1]):
        p = clusters.parameters[i]
        if not room.holds[p, k]:
            needed += arrays.parameter_bytes[p]
    return int(needed)


@helper
def has_room(arrays: PlacementArrays, clusters: Clusters, room: Room, v: int, k: int) -> bool:
    """Whether operator v may go to device k."""
    if arrays.seconds[v, k] == np.inf:
        return False
    c = clusters.of[v]
    if room.home[c] >= 0:
        return bool(room.home[c] == k)
    return bool(room.used[k] + extra_bytes(arrays, clusters, room, c, k) <= arrays.capacity[k])


@helper
def settle(arrays: PlacementArrays, clusters: Clusters, room: Room, v: int, k: int) -> None:
    """Assign the cluster of operator v to device k, unless it already has a device."""
    c = clusters.of[v]
    if room.home[c] >= 0:
        return
    used = room.used
    used[k] = used[k] + extra_bytes(arrays, clusters, room, c, k)
    room.home[c] = k
    for i in range(clusters.parameters_start[c], clusters.parameters_start[c + 1]):
        room.holds[clusters.parameters[i], k] = True
