"""Calls into libraries that ignore the clock or react to it late: they run in a thread that can be abandoned."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from opweave.solvers.run import at_work

FIRST_PAUSE, LONGEST_PAUSE = 1e-4, 0.01
"""Seconds between checks of a thread, short at first, because most calls take milliseconds."""

Value = TypeVar("Value")


def patiently(call: Callable[[], Value]) -> Value:
    """Run a call in a thread and return its result. Waiting for it can be interrupted, unlike a call into a library.

    If nothing can end the run earlier, the call runs directly.
    """
    run = at_work()
    return call() if run is None or not run.may_be_cut else aside(call)


def aside(call: Callable[[], Value]) -> Value:
    """Run a call in a new thread and return its result; waiting for it can be interrupted.

    Raises
    ------
    BaseException
        Any exception that the call raises.
    """
    found: list[Value] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            found.append(call())
        except BaseException as error:  # passed to the waiting thread
            failed.append(error)

    worker = threading.Thread(target=work, daemon=True, name="opweave-aside")
    worker.start()
    wait_for(worker)
    if failed:
        raise failed[0]
    return found[0]


def wait_for(worker: threading.Thread) -> None:
    """Wait until a thread has ended; unlike ``join``, this can be interrupted."""
    pause = FIRST_PAUSE
    while worker.is_alive():
        time.sleep(pause)
        pause = min(2.0 * pause, LONGEST_PAUSE)
