"""A lane in a process of its own: what it is given, what it answers.

The process begins with what the solve knows by then, hears of better while it works, and tells what it finds itself.
When its parent is gone, its standard input ends, and so does it.
"""

from __future__ import annotations

import importlib
import os
import pickle
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import IO, Any

from opweave.problems.result import OptionValue
from opweave.problems.solution import Solution
from opweave.solvers.engines.child import command
from opweave.solvers.engines.frames import end_with_parent, own_pipes, read_frame, send_frame
from opweave.solvers.run import Outcome, Run
from opweave.solvers.side_by_side.exchange import Exchange, Outbox
from opweave.solvers.side_by_side.lane import Lane

COMMAND = command("opweave.solvers.side_by_side.worker")

LONGEST_WAIT_SECONDS = 120.0
"""How long a process waits for a task at most, should the one that started it forget it."""


@dataclass(frozen=True, slots=True)
class Task:
    """What a process is given.

    Attributes
    ----------
    problem
        Pickled, so that a problem which cannot be read here fails alone.
    ends
        When the time is up, by ``time.monotonic``, which all processes of a machine share; None without a limit.
    """

    problem: bytes
    lane: Lane
    ends: float | None
    gap: float
    seed: int
    start: Solution | None = None
    options: Mapping[str, OptionValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a lane ended: as its solver says, or why it failed; ``unread`` where the problem could not be read."""

    outcome: Outcome | None = None
    failure: str | None = None
    unread: bool = False


def serve() -> None:
    """Be the process: read from standard input what to get ready for, then the task; answer on what was the output."""
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
    os._exit(0)  # engines' own threads and finalisers cannot hold the process any more


def get_ready(kind: str, is_idle: Callable[[], bool]) -> None:
    """Import what solves a kind of problem, then load its compiled loops for as long as there is nothing to do."""
    try:
        importlib.import_module(f"opweave.solvers.{kind}")
    except ImportError:  # a kind of the user's own
        return
    if os.environ.get("OPWEAVE_COMPILE") == "never":
        return
    from opweave.solvers.compiled import imported_kernels

    for kernel in imported_kernels(f"opweave.solvers.{kind}."):
        if not is_idle():
            return
        kernel.load()


def _hear(work: IO[bytes], tasks: queue.SimpleQueue[Task], exchange: Exchange, outbox: Outbox) -> None:
    """Take in the task, then news, until the parent is gone."""
    try:
        tasks.put(read_frame(work))  # type: ignore[arg-type]  # the parent sends the task first
        while True:
            exchange.hear(read_frame(work), outbox.put)  # type: ignore[arg-type]  # and nothing but news then
    except Exception:  # whatever a torn pipe raises
        end_with_parent()


def work_on(task: Task, exchange: Exchange) -> Ended:
    """Work on a task; failures become words."""
    try:
        problem: Any = pickle.loads(task.problem)  # written by the parent
    except Exception as error:  # a class that only the parent's script knows
        return Ended(failure=f"{type(error).__name__}: {error}", unread=True)
    try:
        run = Run(
            time_limit=None if task.ends is None else max(0.0, task.ends - time.monotonic()),
            gap=task.gap,
            seed=task.seed + task.lane.shift,
            threads=task.lane.cores,
            start=task.start,
            options={**task.options, **task.lane.options},
            exchange=exchange,
        )
        with run.at_work():
            return Ended(outcome=task.lane.work(problem, run))
    except Exception as error:
        return Ended(failure=f"{type(error).__name__}: {error}")
