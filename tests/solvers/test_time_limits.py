"""Tiny limits: an answer comes in time, with a plan where a baseline has one, and with a bound."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

import opweave as ow
from opweave.problems.errors import OpweaveError
from opweave.solvers import registry
from opweave.solvers.allowance import ALLOWED_SECONDS, ALLOWED_SHARE
from opweave.solvers.run import Outcome, Run
from tests.problems.batched_mapping.test_spec import two
from tests.problems.pipeline.test_spec import four
from tests.problems.slicing.test_spec import chain
from tests.solvers.placement.instances import layered_problem

ow.list_solvers()  # or the first test would count the seconds of importing them all

PATIENCE = 5.0
"""How many times what is promised a test allows: machines that run tests are busy with others."""


def ordering() -> ow.MemoryOrdering:
    return ow.MemoryOrdering(graph=layered_problem(4, 4).graph)


PROBLEMS: dict[str, Callable[[], ow.Problem]] = {
    "memory_ordering": ordering,
    "placement": lambda: layered_problem(6, 4),
    "batched_mapping": two,
    "pipeline": four,
    "slicing": chain,
}


@pytest.fixture
def fake() -> Iterator[Callable[[Callable[[ow.Problem, Run], Outcome]], str]]:
    """Registers solvers under a name that is taken back."""
    keys = []

    def put(run: Callable[[ow.Problem, Run], Outcome], kind: str = "memory_ordering") -> str:
        solver = registry.Solver(name="fake", problem=kind, kind="algorithm", run=run, about="for a test")
        registry.register(solver)
        keys.append((kind, "fake"))
        return "fake"

    yield put
    for key in keys:
        registry._SOLVERS.pop(key, None)


def timed(problem: ow.Problem, solver: str, limit: float) -> ow.Result:
    """Solve, and compare the time with what is promised."""
    began = time.perf_counter()
    result = ow.solve(problem, solver=solver, time_limit=limit)
    took = time.perf_counter() - began
    assert took <= limit + PATIENCE * (ALLOWED_SHARE * limit + ALLOWED_SECONDS)
    return result


def spin(_problem: ow.Problem, _run: Run) -> Outcome:
    """A solver that never looks at the clock and lets no failure stop it."""
    while True:
        try:
            sum(range(1_000))
        except Exception:
            continue


@pytest.mark.parametrize("kind", PROBLEMS)
def test_a_solver_that_never_looks_at_the_clock(kind: str, fake) -> None:
    result = timed(PROBLEMS[kind](), fake(spin, kind), 0.1)
    assert result.termination is ow.Termination.TIME_LIMIT
    assert result.verified
    assert "the time was up before there was a plan" in result.reason
    assert result.bound is not None
    assert result.bound <= result.objective


def test_what_was_found_before_is_kept(fake) -> None:
    problem = ordering()
    good = ow.solve(problem).solution
    objective = problem.evaluate(good).objective

    def found_then_spin(problem: ow.Problem, run: Run) -> Outcome:
        run.found(good, objective)
        run.proved(1, "a count")
        return spin(problem, run)

    result = timed(problem, fake(found_then_spin), 0.1)
    assert (result.solution, result.objective) == (good, objective)
    assert (result.bound, result.bound_source) == (10, "trivial")  # larger than what was counted
    assert result.status is ow.Status.OPTIMAL
    assert result.reason is None


def test_a_solver_that_hides_in_a_library_is_left_behind(fake) -> None:
    from opweave.solvers.patience import patiently

    def sleep(problem: ow.Problem, run: Run) -> Outcome:
        patiently(lambda: time.sleep(3.0))
        return Outcome()

    assert timed(ordering(), fake(sleep), 0.1).verified


def test_a_referee_that_takes_too_long_is_interrupted(fake, monkeypatch) -> None:
    problem = ordering()
    good = ow.solve(problem).solution
    objective = problem.evaluate(good).objective

    def replay(self: ow.MemoryOrdering, solution: ow.Ordering) -> object:
        return spin(self, Run())

    def find(problem: ow.Problem, run: Run) -> Outcome:
        run.found(good, objective)
        return Outcome()

    monkeypatch.setattr(ow.MemoryOrdering, "_replay", replay)
    result = timed(problem, fake(find), 0.1)
    assert (result.status, result.solution) == (ow.Status.UNKNOWN, None)
    assert not result.verified
    assert "before a plan could be checked" in result.reason


@pytest.mark.parametrize("limit", [0.01, 0.2])
@pytest.mark.parametrize("kind", PROBLEMS)
def test_every_solver_keeps_tiny_limits(kind: str, limit: float) -> None:
    """The engines that need a process of their own have tests of their own; one stands for them."""
    problem = PROBLEMS[kind]()
    baseline = ow.solve(problem, solver="auto").solution is not None
    for row in ow.list_solvers(kind):
        if not row.available or (row.kind == "engine" and row.name not in ("highs", "cp-sat")):
            continue
        try:
            result = timed(problem, row.name, limit)
        except OpweaveError:
            continue  # an honest refusal
        if result.status is ow.Status.INFEASIBLE:
            continue
        assert result.bound is not None, row.name
        if result.termination is ow.Termination.TIME_LIMIT:
            assert (result.solution is not None) == baseline, row.name
