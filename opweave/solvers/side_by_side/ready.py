"""Waiting processes that have imported everything, so that a lane begins at once.

A fresh Python process needs one or two seconds before it can work on a problem. The first processes are therefore
started at the very beginning of a solve. When a solve with helpers ends, others are started for the next one. They wait
for :data:`KEEP_SECONDS`, or until this process ends. A solve with one thread does not use them.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from opweave.solvers.engines.child import kill_group, place, send_frame, start_python
from opweave.solvers.side_by_side.worker import COMMAND

KEEP_SECONDS = 30.0
"""Seconds that a process waits for the next solve."""

Surroundings = tuple[Any, ...]
"""Settings that a process inherits from the process that starts it."""


@dataclass(eq=False)
class Helper:
    """A process that waits for a lane, or runs one.

    Attributes
    ----------
    kind
        Kind of the problems for which it has imported everything.
    number
        Its number among the processes that work side by side.
    """

    kind: str
    number: int
    surroundings: Surroundings
    process: subprocess.Popen[bytes]
    log: IO[bytes]
    folder: tempfile.TemporaryDirectory[str]
    since: float = field(default_factory=time.monotonic)

    def end(self) -> None:
        """Kill the process and every program that it started."""
        kill_group(self.process)
        self.log.close()
        self.folder.cleanup()


def start_helper(kind: str, number: int) -> Helper:
    """Start a process, which begins its imports."""
    before = place.set(number)
    folder = tempfile.TemporaryDirectory(prefix="opweave-", ignore_cleanup_errors=True)
    log = (Path(folder.name) / "log").open("w+b")
    try:
        process = start_python(COMMAND, log, folder.name)
    except BaseException:
        log.close()
        folder.cleanup()
        raise
    finally:
        place.reset(before)
    assert process.stdin is not None
    with contextlib.suppress(OSError):  # it died at once; the code that gives it work will notice
        send_frame(process.stdin, kind)
    return Helper(kind, number, _surroundings(), process, log, folder)


class Ready:
    """Waiting processes; unused ones are ended after a while, and all of them together with this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Helper] = []
        self._timer: threading.Timer | None = None
        self._owner = os.getpid()
        atexit.register(self.close)

    def prepare(self, kind: str, numbers: Iterable[int]) -> None:
        """Make sure that a process waits for each of these numbers."""
        self._disown()
        with self._lock:
            there = {helper.number for helper in self._waiting if helper.kind == kind and _is_usable(helper)}
        for number in numbers:
            if number not in there:
                with contextlib.suppress(OSError):  # no more processes: the solve will report it
                    self.put(start_helper(kind, number))

    def take(self, kind: str, number: int) -> Helper:
        """A process for a number: a waiting one, or a new one."""
        self._disown()
        with self._lock:
            found = [helper for helper in self._waiting if (helper.kind, helper.number) == (kind, number)]
            for helper in found:
                self._waiting.remove(helper)
        fit = [helper for helper in found if _is_usable(helper)]
        for helper in found:
            if helper not in fit[:1]:
                helper.end()
        return fit[0] if fit else start_helper(kind, number)

    def put(self, helper: Helper) -> None:
        """Keep a process that was given no work."""
        helper.since = time.monotonic()
        with self._lock:
            self._waiting.append(helper)
        self._look_later()

    def close(self) -> None:
        """End all waiting processes."""
        self._disown()
        self._end_before(None)

    def _disown(self) -> None:
        """Forget the processes after a fork, because they belong to the parent."""
        if self._owner != os.getpid():
            self._owner, self._waiting, self._timer, self._lock = os.getpid(), [], None, threading.Lock()

    def _look_later(self) -> None:
        with self._lock:
            if self._timer is not None or not self._waiting:
                return
            oldest = min(helper.since for helper in self._waiting)
            self._timer = threading.Timer(max(0.0, oldest + KEEP_SECONDS - time.monotonic()), self._look)
            self._timer.daemon = True
            self._timer.start()

    def _look(self) -> None:
        self._end_before(time.monotonic() - KEEP_SECONDS)
        with self._lock:
            self._timer = None
        self._look_later()

    def _end_before(self, moment: float | None) -> None:
        """End the processes that have waited since before a moment, or all of them."""
        with self._lock:
            old = [helper for helper in self._waiting if moment is None or helper.since <= moment]
            self._waiting = [helper for helper in self._waiting if helper not in old]
        for helper in old:
            helper.end()


def _is_usable(helper: Helper) -> bool:
    """Whether a process is alive and has the same settings as a new one would have."""
    return helper.process.poll() is None and helper.surroundings == _surroundings()


def _surroundings() -> Surroundings:
    return Path.cwd(), tuple(sys.path), frozenset(os.environ.items())


READY = Ready()
