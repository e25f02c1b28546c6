"""HiGHS in a thread or in a child: the same answers, and no trace on the terminal of what goes wrong there."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable

import pytest

from opweave.solvers.engines import highs_child
from opweave.solvers.engines.highs_child import with_highs


def double(number: int, _should_stop: Callable[[], bool]) -> int:
    return 2 * number


def fail(number: int, _should_stop: Callable[[], bool]) -> int:
    raise ValueError(f"no {number}")


@pytest.fixture(params=["thread", "child"])
def apart_in(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "child":
        monkeypatch.setattr(highs_child, "highspy_fits", lambda: False)
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
    monkeypatch.setattr(highs_child, "highspy_fits", lambda: False)
    assert with_highs(double, 21, 60.0, should_stop=lambda: True) is None


def test_nothing_breaks_where_ortools_was_there_first() -> None:
    """Both bring a HiGHS along, and highspy's cannot be loaded after that of ortools."""
    pytest.importorskip("ortools")
    script = """
from ortools.sat.python import cp_model
import opweave as ow
from opweave.solvers.engines.highs_child import highspy_fits
from tests.tiny import PROBLEMS
if highspy_fits():
    raise SystemExit(77)
for kind, solver in (("memory_ordering", "auto"), ("memory_ordering", "highs"), ("placement", "auto")):
    result = ow.solve(PROBLEMS[kind], solver=solver)
    assert result.status is ow.Status.OPTIMAL, (kind, solver, result.reason)
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


def test_a_process_ends_after_the_calls_that_it_left_behind() -> None:
    """An interpreter that ends while a thread is inside C++ code aborts, and the process has no exit status 0."""
    script = """
import os, signal, threading, time
from opweave.solvers.engines.highs_child import aside

threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    aside(lambda: (time.sleep(1.0), print("the call has ended", flush=True)))
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=25)
    assert ended.stdout.splitlines() == ["interrupted", "the call has ended"]
