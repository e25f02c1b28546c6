"""Lanes in processes of this machine: shared knowledge, deaths, failures, limits."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import opweave as ow

from .ways import chain, fake_solver, named, together


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split(")")[-1].split()[0] != "Z" if Path("/proc").exists() else True


def gone_within(pid: int, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not alive(pid)


def pid_in(path: Path, seconds: float = 15.0) -> int:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if path.exists() and path.read_text():
            return int(path.read_text())
        time.sleep(0.02)
    raise AssertionError("the lane never began")


def said(caplog, words: str):
    """A callback that ends a solve once its log says so."""
    return lambda _progress: words in caplog.text


@pytest.mark.parametrize("lanes", [("finds", "proves"), ("proves", "finds"), ("idles", "finds", "proves")])
def test_lanes_close_the_gap_together(lanes):
    with fake_solver(*lanes):
        result = ow.solve(chain(), solver="fake", threads=len(lanes), time_limit=20)
    assert together(result)
    assert result.timings.solve < 15


def test_without_others_the_first_lane_is_alone():
    with fake_solver("finds", "proves"):
        result = ow.solve(chain(), solver="fake", time_limit=0.3)
    assert result.objective == 8
    assert not together(result)


def test_progress_and_callback_see_what_all_lanes_know():
    seen = []
    with fake_solver("idles", "finds", "proves"):
        ow.solve(chain(), solver="fake", threads=3, time_limit=20, progress=seen.append)
    assert (seen[-1].objective, seen[-1].bound) == (8, 8)
    with fake_solver("idles", "finds"):
        result = ow.solve(
            chain(), solver="fake", threads=2, time_limit=20, callback=lambda now: now.objective is not None
        )
    assert result.termination is ow.Termination.INTERRUPTED
    assert result.objective == 8


def test_a_lane_that_refutes_ends_all():
    with fake_solver("idles", "refutes"):
        result = ow.solve(chain(), solver="fake", threads=2, time_limit=20)
    assert result.status is ow.Status.INFEASIBLE
    assert result.reason == "a lane says so"


def test_a_lane_with_a_bug_costs_nothing_but_itself(caplog):
    with fake_solver("finds", "fails"):
        result = ow.solve(chain(), solver="fake", threads=2, time_limit=30, callback=said(caplog, "a lane with a bug"))
    assert result.objective == 8
    assert "a lane with a bug" in caplog.text


def test_a_killed_process_is_started_again(tmp_path):
    with fake_solver("finds", "dies_once"):
        result = ow.solve(named(chain(), str(tmp_path / "marker")), solver="fake", threads=2, time_limit=30)
    assert together(result)
    assert (tmp_path / "marker").exists()


def test_where_processes_keep_dying_the_solver_runs_here(caplog):
    with fake_solver("finds", "dies"):
        goes_on = said(caplog, "the solve goes on in this one")
        result = ow.solve(chain(), solver="fake", threads=2, time_limit=30, callback=goes_on)
    assert result.verified
    assert "the solve goes on in this one" in caplog.text


def test_a_class_that_only_the_script_knows_leaves_the_solve_to_this_process(caplog):
    class Private(ow.Precede):
        pass

    problem = chain()
    problem = ow.MemoryOrdering(graph=problem.graph, constraints=[Private(before="o0", after="o1")])
    result = ow.solve(problem, threads=2, time_limit=20)
    assert result.status is ow.Status.OPTIMAL


def test_a_lane_that_hangs_is_gone_when_the_time_is_up(tmp_path):
    marker = tmp_path / "pid"
    with fake_solver("idles", "hangs"):
        began = time.monotonic()
        result = ow.solve(named(chain(), str(marker)), solver="fake", threads=2, time_limit=4)
        assert time.monotonic() - began < 4 + 2
    assert result.termination is ow.Termination.TIME_LIMIT
    assert gone_within(pid_in(marker, 0.1), 0.3)


SCRIPT = """
import sys, opweave as ow
from tests.solvers.side_by_side.ways import chain, fake_solver, named, together
with fake_solver("finds", "hangs"):
    result = ow.solve(named(chain(), sys.argv[1]), solver="fake", threads=2, time_limit=60)
print(result.termination.value, result.objective)
"""


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_when_the_solve_is_interrupted_or_killed(tmp_path, how):
    """The script has no guard around its main part: a worker that imported it would start again."""
    script, marker = tmp_path / "script.py", tmp_path / "pid"
    script.write_text(SCRIPT)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    parent = subprocess.Popen(
        [sys.executable, str(script), str(marker)], stdout=subprocess.PIPE, text=True, env=environment
    )
    worker = pid_in(marker, 30)
    assert worker != parent.pid
    parent.send_signal(how)
    said, _ = parent.communicate(timeout=20)
    if how == signal.SIGINT:
        assert said.split() == ["interrupted", "8"]
    assert gone_within(worker, 2.0)
