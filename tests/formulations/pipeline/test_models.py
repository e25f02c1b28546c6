"""The flow program: against brute force, their starts, and rows of one's own."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings

import opweave as ow
from opweave.formulations.formulation import BuildContext
from opweave.formulations.modeling.arrays import to_arrays
from opweave.formulations.pipeline.flow import Flow
from opweave.problems.pipeline.spec import Pipeline, Stages
from tests.problems.pipeline.test_spec import four
from tests.strategies.pipeline import planned_pipelines


@settings(max_examples=25)
@given(planned=planned_pipelines())
def test_a_start_obeys_the_flow_and_comes_back(planned: tuple[Pipeline, Stages]) -> None:
    problem, plan = planned
    value = problem.evaluate(plan).objective
    formulation = Flow(BuildContext(ceiling=value))
    model = formulation.build(problem)
    program = to_arrays(model)
    values = formulation.start(model, plan)
    assert program.broken(values) is None
    assert formulation.extract(model, values) == plan
    bound = formulation.objective_bound(problem, program.objective(values))
    assert math.isclose(bound, value, rel_tol=1e-9, abs_tol=1e-12)


def test_rows_of_ones_own() -> None:
    def extend(model: object, problem: Pipeline) -> None:
        model.add(model.on("Q", "b") >= 1)  # type: ignore[attr-defined]

    free = ow.solve(four(), solver="highs")
    bound = ow.solve(four(), solver="highs", extend=extend)
    assert free.objective == 3.0
    assert bound.solution.devices_by_operator()["Q"] == {"b"}
    expected = ow.solve(four(constraints=[ow.Pin(op="Q", device="b")]))
    assert bound.objective == expected.objective


def test_rows_about_stages() -> None:
    problem = four(min_stages=2)

    def late(model: object, _problem: Pipeline) -> None:
        model.add(model.stage("Q") == 1)
        model.add(model.stage("S") == 2)

    result = ow.solve(problem, solver="highs", extend=late)
    found = {name: number for number, stage in enumerate(result.solution.stages) for name in stage.operators}
    assert (found["P"], found["Q"], found["S"]) == (0, 1, 2)


def test_replicas_are_refused() -> None:
    with pytest.raises(ow.UnsupportedFeatureError, match="cannot express max_replicas=2"):
        ow.solve(four(max_replicas=2), solver="highs")


def test_rows_of_ones_own_are_read_on_plans_with_replicas() -> None:
    result = ow.solve(four(max_replicas=2), extend=lambda model, _problem: model.add(model.on("P", "a") == 1))
    assert any("P" in stage.operators and "a" in stage.devices for stage in result.solution.stages)
