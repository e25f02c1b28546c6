"""CP-SAT on models of intervals, in a child process: it cannot share one with HiGHS, and may overrun its time.

The parent checks every solution against the model, so a child that lies is found out.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from opweave.formulations.formulation import InfeasibleError, OutOfTimeError
from opweave.formulations.intervals import IntervalModel
from opweave.problems.errors import EngineError, InvalidInputError
from opweave.problems.problem import Problem
from opweave.problems.result import Termination
from opweave.problems.solution import Solution
from opweave.solvers.engines.child import PLACE, ChildLimits, Send, run_in_child
from opweave.solvers.engines.child_engine import GRACE_SECONDS, Answer, News, memory_limit, package_version
from opweave.solvers.engines.deadline import Deadline
from opweave.solvers.engines.engine import Aids, circumstances_of, first_knowledge
from opweave.solvers.engines.matrix import FloatArray
from opweave.solvers.run import Outcome, Run

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

LARGEST_SEED = 2**31 - 1

WORKERS_OPTION = "workers"
WORKERS = 6
"""Search strategies that take turns on the cores: several prove far more than one, even on a single core. Proofs are
the same every time; which of several best solutions comes back may differ, unless there is one worker."""

CLOSE_ENOUGH = 2e-7
"""Relative gap that is as good as none: less than what durations lose by rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class IntervalWork:
    """What the child is given; seconds from the moment at which it was started."""

    model: IntervalModel
    seconds: float | None
    gap: float
    seed: int
    threads: int
    workers: int


class CpSat:
    """The engine, for formulations that write an :class:`~opweave.formulations.intervals.IntervalModel`."""

    name: ClassVar[str] = "cp-sat"
    function: str = "opweave.solvers.engines.cp_sat:solve"

    def missing(self) -> str | None:
        """How to install it."""
        return None if self.version() else "pip install 'opweave[cp]'"

    def version(self) -> str | None:
        """Version of ortools."""
        return package_version("ortools")

    def run(self, problem: Problem[Any, Any], run: Run, formulation: type[Any], aids: Aids) -> Outcome:
        """Write a problem with intervals, have it solved, and report what is found.

        Raises
        ------
        EngineError
            When the child crashes, fails, or returns what cannot be true; what it found before is in ``run``.
        UnsupportedConstraintError, LimitExceededError, InvalidInputError
            When the problem cannot be written so.
        """
        if run.formulation not in (None, formulation.name):
            raise InvalidInputError(
                f"solver {self.name!r} runs formulation {formulation.name!r}, not {run.formulation!r}"
            )
        known = first_knowledge(problem, run, aids)
        if run.closed():
            return Outcome(run.termination())
        try:
            task = _task(problem, run, formulation(circumstances_of(problem, run, formulation)), known)
        except InfeasibleError as error:
            return Outcome(infeasible=True, reason=str(error))
        except OutOfTimeError:
            return Outcome(run.termination(), reason="the time was up before the model was written")
        if run.should_stop():
            return Outcome(run.termination())
        run.enter(f"{self.name}: {len(task.model.low):,} variables, {len(task.model.rows):,} rows")
        return self._solve(task)

    def _solve(self, task: IntervalTask) -> Outcome:
        """Run the child; kill it when it overruns its time."""
        run = task.run
        seconds = run.remaining()
        work = IntervalWork(
            plain(task.model),
            seconds,
            max(run.gap, CLOSE_ENOUGH),
            run.seed % LARGEST_SEED,
            run.threads,
            _workers(run),
        )
        answer: Answer | None = run_in_child(
            self.name,
            self.function,
            work,
            ChildLimits(None if seconds is None else seconds + GRACE_SECONDS, memory_limit(run)),
            hear=task.hear,
            should_stop=lambda: run.should_stop() and run.remaining() != 0.0,
        )
        if answer is None:
            return Outcome(_stopped(run))
        return task.judge(self.name, answer)


def _workers(run: Run) -> int:
    """How many strategies to run side by side.

    Raises
    ------
    InvalidInputError
        When the user asks for none.
    """
    workers = run.option(WORKERS_OPTION, WORKERS)
    assert isinstance(workers, int)
    if workers < 1:
        raise InvalidInputError(f"option {WORKERS_OPTION!r} is {workers}; it takes a whole number from 1")
    return workers


def plain(model: IntervalModel) -> IntervalModel:
    """The model without what its formulation keeps beside it."""
    return IntervalModel(model.low, model.high, model.rows, model.apart, model.objective, model.hint, model.circuits)


