"""The joint search: against brute force, its bounds, its thresholds, and real models."""

from __future__ import annotations

import itertools
import math
import random
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import opweave as ow
from benchmarks.edge_networks import heterogeneous, random_chain
from benchmarks.scorecard_instances import at_home
from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.pipeline.instance import lower, lower_unless_short, stages_up_to
from opweave.problems.pipeline.spec import PAPER_COMPRESSION, Pipeline
from opweave.solvers.pipeline import priced_walks, sets, sums
from opweave.solvers.pipeline.arrays import arrays_of
from opweave.solvers.pipeline.bottleneck import Finding, ThresholdTests
from opweave.solvers.pipeline.plans import value_of
from opweave.solvers.pipeline.sums import SumSearch
from tests.oracles.pipeline import best_pipeline
from tests.strategies.pipeline import pipelines, replicated_pipelines

KERAS = Path(__file__).parents[3] / "benchmarks" / "graphs" / "keras"


@pytest.mark.parametrize("goal", ["bottleneck", "transfers", "latency"])
@settings(max_examples=8)
@given(data=st.data())
def test_the_optimum_is_proved(goal: str, data: st.DataObject) -> None:
    problem = data.draw(pipelines(7, 6, goal=goal))
    optimum = best_pipeline(problem)[0]
    result = ow.solve(problem, solver="exact")
    if optimum is None:
        assert result.status is ow.Status.INFEASIBLE
        assert result.reason
    else:
        assert result.status is ow.Status.OPTIMAL
        assert math.isclose(result.objective, optimum, rel_tol=1e-9, abs_tol=1e-12)


@settings(max_examples=15)
@given(problem=replicated_pipelines())
def test_replicas_agree_with_brute_force(problem: Pipeline) -> None:
    optimum = best_pipeline(problem)[0]
    result = ow.solve(problem)
    assert result.status is (ow.Status.INFEASIBLE if optimum is None else ow.Status.OPTIMAL)
    if optimum is not None:
        assert result.verified
        assert math.isclose(result.objective, optimum, rel_tol=1e-9, abs_tol=1e-12)
        assert result.bound <= optimum * (1 + 1e-9)


def test_devices_that_a_constraint_tells_apart_still_take_turns() -> None:
    """P takes 3 s on any device and Q 2 s on any but b, so a and b share P, and c runs Q."""
    cluster = ow.Cluster(devices=[ow.Device(name=name) for name in "abc"], rates=[5.0] * 3)
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id="p", bytes=1)],
        operators=[ow.Operator(id="P", outputs=["p"]), ow.Operator(id="Q", inputs=["p"])],
    )
    costs = ow.Costs.from_table({"P": dict.fromkeys("abc", 3.0), "Q": dict.fromkeys("abc", 2.0)})
    forbidden = [ow.Forbid(op="Q", device="b")]
    problem = Pipeline(graph=graph, cluster=cluster, costs=costs, constraints=forbidden, max_replicas=2)
    result = ow.solve(problem)
    assert (
        (result.status, result.objective) == (ow.Status.OPTIMAL, best_pipeline(problem)[0]) == (ow.Status.OPTIMAL, 2.0)
    )


@settings(max_examples=30)
@given(problem=pipelines(6, 5, goal="bottleneck"), data=st.data())
def test_every_test_of_a_threshold_is_right(problem: Pipeline, data: st.DataObject) -> None:
    """Whatever is refuted lies below the optimum, and a kept threshold comes with a plan that keeps it."""
    if problem.channel == "shared" or problem.load == "sum":
        problem = Pipeline.model_validate(problem.model_dump() | {"channel": "dedicated", "load": "overlap"})
    optimum = best_pipeline(problem)[0]
    try:
        instance = lower_unless_short(problem)
    except ContradictionError:
        assert optimum is None
        return
    if not instance.names:
        return
    factor = data.draw(st.sampled_from([0.5, 0.9, 1.0, 1.1, 2.0]))
    limit = (3.0 if optimum is None else optimum) * factor
    for look in ("quick", "priced", "exact"):
        tester = ThresholdTests(arrays_of(instance), lambda: False)
        answer = {
            "quick": lambda tester=tester: tester.quick(limit),
            "priced": lambda tester=tester: tester.priced(limit, 2),
            "exact": lambda tester=tester: tester.exact(limit, 10**9),
        }[look]()
        keeps = optimum is not None and optimum <= limit
        if answer is Finding.KEPT:
            assert keeps
            assert value_of(instance, tester.plan) <= limit
        if answer is Finding.REFUTED:
            assert not keeps
        if look == "exact":
            assert answer is (Finding.KEPT if keeps else Finding.REFUTED)


