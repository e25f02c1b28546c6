"""Runs: limits, findings, and sub-problems."""

from __future__ import annotations

import math

import opweave as ow
from opweave.solvers.registry import find_solver
from opweave.solvers.rounding import Best
from opweave.solvers.run import Run
from tests.solvers.placement.instances import small_problem

FIRST, SECOND = ow.Ordering(order=["a", "b"]), ow.Ordering(order=["b", "a"])


def test_only_what_is_better_is_kept() -> None:
    run = Run()
    assert run.found(FIRST, 7)
    assert not run.found(SECOND, 7)
    run.proved(3, "a rule")
    run.proved(2, "a worse rule")
    assert (run.objective, run.bound, run.findings.bound_source) == (7, 3, "a rule")
    assert len(run.findings.incumbents) == 2


def test_a_phase_has_its_own_limit_and_its_worker_too() -> None:
    run = Run(time_limit=60.0)
    worker = run.as_worker("w")
    with worker.at_most(0.0):
        assert worker.should_stop()
        assert not run.should_stop()
    assert not worker.should_stop()
    worker.found(FIRST, 5)
    assert run.objective == 5
    assert run.findings.incumbents[-1].worker == "w"


def test_a_sub_problem_ends_with_the_whole_and_reports_to_it() -> None:
    run = Run(time_limit=60.0)
    part = run.child(seconds=30.0, lift=lambda plan: SECOND, exact=True)
    assert 29.0 < (part.remaining() or 0.0) <= 30.0
    part.found(FIRST, 9)
    part.proved(4, "part")
    assert (run.best, run.objective, run.bound) == (SECOND, 9, 4)
    run.stop()
    assert part.should_stop()
    assert part.remaining() == 0.0


def test_what_a_sub_problem_proves_holds_there_alone_unless_it_is_exact() -> None:
    run = Run()
    part = run.child()
    part.found(FIRST, 9)
    part.proved(9, "part")
    assert part.closed()
    assert (run.objective, run.bound) == (None, None)


def test_a_bound_is_a_little_less_than_what_was_summed_up_and_never_falls() -> None:
    run = Run()
    best = Best(run)
    best.report(4.0, "area")
    assert 4.0 * (1 - 1e-8) < best.value < 4.0
    assert (run.bound, run.findings.bound_source) == (best.value, "area")
    best.report(3.0, "path")
    best.report(math.inf, "nothing")
    assert best.value > 3.9
    assert run.findings.bound_source == "area"


def test_a_bound_that_differs_by_rounding_only_is_the_objective() -> None:
    problem, run = small_problem(0), Run()
    find_solver(problem, "heft").run(problem, run)
    assert run.objective is not None
    Best(run).report(float(run.objective), "area")
    assert run.bound == run.objective
    assert run.closed()
