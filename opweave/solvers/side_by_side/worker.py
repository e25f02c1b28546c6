"""A lane in its own process: its task and its answer.

The process starts with what the solve knows at that moment, receives improvements while it works, and sends what it
finds itself. When its parent ends, its standard input closes, and it ends too.
"""

from __future__ import annotations

import importlib
import os
import pickle
import queue
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any

from opweave.problems.solution import Solution
from opweave.solvers.engines.child import command, end_with_parent, own_pipes, read_frame, send_frame
from opweave.solvers.loops import loops_of
from opweave.solvers.run import Outcome
from opweave.solvers.side_by_side.exchange import Exchange, Outbox
from opweave.solvers.side_by_side.lane import Job

COMMAND = command("opweave.solvers.side_by_side.worker")

LONGEST_WAIT_SECONDS = 120.0
"""Seconds that a process waits for a task, in case its parent forgets it."""


@dataclass(frozen=True, slots=True)
class Task:
    """The input of a process; ``ends`` is when the time is up, by the clock of :func:`time.monotonic`.

    All processes of a machine share that clock. Without a limit it is None.
    """

    job: Job
    ends: float | None
    start: Solution | None


@dataclass(frozen=True, slots=True)
class Ended:
    """How a lane ended: its solver's outcome, or why it failed; ``unread`` if the problem could not be read."""

    outcome: Outcome | None = None
    failure: str | None = None
    unread: bool = False


def serve() -> None:
    """Run the process: read from standard input what to prepare and the task, and answer on the original output."""
    work, answers = own_pipes()
    kind = read_frame(work)
    assert isinstance(kind, str)
    exchange, tasks = Exchange(), queue.SimpleQueue[Task]()
    outbox = Outbox(lambda news: send_frame(answers, news))
    threading.Thread(target=_hear, args=(work, tasks, exchange, outbox), daemon=True).start()
    get_ready(kind, tasks.empty)
    try:
        task = tasks.get(timeout=LONGEST_WAIT_SECONDS)
    except queue.Empty:
        os._exit(0)
    exchange.listen(outbox.put)
    ended = work_on(task, exchange)
    outbox.close()
    send_frame(answers, ended)
    answers.close()
    sys.stderr.flush()
    os._exit(0)  # threads and finalisers of engines can no longer delay the end of the process


def get_ready(kind: str, is_idle: Callable[[], bool]) -> None:
    """Import the solvers of a problem kind, then load its loops, or compile them, as long as the process is idle."""
    try:
        importlib.import_module(f"opweave.solvers.{kind}")
    except ImportError:  # a problem kind defined by the user
        return
    if os.environ.get("OPWEAVE_COMPILE") == "never":
        return
    for each in loops_of(f"opweave.solvers.{kind}"):
        if not is_idle():
            return
        each.compile()


def _hear(work: IO[bytes], tasks: queue.SimpleQueue[Task], exchange: Exchange, outbox: Outbox) -> None:
    """Receive the task and then news, until the parent ends."""
    try:
        tasks.put(read_frame(work))  # type: ignore[arg-type]  # the parent sends the task first
        while True:
            exchange.hear(read_frame(work), outbox.put)  # type: ignore[arg-type]  # and only news after that
    except Exception:  # a broken pipe may raise anything
        end_with_parent()


def work_on(task: Task, exchange: Exchange) -> Ended:
    """Work on a task; failures are returned as messages."""
    try:
        problem: Any = pickle.loads(task.job.problem)  # written by the parent
    except Exception as error:  # a class that exists only in the parent's script
        return Ended(failure=f"{type(error).__name__}: {error}", unread=True)
    try:
        seconds = None if task.ends is None else max(0.0, task.ends - time.monotonic())
        return Ended(outcome=task.job.lane.work(problem, task.job.run(seconds, task.start, exchange)))
    except Exception as error:
        return Ended(failure=f"{type(error).__name__}: {error}")
