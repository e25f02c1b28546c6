"""What people see of a batched mapping: plan, trace, pictures, explanation."""

from __future__ import annotations

import json

import pytest

import opweave as ow
from benchmarks.stacked import Stack, stacked
from opweave.adapters.report.views import show


@pytest.fixture(scope="module")
def shown():
    problem = stacked(Stack(modules=2, nodes=4), 4)
    return show(problem, ow.solve(problem, solver="heft"))


def numbers(text):
    """Undo what ``spans`` writes."""
    ends = [part.split("-") for part in text.split(", ")]
    return tuple(number for part in ends for number in range(int(part[0]), int(part[-1]) + 1))


def test_the_plan_holds_every_input_of_every_operator(shown):
    plan = json.loads(json.dumps(shown.plan()))
    runs = {(row["operator"], number) for row in plan["operators"] for number in numbers(row["inputs"])}
    assert len(runs) == 4 * len(shown.problem.graph.operators)
    assert plan["inputs_per_second"] == pytest.approx(4 / plan["makespan_seconds"])
    assert sum(row["runs"] for row in plan["devices"]) == len(plan["operators"])
    assert sum(row["inputs"] for row in plan["devices"]) == len(runs)


def test_explanation(shown):
    text = shown.explain()
    assert "inputs per second" in text
    assert "split their batch" in text or "No operator splits" in text
    reasons = ow.explain(shown.problem, ow.solve(shown.problem, solver="best_device"))
    assert "on 1 of 3 devices" in reasons
