"""HiGHS, fed with arrays: every status and count is checked; warm starts, and incumbents and bounds as they are found.

HiGHS drops rows with extreme coefficients and goes on, so data is checked before it is passed (:mod:`.matrix`) and
counted afterwards. Its thread pool belongs to the calling thread and keeps its first size, so every solve gets a new
worker thread. This also leaves the main thread free to notice Ctrl-C.
"""

from __future__ import annotations

import logging
import queue
import threading
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from opweave.formulations.modeling.arrays import MatrixModel
from opweave.problems.arrays import FloatArray
from opweave.problems.errors import EngineError
from opweave.solvers.engines.answers import Answer, News
from opweave.solvers.engines.apart import highspy_fits
from opweave.solvers.engines.child import Send
from opweave.solvers.engines.child_engine import Work
from opweave.solvers.engines.deadline import Deadline
from opweave.solvers.engines.engine import Engine, Verdict
from opweave.solvers.engines.highs_child import HighsInChild
from opweave.solvers.engines.highs_model import add_block, checked, load_highs, option, set_options
from opweave.solvers.engines.highs_start import begin, whole_start
from opweave.solvers.engines.task import Task

if TYPE_CHECKING:
    import highspy

logger = logging.getLogger("opweave")

POLL_SECONDS = 0.05
STATUS: dict[str, Verdict | None] = {
    "kOptimal": Verdict.SOLVED,
    "kInfeasible": Verdict.INFEASIBLE,
    "kTimeLimit": Verdict.STOPPED,
    "kInterrupt": Verdict.STOPPED,
    "kHighsInterrupt": Verdict.STOPPED,
    "kIterationLimit": Verdict.STOPPED,
    "kSolutionLimit": Verdict.STOPPED,
    "kMemoryLimit": Verdict.STOPPED,
    "kObjectiveBound": None,
    "kObjectiveTarget": None,
    "kUnbounded": None,
    "kUnboundedOrInfeasible": None,
    "kModelEmpty": None,
    "kLoadError": None,
    "kModelError": None,
    "kPresolveError": None,
    "kSolveError": None,
    "kPostsolveError": None,
    "kNotset": None,
    "kUnknown": None,
}
"""HiGHS's model status, and how HiGHS ended; None for a status that must not occur with our models."""


@dataclass(eq=False)
class _Events:
    """What the worker thread and the main thread tell each other."""

    incumbents: queue.SimpleQueue[FloatArray] = field(default_factory=queue.SimpleQueue)
    bound: float = -np.inf
    stop: bool = False

    def note_bound(self, value: float) -> None:
        """Keep the best bound."""
        if np.isfinite(value):
            self.bound = max(self.bound, value)


class Highs(Engine):
    """The embedded engine; it adds rows that formulations leave out, in rounds."""

    name: ClassVar[str] = "highs"
    separates: ClassVar[bool] = True

    def missing(self) -> str | None:
        """Highspy is installed with opweave."""
        return None if self.version() else "pip install highspy"

    def version(self) -> str | None:
        """Version of highspy."""
        try:
            return installed_version("highspy")
        except PackageNotFoundError:
            return None

    def solve(self, task: Task) -> Verdict:
        """Solve; while the best solution violates rows that were left out, add them and solve again."""
        if task.matrix.columns == 0:
            task.incumbent(np.zeros(0))
            task.bound(task.matrix.offset)
            return Verdict.SOLVED
        if not highspy_fits():
            return HighsInChild().solve(task)
        try:
            return self._rounds(task)
        except EngineError as error:
            if task.start is None or error.__cause__ is None or task.should_stop():
                raise
            logger.info("%s; without the head start once more", error)
            task.start = None
            return self._rounds(task)

    def _rounds(self, task: Task) -> Verdict:
        solver = load_highs(task.matrix)
        set_options(solver, task.run)
        while True:
            if task.start is not None:
                begin(solver, whole_start(task.matrix, task.start, task.run, task.remaining()))
            remaining = task.remaining()
            if remaining is not None:
                option(solver, "time_limit", remaining + solver.getRunTime())
            events = _Events()
            if not run_in_thread(solver, task, events):
                return Verdict.STOPPED
            verdict = _verdict(solver)
            values = _values(solver)
            if verdict is Verdict.SOLVED and values is None:
                raise EngineError("highs calls the model solved but has no solution")
            whole = values is not None and task.incumbent(values)
            if verdict is not Verdict.INFEASIBLE:
                task.bound(float(solver.getInfo().mip_dual_bound) if task.matrix.whole.any() else _lp_bound(solver))
            if verdict is Verdict.SOLVED and whole and values is not None:
                task.settled(values)
            if verdict is not Verdict.SOLVED or whole or task.run.closed():
                return verdict
            if task.should_stop():
                return Verdict.STOPPED
            add_block(solver, task.missing_rows(), self.name)


