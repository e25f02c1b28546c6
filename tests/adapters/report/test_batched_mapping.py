"""What people see of a batched mapping: plan, trace, pictures, explanation."""

from __future__ import annotations

import json

import numpy as np
import pytest

import opweave as ow
from benchmarks.stacked import Stack, stacked
from opweave.adapters.report.views import show
from opweave.problems.timeline import ActivityKind


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


def test_no_plan_is_explained():
    problem = stacked(Stack(modules=1, nodes=4), 4)
    devices = [device.model_copy(update={"memory_bytes": 10}) for device in problem.cluster.devices]
    cluster = problem.cluster.model_copy(update={"devices": tuple(devices)})
    small = problem.model_copy(update={"cluster": cluster})
    assert "bytes for its smallest batch" in ow.explain(small, ow.solve(small))


def test_critical_batches_are_seen_and_every_size_has_its_colour(shown):
    acts = shown.timeline.activities
    drawn = {}
    for boxes in shown.figure().axes[0].collections:
        for path, colour in zip(boxes.get_paths(), boxes.get_facecolors(), strict=True):
            left, top = path.vertices.min(axis=0)
            drawn[round(float(left), 6), round(float(top), 6)] = tuple(colour)
    assert len(drawn) == len(acts), "no activity covers another"
    assert sum(colour[0] > colour[2] for colour in drawn.values()) == len(shown.critical)
    sizes = np.unique(acts.count[acts.kind == ActivityKind.RUN])
    assert len({colour for colour in drawn.values() if colour[0] < colour[2]}) >= len(sizes)
