"""Shortest paths by the set of devices that they visit, against all paths of small chains."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import opweave as ow
from opweave.formulations.placement.instance import lower
from opweave.solvers.placement.arrays import arrays_of
from opweave.solvers.placement.bounds.area import memory_of
from opweave.solvers.placement.bounds.visited import MOST_SETS, equal_before, paths_by_set, sets_of
from tests.oracles.placement import best_placement
from tests.solvers.placement.instances import small_problem
from tests.solvers.placement.test_prices import best_priced


@pytest.mark.parametrize("seed", range(90))
def test_paths_are_the_shortest_of_their_sets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    devices, milestones = int(rng.integers(1, 4)), int(rng.integers(0, 5))
    before: list[int | None] = [k - 1 if k and rng.random() < 0.4 else None for k in range(devices)]
    tables = [rng.integers(0, 9, (devices, devices)).astype(np.float64) for _ in range(milestones + 1)]
    own = rng.integers(0, 9, (milestones, devices)).astype(np.float64)
    if rng.random() < 0.3:
        own[rng.random(own.shape) < 0.3] = np.inf
    tables[-1][:] = tables[-1][:, :1]  # nothing is behind the last table
    shortest: dict[int, float] = {}
    for path in product(range(devices), repeat=milestones):
        if any(j is not None and k in path and j not in path[: path.index(k)] for k, j in enumerate(before)):
            continue  # equal devices are visited in the order of their numbers
        ends = [*path, 0]
        value = tables[0][0, ends[0]]
        value += sum(own[i, k] + tables[i + 1][k, ends[i + 1]] for i, k in enumerate(path))
        visited = sum(1 << k for k in set(path))
        shortest[visited] = min(shortest.get(visited, np.inf), float(value))
    found = {path.visited: path for path in paths_by_set(tables, own, sets_of(before))}
    assert {visited: path.value for visited, path in found.items()} == pytest.approx(
        {visited: value for visited, value in shortest.items() if np.isfinite(value)}
    )
    for path in found.values():
        value = tables[0][0, path.devices[0]]
        for i, k in enumerate(path.devices[:-1]):
            value += own[i, k] + tables[i + 1][k, path.devices[i + 1]]
        assert value == pytest.approx(path.value)
        assert sum(1 << k for k in set(path.devices[:-1])) == path.visited


def test_many_devices_are_not_told_apart_unless_they_are_equal() -> None:
    rng = np.random.default_rng(0)
    devices = MOST_SETS.bit_length()
    tables, own = [rng.random((devices, devices)) for _ in range(4)], rng.random((3, devices))
    (path,) = paths_by_set(tables, own, sets_of([None] * devices))
    values = tables[0][0]
    for table, cost in zip(tables[1:], own, strict=True):
        values = ((values + cost)[:, None] + table).min(axis=0)
    assert path.visited == 0
    assert path.value == pytest.approx(values.min())
    assert len(sets_of([None, *range(devices - 1)]).bits) == devices + 1


@pytest.mark.parametrize("seed", range(80))
def test_sets_of_equal_devices_prove_no_more_than_the_optimum(seed: int) -> None:
    problem, rng = small_problem(seed, memory=True), np.random.default_rng(seed)
    room, latency = int(rng.integers(8, 25)), float(rng.choice([0.0, 0.5, 20.0]))
    devices = [ow.Device(name=f"d{k}", memory_bytes=room + int(rng.random() < 0.2)) for k in range(3)]
    seconds = {o.id: float(rng.integers(0, 9)) for o in problem.graph.operators}
    table = {o: dict.fromkeys((d.name for d in devices), value) for o, value in seconds.items()}
    cluster = ow.Cluster(devices=devices, bandwidth=[[1.0] * 3] * 3, latency=latency)
    problem = problem.model_copy(update={"cluster": cluster, "costs": ow.Costs.from_table(table)})
    optimum, _ = best_placement(problem)
    if optimum is None:
        return
    instance = lower(problem)
    arrays, memory = arrays_of(instance, problem), memory_of(instance)
    assert memory is not None
    assert equal_before(arrays, memory.capacity)[2] == next(
        (k for k in (1, 0) if devices[k].memory_bytes == devices[2].memory_bytes), None
    )
    assert best_priced(problem, rng) <= optimum * (1 + 1e-9) + 1e-12
