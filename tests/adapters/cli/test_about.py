"""The lists of solvers and formulations as JSON, and the demonstration."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opweave.adapters.cli import about
from tests.adapters.conftest import Run


def test_lists_as_json(opweave: Run) -> None:
    for name in ("solvers", "formulations"):
        rows = json.loads(opweave(name, "--problem", "pipeline", "--json").out)
        assert {row["problem"] for row in rows} == {"pipeline"}
        assert rows == json.loads(opweave(name, "--problem", "pipeline", "--json").out)
    rows = json.loads(opweave("solvers", "--problem", "pipeline", "--constraints", "--json").out)
    assert "auto" in {row["solver"] for row in rows}


def test_the_model_of_the_demonstration_is_in_the_package() -> None:
    for _, problem in about.demo_parts().values():
        assert (problem.graph.name, len(problem.graph.operators)) == ("NASNetMobile", 665)


@pytest.mark.slow
def test_the_demonstration_proves_both_answers_and_writes_reports(opweave: Run, tmp_path: Path) -> None:
    ended = opweave("demo", "--out", tmp_path / "report")
    assert ended.status == 0
    assert "3.76 MiB (3,947,264 bytes)" in ended.out
    assert "one_device" in ended.out
    for folder in ("ordering", "pipeline"):
        assert (tmp_path / "report" / folder / "report.html").exists()
        assert '"status":"optimal"' in (tmp_path / "report" / folder / "result.json").read_text().replace(" ", "")