def run_in_thread(solver: highspy.Highs, task: Task, events: _Events) -> bool:
    """Run HiGHS in its own thread; meanwhile report its incumbents and bounds, and stop it on request.

    Returns False if HiGHS does not stop: the thread is abandoned, and the engine must not be used any more.

    Raises
    ------
    KeyboardInterrupt
        After HiGHS has stopped and its last solutions are reported.
    """
    _listen(solver, events, task.matrix)
    failures: list[BaseException] = []
    done = threading.Event()
    worker = threading.Thread(target=_work, args=(solver, failures, done), daemon=True)
    interrupted: KeyboardInterrupt | None = None
    worker.start()
    try:
        while not done.wait(POLL_SECONDS) and not events.stop:
            _report(task, events)
            events.stop = task.should_stop()
    except KeyboardInterrupt as error:
        interrupted = error
    finally:
        events.stop = True
        worker.join(task.run.patience())
    _report(task, events)
    if interrupted is not None:
        raise interrupted
    if failures:
        raise EngineError(f"highs failed: {failures[0]}") from failures[0]
    return not worker.is_alive()


def _work(solver: highspy.Highs, failures: list[BaseException], done: threading.Event) -> None:
    import highspy

    try:
        _checked_run(solver.run())
    except BaseException as error:  # passed on to the main thread
        failures.append(error)
    finally:
        highspy.Highs.resetGlobalScheduler(True)
        done.set()


def _checked_run(status: highspy.HighsStatus) -> None:
    """Check the status of a run; HiGHS returns a warning when it reaches a limit."""
    if status.name == "kError":
        raise EngineError("highs answered kError to run")


def _listen(solver: highspy.Highs, events: _Events, matrix: MatrixModel) -> None:
    """Make HiGHS call back at new solutions and whenever it may be interrupted."""
    from highspy import cb

    kinds = cb.HighsCallbackType

    def hear(
        kind: cb.HighsCallbackType, _: str, out: cb.HighsCallbackOutput, answer: cb.HighsCallbackInput, __: object
    ) -> None:
        if kind == kinds.kCallbackMipImprovingSolution:
            events.incumbents.put(np.array(out.mip_solution, dtype=np.float64))
        elif matrix.whole.any():
            events.note_bound(out.mip_dual_bound)
        if events.stop and answer is not None:
            answer.user_interrupt = True

    checked(solver.setCallback(hear, None), "setCallback")
    for kind in (
        kinds.kCallbackMipImprovingSolution,
        kinds.kCallbackMipInterrupt,
        kinds.kCallbackSimplexInterrupt,
        kinds.kCallbackIpmInterrupt,
    ):
        checked(solver.startCallback(kind), "startCallback")


def _report(task: Task, events: _Events) -> None:
    """Report the incumbents and the bound that have arrived."""
    while True:
        try:
            values = events.incumbents.get_nowait()
        except queue.Empty:
            break
        task.incumbent(values)
    task.bound(events.bound)


def _verdict(solver: highspy.Highs) -> Verdict:
    status = solver.getModelStatus()
    verdict = STATUS.get(status.name)
    if verdict is None:
        raise EngineError(f"highs ended with model status {status.name}")
    return verdict


def _values(solver: highspy.Highs) -> FloatArray | None:
    """The solution that HiGHS holds, or None."""
    import highspy

    if solver.getInfo().primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return None
    return np.array(solver.getSolution().col_value, dtype=np.float64)


def _lp_bound(solver: highspy.Highs) -> float:
    """The objective of a solved model that has no integer columns."""
    solved = solver.getModelStatus().name == "kOptimal"
    return float(solver.getInfo().objective_function_value) if solved else -np.inf


def solve(work: Work, send: Send) -> Answer:
    """Solve once; runs in the child that replaces the embedded engine."""
    deadline = Deadline(work.seconds)
    solver = load_highs(work.matrix)
    set_options(solver, work)
    if work.start is not None:
        begin(solver, whole_start(work.matrix, work.start, work, deadline.left()))
    events = _Sending(send)
    _listen(solver, events, work.matrix)
    left = deadline.left()
    if left is not None:
        option(solver, "time_limit", left)
    _checked_run(solver.run())
    verdict = _verdict(solver)
    bound = float(solver.getInfo().mip_dual_bound) if work.matrix.whole.any() else _lp_bound(solver)
    return Answer(WORDS[verdict], _values(solver), bound if np.isfinite(bound) else None, verdict.value)


WORDS: dict[Verdict, Literal["solved", "infeasible", "stopped"]] = {
    Verdict.SOLVED: "solved",
    Verdict.INFEASIBLE: "infeasible",
    Verdict.STOPPED: "stopped",
}


class _Sending(_Events):
    """Sends findings of HiGHS directly to the parent."""

    def __init__(self, send: Send) -> None:
        super().__init__()
        self._send = send
        self.incumbents = self  # type: ignore[assignment]  # replaces the queue

    def put(self, values: FloatArray) -> None:
        """Send a solution."""
        self._send(News(values))

    def note_bound(self, value: float) -> None:
        """Send a better bound."""
        if np.isfinite(value) and value > self.bound:
            self.bound = value
            self._send(News(bound=value))
