"""Work in a child process, with a hard time limit and a memory limit; the parent survives whatever happens there.

The child is a new Python process in its own process group. It receives the name of a function and its argument, sends
messages while it works, and finally the function's return value. If the time is up, or if the parent wants to stop or
dies, the whole group is killed, including every program that the engine started. Only the parent receives Ctrl-C.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import IO, Any, Literal

from opweave.problems.errors import EngineError

POLL_SECONDS = 0.05
EXIT_SECONDS = 5.0
LOG_CHARACTERS = 400
_LENGTH = struct.Struct("<Q")

PLACE = "OPWEAVE_PLACE"
"""Environment variable with the number of a child among several processes that work side by side."""

place: ContextVar[int | None] = ContextVar("place", default=None)
"""The place that is passed to children of this thread; if it is None, they get the place of this process, if any."""

_LIGHT = """
import sys
from importlib.util import find_spec, module_from_spec

spec = find_spec("opweave")
package = sys.modules["opweave"] = module_from_spec(spec)

def load(name):
    del package.__getattr__
    spec.loader.exec_module(package)
    return getattr(package, name)

package.__getattr__ = load
"""
"""The package's public names are imported on demand. Engines do not need them, and importing them takes longer than
solving many problems."""


def command(module: str) -> str:
    """The code for a new Python process: call ``serve`` of a module."""
    return f"{_LIGHT}\nfrom {module} import serve\nserve()\n"


COMMAND = command("opweave.solvers.engines.child")

PACKAGE_FOLDER = str(Path(__file__).parents[3])

Send = Callable[[object], None]
"""The function with which the child's function sends a message."""


@dataclass(frozen=True, slots=True)
class _Task:
    """What the child is asked to do."""

    function: str
    argument: object
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class _Frame:
    """What the child's function sends or returns, or its exception as text."""

    kind: Literal["sent", "returned", "raised"]
    content: object


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


def run_in_child(
    engine: str,
    function: str,
    argument: object,
    limits: ChildLimits,
    *,
    hear: Callable[[Any], None] = lambda _: None,
    should_stop: Callable[[], bool] = lambda: False,
    pauses: bool = False,
) -> Any:
    """Call ``function(argument, send)`` in a child process and return what it returns.

    Parameters
    ----------
    engine
        Name of the engine, for messages.
    function
        ``"package.module:function"``, which a new Python process can import.
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

    Returns
    -------
    object
        The return value, or None if the child was killed because of ``should_stop`` or its time limit.

    Raises
    ------
    EngineError
        If the function raised an exception, or the process died (crash, memory limit, kill).
    """
    with tempfile.TemporaryDirectory(prefix="opweave-") as folder, (Path(folder) / "log").open("w+b") as log:
        child = start_python(COMMAND, log, folder)
        try:
            inbox = _listen(child)
            _write(child, _Task(function, argument, limits.memory_bytes))
            ask = (lambda: _resting(child, should_stop)) if pauses and os.name == "posix" else should_stop
            return _attend(engine, child, inbox, limits, hear, ask, log)
        finally:
            kill_group(child)


def start_python(command: str, log: IO[bytes], folder: str) -> subprocess.Popen[bytes]:
    """Start a new Python process with pipes, in its own process group; ``folder`` is for its temporary files."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(_module_folders()), "TMPDIR": folder}
    number = place.get()
    if number is not None:
        environment[PLACE] = str(number)
    return subprocess.Popen(
        [sys.executable, "-P", "-c", command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        env=environment,
        start_new_session=True,
    )


def _module_folders() -> list[str]:
    """The folders in which this process finds modules; the folder of the running script comes last.

    A user's ``statistics.py`` next to a script must not replace the standard library's module in an engine's process.
    The script's folder stays in front only if this package lies in it.
    """
    here = str(Path.cwd())
    folders = [path or here for path in sys.path]
    program = getattr(sys.modules["__main__"], "__file__", None)
    own = (here, str(Path(program).resolve().parent) if program else here)
    if folders and folders[0] in own and not sys.flags.safe_path and folders[0] != PACKAGE_FOLDER:
        folders.append(folders.pop(0))
    return folders


def _write(child: subprocess.Popen[bytes], task: object) -> None:
    """Send the work. The pipe stays open, and its end tells the child that the parent is gone."""
    assert child.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # the child died at once; its exit status tells more
        send_frame(child.stdin, task)


def _listen(child: subprocess.Popen[bytes]) -> queue.SimpleQueue[object]:
    """Read the child's messages in a thread; None marks the end."""
    inbox: queue.SimpleQueue[object] = queue.SimpleQueue()

    def read() -> None:
        assert child.stdout is not None
        with contextlib.suppress(EOFError, OSError, ValueError, pickle.UnpicklingError):
            while True:
                inbox.put(read_frame(child.stdout))
        inbox.put(None)

    threading.Thread(target=read, daemon=True).start()
    return inbox


