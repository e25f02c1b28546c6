"""Memory of a placement under construction: which device has room for an operator and everything tied to it.

Operators that must share a device (Colocate) form a cluster. The first of them to be placed takes memory for all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.formulations.placement.instance import PlacementInstance
from opweave.problems.arrays import NO_LIMIT, IntArray, IntMatrix
from opweave.problems.graph_arrays import Adjacency
from opweave.solvers.loops import helper
from opweave.solvers.placement.arrays import PlacementArrays


class Room(NamedTuple):
    """Memory in use, and what clusters of operators need.

    Attributes
    ----------
    of
        Cluster of every operator.
    memory
        Bytes of its operators without their parameters.
    start, items
        Its parameters, each listed once.
    bytes, capacity
        Of every parameter, and of every device.
    used
        Bytes on every device.
    holds
        1 where a device holds a parameter. Shape (parameters, devices).
    home
        Device of every cluster, -1 while none is chosen.
    """

    of: IntArray
    memory: IntArray
    start: IntArray
    items: IntArray
    bytes: IntArray
    capacity: IntArray
    used: IntArray
    holds: IntMatrix
    home: IntArray

    @property
    def is_free(self) -> bool:
        """Whether only run times restrict the devices: no memory is limited, and no operators are tied together."""
        return bool((self.capacity == NO_LIMIT).all()) and len(self.memory) == len(self.of)


def new_room(instance: PlacementInstance, arrays: PlacementArrays) -> Room:
    """Nothing placed; the bytes and parameters of every cluster."""
    of, devices = instance.cluster, len(arrays.capacity)
    count = int(of.max(initial=-1)) + 1
    memory = np.zeros(count, dtype=np.int64)
    np.add.at(memory, of, arrays.memory)
    owner = np.repeat(of, np.diff(arrays.parameters_start))
    parameters = Adjacency.from_pairs(count, owner, arrays.parameters)
    holds = np.zeros((len(arrays.parameter_bytes), devices), dtype=np.int64)
    used, home = np.zeros(devices, dtype=np.int64), np.full(count, -1, dtype=np.int64)
    need = (of, memory, parameters.start, parameters.items, arrays.parameter_bytes, arrays.capacity)
    return Room(*need, used, holds, home)


@helper
def has_room(room: Room, v: int, k: int) -> bool:
    """Whether operator v may go to device k."""
    c, holds = room.of[v], room.holds
    if room.home[c] >= 0:
        return bool(room.home[c] == k)
    needed = room.used[k] + room.memory[c]
    for i in range(room.start[c], room.start[c + 1]):
        if holds[room.items[i], k] == 0:
            needed += room.bytes[room.items[i]]
    return bool(needed <= room.capacity[k])


@helper
def settle(room: Room, v: int, k: int) -> None:
    """Assign the cluster of operator v to device k, unless it already has a device."""
    c, holds, used = room.of[v], room.holds, room.used
    if room.home[c] >= 0:
        return
    room.home[c] = k
    used[k] += room.memory[c]
    for i in range(room.start[c], room.start[c + 1]):
        p = room.items[i]
        used[k] += room.bytes[p] * (1 - holds[p, k])
        holds[p, k] = 1
