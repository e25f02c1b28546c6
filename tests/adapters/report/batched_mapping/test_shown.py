"""What people see of a batched mapping: plan, trace, pictures, explanation."""

from __future__ import annotations

import json

import numpy as np
import pytest
from matplotlib.colors import to_hex

import opweave as ow
from benchmarks.stacked import Stack, stacked
from opweave.adapters.report.batched_mapping.figure import batched_figure, throughput_figure
from opweave.adapters.report.batched_mapping.plan import spans, transfers_of
from opweave.adapters.report.figures import CRITICAL, png
from opweave.adapters.report.views import show, view_for


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


def filled(figure, *, row=0):
    """Share of the pixels along the middle of a row that are neither white nor the row's own grey."""
    figure.canvas.draw()
    pixels = np.asarray(figure.canvas.buffer_rgba())[:, :, :3].astype(int)
    axes = figure.axes[0]
    (left, _), (right, height) = axes.transData.transform([(0.0, row + 0.2), (axes.get_xlim()[1] / 1.012, row + 0.2)])
    line = pixels[pixels.shape[0] - round(height), round(left) + 2 : round(right) - 6]
    return float(np.mean(line.max(axis=1) - line.min(axis=1) > 20))


def test_pictures_are_drawn(shown):
    assert png(shown.figure()).startswith(b"\x89PNG")


def test_a_busy_device_looks_busy_however_many_batches_it_runs(shown):
    """White edges would cover batches that are narrower than a pixel."""
    count = 4000
    schedule = ow.BatchedSchedule(
        batches=[
            ow.Batch(operator=f"op{k}", device="t4", inputs=(0,), start=k / count, end=(k + 1) / count)
            for k in range(count)
        ]
    )
    details = shown.details.model_copy(update={"makespan": 1.0})
    t4 = [use for use in shown.uses if use.name == "t4"]
    figure = batched_figure(shown.problem, schedule, details, uses=t4, bound=None, headline="busy")
    assert filled(figure) > 0.95
    half = ow.BatchedSchedule(batches=schedule.batches[: count // 2])
    figure = batched_figure(shown.problem, half, details, uses=t4, bound=None, headline="half of the time")
    assert filled(figure) == pytest.approx(0.5, abs=0.03)


def test_critical_batches_keep_their_shade(shown):
    """They are marked above, so that nothing of the batches is covered."""
    axes = shown.figure().axes[0]
    colours = {to_hex(colour) for drawn in axes.collections for colour in drawn.get_facecolors()}
    assert CRITICAL.lower() in colours
    stripes, batches = [], []
    for drawn in axes.collections:
        for path, colour in zip(drawn.get_paths(), drawn.get_facecolors(), strict=True):
            (stripes if to_hex(colour) == CRITICAL.lower() else batches).append(path.vertices[:, 1])
    assert len(batches) == len(shown.solution.batches)
    critical = {(step.operator, step.source) for step in shown.details.critical_path if step.operator is not None}
    assert len(stripes) == len(critical)
    assert all(stripe.max() % 1 < batch.min() % 1 for stripe in stripes for batch in batches)


def test_curves_of_the_throughput_can_be_told_apart_where_they_are_equal():
    same = [(1, 2.0), (2, 3.0)]
    figure = throughput_figure({"heft": same, "auto": same, "upper bound": [(1, 4.0), (2, 4.0)]}, "throughput")
    first, second, bound = figure.axes[0].lines
    assert first.get_marker() != second.get_marker()
    assert first.get_linewidth() > second.get_linewidth()
    assert first.get_markersize() > second.get_markersize()
    assert bound.is_dashed()
    assert png(figure).startswith(b"\x89PNG")


@pytest.mark.parametrize("curves", [{}, {"auto": []}])
def test_no_throughput_is_a_sentence(curves):
    with pytest.raises(ow.InvalidInputError, match="no throughput to draw"):
        throughput_figure(curves, "throughput")


def test_words():
    assert view_for("batched").problem_type is ow.BatchedMapping
    assert spans([3, 1, 2, 7]) == "1-3, 7"


def test_floors_exist(shown):
    known = {row.name for row in ow.solvers("batched_mapping")}
    assert set(type(shown).floors) <= known
