"""HiGHS, fed with arrays: every status and count is checked; warm starts, and incumbents and bounds as they are found.

HiGHS drops rows with extreme coefficients and goes on, so data is checked before it is passed and counted afterwards.
It runs in a thread of its own, because its thread pool belongs to the calling thread and keeps its first size; this
also leaves the main thread free to notice Ctrl-C. In programs that have loaded ortools, after which highspy cannot be
loaded, it runs in a child process.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from opweave.problems.arrays import FloatArray
from opweave.problems.errors import EngineError
from opweave.solvers.engines.answers import Answer, Deadline, News, Verdict, Work
from opweave.solvers.engines.apart import highspy_fits, never
from opweave.solvers.engines.child import Send
from opweave.solvers.engines.child_engine import END_SECONDS, MatrixEngine, judge, report
from opweave.solvers.engines.highs_model import (
    begin,
    checked,
    load_highs,
    option,
    run_checked,
    set_options,
    solution_of,
)
from opweave.solvers.engines.task import Task
from opweave.solvers.engines.threads import started

if TYPE_CHECKING:
    import highspy

    from opweave.formulations.modeling.arrays import MatrixModel

logger = logging.getLogger("opweave")

POLL_SECONDS = 0.05
ROUNDING = 1e-6
"""Relative difference between an objective and the sum that it stands for."""

STATUS: dict[str, Verdict] = {
    "kOptimal": "solved",
    "kInfeasible": "infeasible",
    "kTimeLimit": "stopped",
    "kInterrupt": "stopped",
    "kHighsInterrupt": "stopped",
    "kIterationLimit": "stopped",
    "kSolutionLimit": "stopped",
    "kMemoryLimit": "stopped",
}
"""HiGHS's model status, and how HiGHS ended; no other status may occur with our models."""


class Highs(MatrixEngine):
    """The embedded engine; it adds rows that formulations leave out, in rounds."""

    name: ClassVar[str] = "highs"
    package: ClassVar[str] = "highspy"
    install: ClassVar[str] = "pip install highspy"
    separates: ClassVar[bool] = True
    function: ClassVar[str] = "opweave.solvers.engines.highs:solve"

    def solve(self, task: Task) -> Verdict:
        """Solve; while the best solution violates rows that were left out, add them and solve again."""
        if task.matrix.columns == 0:
            report(task, News(np.zeros(0), task.matrix.offset))
            return "solved"
        rows = self.work(task, None).matrix.rows
        while True:
            work = self.work(task, task.run.remaining())
            verdict = judge(self.name, task, self.answer(task, replace(work, matrix=replace(work.matrix, rows=rows))))
            if verdict != "solved" or task.whole or task.run.closed():
                return verdict
            if task.run.should_stop():
                return "stopped"
            missing = task.missing_rows()
            if not len(missing):
                raise EngineError(f"{self.name} returned a solution that breaks rows which it was given")
            rows = rows.joined(missing)

    def answer(self, task: Task, work: Work) -> Answer | None:
        """The answer of a thread, or of a child process; a head start on which HiGHS fails is left out."""
        if not highspy_fits() or task.run.shares_time:  # a thread cannot rest
            return super().answer(task, work)
        try:
            return in_thread(task, work)
        except EngineError as error:
            if work.start is None or error.__cause__ is None or task.run.should_stop():
                raise
            logger.info("%s; without the head start once more", error)
            task.start = None
            return in_thread(task, replace(work, start=None, seconds=task.run.remaining()))