def wireless(model: str, seed: int, **changes: object) -> Pipeline:
    """A Keras model on 50 devices around a router, as in the paper's evaluation."""
    rng = random.Random(seed)
    memory = int(changes.pop("megabytes", 64)) * 2**20
    rates = [math.log2(1 + 283230 / sum(rng.uniform(1, 150) ** 2 for _ in range(2))) * 1e6 / 8 for _ in range(50)]
    devices = [ow.Device(name=f"d{i}", memory_bytes=memory) for i in range(50)]
    graph = ow.load(KERAS / f"{model}.json.gz")
    reading = {"cuts": "dominators", "compression": PAPER_COMPRESSION, "include_compute": False}
    return Pipeline(graph=graph, cluster=ow.Cluster(devices=devices, rates=rates), **reading | changes)


def test_bound_and_plan_meet_on_a_real_model() -> None:
    problem = wireless("InceptionResNetV2", 2)
    result = ow.solve(problem, time_limit=200)
    assert result.status is ow.Status.OPTIMAL
    assert len(result.solution.stages) >= stages_up_to(lower(problem).reach.max(axis=0)) >= 6
    for rule, options in {"kpath": {"classes": 8}, "greedy": {}, "random": {}, "by_memory": {}}.items():
        other = ow.solve(problem, solver=rule, options=options).objective
        assert other is None or result.objective <= other


MODELS = sorted(path.name.removesuffix(".json.gz") for path in KERAS.glob("*.json.gz"))


def largest_piece(problem: Pipeline) -> int:
    """Bytes of the largest piece that cannot be cut."""
    return int(np.diff(lower(problem).memory).max())


@pytest.mark.parametrize("model", MODELS)
def test_what_can_be_cut(model: str) -> None:
    """The paper: all but the NASNets. VGG16's first dense layer alone needs more than 256 MB."""
    dominators, prefix = wireless(model, 0), wireless(model, 0, cuts="prefix")
    inner = [point.position for point in dominators.cut_points]
    assert len(inner) >= (5 if model == "NASNetMobile" else 21)
    if model == "NASNetMobile":  # stem and classifier only: nothing between a twentieth and the end of the model
        assert not [point for point in inner if len(dominators.running_order) // 20 < point < 760]
        assert largest_piece(dominators) > 64 * 2**20 >= largest_piece(prefix)
    elif model == "VGG16":
        assert largest_piece(prefix) == largest_piece(dominators) > 256 * 2**20
    else:
        assert largest_piece(dominators) <= 64 * 2**20


def test_a_time_limit_keeps_plan_and_bound() -> None:
    problem = wireless("InceptionResNetV2", 0, cuts="prefix", megabytes=32)
    result = ow.solve(problem, time_limit=0.3)
    if result.status is ow.Status.INFEASIBLE:
        return
    assert result.verified
    assert result.bound is not None
    assert result.bound <= result.objective


def test_identical_devices_do_not_slow_the_proof_down() -> None:
    """Thirty equal devices on one channel: without an order among twins the labels would multiply."""
    problem = wireless("InceptionResNetV2", 0)
    devices = [ow.Device(name=f"d{i}", memory_bytes=(64 - 8 * (i % 2)) * 2**20) for i in range(30)]
    cluster = ow.Cluster(devices=devices, shared=1e6)
    data = problem.model_dump() | {"cluster": cluster, "channel": "shared"}
    result = ow.solve(Pipeline.model_validate(data), time_limit=20)
    assert result.status is ow.Status.OPTIMAL


def weighted_chain(sizes: list[int], memory: list[int], links: list[list[float]], **changes: object) -> Pipeline:
    """A chain of operators with one byte of weights each; a device of memory 2 holds two of them."""
    count = len(sizes) - 1
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id=f"t{i}", bytes=size) for i, size in enumerate(sizes)],
        operators=[
            ow.Operator(id=f"o{i}", inputs=[f"t{i}"], outputs=[f"t{i + 1}"], parameters=[f"w{i}"]) for i in range(count)
        ],
        parameters=[ow.Parameter(id=f"w{i}", bytes=1) for i in range(count)],
        outputs=[f"t{count}"],
    )
    devices = [ow.Device(name=f"d{i}", memory_bytes=size) for i, size in enumerate(memory)]
    fields: dict[str, object] = {"include_compute": False, "cuts": "prefix", "memory": "parameters"}
    return Pipeline(graph=graph, cluster=ow.Cluster(devices=devices, bandwidth=links), **fields | changes)


