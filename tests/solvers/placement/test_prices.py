"""Bounds with memory at its price, and heads of operators that must share a device, against brute force."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

import opweave as ow
from opweave.formulations.placement.instance import lower
from opweave.problems.arrays import FloatArray
from opweave.solvers.placement.arrays import arrays_of
from opweave.solvers.placement.bounds.area import best_area, memory_of
from opweave.solvers.placement.bounds.chain_bound import milestones_of
from opweave.solvers.placement.bounds.critical_path import longest, reach_of
from opweave.solvers.placement.bounds.prices import MemoryBounds
from tests.oracles.placement import best_placement
from tests.solvers.placement.instances import islands_problem, small_problem, twin_problem
from tests.tiny import graph_of


def best_priced(problem: ow.Placement, rng: np.random.Generator) -> float:
    """The best bound of searches that begin with the prices of the area, and with random ones."""
    instance = lower(problem)
    arrays, memory = arrays_of(instance, problem), memory_of(instance)
    assert memory is not None
    chain, found = milestones_of(arrays), [0.0]
    first = best_area(arrays.seconds, np.zeros(len(memory.capacity)), memory).memory
    for price in (first, rng.random(len(first)) * rng.choice([0.01, 0.3, 3.0])):
        MemoryBounds(chain, arrays, memory, price).go_on(lambda: 1.0, found.append)
    return max(found)


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("make", [partial(small_problem, memory=True), twin_problem])
def test_no_price_proves_more_than_the_optimum(seed: int, make: Callable[[int], ow.Placement]) -> None:
    problem = make(seed)
    optimum, _ = best_placement(problem)
    if optimum is None:
        return
    assert best_priced(problem, np.random.default_rng(seed)) <= optimum * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("seed", [91405, 53179, 1])
def test_prices_far_too_high_at_first_are_never_negative_later(seed: int) -> None:
    """The engine keeps the bounds of its columns up to a tolerance only, and at negative prices bounds are false."""
    problem, rng = twin_problem(seed), np.random.default_rng(seed)
    optimum, _ = best_placement(problem)
    search, found = memory_bounds(problem, 1e6 * rng.random(3)), [0.0]
    search.go_on(lambda: 1.0, found.append)
    assert (search.price >= 0.0).all()
    assert optimum is not None
    assert max(found) <= optimum * (1 + 1e-9)


def memory_bounds(problem: ow.Placement, price: float | FloatArray) -> MemoryBounds:
    instance = lower(problem)
    arrays, memory = arrays_of(instance, problem), memory_of(instance)
    assert memory is not None
    return MemoryBounds(milestones_of(arrays), arrays, memory, np.zeros(len(instance.devices)) + price)


def test_a_window_may_have_no_plan_that_is_known() -> None:
    """The fastest device for x and y has no links, so the first plans of a layer miss one; time is up before others."""
    search, found = memory_bounds(islands_problem(3, slow=5.0), 0.1), [0.0]
    for left in (0.0, 0.0, 1.0):
        search.go_on(partial(float, left), found.append)
    assert 34.0 < max(found) <= 36.0


def test_the_first_bound_asks_for_no_time() -> None:
    """Others may go on whenever a search asks; the cheapest bound does not wait for that."""
    found: list[float] = []
    memory_bounds(islands_problem(3, slow=5.0), 0.1).go_on(lambda: 0.0, found.append)
    assert max(found) > 0.0
    found.clear()
    memory_bounds(islands_problem(3, slow=5.0), 0.1).go_on(lambda: 0.0, found.append, end=0.0)
    assert not any(found[:1])


def test_a_chain_without_any_plan_proves_nothing() -> None:
    found: list[float] = []
    memory_bounds(islands_problem(3, slow=None), 0.1).go_on(lambda: 1.0, found.append)
    assert not any(found)


def test_a_hub_and_all_its_readers_share_a_device_or_wait() -> None:
    """Four readers of one operator, 1 s each; sending takes 10 s: all run one after the other, 1 + 4 + 1 seconds."""
    names = [f"r{k}" for k in range(4)]
    reads = {"hub": "", **dict.fromkeys(names, "hub"), "end": names}
    graph = graph_of(dict.fromkeys(reads, 10), reads)
    problem = ow.Placement(
        graph=graph,
        cluster=ow.Cluster(devices=[ow.Device(name="a"), ow.Device(name="b")], shared=1.0),
        costs=ow.Costs.from_table({op.id: {"a": 1.0, "b": 1.0} for op in graph.operators}),
    )
    arrays = arrays_of(lower(problem), problem)
    assert longest(arrays, reach_of(arrays)) == pytest.approx(6.0, rel=1e-2)
