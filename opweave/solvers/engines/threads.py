"""Calls into libraries that ignore the clock or react to it late: they run in a thread that can be abandoned.

An abandoned thread goes on until its call returns. The process waits for it at its end: an interpreter that ends while
a thread is inside C++ code makes that library abort the process.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

FIRST_PAUSE, LONGEST_PAUSE = 1e-4, 0.01
"""Seconds between checks of a thread, short at first, because most calls take milliseconds."""

END_SECONDS = 30.0
"""Most seconds that the process waits at its end for calls that have been abandoned, or whose solve goes on in a daemon
thread. They are told to stop, or have time limits of their own."""

Value = TypeVar("Value")

_AT_WORK: dict[threading.Thread, Callable[[], object]] = {}
"""The threads whose calls have not returned, and what tells each to stop."""


def _nothing() -> None:
    """Stand in where a call cannot be told to stop."""


def started(work: Callable[[], object], name: str, stop: Callable[[], object] = _nothing) -> threading.Thread:
    """A thread for calls into a library, at work; it may be abandoned, and the process waits for it at its end.

    ``stop`` is called at the end of the process, maybe several times, so that it need not wait for long.
    """

    def run() -> None:
        try:
            work()
        finally:
            del _AT_WORK[worker]

    worker = threading.Thread(target=run, daemon=True, name=name)
    _AT_WORK[worker] = stop
    worker.start()
    return worker


@atexit.register
def _wait_for_abandoned() -> None:
    end = time.monotonic() + END_SECONDS
    with suppress(KeyboardInterrupt):  # ends the waiting
        while (left := [each for each in list(_AT_WORK.items()) if each[0].is_alive()]) and time.monotonic() < end:
            for _, stop in left:
                stop()
            left[0][0].join(LONGEST_PAUSE)


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

    wait_for(started(work, "opweave-aside"))
    if failed:
        raise failed[0]
    return found[0]


def wait_for(worker: threading.Thread) -> None:
    """Wait until a thread has ended; unlike ``join``, this can be interrupted."""
    pause = FIRST_PAUSE
    while worker.is_alive():
        time.sleep(pause)
        pause = min(2.0 * pause, LONGEST_PAUSE)
