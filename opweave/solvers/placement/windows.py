"""Windows of a plan that constraint programming decides anew (:mod:`.window_child`).

Annealing moves one operator, or a few, at a time, and its plans are orders for the list scheduler. What is left to gain
after a cooling takes several operators on other devices and transfers in another order, all at once.
"""

from __future__ import annotations

import logging
import math
from time import time

import numpy as np

from opweave.formulations.placement.instance import SUPPORTS
from opweave.problems.errors import EngineError
from opweave.problems.placement.spec import Placement, Schedule
from opweave.solvers.engines.child import ChildLimits, run_in_child
from opweave.solvers.placement.arrays import DELAY, PORT_EDGE
from opweave.solvers.placement.cooling import contraction_of, cool_down
from opweave.solvers.placement.local import LocalSearch, Spell, search_from_best
from opweave.solvers.placement.module_intervals import available
from opweave.solvers.placement.plans import Plan, ended, fits, order_by_start, plan_of, solution_of, times_of
from opweave.solvers.placement.timed_plan import Times
from opweave.solvers.placement.window_child import Work
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


FIRST_SHARE, LONGER = 0.02, 3.0
"""Seconds of each part of the first round, as a share of the time limit, and how many times longer those of the next
are. Short rounds show early what this search is worth beside others."""

STARTED = 1.0
"""Seconds from which windows are worth the start of their child process, which takes most of a second."""


@named_solver(
    Placement,
    "local",
    "slow simulated annealing, and windows of the plan by constraint programming, in turn",
    supports=SUPPORTS,
)
def solve_local(problem: Placement, run: Run) -> Outcome:
    """Rounds of cooling and windows from the best plan, each longer than the last; solver "local".

    The cooling at work when the time is up ends cold.
    """
    search = search_from_best(problem, run)
    if not search.instance.operators:
        run.proved(0.0, "trivial")
    seconds = None if run.time_limit is None else FIRST_SHARE * run.time_limit
    number = 0
    while math.isfinite(search.makespan) and search.instance.operators and not run.should_stop():
        search.catch_up()
        cool_down(search, seconds, number)
        if seconds is None or seconds >= STARTED:
            reoptimise(search, Spell(run, seconds))
        if seconds is None:
            break
        number, seconds = number + 1, LONGER * seconds
    return ended(problem, run)


def reoptimise(search: LocalSearch, spell: Spell, least: int = LEAST) -> None:
    """Improve the best plan window by window for a spell; without a time limit, for a number of windows."""
    search.run.enter("windows decided anew")
    known = math.inf
    while available() and search.instance.operators >= least and not spell.is_over():
        search.catch_up()
        plan = _best(search)
        if plan is None or plan.makespan > known * (1.0 - ELSEWHERE):
            break
        known = _in_child(search, plan, spell)


def _in_child(search: LocalSearch, plan: Times, spell: Spell) -> float:
    """Improve a plan until the time is up or another search has a better one; return the length of the best plan."""
    run, left = search.run, search.run.remaining()
    known, begun = plan.makespan, False

    def hear(found: Times | None) -> None:
        nonlocal known, begun
        begun = True
        if found is None:
            return
        known = found.makespan
        if fits(search.arrays, found.device):
            order = order_by_start(search.instance, found.start)
            better = Plan(order, found.device, found.start, found.begins, found.makespan)
            run.found(solution_of(search.instance, search.arrays, better), found.makespan)

    def should_stop() -> bool:
        stop = spell.is_over() if begun else run.over()  # the child starts in one go
        return stop or spell.left() <= 0.0 or (run.objective is not None and run.objective < known * (1.0 - ELSEWHERE))

    work = Work(
        search.arrays,
        search.instance.cluster,
        contraction_of(search.arrays, search.instance.cluster).chain,
        plan,
        run.seed,
        UNTIMED_WINDOWS if left is None else WINDOWS,
        math.inf if left is None else time() + left,
    )
    try:
        run_in_child("cp-sat", CHILD, work, ChildLimits(), hear=hear, should_stop=should_stop, pauses=True)
    except EngineError as error:  # the plans that were heard before still hold
        logger.info("windows end early: %s", error)
    return known


def _best(search: LocalSearch) -> Times | None:
    """The best plan of the search, or of its run if that is shorter."""
    plan = plan_of(search.arrays, search.order, search.device)
    known = [Times(plan.makespan, plan.device, plan.start, plan.begins), _times_in(search, search.run.best)]
    usable = [each for each in known if each is not None and 0.0 < each.makespan < math.inf]
    return min(usable, key=lambda each: each.makespan, default=None)


def _times_in(search: LocalSearch, schedule: object) -> Times | None:
    """The times of a schedule; None if it is none, or lacks a transfer."""
    if not isinstance(schedule, Schedule):
        return None
    instance, arrays = search.instance, search.arrays
    start, device = times_of(instance, schedule)
    begins = np.full(len(arrays.source), -1.0)
    if arrays.model != DELAY:
        sent = {(each.tensor, each.consumer, each.target): each.start for each in schedule.transfers}
        for f in np.flatnonzero(device[arrays.source] != device[arrays.target]).tolist():
            v, tensor = arrays.target[f], instance.tensors[arrays.tensor[f]]
            reader = instance.names[v] if arrays.model == PORT_EDGE else None
            begin = sent.get((tensor, reader, instance.devices[device[v]]))
            if begin is None:
                return None
            begins[f] = begin
    ends = start + arrays.seconds[np.arange(len(device)), device]
    return Times(float(ends.max(initial=0.0)), device, start, begins)
