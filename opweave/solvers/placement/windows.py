"""Solver "windows": windows of a plan that constraint programming decides anew (:mod:`.window_child`).

Annealing moves one operator, or a few, at a time, and its plans are orders for the list scheduler. What is left to gain
after a cooling takes several operators on other devices and transfers in another order, all at once.
"""

from __future__ import annotations

import logging
import math
from time import time

from opweave.formulations.placement.instance import SUPPORTS
from opweave.problems.errors import EngineError
from opweave.problems.placement.spec import Placement
from opweave.solvers.engines.child import ChildLimits, run_in_child
from opweave.solvers.placement.cooling import contraction_of
from opweave.solvers.placement.local import LocalSearch, search_from_best
from opweave.solvers.placement.module_intervals import available
from opweave.solvers.placement.plans import Plan, ended, fits, order_by_start, plan_of, solution_of
from opweave.solvers.placement.window_child import Times, Work
from opweave.solvers.registry import named_solver
from opweave.solvers.run import Outcome, Run

logger = logging.getLogger(__name__)

CHILD = "opweave.solvers.placement.window_child:improve"

LEAST = 12
"""Fewest operators for which a child process is worth its start."""

WINDOWS, UNTIMED_WINDOWS = 1_000_000, 100
"""Most windows, and the same when there is no time limit."""

ELSEWHERE = 0.005
"""Relative gain of another search's plan for which the windows are those of that plan from then on."""


@named_solver(
    Placement, "windows", "windows of the best plan decided anew by constraint programming", supports=SUPPORTS
)
def solve_windows(problem: Placement, run: Run) -> Outcome:
    """Improve the best plan window by window; solver "windows"."""
    search, known = search_from_best(problem, run), math.inf
    run.enter("windows decided anew")
    while available() and search.instance.operators >= LEAST and not run.should_stop():
        search.catch_up()
        if not 0.0 < search.makespan < known * (1.0 - ELSEWHERE) or math.isinf(search.makespan):
            break
        known = _in_child(search)
    return ended(problem, run)


def _in_child(search: LocalSearch) -> float:
    """Improve a plan until the time is up or another search has a better one; return the length of the best plan."""
    run, left = search.run, search.run.remaining()
    known = search.makespan

    def hear(found: Times) -> None:
        nonlocal known
        known = found.makespan
        if fits(search.arrays, found.device):
            order = order_by_start(search.instance, found.start)
            better = Plan(order, found.device, found.start, found.begins, found.makespan)
            run.found(solution_of(search.instance, search.arrays, better), found.makespan)

    def should_stop() -> bool:
        stop = run.should_stop()
        return stop or (run.objective is not None and run.objective < known * (1.0 - ELSEWHERE))

    plan = plan_of(search.arrays, search.order, search.device)
    work = Work(
        search.arrays,
        search.instance.cluster,
        contraction_of(search.arrays, search.instance.cluster).chain,
        Times(plan.makespan, plan.device, plan.start, plan.begins),
        run.seed,
        UNTIMED_WINDOWS if left is None else WINDOWS,
        math.inf if left is None else time() + left,
    )
    try:
        run_in_child("cp-sat", CHILD, work, ChildLimits(), hear=hear, should_stop=should_stop, pauses=True)
    except EngineError as error:  # the plans that were heard before still hold
        logger.info("windows end early: %s", error)
    return known
