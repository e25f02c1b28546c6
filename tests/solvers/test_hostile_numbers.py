"""Bounds and plans against brute force where numbers lie as far apart as their types allow.

The instances are those of the benchmark ``hostile_bounds``: devices slow by a million, links from 1 B/s to 1e12 B/s,
operators of no seconds, tensors of up to 2**50 bytes, all together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import opweave as ow
from benchmarks.hostile_bounds import FIRST_OPERATORS, first_part, network
from benchmarks.hostile_instances import (
    hostile_batched_mapping,
    hostile_ordering,
    hostile_pipeline,
    hostile_placement,
    hostile_slicing,
)
from benchmarks.tables import GRAPHS
from tests.oracles.batched_mapping import best_batched_mapping
from tests.oracles.memory_ordering import best_ordering_by_states
from tests.oracles.pipeline import best_pipeline
from tests.oracles.placement import best_placement
from tests.oracles.serving_flow import best_serving
from tests.oracles.slicing import best_slicing

RELATIVE = 2e-6


def adding(seed: int) -> ow.Pipeline:
    """A hostile pipeline whose devices pay for what they send, or in which latency counts."""
    reading = {"load": "sum"} if seed % 2 else {"objective": "latency"}
    changed = {"channel": "dedicated", "objective": "bottleneck", **reading}
    return ow.Pipeline.model_validate(hostile_pipeline(seed).model_dump() | changed)


CASES: dict[str, tuple[Callable[[int], Any], Callable[[Any], tuple[Any, Any]], tuple[str, ...]]] = {
    "placement": (hostile_placement, best_placement, ("auto", "decompose", "highs")),
    "batched_mapping": (hostile_batched_mapping, best_batched_mapping, ("auto", "highs")),
    "pipeline": (hostile_pipeline, best_pipeline, ("auto", "exact", "highs")),
    "pipeline that adds up": (adding, best_pipeline, ("auto",)),
    "memory_ordering": (hostile_ordering, best_ordering_by_states, ("auto", "exact", "btsearch", "highs")),
    "slicing": (hostile_slicing, best_slicing, ("auto", "bound", "highs")),
}


def check(problem: ow.extend.Problem[Any, Any], result: ow.Result[Any], optimum: float | int | None) -> None:
    """No bound above the optimum, no plan below it, and no word of a contradiction."""
    for word in ("lies above", "claimed", "although"):
        assert result.reason is None or word not in result.reason, result.reason
    if result.bound is not None:
        assert optimum is not None
        assert result.bound <= (optimum if isinstance(optimum, int) else optimum * (1.0 + RELATIVE))
    if result.objective is not None:
        assert optimum is not None
        assert result.objective >= optimum * (1.0 - RELATIVE)
        assert problem.evaluate(result.solution).objective == result.objective
    if result.status is ow.Status.INFEASIBLE:
        assert optimum is None


@pytest.mark.parametrize("gap", [0.0, 0.05])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", CASES)
def test_bounds_and_plans_against_brute_force(kind: str, seed: int, gap: float) -> None:
    make, best, solvers = CASES[kind]
    problem = make(100 * (gap > 0.0) + seed)
    optimum = best(problem)[0]
    for solver in solvers:
        try:
            result = ow.solve(problem, solver=solver, time_limit=2.0, **({"gap": gap} if solver == "auto" else {}))
        except ow.UnsupportedFeatureError:
            continue
        except ow.InvalidInputError as refusal:  # an engine by name may refuse numbers that it would misread
            assert solver != "auto"
            assert "engines would misread it" in str(refusal)
            continue
        check(problem, result, optimum)


@pytest.mark.parametrize("seed", [1, 15, 19, 24, 32, 37])
def test_engines_find_pipelines_a_millionth_of_the_first_plan(seed: int) -> None:
    """A model written for a plan of hours cannot tell microseconds apart; it is written again."""
    problem = hostile_pipeline(seed)
    optimum = best_pipeline(problem)[0]
    result = ow.solve(problem, solver="highs")
    assert result.status is (ow.Status.INFEASIBLE if optimum is None else ow.Status.OPTIMAL)
    check(problem, result, optimum)


def test_seconds_of_computing_do_not_blur_transfers() -> None:
    """Days on a device that count for nothing cost the bound of a sum of 3e-11 s no digits."""
    problem = hostile_pipeline(19)
    assert problem.objective == "transfers"
    for solver in ("auto", "exact"):
        result = ow.solve(problem, solver=solver)
        assert result.status is ow.Status.OPTIMAL
        assert result.bound == result.objective == pytest.approx(best_pipeline(problem)[0], rel=RELATIVE)


@pytest.mark.parametrize("goal", ["bottleneck", "latency"])
@pytest.mark.parametrize("seed", range(6))
def test_days_on_a_device_do_not_drown_microseconds_on_it(seed: int, goal: Any) -> None:
    """One operator of a million seconds on each device, microseconds elsewhere: sums over all operators lose them."""
    rng = np.random.default_rng(seed)
    count, devices = int(rng.integers(3, 7)), int(rng.integers(2, 4))
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id=f"t{i}", bytes=int(rng.integers(0, 10))) for i in range(count)],
        operators=[ow.Operator(id=f"o{i}", inputs=[f"t{i - 1}"] if i else [], outputs=[f"t{i}"]) for i in range(count)],
    )
    table = {f"o{i}": {f"d{k}": float(rng.uniform(1e-6, 1e-5)) for k in range(devices)} for i in range(count)}
    for k in range(devices):
        i = int(rng.integers(0, count - 1))
        table[f"o{i}"][f"d{k}"] = 1e6 if k != i % devices else 1e-6
    cluster = ow.Cluster(
        devices=[ow.Device(name=f"d{k}") for k in range(devices)], bandwidth=[[1e9] * devices for _ in range(devices)]
    )
    problem = ow.Pipeline(graph=graph, cluster=cluster, costs=ow.Costs.from_table(table), objective=goal)
    optimum = best_pipeline(problem)[0]
    for solver in ("auto", "exact", "greedy", "highs"):
        result = ow.solve(problem, solver=solver)
        check(problem, result, optimum)
        assert result.status is ow.Status.OPTIMAL or solver == "greedy"


def test_a_device_that_is_no_help_raises_no_bound() -> None:
    """A thousand seconds an operator behind links of a thousand bytes a second: no plan uses it, all others stay."""
    graph = ow.load(GRAPHS / "keras" / "ResNet50.json.gz")
    part = first_part(graph, FIRST_OPERATORS)
    plain, slow = (network(part, slow=each, transfers="one_port_tensor") for each in (False, True))
    known = ow.solve(plain, time_limit=2.0)
    result = ow.solve(slow, time_limit=2.0, gap=0.001)
    assert known.objective is not None
    assert result.reason is None
    assert result.bound is None or result.bound <= known.objective * (1.0 + RELATIVE)
    assert known.bound is None or known.bound <= result.objective * (1.0 + RELATIVE)


@pytest.mark.parametrize("seed", range(6))
def test_whole_optima_are_bounds_to_the_byte(seed: int) -> None:
    """An engine that calls an order optimal has proved its bytes, whatever its bound says."""
    problem = hostile_ordering(seed)
    if sum(tensor.bytes for tensor in problem.graph.tensors) > 2**29:
        small = problem.graph.model_dump()
        for each in small["tensors"]:
            each["bytes"] %= 1009
        for each in small["parameters"]:
            each["bytes"] %= 1009
        for each in small["operators"]:
            each["workspace_bytes"] %= 1009
        problem = problem.model_copy(update={"graph": ow.OpGraph.model_validate(small)})
    result = ow.solve(problem, solver="highs")
    assert result.status is ow.Status.OPTIMAL
    assert result.bound == result.objective == best_ordering_by_states(problem)[0]


class Elsewhere(ow.Pin):
    """A rule of a user's own: not on that device."""

    def violations(self, problem: Any, solution: Any) -> Any:
        if self.device in solution.devices_by_operator().get(self.op, ()):
            yield self.broken("it runs there")


