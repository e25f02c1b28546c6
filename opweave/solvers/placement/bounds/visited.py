"""Shortest paths along a chain of milestones, one for every set of devices that run milestones.

A price on memory does not say that a network needs several devices: at the best prices, a path with every milestone on
one device costs as little as one that changes. Yet a plan that fits into memory changes, and pays the transfers. So the
plans are divided by the set of devices that run their milestones. Each set has a shortest path of its own, and its own
best prices: a set whose devices are too small for most of the network gets expensive at high prices on these devices,
and a larger set pays for its changes at any prices. The least over all sets is a bound.

Equal devices can be exchanged in any plan. So it is enough to look at plans that visit equal devices in the order of
their numbers, and eight devices in four equal pairs have 80 sets instead of 255.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.placement.arrays import PlacementArrays

MOST_SETS = 256
"""Most sets of devices that are told apart; where there are more, all plans are in one class."""


class Path(NamedTuple):
    """A shortest path: the bits of its set of devices (0 where sets are not told apart), its length, its devices.

    There is a device for the end of every table; the last table ends nowhere, and its device means nothing.
    """

    visited: int
    value: float
    devices: list[int]


class Sets(NamedTuple):
    """The sets of devices that are told apart, in the order of their bits.

    Attributes
    ----------
    bits
        A number for every set, in which a bit stands for a device. Shape (sets,).
    holds
        Whether a device is in a set, or sets are not told apart. Shape (sets, devices).
    without
        The set without a device, or the number of sets if there is no such set. Shape (sets, devices).
    """

    bits: IntArray
    holds: IntArray
    without: IntArray


def equal_before(arrays: PlacementArrays, capacity: FloatArray) -> list[int | None]:
    """For every device the last one before it that it can be exchanged with, if there is one."""
    devices = range(len(capacity))

    def equal(j: int, k: int) -> bool:
        swapped = np.arange(len(capacity))
        swapped[[j, k]] = k, j
        links = (arrays.latency, arrays.per_byte)
        same = all((link[np.ix_(swapped, swapped)] == link).all() for link in links)
        return bool(same and capacity[j] == capacity[k] and (arrays.seconds[:, j] == arrays.seconds[:, k]).all())

    return [next((j for j in reversed(range(k)) if equal(j, k)), None) for k in devices]


def sets_of(before: Sequence[int | None]) -> Sets:
    """The sets of devices in which no device is without its equal ones before it (:func:`equal_before`).

    There is one set that stands for all if they would be too many.
    """
    devices = np.arange(len(before))
    found = [0]
    for k, twin in enumerate(before):
        found += [bits | 1 << k for bits in found if twin is None or bits >> twin & 1]
        if len(found) > MOST_SETS:
            return every_device(len(before))
    bits = np.asarray(sorted(found), dtype=np.int64)
    number = {each: row for row, each in enumerate(bits.tolist())}
    without = [[number.get(each & ~(1 << k), len(bits)) for k in devices.tolist()] for each in bits.tolist()]
    return Sets(bits, bits[:, None] >> devices & 1, np.asarray(without, dtype=np.int64))


def every_device(devices: int) -> Sets:
    """One set that stands for all."""
    ones = np.ones((1, devices), dtype=np.int64)
    return Sets(np.zeros(1, dtype=np.int64), ones, ones)


def paths_by_set(tables: Sequence[FloatArray], own: FloatArray, sets: Sets) -> list[Path]:
    """The shortest path for every set of devices that has one.

    Parameters
    ----------
    tables
        Costs between the devices of consecutive milestones; of the first table row 0 counts. Shape (K, K) each.
    own
        Costs of the milestones, one between two tables. Shape (tables - 1, K).
    sets
        The sets; equal devices are visited in the order of their numbers.
    """
    count, devices = sets.holds.shape
    columns, rows = np.arange(devices), np.arange(count)[:, None]
    beyond = np.full((1, devices), np.inf)
    first = sets.without == 0 if count > 1 else sets.holds == 1  # sets of one device
    values = np.where((first & (sets.holds == 1)) if len(own) else rows == 0, tables[0][0], np.inf)
    devices_before, sets_before = [], []
    for i, table in enumerate(tables[1:]):
        sums = (values + own[i])[:, :, None] + table[None]
        least, origin = np.concatenate([sums.min(axis=1), beyond]), sums.argmin(axis=1)
        came = np.broadcast_to(rows, (count, devices))
        if i + 1 < len(own):
            came = np.where(least[:-1] <= least[sets.without, columns], came, sets.without)
            values = np.where(sets.holds == 1, least[came, columns], np.inf)
            came = np.minimum(came, count - 1)
        else:
            values = least[:-1]
        sets_before.append(came)
        devices_before.append(origin[came, columns])
    found = []
    for row in np.flatnonzero(np.isfinite(values.min(axis=1))).tolist():
        path, now = [int(values[row].argmin())], row
        for came, origin in zip(reversed(sets_before), reversed(devices_before), strict=True):
            end = path[-1]
            path.append(int(origin[now, end]))
            now = int(came[now, end])
        found.append(Path(int(sets.bits[row]), float(values[row].min()), path[::-1]))
    return found
