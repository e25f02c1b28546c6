"""The model of intervals: against brute force, its bound, its starts, and the whole-number rows behind it."""

from __future__ import annotations

import math

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from opweave.formulations.formulation import BuildContext
from opweave.formulations.modeling.intervals import IntervalModel
from opweave.formulations.modeling.linear import Linear
from opweave.formulations.placement.programs import Intervals
from opweave.problems.errors import InfeasibleError
from opweave.solvers.engines.answers import Work
from opweave.solvers.engines.child import ChildLimits, run_in_child
from tests.oracles.placement import best_placement
from tests.solvers.placement.instances import small_problem
from tests.strategies.specs import placements, planned_placements

BATCH = 25
"""Instances for each child process: starting one takes as long as solving them all."""

TOLERANCE = 2e-6


def solve_all(models: list[IntervalModel]) -> list:
    pytest.importorskip("ortools")
    works = [Work("cp-sat", model.program(), seconds=30.0) for model in models]
    return run_in_child("cp-sat", "tests.formulations.placement.batch:solve_all", works, ChildLimits(120.0))


@settings(max_examples=2, phases=[Phase.generate])
@given(problems=st.lists(placements(4, 3, precedes=True), min_size=BATCH, max_size=BATCH))
def test_agrees_with_brute_force(problems):
    written, optima = [], []
    for problem in problems:
        optimum = best_placement(problem)[0]
        formulation = Intervals()
        try:
            model = formulation.build(problem)
        except InfeasibleError:
            assert optimum is None
            continue
        written.append((problem, formulation, model))
        optima.append(optimum)
    answers = solve_all([model for _, _, model in written])
    for (problem, formulation, model), optimum, answer in zip(written, optima, answers, strict=True):
        if optimum is None:
            assert answer.verdict == "infeasible"
            continue
        assert answer.verdict == "solved"
        assert model.broken([int(value) for value in answer.values]) is None
        judged = problem.evaluate(formulation.extract(model, answer.values))
        assert judged.feasible
        assert math.isclose(judged.objective, optimum, rel_tol=TOLERANCE, abs_tol=1e-12)
        assert formulation.objective_bound(problem, answer.bound) <= optimum
        assert formulation.objective_bound(problem, answer.bound) >= optimum * (1 - TOLERANCE)


def test_bounds_hold_where_durations_have_no_common_measure():
    problems = [small_problem(seed, most_operators=5, scale=math.pi) for seed in range(15)]
    formulations = [Intervals() for _ in problems]
    answers = solve_all([written.build(problem) for written, problem in zip(formulations, problems, strict=True)])
    for problem, formulation, answer in zip(problems, formulations, answers, strict=True):
        optimum = best_placement(problem)[0]
        assert optimum * (1 - TOLERANCE) <= formulation.objective_bound(problem, answer.bound) <= optimum


@pytest.mark.parametrize("extended", [False, True])
@settings(max_examples=30)
@given(planned=planned_placements(5, 3))
def test_a_start_obeys_the_model_and_comes_back_no_longer(extended, planned):
    problem, schedule = planned
    length = problem.evaluate(schedule).objective
    formulation = Intervals(BuildContext(extended=True) if extended else BuildContext(ceiling=length))
    model = formulation.build(problem)
    values = formulation.start(model, schedule)
    assert model.broken([int(value) for value in values]) is None
    assert formulation.objective_bound(problem, values[model.goal]) <= max(length, model.low[model.goal])
    back = problem.evaluate(formulation.extract(model, values))
    assert back.feasible
    assert back.objective <= length * (1 + TOLERANCE)


@given(
    factors=st.lists(st.integers(-5000, 5000).map(lambda n: n / 999), min_size=3, max_size=3),
    side=st.integers(-99, 99).map(lambda n: n / 7),
    data=st.data(),
)
def test_whole_rows_let_every_solution_through(factors, side, data):
    """Columns 0 and 1 count ticks of 0.001 s, rounded down from real seconds; column 2 is 0 or 1."""
    tick = 0.001
    model = IntervalModel()
    model.wholes("n", range(3), 0, [10_000, 10_000, 1])
    model.minimise(Linear.of(0))
    model.tick, model.timed = tick, {0, 1}
    seconds = [data.draw(st.floats(0, 10)) for _ in range(2)]
    chosen = data.draw(st.integers(0, 1))
    times = [Linear(0.0, {column: tick}) for column in range(2)]
    total = factors[0] * times[0] + factors[1] * times[1] + factors[2] * Linear(0.0, {2: 1.0})
    real = factors[0] * seconds[0] + factors[1] * seconds[1] + factors[2] * chosen
    values = [math.floor(seconds[0] / tick), math.floor(seconds[1] / tick), chosen]
    for holds, row in ((real <= side, total <= side), (real >= side, total >= side)):
        if holds:
            model.whole_rows = [model.rounded(row)]
            assert model.broken(values) is None
