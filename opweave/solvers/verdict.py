"""The end of a run: the referee judges the solutions, and the result claims only what it confirms."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar, cast

from opweave.problems.problem import Problem
from opweave.problems.result import OptionValue, Result, Status, Termination, Timings
from opweave.problems.solution import Details, Evaluation, Solution, Violation
from opweave.problems.spec import FrozenDict
from opweave.problems.timeline import Timeline
from opweave.solvers.allowance import LEAST_RESERVE
from opweave.solvers.approved import left_to_ask
from opweave.solvers.overdue import Interrupter, OverdueError
from opweave.solvers.registry import Solver
from opweave.solvers.run import RELATIVE_TOLERANCE, Outcome, Run, Setting, Stepping, agree
from opweave.solvers.trivial import trivial_bound

logger = logging.getLogger("opweave")

SolutionT = TypeVar("SolutionT", bound=Solution)
DetailsT = TypeVar("DetailsT", bound=Details)

SECONDS_PER_OPERATOR = {
    "memory_ordering": 6e-6,
    "placement": 10e-6,
    "batched_mapping": 15e-6,
    "pipeline": 6e-6,
    "slicing": 6e-6,
    "memory_layout": 8e-6,
    "serving_flow": 150e-6,
}
"""Approximate seconds that a referee takes for each operator, or storage, on a core of 2024."""

UNKNOWN_SECONDS = 60e-6
"""The same for other problems."""

WORTH_MEASURING = 0.02
"""Seconds of a look from which on the first plan is judged at once: to know how long it takes, and to have one that
holds whatever becomes of the time."""

FIRST_BY, APART = 0.5, 0.1
"""Shares of the time limit: after the first, a plan is judged in any case; at least the second passes until a better
one is judged. So a good plan that holds is known when the time is up, on a busy machine, too."""

LOOKS_APART = 20.0
"""At least this many times as long as a look took passes until the next one."""

SAFETY = 1.3
"""Later judgements may take this many times as long as the first."""


class Referee:
    """Judges the plans of one run, each once, and predicts how long that takes."""

    def __init__(self, problem: Problem[Any, Any], run: Run) -> None:
        self._problem, self._run = problem, run
        self._judged: list[tuple[Solution, Evaluation[Any]]] = []
        self._seconds = 0.0
        expected = SECONDS_PER_OPERATOR.get(problem.kind, UNKNOWN_SECONDS) * problem.size
        run.allowance.reserve = max(LEAST_RESERVE, expected)
        if run.time_limit is not None:
            run.on_look = self._measure
            run.look_from = 0.0 if expected > WORTH_MEASURING else FIRST_BY * run.time_limit

    def first_plan(self) -> AbstractContextManager[None]:
        """Let a first plan be found and judged some seconds after the limit; changes nothing once there is one."""
        if any(evaluation.feasible for _, evaluation in self._judged):
            return nullcontext()
        return self._run.allowance.for_first_plan(self._problem.size)

    def known(self, solution: Solution) -> Evaluation[Any] | None:
        """The earlier judgement of a plan, if there is one."""
        return next((evaluation for known, evaluation in self._judged if known is solution), None)

    def best(self) -> tuple[Solution, Evaluation[Any]] | None:
        """The best plan of those that were judged and hold."""
        held = [
            (found.objective, number)
            for number, (_, found) in enumerate(self._judged)
            if found.feasible and found.objective is not None
        ]
        return self._judged[min(held)[1]] if held else None

    def judge(self, solution: Solution) -> Evaluation[Any]:
        """Judge a plan, or return the earlier judgement of it."""
        known = self.known(solution)
        if known is None:
            asked = left_to_ask(self._run, self._problem, solution)
            whole = len(asked) == len(self._problem.constraints)
            known = self._problem.evaluate(solution) if whole else self._problem.judge(solution, asked)
            self._judged.append((solution, known))
        return known

    def _measure(self, solution: Solution) -> float:
        """Judge a plan, and return when the next should be judged, in seconds since the run began."""
        began, limit = time.perf_counter(), self._run.time_limit or math.inf
        if self.known(solution) is None:
            with self.first_plan():
                self.judge(solution)
            self._seconds = time.perf_counter() - began
            self._run.allowance.reserve = max(LEAST_RESERVE, SAFETY * self._seconds)
        return self._run.elapsed() + max(APART * limit, LOOKS_APART * self._seconds)


@dataclass(frozen=True, slots=True)
class Judgement:
    """The best candidate that the referee accepts, what it said of better-looking ones, and whether Ctrl-C came."""

    solution: Solution | None = None
    objective: int | float | None = None
    honest: bool = True
    violations: tuple[Violation, ...] = ()
    complaint: str | None = None
    timeline: Callable[[], Timeline | None] | None = None
    interrupted: bool = False


def judge_in_any_case(unit: str, run: Run, referee: Referee) -> Judgement:
    """Judge in time; Ctrl-C is noted and does not lose the plan, one more ends the wait."""
    try:
        return _judge_in_time(unit, run, referee)
    except KeyboardInterrupt:
        logger.warning("interrupted while the solution is verified; once more")
        return replace(_judge_in_time(unit, run, referee), interrupted=True)


def may_hold(bound: int | float, objective: int | float | None) -> bool:
    """Whether a bound does not contradict a verified objective."""
    return objective is None or bound <= objective or agree(bound, objective)


def _judge_in_time(unit: str, run: Run, referee: Referee) -> Judgement:
    """As :func:`_judge`; if there is not enough time for that, the best plan that was judged before."""
    try:
        with referee.first_plan(), Interrupter(run.allowance.until_late):
            return _judge(unit, run, referee)
    except OverdueError:
        known = referee.best()
        if known is not None:
            solution, evaluation = known
            return Judgement(solution, evaluation.objective, timeline=partial(_timeline, evaluation))
        return Judgement(complaint=None if not run.candidates else "the time was up before a plan could be checked")


def _judge(unit: str, run: Run, referee: Referee) -> Judgement:
    """Let the referee replay the candidates, best claim first, until one is valid."""
    violations: tuple[Violation, ...] = ()
    complaint: str | None = None
    for candidate in reversed(run.candidates):
        evaluation = referee.judge(candidate.solution)
        if evaluation.feasible and evaluation.objective is not None:
            if not agree(evaluation.objective, candidate.objective):
                complaint = complaint or (
                    f"the solver claimed {candidate.objective:,} {unit}, the referee counts {evaluation.objective:,}"
                )
            return Judgement(
                candidate.solution,
                evaluation.objective,
                complaint is None,
                (),
                complaint,
                partial(_timeline, evaluation),
            )
        violations = violations or evaluation.violations
        complaint = complaint or f"the solver's solution is not valid: {evaluation.violations[0].message}"
    return Judgement(honest=complaint is None, violations=violations, complaint=complaint)


def _timeline(evaluation: Evaluation[Any]) -> Timeline | None:
    return evaluation.timeline


def result_of(
    problem: Problem[SolutionT, DetailsT],
    run: Run,
    *,
    solver: Solver | str,
    outcome: Outcome,
    judged: Judgement,
    timings: Timings,
) -> Result[SolutionT]:
    """Make the result. A bound that a verified plan contradicts proves nothing, and "optimal" needs plan and bound."""
    bound, source, reasons = run.bound, run.bound_source, [outcome.reason, judged.complaint]
    if not judged.honest:  # a solver that misjudges its own solution has a wrong model, so its bound proves nothing
        bound = source = None
    if bound is not None and not may_hold(bound, judged.objective):
        reasons.append(f"the bound {bound:,} ({source}) lies above a verified objective of {judged.objective:,}")
        bound = source = None
    termination = Termination.ENGINE_ERROR if bound is None and run.bound is not None else outcome.termination
    proved = bound is not None and judged.objective is not None and agree(bound, judged.objective)
    trivial = None if proved else trivial_bound(problem)
    if trivial is not None and (bound is None or trivial > bound) and may_hold(trivial, judged.objective):
        bound, source = trivial, "trivial"
    if bound is not None and judged.objective is not None:
        bound = min(bound, judged.objective)  # they differ only by rounding
    status = _status(judged, bound, infeasible=outcome.infeasible)
    if status is Status.INFEASIBLE:  # there is no optimum, so no bound on it either
        bound = source = None
    if termination is Termination.GAP_REACHED and not _within(run.gap, judged.objective, bound):
        termination = Termination.COMPLETED  # it was that of a narrower problem, whose bound is none here
    if outcome.infeasible and judged.solution is not None:
        reasons.append("the solver called the problem infeasible although a verified solution exists")
        termination = Termination.ENGINE_ERROR
    result: Result[SolutionT] = Result(
        problem=problem.kind,
        status=status,
        termination=termination,
        objective=judged.objective,
        bound=bound,
        bound_source=source,
        solution=cast(SolutionT | None, judged.solution),
        verified=judged.solution is not None,
        violations=judged.violations,
        reason="; ".join(reason for reason in reasons if reason) or None,
        solver=solver if isinstance(solver, str) else solver.name,
        solver_version=run.engine_version or (None if isinstance(solver, str) else solver.version()),
        seed=run.seed,
        options=FrozenDict({name: _said(value) for name, value in run.options.items()}),
        assumptions=problem.assumptions(),
        timings=timings,
        incumbents=tuple(run.incumbents),
    )
    result._callback_error = run.callback_error
    result._timeline = judged.timeline
    result._answers = problem
    return result


def _said(value: Setting) -> OptionValue:
    """An option as a result keeps it: an object by the name of its class."""
    return type(value).__name__ if isinstance(value, Stepping) else value


def _within(gap: float, objective: int | float | None, bound: int | float | None) -> bool:
    """Whether the requested gap is reached."""
    if objective is None or bound is None:
        return False
    return objective - bound <= (gap + RELATIVE_TOLERANCE) * abs(objective)


def _status(judged: Judgement, bound: int | float | None, *, infeasible: bool) -> Status:
    if judged.solution is None or judged.objective is None:
        return Status.INFEASIBLE if infeasible else Status.UNKNOWN
    if bound is not None and agree(judged.objective, bound):
        return Status.OPTIMAL
    return Status.FEASIBLE
