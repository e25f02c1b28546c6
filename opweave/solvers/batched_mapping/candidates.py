"""Ways to spread one operator's granules over the devices: the strings that list schedulers try.

If there are few, all strings are tried. Otherwise these are: the whole batch on each device; equal runs over the
fastest devices, over each group of identical devices and over all devices; and, while scheduling, the strings of the
neighbours.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from opweave.formulations.batched_mapping.instance import BatchedInstance
from opweave.problems.arrays import IntArray
from opweave.problems.batched_mapping.spec import BatchedMapping

MOST_STRINGS = 1296
"""Number of strings up to which all are tried; beyond it, only the structured ones."""


def constant_strings(instance: BatchedInstance) -> IntArray:
    """The whole batch on one device. Shape (devices, G)."""
    return np.repeat(np.arange(len(instance.devices))[:, None], instance.granules, axis=1).astype(np.int64)


def all_strings(instance: BatchedInstance, groups: list[list[int]]) -> IntArray:
    """Every string, or only the structured ones if there are too many. Shape (strings, G).

    ``groups`` are devices that belong together, see :func:`groups_of`.
    """
    devices, granules = len(instance.devices), instance.granules
    if devices**granules <= MOST_STRINGS:
        found = np.asarray(list(product(range(devices), repeat=granules)), dtype=np.int64)
        return found.reshape(-1, granules)
    rows = [*constant_strings(instance).tolist(), *_equal_runs(instance, groups)]
    return np.asarray(list(dict.fromkeys(map(tuple, rows))), dtype=np.int64)


def groups_of(problem: BatchedMapping) -> list[list[int]]:
    """Groups of identical devices, and the servers."""
    index = problem.cluster.device_index
    return [[index[name] for name in group] for group in problem.cluster.identical_groups] + servers_of(problem)


def _equal_runs(instance: BatchedInstance, groups: list[list[int]]) -> list[list[int]]:
    """The batch in equal runs over the fastest devices and over each group."""
    granules = instance.granules
    speed = np.where(np.isfinite(instance.seconds[:, :, 1:]), instance.seconds[:, :, 1:], 0.0).sum(axis=(0, 2))
    fastest = np.argsort(speed, kind="stable").tolist()
    found = []
    for devices in (fastest, *groups):
        for width in range(2, min(len(devices), granules) + 1):
            for first in range(0, len(devices) - width + 1, width):
                chosen = devices[first : first + width]
                found.append([chosen[g * width // granules] for g in range(granules)])
    return found


def servers_of(problem: BatchedMapping) -> list[list[int]]:
    """Groups of devices joined by links faster than the slowest: the machines of a larger cluster."""
    rate = problem.cluster.effective_bandwidth
    inner = rate[~np.eye(len(rate), dtype=bool)]
    finite = inner[np.isfinite(inner) & (inner > 0)]
    if not len(finite) or finite.min() == finite.max():
        return []
    near = rate > finite.min()
    found, seen = [], set[int]()
    for device in range(len(rate)):
        if device not in seen:
            members = [other for other in range(len(rate)) if other == device or near[device, other]]
            seen.update(members)
            found.append(members)
    return found
