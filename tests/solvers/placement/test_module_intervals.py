"""Constraint programming on small nets, against brute force; also as a level of the milestone bound."""

from __future__ import annotations

import numpy as np
import pytest

from opweave.formulations.placement.instance import lower
from opweave.problems.placement.spec import TransferModel
from opweave.solvers.placement.arrays import arrays_of
from opweave.solvers.placement.bounds.chain_bound import EXACT, milestones_of
from opweave.solvers.placement.decompose import raising
from opweave.solvers.placement.module_intervals import (
    hint_of,
    list_plan,
    net_intervals,
    shortest_alone,
    solve_intervals,
)
from opweave.solvers.placement.module_search import search_module
from opweave.solvers.placement.plans import solution_of
from opweave.solvers.rounding import Best
from opweave.solvers.run import Run
from tests.formulations.placement.instances import random_placement
from tests.oracles.placement import best_placement
from tests.solvers.placement.instances import MODELS, layered_problem, small_problem


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


@pytest.mark.parametrize("seed", range(12))
def test_the_first_plan_obeys_the_model(seed: int) -> None:
    problem = small_problem(seed, most_operators=8)
    arrays = arrays_of(lower(problem), problem)
    plan = list_plan(arrays)
    assert plan is not None
    if plan.makespan == 0.0:
        return
    model = net_intervals(arrays, plan.makespan, 0.0)
    assert model is not None
    hint = hint_of(model, arrays, plan)
    assert model.broken([int(value) for value in hint]) is None
    assert hint[model.length] * model.tick == pytest.approx(plan.makespan, rel=1e-6)


@pytest.mark.parametrize("transfers", MODELS)
def test_no_plan_is_longer_than_a_list_schedule(transfers: TransferModel) -> None:
    problem = random_placement(45, 3, 4, transfers=transfers)
    arrays = arrays_of(lower(problem), problem)
    listed = list_plan(arrays)
    assert listed is not None
    assert listed.makespan < shortest_alone(arrays)
    found = solve_intervals(arrays, shortest_alone(arrays), 0.0, 1.0)
    assert found.bound <= found.makespan <= listed.makespan
    assert (found.device >= 0).all()


def test_nothing_below_the_optimum() -> None:
    problem = layered_problem(2, 3)
    arrays = arrays_of(lower(problem), problem)
    optimum = search_module(arrays, np.inf, 0.0, 200_000).makespan
    found = solve_intervals(arrays, 0.99 * optimum, 0.0, 10.0)
    assert found.device[0] == -1
    assert found.bound == pytest.approx(0.99 * optimum)


def test_a_known_plan_of_no_length_needs_no_engine() -> None:
    problem = layered_problem(1, 2)
    arrays = arrays_of(lower(problem), problem)
    assert solve_intervals(arrays, 0.0, 0.0, 1.0).bound == 0.0
    assert solve_intervals(arrays, np.inf, 0.5, 1.0).bound == 0.5


def test_one_device_for_all_is_a_plan() -> None:
    problem = layered_problem(2, 2)
    arrays = arrays_of(lower(problem), problem)
    alone = arrays.seconds.sum(axis=0).min()
    assert shortest_alone(arrays) == pytest.approx(alone)


def test_as_a_level_it_proves_a_layer() -> None:
    problem = layered_problem(2, 3)
    arrays = arrays_of(lower(problem), problem)
    optimum = search_module(arrays, np.inf, 0.0, 200_000).makespan
    run = Run()
    best, chain = Best(run), milestones_of(arrays)
    first = chain.value()
    for _ in raising(chain, EXACT, run, best.report):
        pass
    assert first <= chain.value() <= optimum * (1 + 1e-9)
    assert chain.value() == pytest.approx(optimum, rel=1e-5)
