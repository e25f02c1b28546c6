"""Bounds of batched mapping: never above the optimum, and what each of them is worth."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings

import opweave as ow
from benchmarks.servers import on_servers
from benchmarks.stacked import Stack, stacked
from opweave.formulations.batched_mapping.instance import lower
from opweave.formulations.order_arcs import ContradictionError
from opweave.solvers.batched_mapping.bounds import critical_path, mean_passage
from opweave.solvers.batched_mapping.unsplit import prove_one_input
from opweave.solvers.run import Run
from opweave.solvers.trivial import trivial_bound
from tests.oracles.batched_mapping import best_batched_mapping
from tests.strategies.batched_mapping import batched_mappings
from tests.tiny import graph_of


def never() -> bool:
    return False


def by_one_input(problem: ow.BatchedMapping) -> float:
    run = Run()
    prove_one_input(problem, run)
    return float(run.bound or 0.0)


def all_bounds(problem: ow.BatchedMapping) -> dict[str, float]:
    instance = lower(problem)
    path = critical_path(instance)
    return {
        "path": path,
        "trivial": float(trivial_bound(problem) or 0.0),
        "mean passage": mean_passage(instance, path, None),
        "one input": by_one_input(problem),
    }


@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(batched_mappings(3, 2, 4, precedes=True))
def test_no_bound_exceeds_the_optimum(problem):
    optimum = best_batched_mapping(problem)[0]
    assume(optimum is not None)
    try:
        found = all_bounds(problem)
    except ContradictionError:
        pytest.fail("a problem with a solution was called contradictory")
    for name, value in found.items():
        assert value <= optimum * (1 + 1e-9) + 1e-12, name


def two_channels() -> ow.BatchedMapping:
    """The methods' counterexample: by the paper's batched LBound nothing ends before 41, but 31 is possible."""
    tensors = [ow.Tensor(id=name, bytes=size) for name, size in {"s": 1000, "x1": 0, "x2": 0}.items()]
    graph = ow.OpGraph(
        tensors=tensors,
        operators=[
            ow.Operator(id="s", outputs=["s"]),
            ow.Operator(id="o1", inputs=["s"], outputs=["x1"]),
            ow.Operator(id="o2", inputs=["s"], outputs=["x2"]),
            ow.Operator(id="i1", inputs=["x1"]),
            ow.Operator(id="i2", inputs=["x2"]),
        ],
    )
    devices = ["u", "v", "w1", "w1b", "w2", "w2b"]
    both = {name: {1: 10.0} for name in ("u", "v")}
    table = {
        "s": {name: {1: 1.0} for name in ("u", "v")},
        "o1": both,
        "o2": both,
        "i1": {"w1": {1: 10.0}, "w1b": {1: 20.0}},
        "i2": {"w2": {1: 10.0}, "w2b": {1: 20.0}},
    }
    return ow.BatchedMapping(
        graph=graph,
        cluster=ow.Cluster(devices=[ow.Device(name=name) for name in devices], bandwidth=[[1.0] * 6] * 6),
        costs=ow.Costs.from_table(table),
        batch=2,
    )


def test_bounds_hold_where_the_papers_batched_bound_does_not():
    problem = two_channels()
    optimum = best_batched_mapping(problem)[0]
    assert optimum == pytest.approx(31.0)
    assert all(value <= optimum + 1e-9 for value in all_bounds(problem).values())


def test_one_input_by_hand():
    """Fork and join on two devices, more than enough for two inputs: one branch each, one of them sent, 1 + 2 + 1 + 1.

    By paths alone, which see no branch beside their own, it would be 1 + 2 + 1.
    """
    reads = {"fork": "", "left": "fork", "right": "fork", "join": "left right"}
    graph = graph_of(dict.fromkeys(reads, 2), reads)
    names = ["a", "b", "c", "d"]
    lasts = {"fork": 1.0, "left": 2.0, "right": 2.0, "join": 1.0}
    table = {op: {name: {1: took, 2: 3 * took} for name in names} for op, took in lasts.items()}
    cluster = ow.Cluster(devices=[ow.Device(name=name) for name in names], bandwidth=[[2.0] * 4] * 4)
    problem = ow.BatchedMapping(graph=graph, cluster=cluster, costs=ow.Costs.from_table(table), batch=2)
    instance = lower(problem)
    assert critical_path(instance) == pytest.approx(4.0)
    assert by_one_input(problem) == pytest.approx(5.0)
    assert ow.solve(problem, time_limit=10.0).objective == pytest.approx(5.0)


def test_one_servers_plan_on_every_server_is_proved_where_devices_abound():
    problem = on_servers(2, 2, 2, 2)
    result = ow.solve(problem, time_limit=20.0)
    assert result.status is ow.Status.OPTIMAL
    assert result.bound_source == "one input"


def chain_on_two_devices(memory: int | None = None) -> ow.BatchedMapping:
    """Three operators for four inputs; two devices without a link; a batch of c takes 0.8 + 0.2 c seconds."""
    table = {op: {name: {c: 0.8 + 0.2 * c for c in (1, 2, 3, 4)} for name in "uv"} for op in "xyz"}
    devices = [ow.Device(name="u", memory_bytes=memory), ow.Device(name="v")]
    cluster = ow.Cluster(devices=devices, bandwidth=[[1.0, 0.0], [0.0, 1.0]])
    graph = graph_of(dict.fromkeys("xyz", 1), {"x": "", "y": "x", "z": "y"}, "z")
    return ow.BatchedMapping(graph=graph, cluster=cluster, costs=ow.Costs.from_table(table), batch=4)


def test_mean_passage_by_hand():
    """Whole batches have the least work, single inputs the least passage; two on each device are the best."""
    found = all_bounds(chain_on_two_devices())
    assert found["mean passage"] == pytest.approx(3.6)
    result = ow.solve(chain_on_two_devices(), time_limit=5.0)
    assert result.status is ow.Status.OPTIMAL
    assert result.objective == pytest.approx(3.6)


def test_mean_passage_is_the_best_where_launching_takes_most_of_the_time():
    found = all_bounds(stacked(Stack(modules=3), 16, "C"))
    assert found.pop("mean passage") >= 1.1 * max(found.values())


def test_mean_passage_minds_memory():
    """Room for one input of each operator on u leaves three for v."""
    assert all_bounds(chain_on_two_devices(memory=3))["mean passage"] > 3.6 * 1.01
