"""CP-SAT for models of intervals. It runs in a child process: it cannot share one with HiGHS, and may exceed its time.

The parent checks every solution against the model, so wrong answers of the child are detected.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from opweave.formulations.formulation import OutOfTimeError
from opweave.formulations.horizon import Waits
from opweave.formulations.modeling.intervals import ExactProgram, IntervalModel
from opweave.formulations.modeling.linear import InfeasibleError
from opweave.formulations.modeling.model import LinearModel
from opweave.formulations.modeling.whole import WholeProgram
from opweave.problems.arrays import FloatArray
from opweave.problems.errors import EngineError, InvalidInputError
from opweave.problems.problem import Problem
from opweave.problems.result import Termination
from opweave.problems.solution import Solution
from opweave.solvers.engines.answers import Answer, News
from opweave.solvers.engines.child import ChildLimits, run_in_child
from opweave.solvers.engines.child_engine import judge, memory_limit, package_version, take
from opweave.solvers.engines.engine import (
    MOST_MODELS,
    Engine,
    HeadStart,
    Verdict,
    circumstances_of,
    first_knowledge,
    too_coarse,
    with_room,
)
from opweave.solvers.engines.interval_child import IntervalWork
from opweave.solvers.engines.task import Task
from opweave.solvers.run import Outcome, Run

LARGEST_SEED = 2**31 - 1

WORKERS_OPTION = "workers"
WORKERS = 6
"""Number of search strategies that take turns on the cores. Several prove far more than one, even on a single core.
Proofs are the same every time; with more than one worker, the choice among equally good solutions may differ."""

CLOSE_ENOUGH = 2e-7
"""Relative gap that counts as closed for seconds; it is smaller than their rounding error. Bytes are integers."""


GRACE, LEAST_GRACE = 0.05, 0.1
"""Time that the child may take to end: a share of its time limit, and a number of seconds at least."""


class CpSat(Engine):
    """CP-SAT, for formulations that write an :class:`~opweave.formulations.modeling.intervals.IntervalModel`."""

    name: ClassVar[str] = "cp-sat"
    takes: ClassVar[type[LinearModel]] = IntervalModel
    function: str = "opweave.solvers.engines.interval_child:solve"

    def missing(self) -> str | None:
        """How to install CP-SAT."""
        return None if self.version() else "pip install 'opweave[cp]'"

    def version(self) -> str | None:
        """Version of ortools."""
        return package_version("ortools")

    def solve(self, task: Task) -> Verdict:
        """Run the child, and kill it if it exceeds its time limit.

        Raises
        ------
        EngineError
            If the child crashes, fails, or returns something that cannot be true.
        """
        assert isinstance(task.program, ExactProgram)
        answer = self._answer(
            task.program.hinted(task.start), task.problem.unit == "bytes", task.run, partial(take, task)
        )
        return Verdict.STOPPED if answer is None else judge(self.name, task, answer)

    def _answer(
        self,
        program: WholeProgram,
        whole: bool,
        run: Run,
        hear: Callable[[News], None],
    ) -> Answer | None:
        """The child's final answer; None if it had to be killed."""
        seconds = run.remaining()
        work = IntervalWork(
            program,
            seconds,
            run.gap if whole else max(run.gap, CLOSE_ENOUGH),
            run.seed % LARGEST_SEED,
            run.threads,
            _workers(run),
        )
        answer: Answer | None = run_in_child(
            self.name,
            self.function,
            work,
            ChildLimits(None if seconds is None else seconds + _grace(run, seconds), memory_limit(run)),
            hear=hear,
            should_stop=lambda: run.stopped or (run.should_stop() and run.remaining() != 0.0),
        )
        return answer

    def run(self, problem: Problem[Any, Any], run: Run, formulation: type[Any], head_start: HeadStart) -> Outcome:
        """Write a problem with intervals, solve it, and report what is found.

        Raises
        ------
        EngineError
            If the child crashes, fails, or returns something that cannot be true; earlier findings remain in ``run``.
        UnsupportedConstraintError, LimitExceededError, InvalidInputError
            If the problem cannot be written with intervals.
        """
        if run.formulation not in (None, formulation.name):
            raise InvalidInputError(
                f"solver {self.name!r} runs formulation {formulation.name!r}, not {run.formulation!r}"
            )
        known = first_knowledge(problem, run, head_start)
        outcome: Outcome | None = None
        for _ in range(MOST_MODELS):
            if run.closed():
                return Outcome(run.termination())
            written = formulation(circumstances_of(problem, run, formulation))
            latest = with_room(written, partial(self._solve_once, problem, run, known))
            outcome = latest if outcome is None or not latest.infeasible else outcome
            if run.should_stop() or not too_coarse(run, written):
                break
            known = run.best
        return outcome or Outcome(run.termination())

    def _solve_once(
        self, problem: Problem[Any, Any], run: Run, known: Solution | None, written: Any
    ) -> tuple[Outcome, Waits | None]:
        """Write one model and solve it; returns the outcome, and how much longer added rows may make schedules."""
        try:
            task = _task(problem, run, written, known)
        except InfeasibleError as error:
            return Outcome(infeasible=True, reason=str(error)), None
        except OutOfTimeError:
            return Outcome(run.termination(), reason="the time was up before the model was written"), None
        if run.should_stop():
            return Outcome(run.termination()), None
        run.enter(f"{self.name}: {len(task.model.low):,} variables, {len(task.model.rows):,} rows")
        outcome = self._solve(task)
        return outcome, written.waits(task.model) if outcome.infeasible else None

    def _solve(self, task: IntervalTask) -> Outcome:
        """Run the child, and kill it if it exceeds its time limit."""
        run = task.run
        answer = self._answer(task.model.program(), task.problem.unit == "bytes", run, task.hear)
        if answer is None:
            return Outcome(_stopped(run))
        return task.judge(self.name, answer)


