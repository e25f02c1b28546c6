"""One suite that every solver of every problem passes: judged by brute force, exclusions declared by name."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings

import opweave as ow
from tests.brute_force import best_ordering_by_states
from tests.strategies import memory_orderings

ENGINES_IN_CHILD_PROCESSES = {"scip", "cbc", "glpk", "gurobi", "cplex", "xpress"}
"""A process for every solve: a few instances in the engines' own tests instead of hundreds here."""

SOLVERS = [row for row in ow.solvers("memory_ordering") if row.name not in ENGINES_IN_CHILD_PROCESSES]


def solve_or_skip(problem: ow.MemoryOrdering, solver: str, **arguments: object) -> ow.Result:
    """Solve; an honest refusal of a feature or constraint is no failure."""
    try:
        return ow.solve(problem, solver=solver, **arguments)
    except ow.UnsupportedFeatureError:
        assume(False)
        raise


@pytest.mark.parametrize("row", SOLVERS, ids=lambda row: row.name)
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(problem=memory_orderings(5, limits=True, precedes=True))
def test_solvers_agree_with_brute_force(row: ow.SolverInfo, problem: ow.MemoryOrdering) -> None:
    optimum, _ = best_ordering_by_states(problem)
    result = solve_or_skip(problem, row.name)
    if result.solution is not None:
        assert optimum is not None
        assert result.verified
        assert problem.evaluate(result.solution).objective == result.objective
        assert result.objective >= optimum
        if result.bound is not None:
            assert result.bound <= optimum
    if result.status is ow.Status.INFEASIBLE:
        assert optimum is None
        assert result.reason
    if row.proves == "optimum":
        expected = ow.Status.INFEASIBLE if optimum is None else ow.Status.OPTIMAL
        assert result.status is expected, result.reason
        assert result.objective == optimum


@pytest.mark.parametrize("row", [row for row in SOLVERS if row.proves == "optimum"], ids=lambda row: row.name)
@settings(max_examples=10, suppress_health_check=list(HealthCheck))
@given(problem=memory_orderings(5, contradictory=True))
def test_contradictory_constraints_are_infeasible(row: ow.SolverInfo, problem: ow.MemoryOrdering) -> None:
    assume(problem.constraints)
    result = solve_or_skip(problem, row.name)
    assert result.status is ow.Status.INFEASIBLE
    assert result.reason


@pytest.mark.parametrize("row", SOLVERS, ids=lambda row: row.name)
@settings(max_examples=10, suppress_health_check=list(HealthCheck))
@given(problem=memory_orderings(5))
def test_same_seed_same_result(row: ow.SolverInfo, problem: ow.MemoryOrdering) -> None:
    first, second = (solve_or_skip(problem, row.name, seed=7) for _ in range(2))
    assert first.solution == second.solution
    assert (first.status, first.objective, first.bound) == (second.status, second.objective, second.bound)


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(problem=memory_orderings(6, limits=False, precedes=False))
def test_auto_is_never_worse_than_a_named_order(problem: ow.MemoryOrdering) -> None:
    best = ow.solve(problem).objective
    for name in ("definition", "rpo", "lpmf", "bfs", "dfs", "reverse"):
        assert best <= ow.solve(problem, solver=name).objective
