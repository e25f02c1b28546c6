"""The bound by cells: cells hold every plan once, no plan is faster than its cells, sums are minimised exactly."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import opweave as ow
from opweave.formulations.slicing.instance import SlicingInstance, lower
from opweave.solvers.slicing.bounds.blocks import blocks_of
from opweave.solvers.slicing.bounds.cut_boxes import Cells, by_position, cells_of
from opweave.solvers.slicing.bounds.elimination import Elimination
from opweave.solvers.slicing.bounds.instant import instant
from tests.oracles.slicing import best_slicing
from tests.problems.slicing.test_spec import chain
from tests.strategies.slicing import planned_slicings, slicings


def bound(instance: SlicingInstance, most: int) -> float:
    cells = [cells_of(instance, v, most) for v in range(instance.operators)]
    value = by_position(instance, cells, instant(blocks_of(instance)), lambda: False)
    assert value is not None
    return value


def inside(cells: Cells, mode: int, cuts: list[int]) -> list[int]:
    """Cells that hold a way to cut."""
    held = (cells.low <= cuts).all(axis=1) & (cells.high >= cuts).all(axis=1) & (cells.mode == mode)
    return np.flatnonzero(held).tolist()


def test_two_layers_on_two_devices_are_bounded_exactly() -> None:
    assert bound(lower(chain()), 1_000) == pytest.approx(9.0)


@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(problem=slicings(3, 2, constraints=False), most=st.sampled_from([1, 6, 30, 1_000]))
def test_the_bound_lies_below_the_optimum(problem: ow.Slicing, most: int) -> None:
    optimum, _ = best_slicing(problem)
    if optimum is not None:
        assert bound(lower(problem), most) <= optimum * (1 + 1e-9) + 1e-12


@settings(max_examples=35, suppress_health_check=list(HealthCheck))
@given(case=planned_slicings(max_operators=6, constraints=False), most=st.sampled_from([1, 10, 1_000]))
def test_no_plan_is_faster_than_its_own_cells(case: tuple[ow.Slicing, ow.Slices], most: int) -> None:
    problem, plan = case
    seconds = problem.evaluate(plan).objective
    if seconds is None:
        return
    instance = lower(problem, plan.order)
    own = []
    for v, (mode, cuts) in enumerate(zip(*instance.plan(plan), strict=True)):
        cells = cells_of(instance, v, most)
        i = inside(cells, int(mode), cuts.tolist())
        own.append(replace(cells, mode=cells.mode[i], low=cells.low[i], high=cells.high[i], seconds=cells.seconds[i]))
    least = by_position(instance, own, np.zeros(instance.operators), lambda: False)
    assert least is not None
    assert least <= seconds * (1 + 1e-9) + 1e-12


PARTING = ((0, 1), (0, 2), (1, 3), (2, 3), (0, 3), (3, 4))
"""Two branches and a short cut that join again, and a tail."""


@pytest.mark.parametrize("edges", [PARTING, (*PARTING, (1, 2))])
@pytest.mark.parametrize("seed", range(5))
def test_elimination_minimises(edges: tuple[tuple[int, int], ...], seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.integers(1, 5, size=5)
    single = [rng.random(count) for count in values]
    pairs = {(i, j): rng.random((values[i], values[j])) for i, j in edges}
    sums = Elimination(single)
    for (i, j), function in pairs.items():
        sums.add(j, i, function.T)
    best = min(
        sum(single[i][chosen[i]] for i in range(5)) + sum(f[chosen[i], chosen[j]] for (i, j), f in pairs.items())
        for chosen in product(*map(range, values))
    )
    found = sums.least(lambda: False)
    assert found is not None
    assert found <= best + 1e-12
    if edges == PARTING:
        assert found == pytest.approx(best)


def test_elimination_stops_when_asked() -> None:
    assert Elimination([np.zeros(2)]).least(lambda: True) is None
