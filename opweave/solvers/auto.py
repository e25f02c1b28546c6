"""``auto``: the portfolio of a problem's workers, and what it does about rules that they do not understand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from opweave.formulations.expressions import MODEL, VIOLATIONS, expressible
from opweave.problems.problem import Problem
from opweave.solvers.lanes import Workers, work_in_lanes
from opweave.solvers.registry import SEARCHES, Feature, Proves, Solver, find_solver, register
from opweave.solvers.run import Outcome, Run, Setting
from opweave.solvers.workers import Steps, Worker


def register_auto(
    problem: type[Problem[Any, Any]],
    workers: Workers,
    about: str,
    *,
    proves: Proves = "optimum",
    supports: tuple[str, ...] = (),
    modes: tuple[str | None, ...] = (None,),
) -> None:
    """Make the portfolio of a problem its default solver.

    Parameters
    ----------
    problem
        The problem's class.
    workers
        Makes the workers, in the order in which a sensible person would try them; the first one finds a plan.
    about, proves, supports, modes
        As in :class:`Solver`; ``supports`` is what all of the workers understand.
    """
    run = partial(solve_auto, workers, supports)
    every = (*supports, MODEL, VIOLATIONS)
    register(Solver("auto", problem.kind, "plan", run, about, proves, SEARCHES | {Feature.EXTEND}, every, modes=modes))


def solve_auto(workers: Workers, supports: Sequence[str], problem: Problem[Any, Any], run: Run) -> Outcome:
    """Run the portfolio of a problem; ``supports`` is what its workers understand of side constraints."""
    rules = tuple(rule for rule in problem.constraints if not expressible(type(rule), supports))
    if not rules and run.extend is None:
        return work_in_lanes(problem, workers, run)
    from opweave.solvers.obeying import solve_obeying  # most solves do without it

    return solve_obeying(workers, rules, problem, run)


def solve_alone(problem: Problem[Any, Any], name: str, run: Run) -> Outcome:
    """Run one solver, in several lanes with other seeds if the run asks for threads or brings an executor."""
    return work_in_lanes(problem, partial(_alone, name, dict(run.options)), run)


def _alone(name: str, options: Mapping[str, Setting], problem: Problem[Any, Any], _run: Run) -> list[Worker]:
    solver = find_solver(problem, name)
    return [Steps(name, lambda whole, run: solver.run(whole, run.as_worker(name, run.rest, options)), problem)]
