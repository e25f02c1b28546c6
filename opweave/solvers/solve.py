"""``solve``, the entry point for every problem and solver; the referee judges every solution."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from opweave.formulations.order_arcs import ContradictionError
from opweave.problems.errors import EngineError, InvalidInputError, checked_call
from opweave.problems.graph import OpGraph
from opweave.problems.problem import Problem
from opweave.problems.result import Result, Termination, Timings
from opweave.problems.shown import find_view
from opweave.problems.solution import Details, Solution
from opweave.solvers.arguments import (
    check_abilities,
    check_kinds,
    checked_gap,
    checked_options,
    checked_threads,
    checked_time_limit,
    checked_whole,
    start_run,
)
from opweave.solvers.auto import solve_alone
from opweave.solvers.loops import clock, compile_seconds
from opweave.solvers.registry import Solver, find_solver
from opweave.solvers.run import Extension, Observer, Outcome, Run, Setting, StopCallback
from opweave.solvers.verdict import judge, result_of

logger = logging.getLogger("opweave")

SolutionT = TypeVar("SolutionT", bound=Solution)
DetailsT = TypeVar("DetailsT", bound=Details)


@checked_call
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
    progress: Observer | bool | None = None,
    options: Mapping[str, Setting] | None = None,
) -> Result[SolutionT]:
    """Solve a problem and check the solution.

    Parameters
    ----------
    problem
        The problem to solve.
    solver
        A name from :func:`~opweave.solvers.registry.list_solvers`; "auto" chooses and combines solvers by itself.
    formulation
        For engines: the formulation of the problem to run; None for the default one.
    time_limit
        Seconds; None for no limit. The best solution and bound found by then are returned.
    gap
        Stop once (objective - bound) / objective is no more than this.
    seed
        Seed of everything random, a whole number from 0. With one thread, the same seed gives the same run unless a
        time limit cuts it short, because near a limit searches adapt to the clock.
    threads
        Number of cores to use; at most 64, or those of this machine if it has more. For an engine, these are its
        threads. For ``auto`` and the searches, they are processes of this machine that search differently side by side
        and share what they find and prove.
    executor
        Any ``concurrent.futures.Executor`` that runs further searches next to this process: the pools of the standard
        library, or ``client.get_executor()`` of a Dask cluster. Its workers need opweave, too. Tasks that have begun
        when the solve ends continue for some seconds.
    start
        A valid solution to improve on.
    extend
        ``f(model, problem)`` adds constraints to the model before an engine, or "auto", solves it: it returns them, or
        calls ``model.add(...)``. They compare model variables, the same for all engines, in seconds, bytes and counts:
        ``model.on(op, device)``, ``model.start(op)``, ``model.end(op)``, ``model.before(a, b)``,
        ``model.position(op)``, ``model.batch(op, device)``, ``model.stage(op)``, ``model.share(op, device)``,
        ``model.uses(device)``, ``model.held(device)``, ``model.stages()`` and ``model.objective``, which can be limited
        only from above. :func:`~opweave.list_formulations` lists those of each formulation; ``ow.extend.Model`` is the
        type of a model.
    callback
        Called with a :class:`~opweave.solvers.run.Progress`; returning True stops the solve.
    progress
        Called with a ``Progress``; it only observes. True shows a line on a terminal or in a notebook while the solve
        runs, and one line at its end.
    options
        Options of the chosen solver, by name: ``ow.list_solvers(problem)`` lists them with their meanings.

    Returns
    -------
    Result
        ``solve`` never raises for a time limit, Ctrl-C, an engine that fails, or a callback that raises. It returns
        what was found until then, with ``termination`` and ``reason``. ``Result.callback_error`` is
        the exception of a callback.

    Raises
    ------
    InvalidInputError
        For an argument of the wrong type or out of range, or a start that is not a solution.
    UnknownSolverError, SolverNotAvailableError, UnsupportedFeatureError, UnsupportedConstraintError
        When the solver does not support a request.
    RuleError
        If a rule of your own, its expression, or ``extend`` raises; the message names it, and ``__cause__`` is what it
        raised. No plan can be judged then, so none is returned.

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
        raise InvalidInputError(f"{_no_problem(problem)}: ow.solve(ow.MemoryOrdering(graph)), for example")
    if progress is True:
        again = partial(
            solve, problem, solver=solver, formulation=formulation, time_limit=time_limit, gap=gap, seed=seed
        )
        again = partial(again, threads=threads, executor=executor, start=start, extend=extend, callback=callback)
        return _watched(problem, solver, lambda observer: again(options=options, progress=observer))
    run = Run(
        time_limit=checked_time_limit(time_limit),
        gap=checked_gap(gap),
        seed=checked_whole("seed", seed, 0),
        threads=checked_threads(threads),
        executor=executor,
        start=start,
        formulation=formulation,
        extend=extend,
        callback=callback,
        progress=None if progress is False else progress,
        options=checked_options(options),
    )
    compiled = compile_seconds()
    check_kinds(solver, run)
    chosen, outcome = _attempt(problem, solver, run)
    solved = clock()
    judged = judge(problem, run)
    if judged.interrupted:
        outcome = replace(outcome, termination=Termination.INTERRUPTED)
    prepared = run.findings.reduce_seconds + run.findings.build_seconds
    timings = Timings(
        reduce=run.findings.reduce_seconds,
        build=run.findings.build_seconds,
        solve=max(0.0, solved - run.began - prepared),
        verify=clock() - solved,
        compile=compile_seconds() - compiled,
    )
    return result_of(problem, run, solver=chosen or solver, outcome=outcome, judged=judged, timings=timings)