@dataclass(eq=False)
class IntervalTask:
    """A model to solve, and where what is found goes."""

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
            When the values break the model.
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
            # the referee will object, and nothing that was claimed counts
            self.run.found(solution, self.formulation.objective_bound(self.problem, values[self.objective]))
            return
        self.run.found(solution, judged.objective)

    def bound(self, value: float) -> None:
        """Report a lower bound of the model's objective."""
        if self.model.objective == self.objective and np.isfinite(value):
            bound = self.formulation.objective_bound(self.problem, float(value))
            self.run.proved(bound, f"cp-sat ({self.formulation.name})")

    def judge(self, engine: str, answer: Answer) -> Outcome:
        """Check and report how the engine ended."""
        if answer.verdict == "failed":
            raise EngineError(f"{engine} ended with {answer.reason!r}")
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
    """Build and extend the model, and begin with the known solution."""
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


def solve(work: IntervalWork, send: Send) -> Answer:
    """Solve with CP-SAT; runs in the child."""
    from ortools.sat.python import cp_model

    deadline = Deadline(work.seconds)
    model, columns = write(work.model)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = max(work.threads, work.workers if _keep_to(work.threads) else 1)
    solver.parameters.random_seed = work.seed
    solver.parameters.relative_gap_limit = work.gap
    left = deadline.left()
    if left is not None:
        solver.parameters.max_time_in_seconds = left
    solver.best_bound_callback = lambda bound: send(News(bound=float(bound)))

    class Hear(cp_model.CpSolverSolutionCallback):  # type: ignore[misc, unused-ignore]
        """Sends every solution."""

        def on_solution_callback(self) -> None:
            values = np.asarray([self.value(column) for column in columns], dtype=np.float64)
            send(News(values=values))

    status = solver.solve(model, Hear())
    name = solver.status_name(status)
    if name in ("OPTIMAL", "FEASIBLE"):
        values = np.asarray([solver.value(column) for column in columns], dtype=np.float64)
        return Answer("solved" if name == "OPTIMAL" else "stopped", values, float(solver.best_objective_bound))
    if name == "INFEASIBLE":
        return Answer("infeasible")
    if name == "UNKNOWN":
        return Answer("stopped", None, float(solver.best_objective_bound))
    return Answer("failed", reason=f"{name}: {model.validate()}")


def _keep_to(cores: int) -> bool:
    """Confine this process to so many cores; returns whether the system can do that."""
    if not hasattr(os, "sched_setaffinity"):
        return False
    allowed = sorted(os.sched_getaffinity(0))
    first = int(os.environ.get(PLACE, os.getpid())) % len(allowed)  # not the same ones for all children
    os.sched_setaffinity(0, {allowed[(first + index) % len(allowed)] for index in range(min(cores, len(allowed)))})
    return True


def write(data: IntervalModel) -> tuple[cp_model.CpModel, list[cp_model.IntVar]]:
    """The data as a model of CP-SAT; returns its variables by column."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    columns = [model.new_int_var(low, high, "") for low, high in zip(data.low, data.high, strict=True)]
    for row in data.rows:
        low = cp_model.INT_MIN if row.low is None else row.low
        high = cp_model.INT_MAX if row.high is None else row.high
        body = cp_model.LinearExpr.weighted_sum([columns[c] for c in row.columns], row.coefficients)
        written = model.add_linear_constraint(body, low, high)
        if row.only_if:
            written.only_enforce_if([columns[column] for column in row.only_if])
    seen: dict[int, Any] = {}
    for group in data.apart:
        model.add_no_overlap([_interval(model, columns, seen, each) for each in group])
    for arcs in data.circuits:
        model.add_circuit([(arc.tail, arc.head, columns[arc.taken]) for arc in arcs])
    for column, value in data.hint.items():
        model.add_hint(columns[column], value)
    model.minimize(columns[data.objective])
    return model, columns


def _interval(model: cp_model.CpModel, columns: list[Any], seen: dict[int, Any], each: Any) -> Any:
    """An interval, written once even if several groups hold it."""
    if id(each) not in seen:
        start = columns[each.start]
        if each.present is None:
            seen[id(each)] = model.new_fixed_size_interval_var(start, each.size, "")
        else:
            seen[id(each)] = model.new_optional_fixed_size_interval_var(start, each.size, columns[each.present], "")
    return seen[id(each)]