def _attend(
    engine: str,
    child: subprocess.Popen[bytes],
    inbox: queue.SimpleQueue[object],
    limits: ChildLimits,
    hear: Callable[[Any], None],
    should_stop: Callable[[], bool],
    log: IO[bytes],
) -> object:
    """Pass on messages until the child returns, dies or must be stopped."""
    deadline = None if limits.seconds is None else time.monotonic() + limits.seconds
    while True:
        try:
            frame = inbox.get(timeout=POLL_SECONDS)
        except queue.Empty:
            if (deadline is not None and time.monotonic() > deadline) or should_stop():
                return None
            continue
        if not isinstance(frame, _Frame):
            raise EngineError(f"{engine} died: {_last_words(child, limits, log)}")
        if frame.kind == "returned":
            return frame.content
        if frame.kind == "raised":
            raise EngineError(f"{engine} failed: {frame.content}")
        hear(frame.content)


def _resting(child: subprocess.Popen[bytes], should_stop: Callable[[], bool]) -> bool:
    """Ask whether to stop while the child's process group is halted."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGSTOP)
    stop = should_stop()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGCONT)
    return stop


def _last_words(child: subprocess.Popen[bytes], limits: ChildLimits, log: IO[bytes]) -> str:
    """The exit status, and the end of what the child wrote to its log."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(EXIT_SECONDS)
    status = child.returncode
    if status is not None and status < 0:
        cause = f"killed by signal {signal.Signals(-status).name}"
    else:
        cause = f"exit status {status}"
    if limits.memory_bytes is not None:
        cause += f", with a memory limit of {limits.memory_bytes:,} bytes"
    log.seek(0)
    text = " ".join(log.read().decode(errors="replace").split())[-LOG_CHARACTERS:]
    return f"{cause}: {text}" if text else cause


def kill_group(child: subprocess.Popen[bytes]) -> None:
    """Kill the child's process group, and wait for the child."""
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
    child.kill()
    child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def send_frame(pipe: IO[bytes], content: object) -> None:
    """Write one message: its length, then the pickled content."""
    data = pickle.dumps(content, protocol=pickle.HIGHEST_PROTOCOL)
    pipe.write(_LENGTH.pack(len(data)))
    pipe.write(data)
    pipe.flush()


def read_frame(pipe: IO[bytes]) -> object:
    """Read one message.

    Raises
    ------
    EOFError
        If the other side is gone.
    """
    header = pipe.read(_LENGTH.size)
    if len(header) < _LENGTH.size:
        raise EOFError
    data = pipe.read(_LENGTH.unpack(header)[0])
    return pickle.loads(data)  # written by the other end of this pipe


def own_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """In a child: the pipe to which its parent writes, and the pipe on which the parent listens.

    Engines print messages. From now on these go to the log, so that the pipe carries only our messages.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    work = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    return work, answers


def end_with_parent() -> None:
    """In a child whose parent is gone: end, with every program that was started in its process group."""
    if os.name == "posix":
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def serve() -> None:
    """Run as the child: read the work from standard input, do it, and answer on the former standard output."""
    work, answers = own_pipes()
    task = read_frame(work)
    assert isinstance(task, _Task)
    threading.Thread(target=_die_with_parent, args=(work,), daemon=True).start()
    if task.memory_bytes is not None and os.name == "posix":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (task.memory_bytes, task.memory_bytes))
    lock = threading.Lock()

    def send(kind: Literal["sent", "returned", "raised"], content: object) -> None:
        with lock:
            send_frame(answers, _Frame(kind, content))

    try:
        result = resolve_name(task.function)(task.argument, lambda content: send("sent", content))
    except BaseException as error:  # the parent turns it into an EngineError
        send("raised", f"{type(error).__name__}: {error}")
    else:
        send("returned", result)
    answers.close()
    sys.stderr.flush()
    os._exit(0)  # threads and finalisers of engines can no longer keep the process alive


def _die_with_parent(work: IO[bytes]) -> None:
    """End when the pipe can be read: the parent never writes again, so it is gone."""
    work.read()
    end_with_parent()