def in_thread(task: Task, work: Work) -> Answer | None:
    """Run HiGHS in its own thread; meanwhile report its incumbents and bounds, and stop it on request.

    Returns None if HiGHS does not stop: the thread is abandoned.

    Raises
    ------
    KeyboardInterrupt
        After HiGHS has stopped and its last solutions are reported.
    """
    inbox: queue.SimpleQueue[object] = queue.SimpleQueue()
    stop = threading.Event()

    def run() -> None:
        try:
            inbox.put(solve(work, inbox.put, stop.is_set))
        except BaseException as error:  # passed on to the main thread
            inbox.put(error)

    worker = started(run, "opweave-highs", stop.set)
    answer: Answer | None = None
    interrupted: KeyboardInterrupt | None = None
    try:
        answer = _attend(task, inbox, task.run.should_stop)
    except KeyboardInterrupt as error:
        interrupted = error
    finally:
        stop.set()
        worker.join(END_SECONDS)
    answer = answer or _attend(task, inbox, inbox.empty)
    if interrupted is not None:
        raise interrupted
    return answer


def _attend(task: Task, inbox: queue.SimpleQueue[object], should_stop: Callable[[], bool]) -> Answer | None:
    """Report news until the answer comes or it is time to stop."""
    while True:
        try:
            news = inbox.get(timeout=POLL_SECONDS)
        except queue.Empty:
            news = None
        if isinstance(news, Answer):
            return news
        if isinstance(news, BaseException):
            raise EngineError(f"highs failed: {news}") from news
        if isinstance(news, News):
            report(task, news)
        if should_stop():
            return None


def solve(work: Work, send: Send, stopped: Callable[[], bool] = never) -> Answer:
    """Solve once, in a thread or in a child process."""
    import highspy

    deadline = Deadline(work.seconds)
    solver = load_highs(work.matrix)
    set_options(solver, work)
    try:
        begin(solver, work, deadline.left())
        mixed = bool(work.matrix.whole.any())
        _listen(solver, send, stopped, mixed=mixed)
        left = deadline.left()
        if left is not None:
            option(solver, "time_limit", left)
        run_checked(solver)
    finally:
        highspy.Highs.resetGlobalScheduler(True)
    status, info, values = solver.getModelStatus().name, solver.getInfo(), solution_of(solver)
    told = info.objective_function_value
    if work.start is not None and status == "kOptimal" and not _as_told(work.matrix, values, told):
        logger.info("highs returned another point than the optimal one; it solves again without the head start")
        return solve(replace(work, start=None, seconds=deadline.left()), send, stopped)
    bound = info.mip_dual_bound if mixed else info.objective_function_value if status == "kOptimal" else -np.inf
    return Answer(
        STATUS.get(status, "failed"),
        values,
        float(bound) if np.isfinite(bound) else None,
        f"model status {status}",
    )


def _as_told(matrix: MatrixModel, values: FloatArray | None, told: float) -> bool:
    """Whether a point has the objective that HiGHS says.

    HiGHS 1.16 sometimes finds an optimum, and then returns the point that it was given as a start.
    """
    if values is None:
        return True
    costs = np.append(matrix.cost * values, matrix.offset)
    return bool(abs(costs.sum() - told) <= ROUNDING * max(1.0, np.abs(costs).sum()))


def _listen(solver: highspy.Highs, send: Send, stopped: Callable[[], bool], *, mixed: bool) -> None:
    """Make HiGHS send new solutions and, if there are integer columns, better bounds, and ask whether to stop."""
    from highspy import cb

    kinds = cb.HighsCallbackType
    best = -np.inf

    def hear(
        kind: cb.HighsCallbackType, _: str, out: cb.HighsCallbackOutput, answer: cb.HighsCallbackInput, __: object
    ) -> None:
        nonlocal best
        if kind == kinds.kCallbackMipImprovingSolution:
            send(News(np.array(out.mip_solution, dtype=np.float64)))
        elif mixed and np.isfinite(out.mip_dual_bound) and out.mip_dual_bound > best:
            best = float(out.mip_dual_bound)
            send(News(bound=best))
        if answer is not None and stopped():
            answer.user_interrupt = True

    checked(solver.setCallback(hear, None), "setCallback")
    for kind in (
        kinds.kCallbackMipImprovingSolution,
        kinds.kCallbackMipInterrupt,
        kinds.kCallbackSimplexInterrupt,
        kinds.kCallbackIpmInterrupt,
    ):
        checked(solver.startCallback(kind), "startCallback")
