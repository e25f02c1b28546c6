"""Costs of windows that constraint programming refutes, against all plans."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest

from opweave.formulations.placement.instance import lower
from opweave.problems.arrays import FloatArray
from opweave.solvers.placement.arrays import PlacementArrays, arrays_of
from opweave.solvers.placement.bounds.priced_child import PricedWindow, raised
from opweave.solvers.placement.plans import plan_of
from tests.solvers.placement.instances import small_problem

pytest.importorskip("ortools")

HOSTILE = (1e-9, 1e-3, 1.0, 1e3)


def cheapest(arrays: PlacementArrays, cost: FloatArray) -> float:
    """The least length plus price of all plans that start everything as early as some order allows."""
    count = len(arrays.seconds)
    before = [arrays.before[arrays.before_start[v] : arrays.before_start[v + 1]].tolist() for v in range(count)]
    orders = [
        np.asarray(order)
        for order in permutations(range(count))
        if all(order.index(u) < order.index(v) for v in range(count) for u in before[v])
    ]
    best = math.inf
    usable = [np.flatnonzero(np.isfinite(row)).tolist() for row in arrays.seconds]
    for chosen in product(*usable):
        device = np.asarray(chosen)
        price = float(cost[np.arange(count), device].sum())
        best = min(best, *(plan_of(arrays, order, device).makespan + price for order in orders))
    return best


@pytest.mark.parametrize("seed", range(120))
def test_no_plan_is_cheaper_than_what_is_refuted(seed: int) -> None:
    rng, problem = np.random.default_rng(seed), small_problem(seed, most_operators=4, scale=HOSTILE[seed % 4])
    instance = lower(problem)
    if seed % 3 == 0:  # a device that is slower by far
        slow = instance.seconds * np.where(np.arange(len(instance.devices)) == 0, 1e6, 1.0)
        instance = replace(instance, seconds=slow)
    arrays = arrays_of(instance, problem)._replace(capacity=np.full(len(instance.devices), 2**62))
    cost = rng.integers(0, 9, arrays.seconds.shape) * rng.choice([0.0, 1e-6, 1.0, 1e6]) * HOSTILE[seed % 4]
    best = cheapest(arrays, cost)
    if not math.isfinite(best):
        return
    for ceiling in (best, 1.5 * best + HOSTILE[seed % 4]):
        value = raised(PricedWindow(arrays, cost, 0.0, ceiling), 1.0, 0.002, 5.0)
        assert value <= best * (1.0 + 1e-9)
    assert raised(PricedWindow(arrays, cost, 0.0, best), 1.0, 0.002, 5.0) >= 0.9 * best