def _grace(run: Run, seconds: float) -> float:
    """Seconds by which the child may exceed its limit. Few are enough, because findings are reported at once."""
    return min(run.patience(), max(LEAST_GRACE, GRACE * seconds))


def _workers(run: Run) -> int:
    """Number of strategies to run side by side.

    Raises
    ------
    InvalidInputError
        If the user asks for fewer than one.
    """
    workers = run.option(WORKERS_OPTION, WORKERS)
    assert isinstance(workers, int)
    if workers < 1:
        raise InvalidInputError(f"option {WORKERS_OPTION!r} is {workers}; it must be a whole number from 1")
    return workers


@dataclass(eq=False)
class IntervalTask:
    """A model to solve, and where to report what is found."""

    problem: Problem[Any, Any]
    formulation: Any
    model: Any
    objective: int
    run: Run

    def hear(self, news: News) -> None:
        """Report a solution, a bound, or both."""
        if news.values is not None:
            self.incumbent(news.values)
        if news.bound is not None:
            self.bound(news.bound)

    def incumbent(self, found: FloatArray) -> None:
        """Report a solution of the model.

        Raises
        ------
        EngineError
            If the values violate the model.
        """
        if not (np.isfinite(found).all() and (found == np.round(found)).all()):
            raise EngineError("cp-sat returned values that are not whole numbers")
        values = [int(value) for value in found]
        complaint = self.model.broken(values)
        if complaint is not None:
            raise EngineError(f"cp-sat returned {complaint}")
        solution = self.formulation.extract_values(self.model, values)
        judged = self.problem.evaluate(solution)
        if judged.objective is None or not judged.feasible:
            # the referee will reject it, and the claim does not count
            self.run.found(solution, self.formulation.objective_bound(self.problem, values[self.objective]))
            return
        self.run.found(solution, judged.objective)

    def bound(self, value: float) -> None:
        """Report a lower bound of the model's objective."""
        proves = self.model.objective == self.objective and not self.formulation.restricts
        if proves and np.isfinite(value):
            bound = self.formulation.objective_bound(self.problem, float(value))
            self.run.proved(bound, f"cp-sat ({self.formulation.name})")

    def judge(self, engine: str, answer: Answer) -> Outcome:
        """Check how the engine ended, and report it."""
        if answer.verdict == "failed":
            raise EngineError(f"{engine} ended with {answer.reason!r}")
        if answer.verdict == "infeasible" and self.formulation.restricts:
            return Outcome(reason=f"formulation {self.formulation.name!r} leaves solutions out and has none itself")
        if answer.verdict == "infeasible":
            return Outcome(infeasible=True, reason=self.formulation.why_infeasible(self.problem))
        if answer.values is not None:
            self.incumbent(answer.values)
        elif answer.verdict == "solved":
            raise EngineError(f"{engine} calls the model solved but has no solution")
        if answer.bound is not None:
            self.bound(answer.bound)
        return Outcome(_stopped(self.run) if answer.verdict == "stopped" else self.run.termination())


def _task(problem: Problem[Any, Any], run: Run, formulation: Any, known: Solution | None) -> IntervalTask:
    """Build and extend the model, and start from the known solution."""
    run.enter(f"writing the {formulation.name} model")
    began = run.elapsed()
    model = formulation.build(problem)
    task = IntervalTask(problem, formulation, model, model.objective, run)
    if run.extend is not None:
        run.extend(model, problem)
    if known is not None:
        formulation.start(model, known)
        values = [model.hint.get(column, -1) for column in range(len(model.low))]
        complaint = model.broken(values)
        if run.extend is not None and complaint is None:
            task.incumbent(np.asarray(values, dtype=np.float64))
    run.build_seconds += run.elapsed() - began
    return task


def _stopped(run: Run) -> Termination:
    termination = run.termination()
    if termination is Termination.COMPLETED and not run.closed():
        return Termination.TIME_LIMIT if run.time_limit is not None else Termination.BUDGET
    return termination
