"""Pipelines: examples to check by hand, rules broken one by one, and inputs that follow each other."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import opweave as ow
from opweave.problems.pipeline.spec import Pipeline, Stage, Stages
from opweave.problems.rules import causes_first, one_at_a_time
from tests.oracles.pipeline import allowed_cuts, value_of
from tests.strategies.pipeline import pipelines, planned_pipelines, planned_replicated_pipelines


def four(**changes: object) -> Pipeline:
    """A chain of four with a skip: p -> q -> r -> s, and s reads what p made, too.

    Tensors: x 1, p 6, q 4, r 2, s 1 bytes. Links: a to b 2 bytes/s, b to a and b to c 4, a to c and back 1.
    """
    tensors = [ow.Tensor(id=name, bytes=size) for name, size in (("x", 1), ("p", 6), ("q", 4), ("r", 2), ("s", 1))]
    operators = [
        ow.Operator(id="P", inputs=["x"], outputs=["p"], parameters=["w"]),
        ow.Operator(id="Q", inputs=["p"], outputs=["q"], workspace_bytes=3),
        ow.Operator(id="R", inputs=["q"], outputs=["r"], parameters=["w"]),
        ow.Operator(id="S", inputs=["r", "p"], outputs=["s"]),
    ]
    graph = ow.OpGraph(tensors=tensors, operators=operators, parameters=[ow.Parameter(id="w", bytes=10)], outputs=["s"])
    fields: dict[str, object] = {
        "graph": graph,
        "cluster": ow.Cluster(
            devices=[ow.Device(name="a", memory_bytes=40), ow.Device(name="b"), ow.Device(name="c")],
            bandwidth=[[0, 2, 1], [4, 0, 4], [1, 0, 0]],
        ),
        "costs": ow.Costs.from_table({name: {"a": 1.0, "b": 2.0, "c": 3.0} for name in "PQRS"}),
        "cuts": "prefix",
    }
    return Pipeline(**fields | changes)


ONE = ow.Costs.from_table({name: {"a": 1.0} for name in "PQRS"})


def on(*stages: tuple[str, str]) -> Stages:
    return Stages(stages=[Stage(device=device, operators=list(names)) for device, names in stages])


SPLIT = on(("a", "PQ"), ("b", "RS"))


def test_a_stage_sends_what_is_read_behind_it_and_passes_on_what_it_does_not_read() -> None:
    # a computes 2 s, sends q and p (10 bytes at 2/s: 5 s); b computes 4 s and sends r and p (8 bytes at 4/s: 2 s)
    judged = four().evaluate(on(("a", "PQ"), ("b", "R"), ("c", "S")))
    assert judged.feasible
    assert judged.objective == 5.0
    first, second, third = judged.details.stages
    assert (first.sent_tensors, first.sent_bytes, first.send_seconds) == (("p", "q"), 10, 5.0)
    assert (second.sent_tensors, second.send_seconds) == (("p", "r"), 2.0)
    assert (third.compute_seconds, third.send_seconds) == (3.0, 0.0)
    assert (judged.details.bottleneck, judged.details.bottleneck_stage) == ("transfer", 0)
    assert judged.details.latency_seconds == 2 + 5 + 2 + 2 + 3


@pytest.mark.parametrize(
    ("changes", "objective"),
    [
        ({}, 5.0),
        ({"compression": 2.0}, 4.0),  # computing on b is the bottleneck then
        ({"compression": 2.0, "include_compute": False}, 2.5),
        ({"objective": "transfers"}, 5.0),
        ({"objective": "latency"}, 2.0 + 5.0 + 4.0),
        ({"channel": "shared"}, 5.0),
    ],
)
def test_readings(changes: dict[str, object], objective: float) -> None:
    assert four(**changes).evaluate(SPLIT).objective == objective


def test_a_shared_channel_carries_one_thing_at_a_time() -> None:
    judged = four(channel="shared").evaluate(on(("a", "PQ"), ("b", "R"), ("c", "S")))
    assert judged.objective == 7.0
    assert judged.details.bottleneck == "channel"


def test_memory_counts_a_shared_parameter_once_per_device() -> None:
    # P and Q: w 10, outputs 6 + 4, workspace 3
    details = four().evaluate(SPLIT).details
    assert [use.memory_bytes for use in details.stages] == [23, 13]
    assert [use.memory_bytes for use in four(memory="parameters").evaluate(SPLIT).details.stages] == [10, 10]


def test_a_stage_may_pay_for_what_it_receives_and_sends() -> None:
    # a: 2 s and 5 s out; b: 5 s in, 2 s, 2 s out; c: 2 s in, 3 s
    judged = four(load="sum").evaluate(on(("a", "PQ"), ("b", "R"), ("c", "S")))
    assert judged.objective == 9.0
    assert (judged.details.bottleneck, judged.details.bottleneck_stage) == ("stage", 1)


def test_replicas_take_turns() -> None:
    cluster = ow.Cluster(devices=[ow.Device(name=name) for name in "abc"], shared=10.0)
    costs = ow.Costs.from_table({name: {"a": 1.0, "b": 4.0, "c": 4.0} for name in "PQRS"})
    problem = four(cluster=cluster, costs=costs, max_replicas=2)
    first = Stage(device="a", operators=["P", "Q", "R"])
    both = Stages(stages=[first, Stage(device="b", operators=["S"], replicas=["c"])])
    judged = problem.evaluate(both)
    assert (judged.feasible, judged.objective) == (True, 3.0)
    unlike = Stages(stages=[Stage(device="a", operators=["P", "Q", "R", "S"], replicas=["b"])])
    assert "they differ" in problem.evaluate(unlike).violations[0].message
    assert problem.model_copy(update={"max_replicas": 1}).evaluate(both).violations[0].rule == "replicas"


def test_files_of_version_1_keep_their_meaning() -> None:
    data = four().model_dump(mode="json") | {"schema_version": 1}
    assert Pipeline.model_validate(data).cuts == "prefix"
    del data["cuts"]
    assert Pipeline.model_validate(data).cuts == "dominators"
    del data["schema_version"]
    assert Pipeline.model_validate(data).cuts == "prefix"


def test_files_with_readings_that_are_gone_are_read_where_these_have_their_defaults() -> None:
    problem = four()
    data = problem.model_dump(mode="json") | {"delivery": "relay", "max_visits": 1, "stateful": [], "ties": "copied"}
    data |= {"max_tensors": None, "device_order": None, "forbidden_devices": []}
    assert Pipeline.model_validate_json(json.dumps(data)) == problem


def test_one_device_sends_nothing() -> None:
    judged = four(cluster=ow.Cluster(devices=[ow.Device(name="a")]), costs=ONE).evaluate(on(("a", "PQRS")))
    assert (judged.feasible, judged.objective) == (True, 4.0)


BROKEN = {
    "operator left out": (on(("a", "PQ"), ("b", "R")), "missing"),
    "operator twice": (on(("a", "PQ"), ("b", "QRS")), "repeated"),
    "unknown operator": (on(("a", "PQ"), ("b", ("R", "S", "T"))), "unknown"),
    "unknown device": (on(("z", "PQRS")), "unknown"),
    "empty stage": (on(("a", "PQRS"), ("b", "")), "missing"),
    "data runs back": (on(("a", "QP"), ("b", "SR"), ("c", "")), "missing"),
    "against the data": (on(("a", "RS"), ("b", "PQ")), "precedence"),
    "device twice": (on(("a", "P"), ("b", "Q"), ("a", "RS")), "device"),
    "no link": (on(("b", "P"), ("c", "Q"), ("b", "RS")), "device"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_the_referee_objects(name: str) -> None:
    plan, rule = BROKEN[name]
    judged = four().evaluate(plan)
    assert rule in {violation.rule for violation in judged.violations}


@pytest.mark.parametrize(
    ("changes", "plan", "rule"),
    [
        ({"cuts": "dominators"}, SPLIT, "cut"),  # p bypasses every cut behind Q
        ({"min_stages": 3}, SPLIT, "stages"),
        ({"max_stages": 1}, SPLIT, "stages"),
        ({"constraints": [ow.Pin(op="Q", device="b")]}, SPLIT, "pin"),
        ({"constraints": [ow.Forbid(op="Q", device="a")]}, SPLIT, "forbid"),
        ({"constraints": [ow.Colocate(ops=["Q", "R"])]}, SPLIT, "colocate"),
        ({"constraints": [ow.Separate(ops=["P", "Q"])]}, SPLIT, "separate"),
        ({"constraints": [ow.MaxDevices(count=1)]}, SPLIT, "max_devices"),
        ({"constraints": [ow.MemoryCap(device="a", bytes=22)]}, SPLIT, "memory_cap"),
    ],
)
def test_the_referee_objects_to_what_the_problem_forbids(changes: dict[str, object], plan: Stages, rule: str) -> None:
    assert four().evaluate(plan).feasible
    assert {violation.rule for violation in four(**changes).evaluate(plan).violations} == {rule}


def test_links_and_memory_are_checked() -> None:
    unlinked = ow.Cluster(devices=[ow.Device(name=name) for name in "abc"], bandwidth=[[0, 0, 1], [1, 0, 0], [0, 0, 0]])
    judged = four(cluster=unlinked).evaluate(SPLIT)
    assert judged.objective is None
    assert judged.violations[0].rule == "no_link"
    small = ow.Cluster(devices=[ow.Device(name="a", memory_bytes=20), ow.Device(name="b")], shared=1.0)
    table = ow.Costs.from_table({name: {"a": 1.0, "b": 2.0} for name in "PQRS"})
    (violation,) = four(cluster=small, costs=table).evaluate(SPLIT).violations
    assert (violation.rule, violation.excess) == ("memory", 3.0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"costs": None}, "include_compute=False"),
        ({"costs": ow.Costs.from_table({"T": {"a": 1.0}})}, "does not have"),
        ({"costs": ow.Costs.from_table({"P": {"a": 1.0}})}, "no known time"),
        ({"order": ["P", "R", "Q", "S"]}, "'R' runs before 'Q'"),
        ({"order": ["P", "Q"]}, "exactly once"),
        ({"order": ["P", "P", "Q", "R", "S"]}, "exactly once"),
        ({"max_tensors": 2}, "compare plans"),
        ({"cuts": "ideals"}, "use cuts='prefix'"),
        ({"load": "sum", "channel": "shared"}, "channel='dedicated'"),
        ({"delivery": "host"}, "transfers='blocking'"),
        ({"max_visits": 2}, "tied parameters are copied"),
        ({"max_replicas": 2, "channel": "shared"}, "channel='dedicated'"),
        ({"max_replicas": 2, "objective": "latency"}, "bottleneck"),
        ({"stateful": ["S"]}, "use max_replicas=1"),
        ({"min_stages": 3, "max_stages": 2}, "at most 2"),
        ({"device_order": ["b", "a"]}, "links in one direction"),
        ({"forbidden_devices": ["b"]}, "out of the cluster"),
        ({"compression": 0.0}, "greater than or equal to 0.000001"),
        ({"compression": 1e-7}, "greater than or equal to 0.000001"),
        ({"constraints": [ow.Precede(before="P", after="S")]}, "decides none"),
        ({"constraints": [ow.Pin(op="P", device="z")]}, "'z'"),
    ],
)
def test_bad_problems_are_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        four(**changes)


@pytest.mark.parametrize("planned", [planned_pipelines(), planned_replicated_pipelines()], ids=["plain", "replicas"])
@settings(max_examples=40)
@given(data=st.data())
def test_the_referee_agrees_with_the_oracle(planned: st.SearchStrategy, data: st.DataObject) -> None:
    problem, plan = data.draw(planned)
    judged = problem.evaluate(plan)
    assert judged.feasible, judged.violations
    assert math.isclose(judged.objective, value_of(problem, plan), rel_tol=1e-12, abs_tol=1e-12)
    if problem.objective == "bottleneck":
        assert judged.details.bottleneck_seconds == judged.objective
    assert list(one_at_a_time(judged.timeline, 1e-6 * judged.timeline.end)) == []
    assert list(causes_first(judged.timeline, 1e-9 * judged.timeline.end)) == []


@settings(max_examples=40)
@given(problem=pipelines(plain=True))
def test_cut_points_agree_with_the_oracle(problem: Pipeline) -> None:
    assert [point.position for point in problem.cut_points] == allowed_cuts(problem)


@pytest.mark.parametrize("solver", ["auto", "highs"])
def test_seconds_may_add_up_to_more_than_a_problem_may_state(solver: str) -> None:
    slow = ow.Costs.from_table({name: dict.fromkeys("abc", 1e15) for name in "PQRS"})
    result = ow.solve(four(costs=slow, compression=1e-6, min_stages=2), solver=solver)
    assert result.status is ow.Status.OPTIMAL
    assert result.objective == pytest.approx(2e15)
