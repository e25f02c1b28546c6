"""What schedulers share: the best bound, rounds within the time."""

from __future__ import annotations

import math

import pytest

from opweave.solvers.registry import find_solver
from opweave.solvers.rounding import Best
from opweave.solvers.run import Run
from opweave.solvers.scheduling.pace import chunks_within
from tests.solvers.placement.instances import small_problem


def test_a_bound_is_a_little_less_than_what_was_summed_up_and_never_falls() -> None:
    run = Run()
    best = Best(run)
    best.report(4.0, "area")
    assert 4.0 * (1 - 1e-8) < best.value < 4.0
    assert (run.bound, best.source) == (best.value, "area")
    best.report(3.0, "path")
    best.report(math.inf, "nothing")
    assert best.value > 3.9
    assert best.source == "area"


def test_a_bound_that_differs_by_rounding_only_is_the_objective() -> None:
    problem, run = small_problem(0), Run()
    find_solver(problem, "heft").run(problem, run)
    assert run.objective is not None
    Best(run).report(float(run.objective), "area")
    assert run.bound == run.objective
    assert run.closed()


@pytest.mark.parametrize(("limit", "chunks"), [(None, 10), (0.0, 1), (1000.0, 10)])
def test_a_round_has_as_many_chunks_as_there_is_time_for(limit: float | None, chunks: int) -> None:
    assert chunks_within(Run(time_limit=limit), 10, 5.0) == chunks
