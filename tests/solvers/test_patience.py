"""Calls into libraries that go on after a solve."""

from __future__ import annotations

import subprocess
import sys

LEFT = """
import time
from opweave.solvers.patience import aside, started

started(lambda: (time.sleep(0.5), print("the thread has ended", flush=True)), "left")
assert aside(lambda: 7) == 7
print("the program has ended", flush=True)
"""


def test_a_process_ends_after_the_calls_that_it_left_behind() -> None:
    """An interpreter that ends while a thread is inside C++ code aborts, and the process has no exit status 0."""
    said = subprocess.run([sys.executable, "-c", LEFT], capture_output=True, text=True, check=True, timeout=60).stdout
    assert said.splitlines() == ["the program has ended", "the thread has ended"]
