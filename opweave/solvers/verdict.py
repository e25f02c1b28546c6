"""The end of a run: the referee judges the solutions, and the result claims only what it confirms."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar, cast

from opweave.problems.problem import Problem
from opweave.problems.result import OptionValue, Result, Status, Termination, Timings
from opweave.problems.solution import Details, Solution, Violation
from opweave.problems.spec import FrozenDict
from opweave.problems.timeline import Timeline
from opweave.solvers.registry import Solver
from opweave.solvers.run import RELATIVE_TOLERANCE, Outcome, Run, Setting, Stepping, agree
from opweave.solvers.trivial import trivial_bound

logger = logging.getLogger("opweave")

SolutionT = TypeVar("SolutionT", bound=Solution)
DetailsT = TypeVar("DetailsT", bound=Details)


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


def judge(problem: Problem[Any, Any], run: Run) -> Judgement:
    """Let the referee replay the candidates, best claim first, until one is valid.

    Ctrl-C is noted and does not lose the plan; one more ends the wait.
    """
    try:
        return _judge(problem, run)
    except KeyboardInterrupt:
        logger.warning("interrupted while the solution is verified; once more")
        return replace(_judge(problem, run), interrupted=True)


def may_hold(bound: int | float, objective: int | float | None) -> bool:
    """Whether a bound does not contradict a verified objective."""
    return objective is None or bound <= objective or agree(bound, objective)


def _judge(problem: Problem[Any, Any], run: Run) -> Judgement:
    violations: tuple[Violation, ...] = ()
    complaint: str | None = None
    for candidate in reversed(run.candidates):
        evaluation = problem.evaluate(candidate.solution)
        if evaluation.feasible and evaluation.objective is not None:
            if not agree(evaluation.objective, candidate.objective):
                complaint = complaint or (
                    f"the solver claimed {candidate.objective:,} {problem.unit}, "
                    f"the referee counts {evaluation.objective:,}"
                )
            timeline = partial(getattr, evaluation, "timeline")
            return Judgement(candidate.solution, evaluation.objective, complaint is None, (), complaint, timeline)
        violations = violations or evaluation.violations
        complaint = complaint or f"the solver's solution is not valid: {evaluation.violations[0].message}"
    return Judgement(honest=complaint is None, violations=violations, complaint=complaint)


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
    bound, source, reasons = run.bound, run.findings.bound_source, [outcome.reason, judged.complaint]
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
        solver_version=run.findings.engine_version or (None if isinstance(solver, str) else solver.version()),
        seed=run.seed,
        options=FrozenDict({name: _said(value) for name, value in run.options.items()}),
        assumptions=problem.assumptions(),
        timings=timings,
        incumbents=tuple(run.findings.incumbents),
    )
    result._callback_error = run.findings.callback_error
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
    met = bound is not None and agree(judged.objective, bound)
    return Status.OPTIMAL if met else Status.FEASIBLE
