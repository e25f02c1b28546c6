"""The demonstration's model ships with the package, and a solver that fails costs only its own row."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from opweave.adapters.cli import main as cli
from opweave.adapters.cli.demo import best_result, demo_parts, run_stage


def test_the_model_is_in_the_package() -> None:
    for part in demo_parts():
        assert (part.problem.graph.name, len(part.problem.graph.operators)) == ("NASNetMobile", 665)


def test_the_engine_may_not_take_half_a_minute() -> None:
    seconds = [stage.seconds for part in demo_parts() for stage in part.stages if stage.solver == "highs"]
    assert 0 < sum(seconds) <= 10


@pytest.mark.usefixtures("fake_solvers")
def test_a_missing_solver_leaves_a_note() -> None:
    ordering = demo_parts()[0]
    entries = [run_stage(ordering.problem, stage, None) for stage in ordering.stages]
    assert [entry.solver for entry in entries if entry.result] == ["definition", "auto"]
    assert "has no solver 'highs'" in entries[-1].note
    best = best_result(entries, favourite="auto")
    assert best is not None
    assert (best.solver, best.objective) == ("auto", 4759808)
    assert best_result(entries[-1:], favourite="auto") is None


@pytest.mark.slow
def test_the_command_proves_both_answers_and_writes_reports(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "argv", ["opweave", "demo", "--out", str(tmp_path / "report")])
    monkeypatch.setattr("opweave.adapters.cli.demo.ENGINE_SECONDS", 0.1)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert "3.76 MiB (3,947,264 bytes)" in shown
    assert "against one_device" in shown
    for folder in ("ordering", "pipeline"):
        assert (tmp_path / "report" / folder / "report.html").exists()
        assert '"status":"optimal"' in (tmp_path / "report" / folder / "result.json").read_text().replace(" ", "")
