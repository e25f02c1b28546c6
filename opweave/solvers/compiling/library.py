"""The library that loads compiled loops, imported beside the solve.

Importing numba takes half a second and more, during which nothing may be interrupted. A time limit of that length would
be broken by the import alone. Therefore a thread imports it. A solve waits for that thread while it has time to spare.
Otherwise it goes on with uncompiled loops, and later solves find the library imported.
"""

from __future__ import annotations

import atexit
import os
import threading

IMPORT_SECONDS = 0.5
"""Seconds that the import takes on an idle core of 2024."""

WAIT_SHARE = 0.6
"""Share of the time left that a solve waits for the import. Where the import takes longer, it only begins when the
solve is over: it would slow down the uncompiled loops, and help later solves alone."""

REST_SECONDS = 2.0
"""Seconds after that time at which it begins: by then the solve has returned."""


class Library:
    """numba with everything that a first compiled loop needs; imported once in each process."""

    def __init__(self) -> None:
        self._done, self._closing = threading.Event(), threading.Event()
        self._importing, self._starting = threading.Lock(), threading.Lock()
        self._thread: threading.Thread | None = None

    def ready(self, left: float) -> bool:
        """Whether the library has been imported, or is within a share of the ``left`` seconds of a solve."""
        if self._done.is_set():
            return True
        worthwhile = WAIT_SHARE * left >= IMPORT_SECONDS
        with self._starting:
            if self._thread is None:
                delay = 0.0 if worthwhile else left + REST_SECONDS
                self._thread = threading.Thread(target=self._import, args=(delay,), daemon=True, name="opweave-numba")
                self._thread.start()
        if worthwhile:
            self._done.wait(min(WAIT_SHARE * left, threading.TIMEOUT_MAX))
        return self._done.is_set()

    def _import(self, delay: float) -> None:
        if self._closing.wait(delay):
            return
        try:
            with self._importing:
                from opweave.solvers.compiling.build import make_ready

                make_ready()
        finally:
            self._done.set()  # after a failure, whoever needs the library learns why by importing it again

    def close(self) -> None:
        """Wait for an import that has begun, and begin none: the interpreter must not end in the middle of one."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()

    def before_fork(self) -> None:
        """Wait for an import that has begun: a child would find its modules locked for good."""
        self._importing.acquire()

    def after_fork(self) -> None:
        """Go on in the parent."""
        self._importing.release()

    def in_child(self) -> None:
        """Begin anew in the child of a fork, which has no threads; what has been imported stays imported."""
        done = self._done.is_set()
        self.__init__()  # type: ignore[misc]
        if done:
            self._done.set()


LIBRARY = Library()
"""The library in this process."""

atexit.register(LIBRARY.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=LIBRARY.before_fork, after_in_parent=LIBRARY.after_fork, after_in_child=LIBRARY.in_child)
