"""Decomposition and the exact search in modules, against brute force."""

from __future__ import annotations

import numpy as np
import pytest

from opweave.formulations.placement.instance import lower
from opweave.problems.placement.spec import Schedule
from opweave.solvers.placement import decompose
from opweave.solvers.placement.arrays import PlacementArrays, arrays_of
from opweave.solvers.placement.decompose import Chained, Decomposition, solve_decompose
from opweave.solvers.placement.module_search import Found, search_module
from opweave.solvers.placement.plans import Plan, solution_of
from opweave.solvers.run import Run
from tests.oracles.placement import best_placement
from tests.solvers.placement.instances import layered_problem, small_problem


@pytest.mark.parametrize("seed", range(40))
def test_search_finds_the_optimum_and_a_valid_plan(seed: int) -> None:
    problem = small_problem(seed)
    optimum, _ = best_placement(problem)
    assert optimum is not None
    instance = lower(problem)
    arrays = arrays_of(instance, problem)
    found = search_module(arrays, np.inf, 0.0, 200_000)
    assert found.proved
    assert found.makespan == pytest.approx(optimum, abs=1e-9)
    plan = Plan(np.argsort(found.start, kind="stable"), found.device, found.start, found.begins, found.makespan)
    judged = problem.evaluate(solution_of(instance, arrays, plan))
    assert judged.feasible, judged.violations
    assert judged.objective == pytest.approx(optimum, abs=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_decomposition_proves_the_optimum(seed: int) -> None:
    problem, run = small_problem(seed), Run()
    optimum, _ = best_placement(problem)
    assert optimum is not None
    solve_decompose(problem, run)
    assert run.objective == pytest.approx(optimum, abs=1e-9)
    assert run.bound == pytest.approx(optimum, rel=1e-6, abs=1e-9)
    assert isinstance(run.best, Schedule)
    assert problem.evaluate(run.best).feasible


def test_an_unfinished_search_enters_with_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, run = layered_problem(3, 4), Run()

    def tired(arrays: PlacementArrays, upper: float, baseline: float, budget: int, stop: object) -> Found:
        found = search_module(arrays, upper, baseline, 1)
        assert not found.proved or found.makespan <= upper
        return found

    with monkeypatch.context() as patch:
        patch.setattr(decompose, "search_module", tired)
        Decomposition(Chained(problem), run).advance()
    best = Run()
    solve_decompose(problem, best)
    assert run.bound is not None
    assert best.objective is not None
    assert run.bound <= best.objective * (1 + 1e-9)
    assert best.closed()
