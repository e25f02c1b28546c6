"""The programs of batched mapping against brute force and each other, and what each family of rows is there for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

import opweave as ow
from opweave.formulations.batched_mapping.instance import lower
from opweave.formulations.batched_mapping.plans import retimed
from tests.oracles.batched_mapping import best_batched_mapping
from tests.strategies.batched_mapping import batched_mappings


@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(batched_mappings(3, 2, 3))
def test_printed_rows_never_help_and_prove_nothing(problem):
    optimum = best_batched_mapping(problem)[0]
    assume(optimum is not None)
    result = ow.solve(problem, solver="highs", formulation="diviml", options={"head_start": False})
    assert result.objective >= optimum * (1 - 1e-6)
    assert result.bound is None or result.bound <= optimum * (1 + 1e-6)


def test_what_takes_no_time_comes_before_what_starts_with_it():
    """Both start at 0 on the one device that can run them; the other order would end 3 s later."""
    tensors = [ow.Tensor(id=name, bytes=1) for name in "wxyz"]
    operators = [
        ow.Operator(id="long", inputs=["w"], outputs=["x"]),
        ow.Operator(id="none", inputs=["w"], outputs=["y"]),
        ow.Operator(id="after", inputs=["y"], outputs=["z"]),
    ]
    table = {"long": {"a": 3.0}, "none": {"a": 0.0}, "after": {"b": 3.0}}
    cluster = ow.Cluster(devices=[ow.Device(name=name) for name in "ab"], bandwidth=[[0, 1e9], [1e9, 0]])
    graph = ow.OpGraph(tensors=tensors, operators=operators)
    problem = ow.BatchedMapping(graph=graph, cluster=cluster, costs=ow.Costs.from_table(table))
    instance = lower(problem)
    zero = np.zeros((3, 2))
    plan = retimed(instance, np.asarray([[0], [0], [1]]), zero)
    assert problem.evaluate(plan).objective == pytest.approx(3.0, rel=1e-6)
    assert ow.solve(problem, solver="highs").status is ow.Status.OPTIMAL


@pytest.mark.parametrize(
    "constraint",
    [
        ow.MaxDevices(count=1),
        ow.Colocate(ops=["p", "q"]),
        ow.Separate(ops=["p", "q"]),
        ow.Forbid(op="p", device="b"),
        ow.MemoryCap(device="a", bytes=1),
    ],
    ids=lambda each: each.kind,
)
def test_the_printed_program_knows_side_constraints(constraint):
    """With one input the printed rows cost nothing: its optimum is the problem's, though it proves nothing."""
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id="y", bytes=1)],
        operators=[ow.Operator(id="p", outputs=["y"]), ow.Operator(id="q", inputs=["y"])],
    )
    cluster = ow.Cluster(devices=[ow.Device(name=name) for name in "ab"], bandwidth=[[0, 1], [1, 0]])
    costs = ow.Costs.from_table({"p": {"a": 9.0, "b": 1.0}, "q": {"a": 1.0, "b": 9.0}})
    problem = ow.BatchedMapping(graph=graph, cluster=cluster, costs=costs, batch=1, constraints=[constraint])
    result = ow.solve(problem, solver="highs", formulation="diviml", options={"head_start": False})
    assert result.objective == pytest.approx(best_batched_mapping(problem)[0])
    assert result.bound_source in {"trivial", None}
