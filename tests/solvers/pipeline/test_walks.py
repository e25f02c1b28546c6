"""Walks over pieces: never a false bound, plans that agree with brute force, and ties of first and last stage."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

import opweave as ow
from opweave.formulations.pipeline.instance import lower
from opweave.problems.pipeline.spec import Pipeline
from opweave.solvers.pipeline.folding import folded, folds_of, unfolded
from opweave.solvers.pipeline.plans import Plan
from opweave.solvers.pipeline.walks import surely_sent, without_ties
from tests.oracles.pipeline import best_pipeline
from tests.strategies.pipeline import wide_pipelines


def ring(count: int = 6, **fields: object) -> Pipeline:
    """A chain of equal operators on three equal devices; every device may have two stages."""
    names = [f"o{k}" for k in range(count)]
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id=f"t{k}", bytes=1) for k in range(count + 1)],
        operators=[ow.Operator(id=name, inputs=[f"t{k}"], outputs=[f"t{k + 1}"]) for k, name in enumerate(names)],
    )
    given = {
        "graph": graph,
        "cluster": ow.Cluster(devices=[ow.Device(name=name) for name in "abc"], rates=[4.0] * 3),
        "costs": ow.Costs.from_table({name: dict.fromkeys("abc", 1.0) for name in names}),
        "max_visits": 2,
    }
    return Pipeline(**{**given, **fields})


@settings(max_examples=20, deadline=None)
@given(problem=wide_pipelines())
def test_bounds_and_plans_agree_with_brute_force(problem: Pipeline) -> None:
    changed = {"cuts": "prefix", "delivery": "relay", "load": "overlap", "max_replicas": 1, "stateful": []}
    problem = Pipeline.model_validate(problem.model_dump() | changed | {"max_visits": 2})
    optimum = best_pipeline(problem)[0]
    result = ow.solve(problem, solver="walks", time_limit=2.0)
    if optimum is None:
        assert result.solution is None
        return
    assert result.bound <= optimum * (1 + 1e-9)
    if result.solution is not None:
        assert result.objective >= optimum * (1 - 1e-9)


@pytest.mark.parametrize(
    "ties", [[["o0", "o5"]], [["o0", "o5"], ["o1", "o4"]], [["o0", "o5"], ["o1", "o4"], ["o2", "o3"]], [["o0", "o3"]]]
)
def test_ties_are_proved(ties: list[list[str]]) -> None:
    """A tied embedding, and forward and backward passes in mirrored order."""
    problem = ring(constraints=[ow.Colocate(ops=ops) for ops in ties])
    result = ow.solve(problem, time_limit=10.0)
    assert result.status is ow.Status.OPTIMAL
    assert result.objective == best_pipeline(problem)[0]


def test_an_order_is_folded_where_tied_operators_meet() -> None:
    """The ends o0 and o5 are tied: the first stage runs both, and a plan of the folded order has a last stage there."""
    problem = ring(constraints=[ow.Colocate(ops=["o0", "o5"])])
    instance = lower(without_ties(problem))
    fold = next(folds_of(problem, instance))
    assert fold == [(0, 6), (1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]
    around = folded(problem, instance, fold)
    assert around.names == ("o0", "o5", "o1", "o2", "o3", "o4")
    assert around.elapsed[0].tolist() == [0.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert unfolded(fold, Plan((1, 3), (2, 0, 1))) == [(1, 2), (3, 0), (5, 1), (6, 2)]


def test_forward_and_backward_passes_are_mirrored() -> None:
    """Twelve layers with a backward pass each, on three devices: each has four layers in both directions."""
    ties = tuple(ow.Colocate(ops=[f"o{k}", f"o{23 - k}"]) for k in range(12))
    result = ow.solve(ring(24, constraints=ties), time_limit=10.0)
    assert [len(stage.operators) for stage in result.solution.stages] == [4, 4, 8, 4, 4]
    assert result.status is ow.Status.OPTIMAL


def test_what_a_device_had_before_is_not_surely_sent() -> None:
    """Tensor x is read by p and r; behind q, only y is sent in any case, because r's device may have run p."""
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id=name, bytes=size) for name, size in (("x", 8), ("p", 4), ("y", 2), ("z", 1))],
        operators=[
            ow.Operator(id="first", inputs=["x"], outputs=["p"]),
            ow.Operator(id="q", inputs=["p"], outputs=["y"]),
            ow.Operator(id="r", inputs=["y", "x", "p"], outputs=["z"]),
        ],
    )
    costs = ow.Costs.from_table({op.id: dict.fromkeys("abc", 1.0) for op in graph.operators})
    problem = ring(graph=graph, costs=costs, max_visits=1)
    assert surely_sent(problem, lower(problem)).tolist() == [0.0, 4.0, 2.0, 0.0]


@pytest.mark.parametrize("reading", [{"cuts": "ideals"}, {"delivery": "host"}])
def test_other_readings_are_refused(reading: dict[str, object]) -> None:
    with pytest.raises(ow.UnsupportedFeatureError, match="cuts in one order"):
        ow.solve(ring(**reading), solver="walks")


@pytest.mark.parametrize("solver", ["auto", "walks", "visits", "sorting"])
@pytest.mark.parametrize("reading", [{"max_visits": 1, "objective": "latency"}, {}, {"delivery": "host"}])
def test_a_model_without_operators_has_a_plan_without_stages(reading: dict[str, object], solver: str) -> None:
    graph = ow.OpGraph(operators=[], tensors=[ow.Tensor(id="x", bytes=4)])
    problem = ring(graph=graph, costs=None, include_compute=False, **reading)
    assert problem.evaluate(ow.Stages(stages=[])).objective == 0.0
    if solver == "walks" and "delivery" in reading:
        return
    assert ow.solve(problem, solver=solver).objective in (0.0, None)


def test_a_plan_that_takes_no_time_ends_the_search() -> None:
    costs = ow.Costs.from_table({f"o{k}": dict.fromkeys("abc", 0.0) for k in range(6)})
    seen: list[str] = []
    result = ow.solve(
        ring(costs=costs, delivery="host", max_visits=None), callback=lambda now: bool(seen.append(now.stage))
    )
    assert result.status is ow.Status.OPTIMAL
    assert len(seen) < 10
