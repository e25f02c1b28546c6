"""The bytes on a device, as models count them: groups of tied operators, shared parameters."""

from __future__ import annotations

import numpy as np

from opweave.formulations.placement.instance import PlacementInstance
from opweave.problems.arrays import IntArray


def readers_of(instance: PlacementInstance) -> list[IntArray]:
    """Operators that use each parameter."""
    users = instance.parameters.reversed(len(instance.parameter_bytes))
    return [users[p] for p in range(len(instance.parameter_bytes))]


def group_bytes(instance: PlacementInstance) -> tuple[IntArray, list[int]]:
    """Bytes that every group of tied operators needs for itself alone, and the parameters that groups share."""
    groups = int(instance.cluster.max(initial=-1)) + 1
    own = np.zeros(groups, dtype=np.int64)
    np.add.at(own, instance.cluster, instance.memory)
    shared = []
    for p, users in enumerate(readers_of(instance)):
        owners = np.unique(instance.cluster[users])
        if len(owners) == 1:
            own[owners[0]] += instance.parameter_bytes[p]
        elif len(owners) > 1:
            shared.append(p)
    return own, shared


def overfull(instance: PlacementInstance, device: list[int]) -> list[tuple[int, list[int]]]:
    """Devices whose operators need more bytes than the device has, with these operators."""
    found = []
    for k, capacity in enumerate(instance.capacity.tolist()):
        members = [v for v, place in enumerate(device) if place == k]
        used = {p for v in members for p in instance.parameters[v].tolist()}
        held = sum(int(instance.memory[v]) for v in members) + sum(int(instance.parameter_bytes[p]) for p in used)
        if held > capacity:
            found.append((k, members))
    return found
