"""Slicing as people see it: rows, sentences, plan, trace, pictures."""

from __future__ import annotations

import json

import pytest

import opweave as ow
from opweave.adapters.report.views import show
from tests.problems.slicing.test_spec import chain


@pytest.fixture(scope="module")
def solved() -> tuple[ow.Slicing, ow.Result]:
    problem = chain(memory=(90, 90))
    return problem, ow.solve(problem, time_limit=20)


def test_explanation_says_what_cutting_gains_and_what_is_proved(solved: tuple[ow.Slicing, ow.Result]) -> None:
    text = ow.explain(*solved)
    assert "One input takes 9 s on 2 of 2 devices" in text
    assert "proved that no plan is faster" in text


def test_plan_trace_and_steps_are_plain_data(solved: tuple[ow.Slicing, ow.Result]) -> None:
    view = show(*solved)
    plan = json.loads(json.dumps(view.plan()))
    assert plan["latency_seconds"] == pytest.approx(9.0)
    assert {(part["operator"], part["device"]) for part in plan["operators"]} == {(op, k) for op in "pq" for k in "ab"}
    events = json.loads(json.dumps(view.trace()))["traceEvents"]
    blocks = [event for event in events if event["ph"] == "X"]
    assert max(event["ts"] + event["dur"] for event in blocks) == pytest.approx(9e6)
    assert view.sections()[0].rows
    assert dict(view.rows())["gain"]
