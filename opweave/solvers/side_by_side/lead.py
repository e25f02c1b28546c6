"""Running a solver with helpers: lanes in processes or on an executor, and the solver itself in this process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opweave.problems.problem import Problem
from opweave.problems.result import Termination
from opweave.solvers.engines.child import place
from opweave.solvers.registry import Solver
from opweave.solvers.run import Outcome, Run
from opweave.solvers.side_by_side.exchange import Exchange, Found, Proved
from opweave.solvers.side_by_side.lane import spread
from opweave.solvers.side_by_side.rounds import Rounds
from opweave.solvers.side_by_side.team import Team

SENDING_SECONDS = 100e-6
"""Approximate seconds for each operator until another process has received a problem and begins. If less time is left,
nothing is sent: the time would be up before the other process helps, and sending takes time from this one."""

LOOK_SECONDS = 0.02
"""Seconds between checks of lanes that are still at work."""


def run_with_helpers(problem: Problem[Any, Any], solver: Solver, run: Run) -> Outcome:
    """Run a solver that has lanes; see :func:`~opweave.solvers.side_by_side.alone.run_solver`."""
    with _exchanging(run) as exchange:
        if run.executor is None:
            outcome = _with_team(problem, solver, run, exchange)
        else:
            outcome = _with_executor(problem, solver, run, exchange)
    if exchange.called_off and not outcome.infeasible and not run.should_stop():
        outcome = solver.run(problem, run)
    return _ended(outcome, run)


@contextmanager
def _exchanging(run: Run) -> Iterator[Exchange]:
    """Give a run an exchange that contains what the run knows."""
    exchange = Exchange()
    if run.best is not None and run.objective is not None:
        exchange.tell(Found(run.best, run.objective))
    if run.bound is not None:
        exchange.tell(Proved(run.bound, run.bound_source or ""))
    run.exchange = exchange
    try:
        yield exchange
    finally:
        run.take_in()
        run.exchange = None
        run.update_halt()


def _with_team(problem: Problem[Any, Any], solver: Solver, run: Run, exchange: Exchange) -> Outcome:
    """Run the first lane here and the others in processes."""
    assert solver.lanes is not None
    left = run.remaining()
    if left is not None and left < SENDING_SECONDS * problem.size:
        return solver.run(problem, run)
    lanes = solver.lanes(problem, run)
    if lanes[0].cores >= run.threads:
        return lanes[0].work(problem, run)  # an engine uses all cores
    here, *others = spread(lanes, run.threads)
    with Team(problem, tuple(others), run, exchange) as team:
        with _on_cores(run, here.cores):
            outcome = here.work(problem, run)
        while team.busy() and not outcome.infeasible and not run.should_stop():
            time.sleep(LOOK_SECONDS)
    return outcome if team.verdict is None else team.verdict


@contextmanager
def _on_cores(run: Run, cores: int) -> Iterator[None]:
    """Make the engines of a lane use ``cores`` cores; the other cores belong to the other lanes."""
    whole, run.threads = run.threads, cores
    before = place.set(0)
    try:
        yield
    finally:
        run.threads = whole
        place.reset(before)


def _with_executor(problem: Problem[Any, Any], solver: Solver, run: Run, exchange: Exchange) -> Outcome:
    """Run the whole solver here, because an executor may not respond, and its lanes in rounds of tasks."""
    assert solver.lanes is not None and run.executor is not None
    lanes = solver.lanes(problem, run)
    with Rounds(problem, lanes, run, exchange, run.executor) as rounds:
        outcome = _with_team(problem, solver, run, exchange) if run.threads > 1 else solver.run(problem, run)
        while rounds.busy() and not outcome.infeasible and not run.should_stop():
            time.sleep(LOOK_SECONDS)
    return outcome if rounds.verdict is None else rounds.verdict


def _ended(outcome: Outcome, run: Run) -> Outcome:
    """How the solve ended, over all lanes."""
    if outcome.infeasible:
        return outcome
    termination = run.termination()
    if run.time_limit is None and not run.closed() and not run.should_stop():
        termination = Termination.BUDGET
    return Outcome(termination, reason=None if run.best is not None else outcome.reason)
