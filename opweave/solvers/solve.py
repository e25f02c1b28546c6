"""``solve``: one entry for every problem and solver; the referee has the last word."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from opweave.formulations.order_arcs import ContradictionError
from opweave.problems.errors import EngineError, InvalidInputError
from opweave.problems.problem import Problem
from opweave.problems.result import OptionValue, Result, Status, Termination, Timings
from opweave.problems.solution import Details, Solution, Violation
from opweave.problems.spec import FrozenDict
from opweave.solvers.arguments import check_kinds, checked_gap, checked_options, checked_time_limit, checked_whole
from opweave.solvers.registry import Solver, check_abilities, find_solver
from opweave.solvers.run import Extension, Observer, Outcome, Run, StopCallback, start_run
from opweave.solvers.side_by_side.lead import run_solver

logger = logging.getLogger("opweave")

RELATIVE_TOLERANCE = 1e-6
"""How far a claimed objective may lie from the referee's; whole numbers must agree exactly."""

SolutionT = TypeVar("SolutionT", bound=Solution)
DetailsT = TypeVar("DetailsT", bound=Details)


def solve(
    problem: Problem[SolutionT, DetailsT],
    *,
    solver: str = "auto",
    formulation: str | None = None,
    time_limit: float | None = None,
    gap: float = 0.0,
    seed: int = 0,
    threads: int = 1,
    executor: Executor | None = None,
    start: SolutionT | None = None,
    extend: Extension | None = None,
    callback: StopCallback | None = None,
    progress: Observer | None = None,
    options: Mapping[str, OptionValue] | None = None,
) -> Result[SolutionT]:
    """Solve a problem and have the answer checked.

    Parameters
    ----------
    problem
        Any of the five problems.
    solver
        A name from :func:`~opweave.solvers.registry.solvers`; "auto" plans the whole road by itself.
    formulation
        For engines: which writing of the problem to run; None for the default one.
    time_limit
        Seconds; None for no limit. The best solution and bound found by then are returned.
    gap
        Stop once (objective - bound) / objective is no more than this.
    seed
        Seed of everything random, a whole number from 0; the same seed gives the same result.
    threads
        How many cores to use: the threads of an engine; of ``auto`` and the searches, processes of this machine that
        work in different ways side by side and share what they find and prove. With one thread, the same seed gives
        the same run.
    executor
        Where more ways to work on the problem run beside this process, any ``concurrent.futures.Executor``: the pools
        of the standard library, or ``client.get_executor()`` of a Dask cluster. Its workers need opweave, too. Tasks
        that have begun when the solve ends go on for some seconds.
    start
        A valid solution to improve on.
    extend
        ``f(model, problem)`` may add to an engine's model before it is solved.
    callback
        Called with a :class:`~opweave.solvers.run.Progress`; returning True stops the solve.
    progress
        Called with a ``Progress`` to observe only.
    options
        Options of the chosen solver, by name.

    Returns
    -------
    Result
        Never raises for a time limit, Ctrl-C, or an engine that fails: what was found until then is returned and
        ``termination`` and ``reason`` say what happened.

    Raises
    ------
    InvalidInputError
        For an argument of the wrong kind or out of range, or a start that is no solution.
    UnknownSolverError, SolverNotAvailableError, UnsupportedFeatureError, UnsupportedConstraintError
        When the solver cannot do what is asked.

    Examples
    --------
    >>> import opweave as ow
    >>> graph = ow.OpGraph(
    ...     tensors=[ow.Tensor(id="x", bytes=4), ow.Tensor(id="y", bytes=4)],
    ...     operators=[ow.Operator(id="copy", inputs=["x"], outputs=["y"])],
    ...     outputs=["y"],
    ... )
    >>> result = ow.solve(ow.MemoryOrdering(graph=graph))
    >>> result.status.value, result.objective, result.solution.order
    ('optimal', 8, ('copy',))
    """
    if not isinstance(problem, Problem):
        raise InvalidInputError(f"solve takes a problem, such as a MemoryOrdering, not a {type(problem).__name__}")
    run = Run(
        time_limit=checked_time_limit(time_limit),
        gap=checked_gap(gap),
        seed=checked_whole("seed", seed, 0),
        threads=checked_whole("threads", threads, 1),
        executor=executor,
        start=start,
        formulation=formulation,
        extend=extend,
        callback=callback,
        progress=progress,
        options=checked_options(options),
    )
    check_kinds(solver, run)
    chosen = find_solver(problem, solver)
    check_abilities(problem, chosen, run)
    start_run(problem, run)
    outcome = _attempt(problem, chosen, run)
    solved = time.perf_counter()
    judged = _judge(problem, run)
    timings = Timings(
        reduce=run.reduce_seconds,
        build=run.build_seconds,
        solve=max(0.0, solved - run.began - run.reduce_seconds - run.build_seconds),
        verify=time.perf_counter() - solved,
    )
    return _result(problem, chosen, run, outcome=outcome, judged=judged, timings=timings)