def _no_problem(given: object) -> str:
    if isinstance(given, str | os.PathLike):
        return f"problem is the name of a file; load it, graph = ow.load({str(given)!r}), and build a problem"
    if isinstance(given, OpGraph):
        return "problem is a graph; say what is to be decided"
    return f"problem is of type {type(given).__name__}; it must be a problem"


def _watched(
    problem: Problem[SolutionT, DetailsT], solver: str, work: Callable[[Observer | None], Result[SolutionT]]
) -> Result[SolutionT]:
    """Let an adapter show the progress; this layer does not know how."""
    watch = find_view("solve", "progress")
    if watch is None:
        raise InvalidInputError("nothing here shows progress; import opweave, or pass progress=f")
    result: Result[SolutionT] = watch(problem, solver, work)
    return result


def _attempt(problem: Problem[Any, Any], name: str, run: Run) -> tuple[Solver | None, Outcome]:
    """Find and run the solver; an interrupt or a failing engine ends the run but keeps what it found."""
    chosen = None
    try:
        chosen = find_solver(problem, name)
        run.worker = "start" if name == "auto" else name
        check_abilities(problem, chosen, run)
        start_run(problem, run)
        run.enter(name)
        helped = chosen.kind == "algorithm" and (run.threads > 1 or run.executor is not None)
        outcome = solve_alone(problem, name, run) if helped else chosen.run(problem, run)
        if not isinstance(outcome, Outcome):
            raise EngineError(f"solver {chosen.name!r} returned {outcome!r:.80}; it must return an Outcome")
    except ContradictionError as error:
        outcome = Outcome(infeasible=True, reason=str(error))
    except KeyboardInterrupt:
        logger.warning("interrupted; returning the best found so far")
        outcome = Outcome(Termination.INTERRUPTED)
    except EngineError as error:
        logger.warning("%s", error)
        outcome = Outcome(Termination.ENGINE_ERROR, reason=str(error))
    if run.stopped and outcome.termination is Termination.TIME_LIMIT:  # the time is up because a callback says so
        outcome = replace(outcome, termination=run.termination())
    if outcome.termination is Termination.TIME_LIMIT and not run.candidates and outcome.reason is None:
        outcome = replace(outcome, reason="the time was up before there was a plan")
    if run.findings.callback_error is not None:
        outcome = _ended_by_callback(outcome, run.findings.callback_error)
    return chosen, outcome


def _ended_by_callback(outcome: Outcome, error: Exception) -> Outcome:
    logger.warning("a callback raised; returning the best found so far", exc_info=error)
    words = f"a callback raised {type(error).__name__}: {error}; what had been found until then is kept"
    reason = words if outcome.reason is None else f"{words}; {outcome.reason}"
    return replace(outcome, termination=Termination.CALLBACK_ERROR, reason=reason)
