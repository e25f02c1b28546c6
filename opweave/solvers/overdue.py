"""The last resort for a time limit: another thread raises an exception inside code that has not stopped.

Solvers ask the run whether to continue, and loops on arrays check its flag. Some code can do neither: a library that
builds a model, the referee of a large plan. It is interrupted between two steps
of Python when its time is up. As after Ctrl-C, everything reported until then is kept. No exception is raised while
modules are imported, loops are compiled, processes are started or ended, or a user's function runs, because the damage
could not be repaired.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

from pydantic_core import PydanticSerializationError

LOOK_SECONDS = 0.01
"""Seconds between checks of the clock."""

AGAIN_SECONDS = 0.2
"""Seconds until the exception is raised again, in case it was swallowed."""

SHELTERED = (
    "importlib",
    "numba",
    "llvmlite",
    "logging",
    "threading",
    "contextlib",
    "subprocess",
    "tempfile",
    "multiprocessing",
    "concurrent.futures",
    "opweave.problems.collecting",
    "pydantic._internal._mock_val_ser",  # builds a class when it is used first
    "opweave.solvers.interrupts",
    "opweave.solvers.overdue",
    "opweave.solvers.side_by_side.rounds",
    "opweave.solvers.side_by_side.team",
)
"""Modules that must not be interrupted, and neither must functions that they call."""

SHELTERED_FUNCTIONS = frozenset(
    {
        ("opweave.solvers.engines.child", "start_python"),
        ("opweave.solvers.loops", "compile"),
        ("opweave.solvers.engines.child", "kill_group"),
        ("opweave.solvers.run", "_tell"),
    }
)


class OverdueError(BaseException):
    """The time is up. It is not an ``Exception``, so that solvers do not mistake it for a failure of their own."""


class Interrupter(threading.Thread):
    """A context that raises :class:`OverdueError` inside its block once no seconds are left.

    Parameters
    ----------
    seconds_left
        Seconds that are left; called often, from another thread.
    """

    def __init__(self, seconds_left: Callable[[], float]) -> None:
        super().__init__(daemon=True, name="opweave-overdue")
        self._seconds_left = seconds_left
        self._thread = threading.get_ident()
        self._base: FrameType | None = None
        self._done = threading.Event()
        self._raised = False
        self._hook: Callable[[sys.UnraisableHookArgs], object] | None = None

    def __enter__(self) -> None:
        self._base = sys._getframe(1)
        self.start()

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Stop interrupting; an exception that is already on its way is swallowed here.

        Raises
        ------
        OverdueError
            If a library has made another exception of the one that was raised inside its code.
        """
        while True:
            try:
                self._done.set()
                self.join()
                if self._raised:  # collect it, wherever it is: cancelling would make CPython 3.11 hang when traced
                    self._raised = False
                    _raise_in(self._thread)
                    while True:
                        time.sleep(0)
                self._base = None
                if self._hook is not None:
                    sys.unraisablehook = self._hook
            except OverdueError:
                continue
            break
        if error is not None and _is_disguised(error):
            raise OverdueError from error

    def _quietly(self, caught: sys.UnraisableHookArgs) -> None:
        """Stay silent if a finaliser has swallowed the exception; it is raised again."""
        if caught.exc_type is not OverdueError and self._hook is not None:
            self._hook(caught)

    def run(self) -> None:
        """Wait for the time, and then for a moment in which the thread may be interrupted."""
        while not self._done.wait(LOOK_SECONDS):
            left = self._seconds_left()
            if left <= 0.0 and _interruptible(sys._current_frames().get(self._thread), self._base):
                if self._hook is None:
                    self._hook, sys.unraisablehook = sys.unraisablehook, self._quietly
                self._raised = True
                _raise_in(self._thread)
                self._done.wait(AGAIN_SECONDS)


def _interruptible(frame: FrameType | None, base: FrameType | None) -> bool:
    """Whether a thread may be interrupted at this frame, judged from the frame of the block outwards."""
    while frame is not base:
        if frame is None:
            return False
        module, function = frame.f_globals.get("__name__") or "", frame.f_code.co_name
        if frame.f_code.co_filename.startswith("<frozen importlib") or (module, function) in SHELTERED_FUNCTIONS:
            return False
        if any(module == name or module.startswith(f"{name}.") for name in SHELTERED):
            return False
        frame = frame.f_back
    return True


def _is_disguised(error: BaseException) -> bool:
    """Whether an exception stands for an :class:`OverdueError`.

    It is the cause of others, or pydantic's serialisers, which keep no causes, name it in the text of theirs.
    """
    seen: BaseException | None = error
    while isinstance(seen, Exception):
        if isinstance(seen, PydanticSerializationError) and OverdueError.__name__ in str(seen):
            return True
        seen = seen.__cause__ or seen.__context__
    return seen is not error and isinstance(seen, OverdueError)


def _raise_in(thread: int) -> None:
    """Make a thread raise :class:`OverdueError` as soon as it runs Python again."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(OverdueError))
