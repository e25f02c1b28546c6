"""Processes of this machine as a ``concurrent.futures.Executor``.

The pools of the standard library import the user's script again in every process, which starts the solve again where
the script has no ``if __name__ == "__main__"``. These processes import only the function that they call.
"""

from __future__ import annotations

import contextlib
import pickle
import subprocess
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from opweave.problems.errors import EngineError
from opweave.solvers.engines.child import command, kill_group, own_pipes, read_frame, send_frame, start_python

Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")


class Process(Executor):
    """One process that carries out one call after the other.

    Examples
    --------
    >>> with Process() as process:
    ...     process.submit(divmod, 7, 2).result()
    (3, 1)
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="opweave-", ignore_cleanup_errors=True)
        self._log = (Path(self._folder.name) / "log").open("w+b")
        self._child = start_python(command(__name__), self._log, self._folder.name)
        self._lock = threading.Lock()

    def submit(
        self, fn: Callable[Arguments, Value], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Future[Value]:
        """Carry out a call after those before it; the future fails with an ``EngineError`` if the process dies."""
        future: Future[Value] = Future()
        threading.Thread(target=self._converse, args=(future, (fn, args, kwargs)), daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Kill the process."""
        kill_group(self._child)
        self._log.close()
        self._folder.cleanup()

    def _converse(self, future: Future[Any], call: object) -> None:
        with self._lock:
            if not future.set_running_or_notify_cancel():
                return
            try:
                assert self._child.stdin is not None and self._child.stdout is not None
                send_frame(self._child.stdin, call)
                failed, value = _answer(self._child)
            except (EOFError, OSError, ValueError) as error:
                failed, value = True, EngineError(f"a process that was to help died ({type(error).__name__})")
            except Exception as error:  # what cannot be pickled
                failed, value = True, error
        if failed:
            future.set_exception(value)
        else:
            future.set_result(value)


def _answer(child: subprocess.Popen[bytes]) -> tuple[bool, Any]:
    assert child.stdout is not None
    answer: Any = read_frame(child.stdout)
    failed, value = answer
    return bool(failed), value


def serve() -> None:
    """Carry out calls until the parent is gone; runs in the child."""
    work, answers = own_pipes()
    while True:
        try:
            call: Any = read_frame(work)
            function, positional, named = call
        except EOFError:
            return
        except Exception as error:  # a class that cannot be imported here
            send_frame(answers, (True, EngineError(f"{type(error).__name__}: {error}")))
            continue
        try:
            answer = (False, function(*positional, **named))
            pickle.dumps(answer)
        except Exception as error:
            answer = (True, EngineError(f"{type(error).__name__}: {error}"))
        with contextlib.suppress(BrokenPipeError):
            send_frame(answers, answer)
