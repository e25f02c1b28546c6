"""Shortest paths by the set of devices that they visit, against all paths of small chains."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from opweave.solvers.placement.bounds.visited import MOST_TOLD_APART, paths_by_set


@pytest.mark.parametrize("seed", range(60))
def test_paths_are_the_shortest_of_their_sets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    devices, milestones = int(rng.integers(1, 4)), int(rng.integers(0, 5))
    tables = [rng.integers(0, 9, (devices, devices)).astype(np.float64) for _ in range(milestones + 1)]
    own = rng.integers(0, 9, (milestones, devices)).astype(np.float64)
    if rng.random() < 0.3:
        own[rng.random(own.shape) < 0.3] = np.inf
    tables[-1][:] = tables[-1][:, :1]  # nothing is behind the last table
    shortest: dict[int, float] = {}
    for path in product(range(devices), repeat=milestones):
        ends = [*path, 0]
        value = tables[0][0, ends[0]]
        value += sum(own[i, k] + tables[i + 1][k, ends[i + 1]] for i, k in enumerate(path))
        visited = sum(1 << k for k in set(path))
        shortest[visited] = min(shortest.get(visited, np.inf), float(value))
    found = {path.visited: path for path in paths_by_set(tables, own)}
    assert {visited: path.value for visited, path in found.items()} == pytest.approx(
        {visited: value for visited, value in shortest.items() if np.isfinite(value)}
    )
    for path in found.values():
        value = tables[0][0, path.devices[0]]
        for i, k in enumerate(path.devices[:-1]):
            value += own[i, k] + tables[i + 1][k, path.devices[i + 1]]
        assert value == pytest.approx(path.value)
        assert sum(1 << k for k in set(path.devices[:-1])) == path.visited


def test_many_devices_are_not_told_apart() -> None:
    rng = np.random.default_rng(0)
    devices = MOST_TOLD_APART + 1
    tables, own = [rng.random((devices, devices)) for _ in range(4)], rng.random((3, devices))
    (path,) = paths_by_set(tables, own)
    values = tables[0][0]
    for table, cost in zip(tables[1:], own, strict=True):
        values = ((values + cost)[:, None] + table).min(axis=0)
    assert path.visited == 0
    assert path.value == pytest.approx(values.min())
