"""Work in child processes, with a hard time limit and a memory limit; the parent survives whatever happens there.

A child is a new Python process in its own process group. It receives the argument of a function, sends messages while
it works, and finally the function's return value. If the time is up, or if the parent wants to stop or dies, the whole
group is killed, including every program that an engine started. Only the parent receives Ctrl-C.

To start a process and to import an engine may take a second. So a child that has returned is kept for the next call of
the same function, and :func:`prepare` starts one in advance.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType
from typing import IO, Any, Literal

from opweave.problems.errors import EngineError

POLL_SECONDS = 0.05
EXIT_SECONDS = 5.0
LOG_CHARACTERS = 400

MOST_KEPT = 3
"""Children that are kept for further calls; each may hold some hundred megabytes."""

PACKAGE_FOLDER = str(Path(__file__).parents[3])

Send = Callable[[object], None]
"""The function with which the child's function sends a message."""


Frame = tuple[Literal["sent", "returned", "raised"], Any]
"""What the child's function sends or returns, or its exception as text."""


@dataclass(frozen=True, slots=True)
class ChildLimits:
    """Limits of a child.

    Attributes
    ----------
    seconds
        Wall time after which the child is killed; None for no limit.
    memory_bytes
        Address space of the child and of every program that it starts; None for no limit. Ignored on Windows.
    """

    seconds: float | None = None
    memory_bytes: int | None = None


