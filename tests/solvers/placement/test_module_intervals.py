"""Constraint programming on small nets, against brute force; also as a level of the milestone bound."""

from __future__ import annotations

import numpy as np
import pytest

from opweave.formulations.placement.instance import lower
from opweave.solvers.placement.arrays import arrays_of
from opweave.solvers.placement.bounds.chain_bound import EXACT, milestones_of
from opweave.solvers.placement.decompose import raise_windows
from opweave.solvers.placement.module_intervals import (
    solve_intervals,
)
from opweave.solvers.placement.module_search import search_module
from opweave.solvers.placement.plans import solution_of
from opweave.solvers.rounding import Best
from opweave.solvers.run import Run
from tests.oracles.placement import best_placement
from tests.solvers.placement.instances import layered_problem, small_problem


@pytest.mark.parametrize("seed", range(9))
def test_it_finds_and_proves_the_optimum(seed: int) -> None:
    problem = small_problem(seed, most_operators=6)
    optimum, _ = best_placement(problem)
    assert optimum is not None
    instance = lower(problem)
    arrays = arrays_of(instance, problem)
    found = solve_intervals(arrays, 3.0 * optimum + 1.0, 0.0, 10.0)
    assert found.bound <= optimum * (1 + 1e-9)
    assert found.bound == pytest.approx(optimum, rel=1e-5, abs=1e-5)
    assert found.makespan == pytest.approx(optimum, rel=1e-5, abs=1e-5)
    judged = problem.evaluate(solution_of(instance, arrays, found.plan()))
    assert judged.feasible, judged.violations
    assert judged.objective == pytest.approx(found.makespan, abs=1e-9)


def test_as_a_level_it_proves_a_layer() -> None:
    problem = layered_problem(2, 3)
    arrays = arrays_of(lower(problem), problem)
    optimum = search_module(arrays, np.inf, 0.0, 200_000).makespan
    run = Run()
    best, chain = Best(run), milestones_of(arrays)
    first = chain.value()
    raise_windows(chain, EXACT, run, best.report)
    assert first <= chain.value() <= optimum * (1 + 1e-9)
    assert chain.value() == pytest.approx(optimum, rel=1e-5)
