"""Tables, words and pictures of comparisons, sweeps and fronts."""

from __future__ import annotations

import json
import math

import pytest
from rich.console import Console

import opweave as ow
from opweave.adapters.report.curves import figure_of
from opweave.adapters.report.questions import cells_of, explain, html, table_of
from opweave.solvers.questions.changes import changed
from tests.tiny import CLUSTER, COSTS, GRAPH, PROBLEMS

PLACEMENT = PROBLEMS["placement"]
PIPELINE = ow.Pipeline(graph=GRAPH, cluster=CLUSTER, costs=COSTS, cuts="prefix")


@pytest.fixture(scope="module")
def found():
    return {
        "comparison": ow.compare(PLACEMENT, ["one_device", "auto", "cplex"], time_limit=10),
        "sweep": ow.sweep(PIPELINE, {"memory": [5, 20, None], "stages": [1, 2]}),
        "one axis": ow.sweep(PIPELINE, {"bandwidth": ["0.1x", "1x"]}),
        "front": ow.pareto(PIPELINE, ("latency", "peak")),
        "three": ow.pareto(PIPELINE, ("latency", "peak", "devices")),
        "nothing": ow.pareto(changed(PIPELINE, {"memory": 3}), ("latency", "peak")),
    }


def test_a_comparison_in_words(found):
    headings, rows = cells_of(found["comparison"])
    assert headings[:3] == ("solver", "objective", "against one_device")
    assert rows[0][:3] == ("one_device", "4 s", "0 %")
    assert rows[1][:3] == ("auto", "2.04 s", "-49 %")
    assert rows[2][1:6] == ("-", "-", "-", "-", "-")
    assert "pip install" in rows[2][-1]
    assert (
        explain(found["comparison"]) == "The best plan needs 2.04 s (found by auto). It is proved that none is better."
    )


def test_rounding_makes_no_plan_better(found):
    baseline, auto, _ = found["comparison"].rows
    result = auto.result.model_copy(update={"objective": math.nextafter(baseline.objective, 0)})
    rounded = auto.model_copy(update={"result": result})
    same = found["comparison"].model_copy(update={"rows": (baseline, rounded)})
    assert [row[2] for row in cells_of(same)[1]] == ["0 %", "0 %"]
    assert "(found by one_device, auto)" in explain(same)


def test_a_sweep_in_words(found):
    headings, rows = cells_of(found["sweep"])
    assert headings[:3] == ("memory", "stages", "objective")
    assert [row[:3] for row in rows[:2]] == [("5 B", "1", "-"), ("5 B", "2", "-")]
    assert [row[0] for row in rows[4:]] == ["no limit", "no limit"]
    assert explain(found["sweep"]).startswith("6 points: 4 proved optimal, 2 proved infeasible.")


@pytest.mark.parametrize("name", ["comparison", "sweep", "one axis", "front", "three", "nothing"])
def test_everything_can_be_shown(found, name, tmp_path):
    answered = found[name]
    console = Console(width=120, record=True)
    console.print(table_of(answered))
    assert figure_of(answered).axes[0].get_title(loc="left")
    assert answered.plot(tmp_path / "plot.png").axes
    assert (tmp_path / "plot.png").stat().st_size > 1000
    assert "<table>" in answered._repr_html_()
    assert answered.explain() == explain(answered)
    assert json.loads(answered.save(tmp_path / "all.json").read_text())["problem"] == answered.problem


def test_a_curve_lies_on_or_above_its_bound(found):
    axes = figure_of(ow.sweep(PLACEMENT, {"memory": [9, 13, None]}, solver="heft")).axes[0]
    bounds, plans = (line.get_ydata() for line in axes.lines[:2])
    assert all(bound <= plan for bound, plan in zip(bounds, plans, strict=True))


def test_names_do_no_harm():
    found = ow.sweep(PLACEMENT, {"<b>": {"$\\x$\x1b[31m": lambda problem: problem}}, solver="heft")
    assert "<b>" not in html(found)
    assert "\x1b" not in html(found)
    figure_of(found).canvas.draw()
