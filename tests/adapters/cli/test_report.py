"""``opweave report`` makes the page of a result that was solved before."""

from __future__ import annotations

import json
from pathlib import Path

from opweave.problems.memory_ordering.spec import Ordering
from opweave.problems.result import Result
from tests.adapters.conftest import Run, assert_polite


def test_a_result_gets_its_page(spec: Path, result: Result[Ordering], opweave: Run) -> None:
    answer = spec.parent / "answer.json"
    answer.write_text(result.model_dump_json())
    ended = opweave("report", answer)
    page = spec.parent / "answer-report" / "report.html"
    assert (ended.status, ended.err) == (0, "")
    assert "report.html" in ended.out.replace("\n", "")
    assert "two branches" in page.read_text()
    ended = opweave("report", page.parent / "result.json", "--out", spec.parent / "again", "--json")  # problem.json
    assert json.loads(ended.out)["files"][-1] == str(spec.parent / "again" / "report.html")


def test_a_result_alone_is_not_enough(result: Result[Ordering], opweave: Run, tmp_path: Path) -> None:
    answer = tmp_path / "alone" / "answer.json"
    answer.parent.mkdir()
    answer.write_text(result.model_dump_json())
    assert_polite(opweave("report", answer), "name the problem with --spec")
    assert not (answer.parent / "answer-report").exists()
