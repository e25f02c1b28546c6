"""Sizes, limits and times at the edge: no crash, no overrun, no answer without a reason."""

from __future__ import annotations

import time

import pytest

import opweave as ow
from benchmarks.generators import layered_dag
from opweave.formulations.memory_ordering.instance import lower
from opweave.problems.limits import MAX_BYTES
from opweave.solvers.memory_ordering.arrays import BACKWARD, FORWARD, arrays_of, peak, total
from opweave.solvers.memory_ordering.baselines import greedy
from opweave.solvers.memory_ordering.bounds import step_bound
from opweave.solvers.memory_ordering.totals import prove_total, shift
from opweave.solvers.run import Run
from tests.tiny import row_of


def test_a_fused_operator_never_needs_more_than_an_operator_may() -> None:
    problem = ow.MemoryOrdering(graph=row_of(5, size=MAX_BYTES))
    assert ow.solve(problem, solver="partition").objective == 2 * MAX_BYTES


def test_sums_that_solvers_could_not_hold_are_refused() -> None:
    with pytest.raises(ValueError, match=r"add up to .* at most 2\*\*62"):
        row_of(600, size=MAX_BYTES)
    graph = row_of(400, size=MAX_BYTES)
    assert ow.solve(ow.MemoryOrdering(graph=graph), solver="definition").objective == 2 * MAX_BYTES
    with pytest.raises(ValueError, match="could exceed"):
        ow.MemoryOrdering(graph=graph, objective="total")


@pytest.mark.parametrize("solver", ["exact", "btsearch"])
@pytest.mark.parametrize("states", [0, -1])
def test_a_budget_of_states_is_a_positive_number(solver: str, states: int) -> None:
    problem = ow.MemoryOrdering(graph=layered_dag(30, 4, 0))
    with pytest.raises(ow.InvalidInputError, match=r"'max_states' is .* from 1"):
        ow.solve(problem, solver=solver, options={"max_states": states})


def test_more_parts_than_operators() -> None:
    problem = ow.MemoryOrdering(graph=layered_dag(12, 3, 0))
    assert ow.solve(problem, solver="partition", options={"parts": 10**9}).verified


# Time


def test_the_local_search_on_the_total_can_be_interrupted() -> None:
    arrays = arrays_of(lower(ow.MemoryOrdering(graph=layered_dag(60, 6, 0))))
    start = greedy(arrays, FORWARD)
    assert (shift(arrays, start, 1 << 60, 20, lambda: True) == start).all()
    assert total(arrays, shift(arrays, start, 1 << 60, 20)) < total(arrays, start)


def test_a_bound_of_the_total_that_is_interrupted_is_still_one() -> None:
    problem = ow.MemoryOrdering(graph=layered_dag(60, 6, 0))
    arrays = arrays_of(lower(problem))
    whole = prove_total(problem, Run())
    assert (whole == [step_bound(arrays, v) for v in range(60)]).all()
    looks = iter(range(1000))
    part = prove_total(problem, Run(callback=lambda _: next(looks) > 10))
    assert (part <= whole).all()
    assert 0 < part.sum() < whole.sum()
    known = Run()
    order = greedy(arrays, FORWARD)
    known.found(lower(problem).ordering(order), total(arrays, order))
    assert (prove_total(problem, known) == whole).all()  # also where the order tells that no cut raises anything


@pytest.mark.parametrize(("objective", "solver"), [("total", "auto"), ("total", "btsearch"), ("peak", "partition")])
def test_time_limits_hold_on_large_graphs(objective: str, solver: str) -> None:
    problem = ow.MemoryOrdering(graph=layered_dag(1_900, 40, 0), objective=objective)
    ow.solve(problem, solver=solver, time_limit=0.1)  # compiles
    began = time.perf_counter()
    result = ow.solve(problem, solver=solver, time_limit=1)
    assert time.perf_counter() - began < 4
    assert result.verified


# No plan under a limit


def tight(objective: str) -> ow.MemoryOrdering:
    """A limit that some order respects, but no greedy one."""
    for seed in range(50):
        problem = ow.MemoryOrdering(graph=layered_dag(30, 5, seed), objective=objective)
        least = ow.solve(problem.model_copy(update={"objective": "peak"})).objective
        arrays = arrays_of(lower(problem))
        if min(peak(arrays, greedy(arrays, sign)) for sign in (FORWARD, BACKWARD)) > least:
            return problem.model_copy(update={"limit_bytes": least})
    raise AssertionError("no such graph among these")


@pytest.mark.parametrize(("objective", "solver"), [("peak", "exact"), ("total", "auto")])
def test_out_of_time_without_a_plan_says_so(objective: str, solver: str) -> None:
    problem = tight(objective)
    listed = ow.solve(problem, solver="definition")
    assert listed.solution is None
    result = ow.solve(problem, solver=solver, time_limit=1e-9)
    assert (result.status, result.termination) == (ow.Status.UNKNOWN, ow.results.Termination.TIME_LIMIT)
    assert solver == "auto" or "no order within the limit" in result.reason


def test_a_start_spares_the_search_for_an_order_under_the_limit() -> None:
    problem = tight("total")
    start = ow.solve(problem).solution
    stages: list[str] = []
    result = ow.solve(problem, start=start, time_limit=1e-9, progress=lambda now: stages.append(now.stage))
    assert result.verified
    assert "greedy orders" in stages
    assert "orders under the limit" not in stages