def test_a_search_cut_short_proves_no_more_than_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first limit for stages that is tried lies far above the optimum, and at it only 0 is known of the sum."""
    monkeypatch.setattr(SumSearch, "least", lambda *_args: sums.Least(None, 0.0, settled=False))
    seconds = {f"o{i}": {"d0": 9.0, "d1": 1.0, "d2": 1.0} for i in range(4)}
    links = [[100.0] * 3] * 3
    costs = ow.Costs.from_table(seconds)
    fields: dict[str, object] = {"costs": costs, "include_compute": True, "channel": "shared"}
    problem = weighted_chain([1, 3, 2, 3, 1], [4, 2, 2], links, **fields)
    assert best_pipeline(problem)[0] == 2.0
    result = ow.solve(problem, solver="exact")
    assert result.status is ow.Status.FEASIBLE  # a simple split
    assert result.bound <= 2.0


@pytest.mark.parametrize("objective", ["bottleneck", "latency"])
def test_searches_go_on_where_they_left_off(objective: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = heterogeneous(random_chain(14, 3), 8, 1.05e7, 3, computing=True, matrix=True)
    problem = problem.model_copy(update={"objective": objective})
    monkeypatch.setattr(sets, "MOST_SETS", 0)
    whole = ow.solve(problem, solver="exact")
    monkeypatch.setattr(priced_walks, "SLICE", 30)
    sliced = ow.solve(problem, solver="exact")
    assert whole.status is sliced.status is ow.Status.OPTIMAL
    assert sliced.objective == whole.objective


@pytest.mark.parametrize("solver", ["auto", "exact", "highs", "one_device", "random", "greedy", "by_memory", "kpath"])
def test_nothing_to_run(solver: str) -> None:
    cluster = ow.Cluster(devices=[ow.Device(name="a"), ow.Device(name="b")], shared=1.0)
    problem = Pipeline(graph=ow.OpGraph(tensors=[], operators=[]), cluster=cluster, include_compute=False)
    result = ow.solve(problem, solver=solver)
    assert (result.status, result.objective) == (ow.Status.OPTIMAL, 0.0)
    assert result.solution.stages == ()


@settings(max_examples=15)
@given(problem=pipelines(5, 4))
def test_labels_and_walks_settle_what_sets_do_not(problem: Pipeline) -> None:
    """Beyond a dozen devices there are too many sets of them."""
    optimum = best_pipeline(problem)[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sets, "MOST_SETS", 0)
        result = ow.solve(problem, time_limit=20 if problem.load == "overlap" else 0.3)
    if problem.load == "sum" and problem.objective == "bottleneck":
        assert result.bound is None or optimum is None or result.bound <= optimum * (1 + 1e-9)
        assert result.objective is None or result.objective >= optimum * (1 - 1e-9)
    else:
        assert result.status is (ow.Status.INFEASIBLE if optimum is None else ow.Status.OPTIMAL)
        assert optimum is None or math.isclose(result.objective, optimum, rel_tol=1e-9, abs_tol=1e-12)


@cache
def exported() -> tuple[ow.OpGraph, ow.Cluster, ow.Costs]:
    """A language model, which takes a second to read, and machines at home."""
    graph = ow.load(KERAS.parent / "torch" / "llama2_7b.export.json.gz")
    cluster = at_home(graph, 0.53).cluster
    return graph, cluster, ow.Costs.roofline(graph, cluster)


@pytest.mark.parametrize("objective", ["latency", "bottleneck"])
@pytest.mark.parametrize("inputs", ["first", "everywhere"])
def test_an_exported_language_model_is_proved(objective: str, inputs: str) -> None:
    """Masks, cosines and sines, which all layers read, forbid no cut; no order of filling devices is better."""
    graph, cluster, costs = exported()
    problem = Pipeline(
        graph=graph,
        cluster=cluster,
        costs=costs,
        memory="parameters",
        objective=objective,
        inputs=inputs,
    )
    result = ow.solve(problem, time_limit=60)
    assert result.status is ow.Status.OPTIMAL
    for order in itertools.permutations(range(4)):
        devices, rates = [cluster.devices[k] for k in order], [cluster.rates[k] for k in order]
        turned = problem.model_copy(update={"cluster": ow.Cluster(devices=devices, rates=rates, latency=1e-3)})
        filled = ow.solve(turned, solver="filling").objective
        assert filled is None or result.objective <= filled * (1 + 1e-9)


def test_many_devices_that_pay_for_what_they_send_get_a_proved_plan() -> None:
    """Too many devices for all sets of them, and no order of all fits so few operators: simple plans come first."""
    problem = heterogeneous(random_chain(16, 7), 20, 1.05e7, 7, computing=False, matrix=False)
    result = ow.solve(problem.model_copy(update={"load": "sum"}), time_limit=30.0)
    assert result.status is ow.Status.OPTIMAL
