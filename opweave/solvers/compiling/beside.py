"""Compiling loops in another process, beside the solve."""

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


BESIDE = Beside()
"""The child of this process."""

atexit.register(BESIDE.stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=BESIDE.__init__)  # type: ignore[misc]
