"""Beside the solve: another process compiles loops, and a thread imports the library that loads them.

Importing numba takes half a second and more, during which nothing may be interrupted. A time limit of that length would
be broken by the import alone. Therefore a thread imports it. A solve waits for that thread while it has time to spare.
Otherwise it goes on with uncompiled loops, and later solves find the library imported.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import subprocess
import sys
import threading

from opweave.solvers.compiling import store

logger = logging.getLogger("opweave")

_COMMAND = "from opweave.solvers.compiling.child import main; main()"

BESIDE_NICENESS = 5
"""Niceness of the child, which gives it about a third of a processor that the solve also uses."""

END_SECONDS = 0.3
"""Seconds within which a child ends after its input has closed; otherwise it is killed."""


class Beside:
    """At most one child process of this process, started when the first loop is requested.

    If a child dies while compiling a loop, that loop is given up, and the following ones go to another child.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._child: subprocess.Popen[bytes] | None = None
        self._wanted: dict[str, str] = {}
        self._given_up: set[str] = set()

    def ask(self, name: str, file_name: str) -> bool:
        """Request that a loop ``module:function`` be compiled into a file of the cache; False if that is hopeless.

        The method is cheap and may be called repeatedly. It notices when a child has died.
        """
        with self._lock:
            if self._owner != os.getpid():  # after a fork, the child belongs to the process that started it
                self._owner, self._child, self._wanted = os.getpid(), None, {}
            self._collect()
            if name in self._given_up:
                return False
            if name not in self._wanted:
                self._wanted[name] = file_name
                if not self._tell(name):
                    self._given_up.add(name)
                    return False
            return True

    def stop(self) -> None:
        """End the child, if there is one."""
        with self._lock:
            if self._child is not None and self._owner == os.getpid():
                self._bury()
            self._wanted.clear()

    def _collect(self) -> None:
        """Forget finished loops; after a child's death, give up the loop it was compiling and pass on the others."""
        for name in [name for name, file in self._wanted.items() if store.find(file) is not None]:
            del self._wanted[name]
        if self._child is None or self._child.poll() is None:
            return
        crashed = self._child.returncode != 0
        self._bury()
        waiting = list(self._wanted)
        if crashed and waiting:
            logger.info("%s could not be compiled; it runs uncompiled", waiting[0])
            self._given_up.add(waiting[0])
            del self._wanted[waiting[0]]
        for name in self._wanted:
            self._tell(name)

    def _tell(self, name: str) -> bool:
        if self._child is None:
            logger.info("loops are compiled beside the work, once on this machine; 'opweave warm' does it in advance")
            self._child = start_child(BESIDE_NICENESS)
        return self._child is not None and tell(self._child, name)

    def _bury(self) -> None:
        if self._child is not None:
            end(self._child)
        self._child = None


def start_child(niceness: int) -> subprocess.Popen[bytes] | None:
    """Start a child in its own session, so that Ctrl-C does not reach it; None if no process can be started."""
    path = os.pathsep.join(path for path in sys.path if path)
    try:
        return subprocess.Popen(
            [sys.executable, "-c", _COMMAND, str(store.writable_folder()), str(niceness)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": path, "OPWEAVE_COMPILE": "never", "OMP_NUM_THREADS": "1"},
            start_new_session=True,
        )
    except (OSError, ValueError):
        return None


def tell(child: subprocess.Popen[bytes], name: str) -> bool:
    """Send the name of a loop to a child; a dead child is noticed later."""
    if child.stdin is None:
        return False
    with contextlib.suppress(OSError):
        child.stdin.write(f"{name}\n".encode())
        child.stdin.flush()
    return True


def end(child: subprocess.Popen[bytes]) -> None:
    """Close a child's input, which ends it, and wait for its end."""
    if child.stdin is not None:
        with contextlib.suppress(OSError):
            child.stdin.close()
    try:
        child.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


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


BESIDE = Beside()
"""The child of this process."""

atexit.register(BESIDE.stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=BESIDE.__init__)  # type: ignore[misc]

LIBRARY = Library()
"""The library in this process."""

atexit.register(LIBRARY.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=LIBRARY.before_fork, after_in_parent=LIBRARY.after_fork, after_in_child=LIBRARY.in_child)
