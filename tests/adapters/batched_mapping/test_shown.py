"""What people see of a batched mapping: plan, trace, pictures, explanation."""

from __future__ import annotations

import json

import pytest

import opweave as ow
from benchmarks.stacked import Stack, stacked
from opweave.adapters.batched_mapping.figure import progress_figure, throughput_figure
from opweave.adapters.batched_mapping.plan import spans, transfers_of
from opweave.adapters.figures import png
from opweave.adapters.views import show, view_for


@pytest.fixture(scope="module")
def shown():
    problem = stacked(Stack(modules=2, nodes=4), 4)
    return show(problem, ow.solve(problem, solver="heft"))


def test_the_plan_holds_every_input_of_every_operator(shown):
    plan = json.loads(json.dumps(shown.plan()))
    runs = {(row["operator"], number) for row in plan["batches"] for number in row["inputs"]}
    assert len(runs) == 4 * len(shown.problem.graph.operators)
    assert plan["inputs_per_second"] == pytest.approx(4 / plan["makespan_seconds"])
    assert sum(row["batches"] for row in plan["devices"]) == len(plan["batches"])


def test_listed_transfers_pass_the_referee(shown):
    listed = shown.solution.model_copy(update={"transfers": transfers_of(shown.problem, shown.solution)})
    judged = shown.problem.evaluate(listed)
    assert judged.feasible, judged.violations
    assert judged.objective == shown.details.makespan
    assert len(listed.transfers) == shown.details.transfer_count


def test_the_trace_has_a_track_for_every_device(shown):
    events = json.dumps(shown.trace())
    assert all(device.name in events for device in shown.problem.cluster.devices)


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
    assert "no batch fits" in ow.explain(small, ow.solve(small))


def test_pictures_are_drawn(shown):
    assert png(shown.figure()).startswith(b"\x89PNG")
    runs = {"heft": shown.result.incumbents, "nothing": ()}
    assert png(progress_figure(runs, batch=4, seconds=2.0, headline="$")).startswith(b"\x89PNG")
    curves = {"auto": [(1, 2.0), (2, 3.0)], "upper bound": [(1, 4.0), (2, 4.0)]}
    assert png(throughput_figure(curves, "throughput")).startswith(b"\x89PNG")


def test_words():
    assert view_for("batched").problem_type is ow.BatchedMapping
    assert spans([3, 1, 2, 7]) == "1-3, 7"


def test_floors_exist(shown):
    known = {row.name for row in ow.solvers("batched_mapping")}
    assert set(type(shown).floors) <= known
