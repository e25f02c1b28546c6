"""The demonstration's model ships with the package, and a solver that fails costs only its own row."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from opweave.adapters.cli import main as cli
from opweave.adapters.cli.demo import best_result, demo_problem, demo_stages, run_stage


def test_the_model_is_in_the_package() -> None:
    problem = demo_problem()
    assert (problem.graph.name, len(problem.graph.operators)) == ("NASNetMobile", 665)


def test_the_engine_may_not_take_half_a_minute() -> None:
    seconds = [stage.seconds for stage in demo_stages(demo_problem()) if stage.solver == "highs"]
    assert sum(seconds) <= 10


@pytest.mark.usefixtures("fake_solvers")
def test_a_missing_solver_leaves_a_note() -> None:
    problem = demo_problem()
    entries = [run_stage(problem, stage, None) for stage in demo_stages(problem)]
    assert [entry.solver for entry in entries if entry.result] == ["definition", "auto"]
    assert "has no solver 'highs'" in entries[-1].note
    best = best_result(entries, favourite="auto")
    assert best is not None
    assert (best.solver, best.objective) == ("auto", 4759808)
    assert best_result(entries[-1:], favourite="auto") is None


@pytest.mark.usefixtures("fake_solvers")
def test_the_command_prints_a_table_and_writes_a_report(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "argv", ["opweave", "demo", "--out", str(tmp_path / "report")])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    assert "against definition" in capsys.readouterr().out
    assert (tmp_path / "report" / "report.html").exists()


@pytest.mark.slow
def test_the_real_demo_proves_its_answer() -> None:
    problem = demo_problem()
    stage = next(stage for stage in demo_stages(problem) if stage.solver == "auto")
    result = run_stage(problem, stage, None).result
    assert result is not None
    assert result.objective == 3947264