def test_an_engine_that_refuses_the_numbers_is_left_out() -> None:
    """Rows whose coefficients no engine could tell from 0 are no mistake of the user, who wrote none."""
    batches = {"d0": {1: 1e-9, 2: 2e9}, "d1": {1: 1e-12, 2: 1.0 / 3.0}}
    problem = ow.BatchedMapping(
        graph=ow.OpGraph(operators=[ow.Operator(id="o")], tensors=[]),
        cluster=ow.Cluster(devices=[ow.Device(name="d0"), ow.Device(name="d1")], bandwidth=[[0, 3e6], [0, 0]]),
        costs=ow.Costs.from_table({"o": batches}),
        batch=2,
        constraints=[Elsewhere(op="o", device="d1")],
    )
    with pytest.raises(ow.InvalidInputError, match="engines"):
        ow.solve(problem, solver="highs")
    assert ow.solve(problem).objective == 2e9


def lonely_operator(devices: dict[str, float], **fields: Any) -> dict[str, Any]:
    """One operator, whose seconds lie as far apart as can be, or are none at all."""
    return {
        "graph": ow.OpGraph(
            tensors=[ow.Tensor(id=name, bytes=2**32, shape=[1, 2, 2, 1]) for name in "xy"],
            operators=[ow.Operator(id="o", inputs=["x"], outputs=["y"])],
            outputs=["y"],
        ),
        "cluster": ow.Cluster(devices=[ow.Device(name=name) for name in devices], **fields),
        "costs": ow.Costs.from_table({"o": devices}),
    }


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_bounds_of_cuts_and_of_areas_overflow_in_silence() -> None:
    cut = ow.Slicing(**lonely_operator({"a": 3.0, "b": 0.0}, rates=[10.0, 10.0]))
    assert ow.solve(cut, solver="bound").bound == pytest.approx(best_slicing(cut)[0])
    free = lonely_operator({"a": 1e9, "b": 0.0, "c": 1e12}, shared=1.0)
    assert ow.solve(ow.Placement(**free)).objective == 0.0
    batches = ow.Costs.from_table({"o": {name: {1: each} for name, each in (("a", 1e9), ("b", 0.0), ("c", 1e12))}})
    assert ow.solve(ow.BatchedMapping(**{**free, "costs": batches})).objective == 0.0


def test_serving_of_few_blocks_is_judged_plan_by_plan() -> None:
    """Links that no unit of time holds together: a program leaves the slow ones out."""
    problem = ow.ServingFlow(
        graph=ow.layer_chain(3, activation_bytes=2**20),
        cluster=ow.Cluster(devices=[ow.Device(name="d0"), ow.Device(name="d1")], bandwidth=[[0, 4], [4, 0]]),
        rates={"d0": [0.5, 3.0, 0.0], "d1": [0.0, 2.0, 5.0]},
        constraints=[ow.Pin(op="layers.2", device="d0")],
    )
    result = ow.solve(problem)
    assert (result.status, result.objective) == (ow.Status.OPTIMAL, best_serving(problem)[0])