class Child:
    """A process that calls one function, time and again."""

    def __init__(self, function: str) -> None:
        self.function = function
        self._folder = tempfile.TemporaryDirectory(prefix="opweave-", ignore_cleanup_errors=True)
        self._log = (Path(self._folder.name) / "log").open("w+b")
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", f"from {__name__} import serve\nserve({function!r})\n"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(_module_folders()), "TMPDIR": self._folder.name},
            process_group=0,  # of the same session: the system ends a halted group whose parent dies
        )
        self._inbox: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        """Read the child's messages; None marks the end."""
        assert self.process.stdout is not None
        with contextlib.suppress(EOFError, OSError, ValueError, pickle.UnpicklingError):
            while True:
                self._inbox.put(pickle.load(self.process.stdout))  # written by the other end of this pipe
        self._inbox.put(None)

    def call(
        self,
        caller: str,
        argument: object,
        limits: ChildLimits = ChildLimits(),
        hear: Callable[[Any], None] = lambda _: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> Frame | None:
        """Call the function with an argument, and pass on its messages until it returns; None if it must be stopped.

        The pipe stays open, and its end tells the child that the parent is gone.

        Raises
        ------
        EngineError
            If the function raised an exception, or the process died.
        """
        assert self.process.stdin is not None
        data = pickle.dumps((argument, limits.memory_bytes))
        with contextlib.suppress(BrokenPipeError):  # the child died at once; its exit status tells more
            _send(self.process.stdin, data)
        deadline = None if limits.seconds is None else time.monotonic() + limits.seconds
        while True:
            try:
                frame = self._inbox.get(timeout=POLL_SECONDS)
            except queue.Empty:
                if (deadline is not None and time.monotonic() > deadline) or should_stop():
                    return None
                continue
            if frame is None:
                raise EngineError(f"{caller} died: {self._last_words(limits.memory_bytes)}")
            if frame[0] == "raised":
                raise EngineError(f"{caller} failed: {frame[1]}")
            if frame[0] == "returned":
                return frame
            hear(frame[1])

    def resting(self, should_stop: Callable[[], bool]) -> bool:
        """Ask whether to stop while the child's process group is halted."""
        self._signal("SIGSTOP")
        stop = should_stop()
        self._signal("SIGCONT")
        return stop

    def _signal(self, name: str) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, getattr(signal, name))

    def _last_words(self, memory_bytes: int | None) -> str:
        """The exit status, and the end of what the child wrote to its log."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(EXIT_SECONDS)
        status = self.process.returncode or 0
        cause = f"killed by signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        if memory_bytes is not None:
            cause += f", with a memory limit of {memory_bytes:,} bytes"
        self._log.seek(0)
        text = " ".join(self._log.read().decode(errors="replace").split())[-LOG_CHARACTERS:]
        return f"{cause}: {text}" if text else cause

    def close(self) -> None:
        """Kill the process group, with everything that the process has started."""
        if os.name == "posix":
            self._signal("SIGKILL")
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._log.close()
        self._folder.cleanup()


_KEPT: dict[str, Child] = {}
_LOCK = threading.Lock()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_KEPT.clear)  # they belong to the parent


@atexit.register
def _close_all() -> None:
    while _KEPT:
        _KEPT.popitem()[1].close()


def taken(function: str) -> Child:
    """A child for a function: one that waits for work, or a new one."""
    waiting = _KEPT.pop(function, None)
    return waiting if waiting is not None and waiting.process.poll() is None else Child(function)


def put_back(child: Child) -> None:
    """Keep a child for the next call of its function, in place of the one that has waited longest."""
    with _LOCK:
        surplus = [_KEPT.pop(child.function, None)]
        if len(_KEPT) == MOST_KEPT:
            surplus.append(_KEPT.pop(next(iter(_KEPT)), None))
        _KEPT[child.function] = child
    for each in surplus:
        if each is not None:
            each.close()


def prepare(function: str) -> None:
    """Start a child, if none waits for work, so that it imports what the function needs while others work."""
    if function not in _KEPT:
        put_back(Child(function))


def run_in_child(
    engine: str,
    function: str,
    argument: object,
    limits: ChildLimits,
    *,
    hear: Callable[[Any], None] = lambda _: None,
    should_stop: Callable[[], bool] = lambda: False,
    pauses: bool = False,
    keep: bool = False,
) -> Any:
    """Call ``function(argument, send)`` in a child process and return what it returns.

    Parameters
    ----------
    engine
        Name of the engine, for messages.
    function
        ``"package.module:function"``, which a new Python process can import. Its module may have a function
        ``load()``, which imports what the function needs, before there is work.
    argument
        Any object that can be pickled.
    limits
        Time and memory limits.
    hear
        Called in this thread for every message of the child.
    should_stop
        Called often; True kills the child.
    pauses
        Whether ``should_stop`` may take long, because others work meanwhile: the child rests with its parent, so that
        a solve with one thread uses one core.
    keep
        Whether the child may have worked before, and may work again.

    Returns
    -------
    object
        The return value, or None if the child was killed because of ``should_stop`` or its time limit.

    Raises
    ------
    EngineError
        If the function raised an exception, or the process died (crash, memory limit, kill).
    """
    child = taken(function) if keep else Child(function)
    frame = None
    try:
        ask = (lambda: child.resting(should_stop)) if pauses and os.name == "posix" else should_stop
        frame = child.call(engine, argument, limits, hear, ask)
        return None if frame is None else frame[1]
    finally:
        if frame is not None and keep:
            put_back(child)
        else:
            child.close()


def _module_folders() -> list[str]:
    """The folders in which this process finds modules; the folder of the running script comes last.

    A user's ``statistics.py`` next to a script must not replace the standard library's module in an engine's process.
    The script's folder stays in front only if this package lies in it.
    """
    here = str(Path.cwd())
    folders = [path or here for path in sys.path]
    if folders and not sys.flags.safe_path and folders[0] != PACKAGE_FOLDER:
        folders.append(folders.pop(0))
    return folders


def _send(pipe: IO[bytes], content: object) -> None:
    """Write one message."""
    pipe.write(pickle.dumps(content, protocol=pickle.HIGHEST_PROTOCOL))
    pipe.flush()


def serve(function: str) -> None:
    """Run as the child: read arguments from standard input, and answer on the former standard output.

    Engines print messages. These go to the log, so that the pipe carries only ours.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    work = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    tasks: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    lock = threading.Lock()

    def read() -> None:
        """Read what is to be done. Once the parent is gone, end with every program of the process group."""
        with contextlib.suppress(EOFError, pickle.UnpicklingError):
            while True:
                tasks.put(pickle.load(work))
        if os.name == "posix":
            os.killpg(os.getpid(), signal.SIGKILL)
        os._exit(1)

    def send(kind: Literal["sent", "returned", "raised"], content: object) -> None:
        with lock:
            _send(answers, (kind, content))

    module = function.partition(":")[0]
    with contextlib.suppress(Exception):  # it is raised again, and reported, when there is work
        getattr(resolve_name(module), "load", lambda: None)()
    threading.Thread(target=read, daemon=True).start()
    while True:
        data = tasks.get()
        try:
            argument, memory_bytes = pickle.loads(data)
            if os.name == "posix":
                import resource

                _, most = resource.getrlimit(resource.RLIMIT_AS)
                resource.setrlimit(resource.RLIMIT_AS, (most if memory_bytes is None else memory_bytes, most))
            send("returned", resolve_name(function)(argument, lambda content: send("sent", content)))
        except BaseException as error:  # the parent turns it into an EngineError
            send("raised", f"{type(error).__name__}: {error}")


class _Absent(ModuleType):
    """Stands in for a module of which only class names are used; each name is a class without instances."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


@contextlib.contextmanager
def without_pandas() -> Iterator[None]:
    """Import without pandas: CP-SAT's module accepts series of variables, which are not used here.

    Loading pandas takes twice as long as everything else together, and longer than solving many problems.
    """
    if "pandas" in sys.modules:
        yield
        return
    sys.modules["pandas"] = _Absent("pandas")
    try:
        yield
    finally:
        del sys.modules["pandas"]
