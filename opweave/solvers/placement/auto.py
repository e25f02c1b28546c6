"""The default solver of placement: baselines first, then an engine on small problems, searches and bounds in turn."""

from __future__ import annotations

import logging

from opweave.formulations.placement.instance import SUPPORTS, TAKEN_IN, common_tick
from opweave.problems.constraints import Constraint, MaxDevices, Precede, Separate, means
from opweave.problems.errors import EngineError, InvalidInputError
from opweave.problems.placement.spec import Placement
from opweave.problems.result import Termination
from opweave.solvers.placement.bounds.energetic import quick_bounds
from opweave.solvers.placement.local import LocalSearch, empty_search, list_plans
from opweave.solvers.placement.plans import ended, no_plan_found
from opweave.solvers.registry import go_on_with, is_available, named_solver
from opweave.solvers.rounding import Best
from opweave.solvers.run import Outcome, Run

logger = logging.getLogger("opweave")

UNTIMED_SECONDS = 20.0
"""Most seconds of each part when there is no time limit."""

TINY, PROVABLE = 12, 60
"""Operators up to which the embedded engine finishes before another process has started, and up to which constraint
programming proves most problems."""

MOST_GRAINS = 10_000_000
"""Most common measures of all times in a schedule for which bounds are rounded up to one."""

UNTIMED_RULES: tuple[type[Constraint], ...] = (*TAKEN_IN, Precede, Separate, MaxDevices)
"""Constraints that a schedule still obeys when everything in it starts earlier, in the same order."""


@named_solver(
    Placement,
    "auto",
    "baselines, then an engine, local searches, bounds and decomposition in turn",
    kind="plan",
    proves="bound",
    supports=SUPPORTS,
    readings=(None, "transfers='blocking'"),
)
def solve_auto(problem: Placement, run: Run) -> Outcome:
    """Run the solvers of placement in turn."""
    if problem.reading is not None:
        return go_on_with(problem, "calls", run)
    search = empty_search(problem, run)
    operators = search.instance.operators
    search.consider_solution(run.start)
    list_plans(search)
    set_grain(search)
    if operators:
        quick_bounds(search.instance, search.arrays, Best(run))
    if run.closed():
        return Outcome(run.termination())
    with run.share(0.6, UNTIMED_SECONDS):
        counted = go_on_with(problem, "layers", run)  # does nothing unless the operators run one after the other
    if counted.infeasible or run.closed():
        return counted if counted.infeasible else Outcome(run.termination())  # why there are no layers is no reason
    search.consider_solution(run.best)
    outcome = None
    if 0 < operators <= TINY:
        outcome = _engine(search, "highs", 0.6)
    elif operators <= PROVABLE and is_available(problem, "cp-sat"):
        outcome = _engine(search, "cp-sat", 0.6)
    if outcome is not None and (outcome.infeasible or outcome.termination is Termination.COMPLETED):
        return outcome
    with run.share(0.2, 5.0):
        go_on_with(problem, "stages", run)
    delay = problem.transfers == "delay"
    for name, share in (("tabu" if delay else "local", 0.1), ("cooling", 0.2), ("decompose", 0.5), ("reoptimise", 0.8)):
        if not run.should_stop():
            with run.share(share, UNTIMED_SECONDS):
                go_on_with(problem, name, run, **({"rounds": 8} if name == "tabu" and run.time_limit is None else {}))
    if not run.should_stop():
        go_on_with(problem, "local", run)
    if run.best is None:
        return Outcome(run.termination(), reason=f"{no_plan_found(problem)}, and no proof that there is none")
    return ended(problem, run)


def set_grain(search: LocalSearch) -> None:
    """Let bounds be rounded up to a common measure of all times, unless a rule or row of a user's own may add times.

    Some shortest schedule waits for nothing but the ends of operators and transfers, so it takes a sum of durations.
    """
    run, constraints = search.run, search.problem.constraints
    if run.objective is not None and run.extend is None and all(means(each, *UNTIMED_RULES) for each in constraints):
        run.grain = common_tick(search.instance, float(run.objective), MOST_GRAINS) or 0.0


def _engine(search: LocalSearch, name: str, share: float) -> Outcome:
    """Run an engine for a share of the time, starting from the best plan and bound so far.

    If its range of numbers is too small, or it fails, the others go on without it.
    """
    try:
        with search.run.share(share, UNTIMED_SECONDS):
            return go_on_with(search.problem, name, search.run, head_start=False)
    except (EngineError, InvalidInputError) as error:
        logger.info("placement goes on without %s: %s", name, error)
        return Outcome(Termination.ENGINE_ERROR)
