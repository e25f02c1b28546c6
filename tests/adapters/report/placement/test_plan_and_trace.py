"""The plan and the trace carry the times that the referee counts."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opweave.adapters.report.timeline_tables import lanes
from opweave.adapters.report.views import show
from opweave.problems.placement.spec import Placement, Schedule
from opweave.problems.result import Result
from opweave.problems.timeline import ActivityKind, Names, Recorder, Resource, Timeline
from tests.adapters.report.placement.conftest import NAMES


def test_the_plan_lists_every_operator_and_transfer(problem: Placement, result: Result[Schedule]) -> None:
    plan = show(problem, result).plan()
    operators = {row["operator"]: row for row in plan["operators"]}
    # stem 0-2 on a; sent 2-3; left on b 3-12; sent 12-13; right on a 2-12; join 13-15
    assert plan["makespan_seconds"] == operators["join"]["end"] == pytest.approx(0.015)
    assert (operators["left 1"]["device"], operators["left 1"]["start"]) == ("b", 0.003)
    assert [row["operator"] for row in plan["operators"]][:2] == ["stem", "right 1"]
    assert [(row["tensor"], row["source"], row["target"], round(row["start"], 9)) for row in plan["transfers"]] == [
        ("stem", "a", "b", 0.002),
        ("left 3", "b", "a", 0.012),
    ]
    assert [name for name in NAMES if operators[name]["critical"]] == ["stem", "left 1", "left 2", "left 3", "join"]
    assert json.loads(json.dumps(plan)) == plan


def test_a_row_for_each_device(problem: Placement, result: Result[Schedule]) -> None:
    first, second, third = show(problem, result).plan()["devices"]
    assert (first["name"], first["runs"], first["bytes_out"], first["bytes_in"]) == ("a", 7, 2000, 2000)
    assert (second["memory_bytes"], second["memory_limit"]) == (3 * 3000, 20_000)
    assert abs(second["busy_share"] - 9 / 15) < 1e-12
    assert (third["runs"], third["busy_seconds"], third["memory_limit"]) == (0, 0.0, None)
    (section,) = show(problem, result).sections()
    assert len(section.rows) == 3
    assert section.rows[1][:3] == ("b", "3", "9 ms (60 %)")


def test_the_trace_has_a_track_for_each_device_and_port(problem: Placement, result: Result[Schedule]) -> None:
    events = show(problem, result).trace()["traceEvents"]
    tracks = {event["args"]["name"]: event["tid"] for event in events if event.get("name") == "thread_name"}
    assert list(tracks) == ["a", "a sends", "a receives", "b", "b sends", "b receives", "c"]
    blocks = [event for event in events if event["ph"] == "X"]
    assert len(blocks) == 10 + 2 * 2
    sending = next(event for event in blocks if event["tid"] == tracks["a sends"])
    assert (sending["name"], round(sending["ts"]), round(sending["dur"])) == ("stem", 2000, 1000)
    assert sending["args"] == {"source": "a", "target": "b", "bytes": 2000}


def test_arrows_lie_in_blocks_and_run_forward(problem: Placement, result: Result[Schedule]) -> None:
    events = show(problem, result).trace()["traceEvents"]
    blocks = [event for event in events if event["ph"] == "X"]
    arrows: dict[int, list[dict[str, float]]] = {}
    for event in events:
        if event["ph"] in "stf":
            arrows.setdefault(event["id"], []).append(event)
            assert any(
                block["tid"] == event["tid"] and block["ts"] <= event["ts"] <= block["ts"] + block["dur"]
                for block in blocks
            )
    assert len(arrows) == 4  # into and out of the port, for each transfer
    for arrow in arrows.values():
        assert (arrow[0]["ph"], arrow[-1]["ph"]) == ("s", "f")
        assert [event["ts"] for event in arrow] == sorted(event["ts"] for event in arrow)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9), st.integers(0, 5))))
@settings(max_examples=50)
def test_no_two_activities_of_a_lane_overlap(rows: list[tuple[str, int, int]]) -> None:
    recorder = Recorder()
    for place, start, lasts in rows:
        recorder.activity(ActivityKind.RUN, "ab".index(place), 0, start, start + lasts)
    resources = tuple(Resource(name, "link", exclusive=False) for name in "ab")
    played = Timeline("seconds", resources, Names(("op",), 1, 0), recorder.activities(), recorder.lifetimes())
    acts, lane = played.activities, lanes(played)
    for one, other in itertools.combinations(range(len(acts)), 2):
        if (acts.resource[one], lane[one]) == (acts.resource[other], lane[other]):
            assert acts.end[one] <= acts.start[other] or acts.end[other] <= acts.start[one]
