"""Costs of windows that constraint programming refutes, against all plans."""

from __future__ import annotations

import math
from dataclasses import replace
from time import time

import numpy as np

from opweave.formulations.placement.instance import lower
from opweave.problems.arrays import FloatArray
from opweave.solvers.engines.child import ChildLimits, run_in_child
from opweave.solvers.placement.arrays import PlacementArrays, arrays_of
from opweave.solvers.placement.bounds.prices import CHILD
from opweave.solvers.placement.module_intervals import PricedWindow, PricedWork, Raised
from tests.solvers.placement.instances import cheapest, small_problem, twin_problem

HOSTILE = (1e-9, 1e-3, 1.0, 1e3)


def case(seed: int) -> tuple[PlacementArrays, FloatArray]:
    """A network, and what the bytes of its operators cost on every device."""
    rng, problem = np.random.default_rng(seed), small_problem(seed, most_operators=4, scale=HOSTILE[seed % 4])
    instance = lower(problem)
    if seed % 3 == 0:  # a device that is slower by far
        slow = instance.seconds * np.where(np.arange(len(instance.devices)) == 0, 1e6, 1.0)
        instance = replace(instance, seconds=slow)
    arrays = arrays_of(instance, problem)._replace(capacity=np.full(len(instance.devices), 2**62))
    return arrays, rng.integers(0, 9, arrays.seconds.shape) * rng.choice([0.0, 1e-6, 1.0, 1e6]) * HOSTILE[seed % 4]


def twin_case(seed: int) -> tuple[PlacementArrays, FloatArray]:
    """A network on devices that can be exchanged, and what the bytes cost: the same on them."""
    problem = twin_problem(seed, most_operators=4)
    arrays = arrays_of(lower(problem), problem)._replace(capacity=np.full(3, 2**62))
    cost = np.random.default_rng(seed).integers(0, 9, arrays.seconds.shape).astype(np.float64)
    cost[:, 2] = cost[:, 1]
    return arrays, cost


def test_no_plan_is_cheaper_than_what_is_refuted() -> None:
    windows, optima = [], []
    for seed, make in [*((seed, case) for seed in range(12)), *((4 * seed + 2, twin_case) for seed in range(5))]:
        arrays, cost = make(seed)
        best = cheapest(arrays, cost)
        if math.isfinite(best):
            optima += [best, best]
            ceilings = best, 1.5 * best + HOSTILE[seed % 4]
            windows += [PricedWindow(arrays, cost, 0.0, ceiling) for ceiling in ceilings]
    found: list[Raised] = []
    work = PricedWork(windows, [1.0] * len(windows), 0.002, time() + 300.0)
    run_in_child("cp-sat", CHILD, work, ChildLimits(), hear=found.append)
    assert len(windows) > 15
    assert [news.number for news in found if news.done] == list(range(len(windows)))
    bounds = [0.0] * len(windows)
    for news in found:
        window, best = windows[news.number], optima[news.number]
        assert bounds[news.number] <= news.bound <= best * (1.0 + 1e-9)
        bounds[news.number] = news.bound
        for plan in news.plans:
            assert plan.cost(window.cost) >= best * (1.0 - 1e-9)
            assert np.isfinite(window.arrays.seconds[np.arange(len(plan.device)), plan.device]).all()
    kept = {news.number for news in found if news.plans}
    for number, (bound, window, best) in enumerate(zip(bounds, windows, optima, strict=True)):
        assert bound >= 0.9 * best if window.ceiling == best else number in kept
