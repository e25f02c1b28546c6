"""Calls into libraries that go on after a solve."""

from __future__ import annotations

import subprocess
import sys

import pytest

LEFT = """
import time
from opweave.solvers.engines.threads import aside, started

started(lambda: (time.sleep(0.5), print("the thread has ended", flush=True)), "left")
assert aside(lambda: 7) == 7
print("the program has ended", flush=True)
"""

TOLD = """
import threading
from opweave.solvers.engines.threads import started

told = threading.Event()
started(lambda: (told.wait(60.0), print("stopped" if told.is_set() else "late", flush=True)), "left", told.set)
"""

IMPATIENT = """
import os, signal, threading, time
from opweave.solvers.engines.threads import started

def interrupt():
    time.sleep(1.0)
    os.kill(os.getpid(), signal.SIGINT)

started(lambda: time.sleep(60.0), "left")
threading.Thread(target=interrupt, daemon=True).start()
"""


def ended(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=25)


def test_calls_are_told_to_stop_at_the_end_of_the_process() -> None:
    """A solve in a daemon thread may have hours left."""
    assert ended(TOLD).stdout.splitlines() == ["stopped"]


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_the_user_can_end_the_waiting() -> None:
    assert not ended(IMPATIENT).stderr


def test_a_process_ends_after_the_calls_that_it_left_behind() -> None:
    """An interpreter that ends while a thread is inside C++ code aborts, and the process has no exit status 0."""
    assert ended(LEFT).stdout.splitlines() == ["the program has ended", "the thread has ended"]
