"""The commands about models: formulations are listed, a problem becomes a file, and a solution file is judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.adapters.conftest import Run
from tests.tiny import PROBLEMS


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    path = tmp_path / "spec.json"
    path.write_text(PROBLEMS["pipeline"].model_dump_json())
    return path


def test_a_problem_becomes_a_file_and_another_solver_s_answer_is_judged(
    opweave: Run, pipeline: Path, tmp_path: Path
) -> None:
    ended = opweave("model", pipeline, "-o", tmp_path / "p.lp")
    assert (ended.status, ended.err) == (0, "")
    assert "formulation 'flow': 17 variables, 18 constraints" in ended.out
    assert "z(e,0,3)" in (tmp_path / "p.lp").read_text()
    (tmp_path / "p.sol").write_text("Optimal - objective value 4\n 1 z(e,0,3) 1 0\n")
    ended = opweave("model", pipeline, "--judge", tmp_path / "p.sol")
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.startswith("valid: 4 s")


def test_a_plan_that_breaks_a_rule_is_not_valid(opweave: Run, tmp_path: Path) -> None:
    problem = PROBLEMS["placement"]
    tight = problem.cluster.model_copy(
        update={"devices": tuple(d.model_copy(update={"memory_bytes": 9}) for d in problem.cluster.devices)}
    )
    (tmp_path / "spec.json").write_text(problem.model_copy(update={"cluster": tight}).model_dump_json())
    (tmp_path / "p.sol").write_text("x(a,d) 1\nx(b,d) 1\nx(c,d) 1\n")
    ended = opweave("model", tmp_path / "spec.json", "--judge", tmp_path / "p.sol")
    assert ended.status == 1
    assert "not valid: " in ended.out
