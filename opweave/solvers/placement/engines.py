"""Engines that run a formulation of placement, from a head start: a good plan and the best quick lower bound.

Both shrink the windows in which operators can run, and with them the constants and rows of every formulation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress

from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.placement import calls_program, cp, milp, milp_paper  # noqa: F401 - they register themselves
from opweave.formulations.placement.instance import PlacementInstance, lower
from opweave.formulations.placement.windows import windows_of
from opweave.problems.placement.spec import Placement, Schedule
from opweave.solvers.engines.engine import HeadStart
from opweave.solvers.engines.registration import register_cp_sat, register_engines
from opweave.solvers.placement.arrays import PlacementArrays, arrays_of
from opweave.solvers.placement.baselines import best_list_schedule
from opweave.solvers.placement.blocking.auto import bound_of_calls, good_calls
from opweave.solvers.placement.bounds.best import bound
from opweave.solvers.placement.bounds.energetic import quick_bounds
from opweave.solvers.placement.local import empty_search, list_plans, search_from
from opweave.solvers.rounding import Best
from opweave.solvers.run import Run

WORTH_SEARCHING = 12
"""Least number of operators for which local search and bounds run first. Smaller problems are solved sooner without
them."""

SECONDS = 4.0
"""Most seconds for the bounds, and again for local search, before an engine begins."""

SHARE = 0.3
"""Share of the time left that each of them may take."""

ROUNDS = 2

LISTED = 40
"""Operators up to which constraint programming begins from list schedules. It improves on them faster than local search
does, and its proofs come no later."""

OPERATOR_SECONDS = 0.01
"""Most seconds per operator for local search before constraint programming, on larger problems."""


def head_start_within(run: Run) -> HeadStart:
    """A good schedule and a lower bound, computed so that most of a run's time remains for its engine."""

    def seconds() -> float:
        left = run.remaining()
        return SECONDS if left is None else min(SECONDS, SHARE * left)

    return HeadStart(lambda problem: good_schedule(problem, seconds()), lambda problem: lower_bound(problem, seconds()))


def brief_head_start_within(run: Run) -> HeadStart:
    """Like :func:`head_start_within`, but brief, because constraint programming proves small problems at once."""

    def initial(problem: Placement) -> Schedule | None:
        operators = len(problem.graph.operators)
        if operators <= LISTED and problem.reading is None:
            return best_list_schedule(problem)
        wanted, left = min(SECONDS, OPERATOR_SECONDS * operators), run.remaining()
        return good_schedule(problem, wanted if left is None else min(wanted, SHARE * left))

    return HeadStart(initial, quick_lower_bound)


def good_schedule(problem: Placement, seconds: float = SECONDS) -> Schedule | None:
    """The best feasible schedule of a short local search, else of the list schedulers; None if there is none."""
    scout = Run(time_limit=seconds)
    if problem.reading is not None:
        return good_calls(problem, scout)
    if len(problem.graph.operators) >= WORTH_SEARCHING:
        with suppress(ContradictionError):
            search = empty_search(problem, scout)
            list_plans(search)
            search_from(search, rounds=ROUNDS)
    for candidate in reversed(scout.candidates):
        assert isinstance(candidate.solution, Schedule)
        if problem.evaluate(candidate.solution).feasible:
            return candidate.solution
    return best_list_schedule(problem)  # the search ignores some constraint, and all its schedules break it


def lower_bound(problem: Placement, seconds: float = SECONDS) -> float | None:
    """The largest quick lower bound, in seconds; None when there is no plan, so that the formulation reports why."""
    return _bound_by(problem, lambda instance, arrays: bound(instance, arrays, Run(time_limit=seconds))[0])


def quick_lower_bound(problem: Placement) -> float | None:
    """The largest lower bound that takes no programs, in seconds; None as in :func:`lower_bound`."""
    best = Best(Run())

    def quickly(instance: PlacementInstance, arrays: PlacementArrays) -> float:
        quick_bounds(instance, arrays, best)
        return best.value

    return _bound_by(problem, quickly)


def _bound_by(problem: Placement, better: Callable[[PlacementInstance, PlacementArrays], float]) -> float | None:
    """The critical path or, on larger problems, a better bound; None when there is no plan."""
    if problem.reading is not None:
        return bound_of_calls(problem)
    try:
        instance = lower(problem)
    except ContradictionError:
        return None
    length = windows_of(instance, None).critical_path
    if length == math.inf:  # links are missing
        return None
    if instance.operators < WORTH_SEARCHING:
        return length
    return max(length, better(instance, arrays_of(instance, problem)))


KNOWN_BEFORE = HeadStart(initial=good_schedule, lower_bound=lower_bound, within=head_start_within)

register_engines(Placement, "a mixed-integer program with constants from the data", KNOWN_BEFORE)
register_cp_sat(
    Placement,
    "intervals that are there or not",
    HeadStart(initial=good_schedule, lower_bound=quick_lower_bound, within=brief_head_start_within),
)
