"""HiGHS in a thread or in a child: the same answers, and no trace on the terminal of what goes wrong there."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable

import pytest

import opweave as ow
from opweave.solvers.engines import apart, highs
from opweave.solvers.engines.answers import Answer, Work
from opweave.solvers.engines.apart import with_highs
from opweave.solvers.engines.child_engine import ChildEngine
from opweave.solvers.engines.task import Task
from tests.oracles.memory_ordering import best_ordering_by_states
from tests.solvers.engines.test_highs import circular
from tests.tiny import PROBLEMS


def double(number: int, _should_stop: Callable[[], bool]) -> int:
    return 2 * number


def fail(number: int, _should_stop: Callable[[], bool]) -> int:
    raise ValueError(f"no {number}")


@pytest.fixture(params=["thread", "child"])
def apart_in(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "child":
        monkeypatch.setattr(apart, "highspy_fits", lambda: False)
        monkeypatch.setattr(highs, "highspy_fits", lambda: False)
    return request.param


def test_a_function_answers(apart_in: str) -> None:
    assert with_highs(double, 21, 60.0) == 42


def test_what_fails_is_logged_and_not_printed(
    apart_in: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="opweave"):
        assert with_highs(fail, 7, 60.0) is None
    assert capfd.readouterr() == ("", "")
    assert any("ValueError: no 7" in record.getMessage() for record in caplog.records)


def test_a_child_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "highspy_fits", lambda: False)
    assert with_highs(double, 21, 60.0, should_stop=lambda: True) is None


@pytest.mark.parametrize("kind", ["placement", "slicing"])
def test_the_stand_in_in_a_child_proves_the_same(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    embedded = ow.solve(PROBLEMS[kind], solver="highs", options={"head_start": False})
    monkeypatch.setattr(highs, "highspy_fits", lambda: False)
    result = ow.solve(PROBLEMS[kind], solver="highs", options={"head_start": False}, time_limit=60.0)
    assert (result.status, result.objective) == (ow.Status.OPTIMAL, pytest.approx(embedded.objective))
    assert result.bound_source.startswith("highs")


def test_the_stand_in_is_given_the_rows_that_a_formulation_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = circular()
    monkeypatch.setattr(highs, "highspy_fits", lambda: False)
    rounds = []
    plain = ChildEngine.answer

    def counted(self: ChildEngine, task: Task, work: Work) -> Answer | None:
        rounds.append(len(work.matrix.rows))
        return plain(self, task, work)

    monkeypatch.setattr(ChildEngine, "answer", counted)
    result = ow.solve(problem, solver="highs", options={"head_start": False}, time_limit=60.0)
    assert (result.status, result.objective) == (ow.Status.OPTIMAL, best_ordering_by_states(problem)[0])
    assert len(rounds) > 1
    assert sorted(set(rounds)) == rounds


def test_nothing_breaks_where_ortools_was_there_first() -> None:
    """Both bring a HiGHS along, and highspy's cannot be loaded after that of ortools."""
    pytest.importorskip("ortools")
    script = """
from ortools.sat.python import cp_model
import opweave as ow
from opweave.solvers.engines.apart import highspy_fits
from tests.tiny import PROBLEMS
for kind, solver in (("memory_ordering", "auto"), ("memory_ordering", "highs"), ("placement", "auto")):
    result = ow.solve(PROBLEMS[kind], solver=solver)
    assert result.status is ow.Status.OPTIMAL, (kind, solver, result.reason)
import sys
sys.exit(0 if not highspy_fits() else 77)
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120)
    if ended.returncode == 77:
        pytest.skip("these versions can be loaded into one process")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_highs_prints_nothing() -> None:
    """Its name on the standard output would stand before what a command prints."""
    script = """
import opweave as ow
from tests.tiny import PROBLEMS
for solver in ("highs", "auto"):
    ow.solve(PROBLEMS["slicing"], solver=solver)
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
