"""What engines are given to begin with: a good plan from above, the best quick bound from below.

Both shrink the windows in which operators can run, and with them the constants and rows of every formulation.
"""

from __future__ import annotations

import math

from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.placement.instance import lower
from opweave.formulations.placement.windows import windows_of
from opweave.problems.placement.spec import Placement, Schedule
from opweave.solvers.engines.engine import HeadStart
from opweave.solvers.placement.arrays import arrays_of
from opweave.solvers.placement.baselines import best_list_schedule
from opweave.solvers.placement.bounds.best import bound, quick_bounds
from opweave.solvers.placement.local import empty_search, list_plans, search_from
from opweave.solvers.run import Run
from opweave.solvers.scheduling.best_bound import Best

WORTH_SEARCHING = 12
"""Operators from which on local search and bounds come first; smaller problems are solved before those are done."""

SECONDS = 4.0
"""Most that the bounds, and then local search, may take before an engine begins."""

SHARE = 0.3
"""Of the time that is left, what each of them may take."""

ROUNDS = 2

LISTED = 40
"""Operators up to which constraint programming begins from list schedules: it passes those sooner than local search
does, and its proofs come no later for it."""

OPERATOR_SECONDS = 0.01
"""Most that local search may take before constraint programming on larger problems, for each operator."""


def head_start_within(run: Run) -> HeadStart:
    """A good schedule and a floor that leave most of a run's time to its engine."""

    def seconds() -> float:
        left = run.remaining()
        return SECONDS if left is None else min(SECONDS, SHARE * left)

    return HeadStart(lambda problem: good_schedule(problem, seconds()), lambda problem: lower_bound(problem, seconds()))


def brief_head_start_within(run: Run) -> HeadStart:
    """As :func:`head_start_within`, but brief: constraint programming proves small problems at once."""

    def initial(problem: Placement) -> Schedule | None:
        operators = len(problem.graph.operators)
        if operators <= LISTED:
            return best_list_schedule(problem)
        wanted, left = min(SECONDS, OPERATOR_SECONDS * operators), run.remaining()
        return good_schedule(problem, wanted if left is None else min(wanted, SHARE * left))

    return HeadStart(initial, quick_lower_bound)


def good_schedule(problem: Placement, seconds: float = SECONDS) -> Schedule | None:
    """The best schedule of a short local search that obeys the whole problem, else of the lists; None without any."""
    try:
        instance = lower(problem)
    except ContradictionError:
        return None
    if instance.operators < WORTH_SEARCHING:
        return best_list_schedule(problem)
    scout = Run(time_limit=seconds)
    search = empty_search(problem, instance, scout)
    list_plans(search)
    search_from(search, rounds=ROUNDS)
    for candidate in reversed(scout.candidates):
        assert isinstance(candidate.solution, Schedule)
        if problem.evaluate(candidate.solution).feasible:
            return candidate.solution
    return best_list_schedule(problem)  # those of the search broke a constraint that it does not know


def lower_bound(problem: Placement, seconds: float = SECONDS) -> float | None:
    """The largest quick lower bound, in seconds; None where the model has to say in words why there is no plan."""
    try:
        instance = lower(problem)
    except ContradictionError:
        return None
    length = windows_of(instance, None).critical_path
    if length == math.inf:  # links are missing
        return None
    if instance.operators < WORTH_SEARCHING:
        return length
    value, _ = bound(problem, instance, arrays_of(instance, problem), Run(time_limit=seconds))
    return max(length, value)


def quick_lower_bound(problem: Placement) -> float | None:
    """The largest lower bound that takes no programs, in seconds; None as in :func:`floor`."""
    try:
        instance = lower(problem)
    except ContradictionError:
        return None
    length = windows_of(instance, None).critical_path
    if length == math.inf:
        return None
    if instance.operators < WORTH_SEARCHING:
        return length
    best = Best(Run())
    quick_bounds(instance, arrays_of(instance, problem), best)
    return max(length, best.value)
