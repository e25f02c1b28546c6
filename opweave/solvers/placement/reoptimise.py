"""Solver "reoptimise": windows of a plan that constraint programming decides anew (:mod:`.windows`).

Annealing moves one operator, or a few, at a time, and its plans are orders for the list scheduler. What is left to gain
after a cooling takes several operators on other devices and transfers in another order, all at once.
"""

from __future__ import annotations

import logging
import math
from time import time

import numpy as np

from opweave.formulations.expressions import NARROWED
from opweave.formulations.placement.instance import SUPPORTS, PlacementInstance
from opweave.problems.errors import EngineError
from opweave.problems.placement.spec import Placement, Schedule, Transfer
from opweave.solvers.engines.child import ChildLimits, run_in_child
from opweave.solvers.narrowing.runs import by_best_way
from opweave.solvers.placement.arrays import DELAY, PORT_EDGE, PlacementArrays
from opweave.solvers.placement.cooling import contraction_of, cool_down, search_from_best
from opweave.solvers.placement.local import LocalSearch
from opweave.solvers.placement.module_intervals import available
from opweave.solvers.placement.plans import Plan, ended, fits, order_by_start, plan_of, solution_of, times_of
from opweave.solvers.placement.windows import Times, Work
from opweave.solvers.registry import named_solver
from opweave.solvers.run import Outcome, Run

logger = logging.getLogger(__name__)

COOLING_SHARE = 0.5
"""Share of the time for the cooling before."""

LEAST, LEAST_SECONDS = 12, 1.5
"""Fewest operators, and least seconds that are left, for which a child process is worth its start."""

WINDOWS, UNTIMED_WINDOWS = 1_000_000, 100
"""Most windows, and the same when there is no time limit."""

ELSEWHERE = 0.002
"""Relative gain of another search's plan for which the windows are those of that plan from then on."""


@named_solver(
    Placement,
    "reoptimise",
    "one slow simulated annealing, then windows of its plan decided anew by constraint programming",
    supports=(*SUPPORTS, NARROWED),
)
@by_best_way(SUPPORTS, "heft")
def solve_reoptimise(problem: Placement, run: Run) -> Outcome:
    """Cool down, unless that was done before and time is short, and reoptimise windows; solver "reoptimise"."""
    search = search_from_best(problem, run)
    if "coolings" not in run.kept:
        with run.share(COOLING_SHARE):
            cool_down(search)
    reoptimise(search)
    if run.time_limit is not None:
        search.consider_solution(run.best)
        cool_down(search)
    return ended(problem, run)


def reoptimise(search: LocalSearch) -> None:
    """Improve the best plan window by window for the time that the run has left."""
    run = search.run
    left = run.remaining()
    if not available() or search.instance.operators < LEAST or (left is not None and left < LEAST_SECONDS):
        return
    run.enter("windows decided anew")
    known = math.inf
    while not run.should_stop():
        plan = _best(search)
        if plan is None or plan.makespan > known * (1.0 - ELSEWHERE):
            return
        known = _in_child(search, plan)


def _in_child(search: LocalSearch, plan: Times) -> float:
    """Improve a plan until the time is up or another search has a better one; return the length of the best plan."""
    run, known, left = search.run, plan.makespan, search.run.remaining()

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
        run_in_child(
            "cp-sat",
            "opweave.solvers.placement.windows:improve",
            work,
            ChildLimits(),
            hear=hear,
            should_stop=should_stop,
        )
    except EngineError as error:  # the plans that were heard before still hold
        logger.info("windows end early: %s", error)
    return known


def _best(search: LocalSearch) -> Times | None:
    """The best plan of the search, or of its run if that is shorter."""
    plans = [_planned(search.instance, search.arrays, search.run.best)]
    if math.isfinite(search.makespan):
        plan = plan_of(search.arrays, search.order, search.device)
        plans.append(Times(plan.makespan, plan.device, plan.start, plan.begins))
    known = [plan for plan in plans if plan is not None and 0.0 < plan.makespan < math.inf]
    return min(known, key=lambda plan: plan.makespan, default=None)


def _planned(instance: PlacementInstance, arrays: PlacementArrays, schedule: object) -> Times | None:
    """The times of a schedule; None if it is none, or lacks a transfer."""
    if not isinstance(schedule, Schedule):
        return None
    start, device = times_of(instance, schedule)
    lasts = arrays.seconds[np.arange(len(device)), device]
    begins = np.full(len(arrays.source), -1.0)
    if arrays.model != DELAY:
        names = {name: v for v, name in enumerate(instance.names)}
        tensors = {name: t for t, name in enumerate(instance.tensors)}
        devices = {name: k for k, name in enumerate(instance.devices)}
        known: set[Transfer] = set()
        sent = {
            (tensors[each.tensor], -1 if each.consumer is None else names[each.consumer], devices[each.target]): each
            for each in schedule.transfers
        }
        for f in np.flatnonzero(device[arrays.source] != device[arrays.target]).tolist():
            reader = int(arrays.target[f]) if arrays.model == PORT_EDGE else -1
            found = sent.get((int(arrays.tensor[f]), reader, int(device[arrays.target[f]])))
            if found is None:
                return None
            if found not in known:  # a tensor is sent once for all readers on a device
                known.add(found)
                begins[f] = found.start
    return Times(float((start + lasts).max(initial=0.0)), device, start, begins)
