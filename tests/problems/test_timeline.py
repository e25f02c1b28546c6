"""Timelines: what happens is what the problems say, and rules and measures read it from the columns alone."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given, settings

import opweave as ow
from opweave.problems.cluster import Cluster, Device
from opweave.problems.costs import Costs
from opweave.problems.graph import Operator, OpGraph, Tensor
from opweave.problems.measures import MEASURES, busy_seconds, bytes_held, energy, moved_bytes
from opweave.problems.pipeline.spec import Pipeline, Stages
from opweave.problems.placement.spec import Placement, Schedule, Transfer
from opweave.problems.rules import causes_first, one_at_a_time
from opweave.problems.timeline import ActivityKind, Timeline
from tests.strategies.pipeline import planned_pipelines

WATTS = (10.0, 30.0)


def two_devices(watts: tuple[float, float] | None = None) -> Placement:
    """p (1 s on a) makes y (6 bytes, 2 s to b), q (2 s on b) reads it."""
    graph = OpGraph(
        tensors=[Tensor(id="x", bytes=1), Tensor(id="y", bytes=6), Tensor(id="z", bytes=1)],
        operators=[Operator(id="p", inputs=["x"], outputs=["y"]), Operator(id="q", inputs=["y"], outputs=["z"])],
    )
    return Placement(
        graph=graph,
        cluster=Cluster(
            devices=[Device(name="a", watts=watts), Device(name="b", watts=watts)], bandwidth=[[0, 3], [3, 0]]
        ),
        costs=Costs.from_table({"p": {"a": 1.0, "b": 4.0}, "q": {"a": 9.0, "b": 2.0}}),
    )


def one_plan(start: float = 3.0, sent: float = 1.0) -> Schedule:
    moved = Transfer(tensor="y", source="a", target="b", start=sent, end=sent + 2.0)
    return Schedule(device={"p": "a", "q": "b"}, start={"p": 0.0, "q": start}, transfers=[moved])


def played(problem: Placement, plan: Schedule) -> Timeline:
    timeline = problem.play(plan)
    assert timeline is not None
    return timeline


def test_the_columns_of_a_plan_that_is_read_by_hand() -> None:
    timeline = played(two_devices(), one_plan())
    acts = timeline.activities
    assert [timeline.name(what) for what in acts.what] == ["p", "q", "y", "y"]
    assert acts.kind.tolist() == [ActivityKind.RUN, ActivityKind.RUN, ActivityKind.SEND, ActivityKind.RECEIVE]
    where = [timeline.resources[row] for row in acts.resource]
    assert [(each.name, each.kind) for each in where] == [
        ("a", "device"), ("b", "device"), ("a", "send_port"), ("b", "receive_port"),
    ]  # fmt: skip
    assert (acts.start.tolist(), acts.end.tolist()) == ([0.0, 3.0, 1.0, 1.0], [1.0, 5.0, 3.0, 3.0])
    assert [acts.causes[row].tolist() for row in range(4)] == [[], [0, 3], [0], [0]]
    assert acts.twin.tolist() == [-1, -1, 3, 2]


def test_measures_of_a_plan_that_is_read_by_hand() -> None:
    timeline = played(two_devices(WATTS), one_plan())
    assert busy_seconds(timeline).tolist() == [1.0, 2.0, 2.0, 0.0, 0.0, 2.0]
    assert moved_bytes(timeline) == (0, 0, 6, 0, 0, 6)
    assert bytes_held(timeline).tolist() == [6, 1, 0, 0, 0, 0]
    assert {name: measure(timeline) for name, measure in MEASURES.items()} == {
        "makespan": 5.0,
        "bottleneck": None,
        "latency": 5.0,
        "throughput": 0.2,
        "peak_bytes": 6,
        "total_bytes": None,
        "traffic": 6,
        "energy": 4 * 10 + 1 * 30 + 3 * 10 + 2 * 30,
    }
    assert energy(played(two_devices(), one_plan())) is None


@pytest.mark.parametrize(
    ("start", "sent", "rules"),
    [(3.0, 1.0, []), (2.5, 1.0, ["precedence"]), (3.0, 0.5, ["precedence"]), (0.0, 1.0, ["precedence"])],
)
def test_an_effect_before_its_cause_is_found(start: float, sent: float, rules: list[str]) -> None:
    timeline = played(two_devices(), one_plan(start, sent))
    assert sorted({each.rule for each in causes_first(timeline, 1e-9)}) == rules
    assert list(one_at_a_time(timeline, 1e-9)) == []


@given(planned_pipelines())
@settings(max_examples=40, deadline=None)
def test_a_pipeline_repeats_after_its_bottleneck(planned: tuple[Pipeline, Stages]) -> None:
    problem, plan = planned
    judged = problem.evaluate(plan)
    assert judged.details is not None
    assert judged.timeline is not None
    assert (MEASURES["bottleneck"](judged.timeline) or 0.0) == judged.details.bottleneck_seconds
    latency, alone = MEASURES["latency"](judged.timeline), judged.details.latency_seconds
    if problem.channel == "shared":  # a transfer waits for its turn, even the first one
        assert latency is not None
        assert latency >= alone * (1 - 1e-9)
    else:
        assert latency == pytest.approx(alone)


def test_a_timeline_stays_out_of_json_and_comparisons() -> None:
    judged = two_devices().evaluate(one_plan())
    assert judged.timeline is not None
    assert judged == judged.with_timeline(None)
    assert judged.model_dump_json() == judged.with_timeline(None).model_dump_json()


def test_a_result_hands_its_timeline_on_but_not_into_files() -> None:
    result = ow.solve(two_devices(), solver="heft")
    assert result.timeline is not None
    assert result.timeline.end == result.objective
    for copy in (pickle.loads(pickle.dumps(result)), type(result).model_validate_json(result.model_dump_json())):
        assert copy.timeline is None
        assert copy == result
