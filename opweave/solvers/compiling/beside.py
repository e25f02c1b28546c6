"""Has loops compiled in another process, beside the work."""

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
"""The child gets about a third of a processor that the work is using too."""

END_SECONDS = 0.3
"""A child that has lost its input ends within this time, or is killed."""


class Beside:
    """At most one child process of this process, started when a loop is first asked for.

    A child that dies at a loop has the loop given up; the next ones go to another child.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._child: subprocess.Popen[bytes] | None = None
        self._wanted: dict[str, str] = {}
        self._given_up: set[str] = set()

    def ask(self, name: str, file_name: str) -> bool:
        """Have a loop ``module:function`` compiled into a file of the cache; False when that is hopeless.

        May be called again and again; it is cheap, and notices a child that has died.
        """
        with self._lock:
            if self._owner != os.getpid():  # a fork: the child belongs to the process that started it
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
        """Forget what is done; after a child's death give up the loop that it was at and hand on the others."""
        for name in [name for name, file in self._wanted.items() if store.find(file) is not None]:
            del self._wanted[name]
        if self._child is None or self._child.poll() is None:
            return
        crashed = self._child.returncode != 0
        self._bury()
        waiting = list(self._wanted)
        if crashed and waiting:
            logger.info("%s could not be compiled; it goes on as it is", waiting[0])
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
    """Start a child in a session of its own, so that Ctrl-C does not reach it; None where no process can be had."""
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
    """Hand a child the name of a loop; a child that has died is found out later."""
    if child.stdin is None:
        return False
    with contextlib.suppress(OSError):
        child.stdin.write(f"{name}\n".encode())
        child.stdin.flush()
    return True


def end(child: subprocess.Popen[bytes]) -> None:
    """Close a child's input, which ends it, and collect it."""
    if child.stdin is not None:
        with contextlib.suppress(OSError):
            child.stdin.close()
    try:
        child.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


BESIDE = Beside()
"""Of this process."""

atexit.register(BESIDE.stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=BESIDE.__init__)  # type: ignore[misc]
