"""The most bytes on any device as an objective: against every pipeline and every assignment of small problems."""

from __future__ import annotations

from hypothesis import given

import opweave as ow
from opweave.solvers.questions.changes import rebuilt
from opweave.solvers.trivial import trivial_bound
from tests.oracles.pipeline import all_pipelines, stage_bytes, value_of
from tests.oracles.placement import allowed_assignments, bytes_on, tasks_of
from tests.strategies.pipeline import pipelines
from tests.strategies.specs import placements


def compared(problem, solver, every):
    """The solver finds the least of all values, and proves it; no bound is above it."""
    least = min(every, default=None)
    found = ow.solve(problem, solver=solver)
    if least is None:
        assert found.status == "infeasible", found
        return
    assert (found.status, found.objective, found.bound, problem.unit) == ("optimal", least, least, "bytes"), found
    assert trivial_bound(problem) <= least
    assert type(problem).model_validate_json(problem.model_dump_json()) == problem


@given(timed=pipelines())
def test_pipelines(timed):
    plans = (plan for plan in all_pipelines(timed) if value_of(timed, plan) is not None)
    every = [max([0, *(stage_bytes(timed, stage.operators) for stage in plan.stages)]) for plan in plans]
    compared(rebuilt(timed, objective="memory"), "auto", every)


@given(timed=placements(max_operators=4))
def test_placements(timed):
    devices = [each.name for each in timed.cluster.devices]
    plans = [plan for plan in allowed_assignments(timed) if tasks_of(timed, plan) is not None]
    problem = rebuilt(timed, objective="memory")
    compared(problem, "highs", [max(bytes_on(timed, plan, name) for name in devices) for plan in plans])
    if not problem.constraints:
        compared(problem, "auto", [max(bytes_on(timed, plan, name) for name in devices) for plan in plans])
