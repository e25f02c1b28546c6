"""The flow program: against brute force, their starts, and rows of one's own."""

from __future__ import annotations

import math
import time

import pytest
from hypothesis import given, settings

import opweave as ow
from opweave.formulations.formulation import BuildContext
from opweave.formulations.modeling.arrays import to_arrays
from opweave.formulations.pipeline.flow import Flow
from opweave.formulations.pipeline.instance import lower
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


def test_times_of_unlike_size() -> None:
    """Engines refuse tiny coefficients: what takes no time beside the rest is left out."""
    seconds = zip("PQRS", (1e12, 1e-7, 1e-7, 1e12), strict=True)
    mixed = four(costs=ow.Costs.from_table({name: dict.fromkeys("abc", value) for name, value in seconds}))
    result = ow.solve(mixed, solver="highs")
    assert result.status is ow.Status.OPTIMAL
    assert result.objective == pytest.approx(1e12)


def test_shared_parameters_are_counted_quickly() -> None:
    """Thousands of operators, hundreds of parameters that ten of them share each: a count along the order."""
    count, shared = 2_000, 200
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id=f"t{i}", bytes=1) for i in range(count + 1)],
        operators=[
            ow.Operator(id=f"o{i}", inputs=[f"t{i}"], outputs=[f"t{i + 1}"], parameters=[f"w{i % shared}"])
            for i in range(count)
        ],
        parameters=[ow.Parameter(id=f"w{i}", bytes=1 + i % 7) for i in range(shared)],
        outputs=[f"t{count}"],
    )
    devices = [ow.Device(name="a", memory_bytes=300), ow.Device(name="b", memory_bytes=5)]
    problem = Pipeline(
        graph=graph,
        cluster=ow.Cluster(devices=devices, shared=1.0),
        include_compute=False,
        memory="parameters",
        cuts="prefix",
    )
    began = time.perf_counter()
    instance = lower(problem)
    assert time.perf_counter() - began < 5
    for v, memory in enumerate((300, 5)):
        for a in (0, 3, 190, 1_111, count - 1):
            b = int(instance.reach[v, a])
            assert b == a or problem.memory_of(instance.names[a:b]) <= memory
            assert b == count or problem.memory_of(instance.names[a : b + 1]) > memory


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
