"""Every problem is shown in every way: words, table, plan, trace, pictures, page and notebook."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import opweave as ow
from opweave.adapters.report.figures import png
from opweave.adapters.report.report import write_report
from opweave.adapters.report.tables import summary_rows
from opweave.adapters.report.views import show, view_for
from tests.tiny import PROBLEMS

WORDS = {"serving_flow": "The narrowest cut is", "slicing": "proved that no plan is faster"}


@pytest.mark.parametrize("kind", PROBLEMS)
def test_every_problem_is_shown(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    problem = PROBLEMS[kind]
    result = ow.solve(problem, time_limit=10)
    view = show(problem, result)
    assert type(view) is view_for(view.word) is view_for(kind)
    for data in (view.plan(), view.exports()):
        assert json.loads(json.dumps(data)) == data
    events = json.loads(json.dumps(view.trace()))["traceEvents"]
    tracks = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert {each.name for each in view.timeline.resources if each.kind == "device"} <= tracks
    assert len(result.to_pandas()) >= 1
    assert view.explain() == result.explain() == ow.explain(problem, result)
    assert WORDS.get(kind, "") in view.explain()
    assert dict(summary_rows(view))["status"] == "optimal (completed)"
    for figure in (ow.progress_figure(result), result.plot()):
        assert png(figure).startswith(b"\x89PNG")
    files = {path.name for path in write_report(view, tmp_path)}
    plan = {
        "problem.json",
        "result.json",
        "trace.json",
        "report.html",
        *(f"{view.file}.{end}" for end in ("json", "png", "svg")),
    }
    assert plan | view.exports().keys() <= files == {path.name for path in tmp_path.iterdir()}
    assert ow.load_problem(tmp_path / "problem.json") == problem
    assert ow.load_result(tmp_path / "result.json").objective == result.objective