def _attempt(problem: Problem[Any, Any], solver: Solver, run: Run) -> Outcome:
    """Run the solver; an interrupt or a failing engine ends the run but keeps what it found."""
    try:
        return run_solver(problem, solver, run)
    except ContradictionError as error:
        return Outcome(infeasible=True, reason=str(error))
    except KeyboardInterrupt:
        logger.warning("interrupted; returning the best found so far")
        return Outcome(Termination.INTERRUPTED)
    except EngineError as error:
        logger.warning("%s", error)
        return Outcome(Termination.ENGINE_ERROR, reason=str(error))


@dataclass(frozen=True, slots=True)
class _Judgement:
    """The best candidate that the referee accepts, and what it said of better-looking ones."""

    solution: Solution | None = None
    objective: int | float | None = None
    honest: bool = True
    violations: tuple[Violation, ...] = ()
    complaint: str | None = None


def _agrees(first: int | float, second: int | float) -> bool:
    """Equal: exactly for whole numbers (bytes), within the relative tolerance for others (seconds)."""
    if isinstance(first, int) and isinstance(second, int):
        return first == second
    return abs(first - second) <= RELATIVE_TOLERANCE * max(abs(first), abs(second))


def _judge(problem: Problem[Any, Any], run: Run) -> _Judgement:
    """Let the referee replay the candidates, best claim first, until one holds."""
    violations: tuple[Violation, ...] = ()
    complaint: str | None = None
    for candidate in reversed(run.candidates):
        evaluation = problem.evaluate(candidate.solution)
        if evaluation.feasible and evaluation.objective is not None:
            if not _agrees(evaluation.objective, candidate.objective):
                complaint = complaint or (
                    f"the solver claimed {candidate.objective:,} {problem.unit}, the referee counts "
                    f"{evaluation.objective:,}"
                )
            return _Judgement(candidate.solution, evaluation.objective, complaint is None, (), complaint)
        violations = violations or evaluation.violations
        complaint = complaint or f"the solver's solution is not valid: {evaluation.violations[0].message}"
    return _Judgement(honest=complaint is None, violations=violations, complaint=complaint)


def _result(
    problem: Problem[SolutionT, DetailsT],
    solver: Solver,
    run: Run,
    *,
    outcome: Outcome,
    judged: _Judgement,
    timings: Timings,
) -> Result[SolutionT]:
    bound, source, reasons = run.bound, run.bound_source, [outcome.reason, judged.complaint]
    if not judged.honest:  # whoever misjudges its own solution has a wrong model, so its bound proves nothing
        bound = source = None
    if bound is not None and judged.objective is not None and bound > judged.objective:
        if not _agrees(bound, judged.objective):
            reasons.append(f"the bound {bound:,} ({source}) lies above a verified objective of {judged.objective:,}")
            bound = source = None
        else:
            bound = judged.objective
    termination = Termination.ENGINE_ERROR if bound is None and run.bound is not None else outcome.termination
    status = _status(judged, bound, infeasible=outcome.infeasible)
    if status is Status.INFEASIBLE:  # there is no optimum, and so nothing that a bound could lie below
        bound = source = None
    if outcome.infeasible and judged.solution is not None:
        reasons.append("the solver called the problem infeasible although a verified solution exists")
        termination = Termination.ENGINE_ERROR
    return Result[SolutionT](
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
        solver=solver.name,
        solver_version=run.engine_version or solver.version(),
        seed=run.seed,
        options=FrozenDict(run.options),
        model=problem.reading(),
        timings=timings,
        incumbents=tuple(run.incumbents),
    )


def _status(judged: _Judgement, bound: int | float | None, *, infeasible: bool) -> Status:
    if judged.solution is None or judged.objective is None:
        return Status.INFEASIBLE if infeasible else Status.UNKNOWN
    if bound is not None and _agrees(judged.objective, bound):
        return Status.OPTIMAL
    return Status.FEASIBLE
