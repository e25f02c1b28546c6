"""Shortest paths along a chain of milestones, one for every set of devices that run milestones.

A price on memory does not say that a network needs several devices: at the best prices, a path with every milestone on
one device costs as little as one that changes. Yet a plan that fits into memory changes, and pays the transfers. So the
plans are divided by the set of devices that run their milestones. Each set has a shortest path of its own, and its own
best prices: a set whose devices are too small for most of the network gets expensive at high prices on these devices,
and a larger set pays for its changes at any prices. The least over all sets is a bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray

MOST_TOLD_APART = 5
"""Most devices for which sets are told apart; with more, all plans are in one class."""


class Path(NamedTuple):
    """A shortest path: the bits of its set of devices (0 where sets are not told apart), its length, its devices.

    There is a device for the end of every table; the last table ends nowhere, and its device means nothing.
    """

    visited: int
    value: float
    devices: list[int]


def paths_by_set(tables: Sequence[FloatArray], own: FloatArray) -> list[Path]:
    """The shortest path for every set of devices that has one.

    Parameters
    ----------
    tables
        Costs between the devices of consecutive milestones; of the first table row 0 counts. Shape (K, K) each.
    own
        Costs of the milestones, one between two tables. Shape (tables - 1, K).
    """
    devices = tables[0].shape[0]
    told = devices <= MOST_TOLD_APART
    sets = np.arange(1 << devices if told else 1)[:, None]
    bits = (1 << np.arange(devices) if told else np.zeros(devices, dtype=np.int64))[None, :]
    columns = np.arange(devices)
    values = np.full((len(sets), devices), np.inf)
    values[bits[0] if len(own) else 0, columns] = tables[0][0]
    devices_before, sets_before = [], []
    for i, table in enumerate(tables[1:]):
        sums = (values + own[i])[:, :, None] + table[None]
        least, origin = sums.min(axis=1), sums.argmin(axis=1)
        new = bits if i + 1 < len(own) else np.zeros_like(bits)
        before = sets ^ new
        stays = least <= least[before, columns]
        came = np.where(stays, sets, before)
        values = np.where((sets & new) == new, least[came, columns], np.inf)
        sets_before.append(came)
        devices_before.append(origin[came, columns])
    found = []
    for visited in np.flatnonzero(np.isfinite(values.min(axis=1))).tolist():
        path, now = [int(values[visited].argmin())], visited
        for came, origin in zip(reversed(sets_before), reversed(devices_before), strict=True):
            end = path[-1]
            path.append(int(origin[now, end]))
            now = int(came[now, end])
        found.append(Path(visited, float(values[visited].min()), path[::-1]))
    return found
