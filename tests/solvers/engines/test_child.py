"""Child processes: what they return, and what becomes of them when they crash, hang, grow or lose their parent."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from opweave.problems.errors import EngineError
from opweave.solvers.engines.child import ChildLimits, run_in_child
from tests.solvers.engines import fakes

UNLIMITED = ChildLimits()


def run(function: object, argument: object = None, limits: ChildLimits = UNLIMITED, **arguments: object) -> object:
    return run_in_child("fake", f"{fakes.HERE}:{function.__name__}", argument, limits, **arguments)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z" if Path(f"/proc/{pid}").exists() else True


def wait_for_death(pid: int) -> bool:
    end = time.monotonic() + 10
    while is_alive(pid) and time.monotonic() < end:
        time.sleep(0.05)
    return not is_alive(pid)


def test_a_child_returns_and_sends_messages_whatever_it_prints():
    heard: list[object] = []
    assert run(fakes.double, 21, hear=heard.append) == 42
    assert heard == ["half way"]


def test_a_child_leads_a_process_group_of_its_own():
    process, group = run(fakes.where)
    assert process == group != os.getpgrp()


def test_what_a_child_raises_is_reported_with_the_engines_name():
    with pytest.raises(EngineError, match="fake failed: ValueError: no such model"):
        run(fakes.fail)


def test_a_crash_is_reported_with_its_last_words():
    with pytest.raises(EngineError, match=r"fake died: killed by signal SIGSEGV.*about to crash"):
        run(fakes.crash)


def test_a_silent_exit_is_reported():
    with pytest.raises(EngineError, match="fake died: exit status 3"):
        run(fakes.leave)


@pytest.mark.skipif(sys.platform != "linux", reason="address-space limits are Linux's")
def test_a_child_that_devours_memory_is_stopped():
    with pytest.raises(EngineError, match=r"MemoryError|memory limit"):
        run(fakes.devour, limits=ChildLimits(memory_bytes=4 * 2**30))


def test_a_child_that_overruns_its_time_is_killed_with_its_helpers(tmp_path):
    note = tmp_path / "pid"
    began = time.monotonic()
    assert run(fakes.hang_with_a_helper, str(note), ChildLimits(seconds=2.0)) is None
    assert time.monotonic() - began < 6.0
    assert wait_for_death(int(note.read_text()))


def test_a_child_is_killed_when_asked_to():
    heard: list[object] = []
    assert run(fakes.hang_with_a_helper, os.devnull, hear=heard.append, should_stop=lambda: bool(heard)) is None


@pytest.mark.skipif(os.name != "posix", reason="process groups")
@pytest.mark.parametrize("halted", [False, True])
def test_a_child_dies_with_its_parent_also_while_it_is_halted(tmp_path, halted):
    note = tmp_path / "pid"
    asked = "time.sleep(60) if pathlib.Path(note).exists() else False" if halted else "False"
    code = (
        "import pathlib, time\n"
        "from tests.solvers.engines import fakes, test_child\n"
        f"note = {str(note)!r}\n"
        f"test_child.run(fakes.hang_with_a_helper, note, should_stop=lambda: {asked}, pauses={halted})\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    parent = subprocess.Popen([sys.executable, "-c", code], env=environment)
    end = time.monotonic() + 20
    while not (note.exists() and note.read_text()) and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.2 if halted else 0.0)  # until it is
    parent.kill()
    parent.wait()
    assert wait_for_death(int(note.read_text()))
