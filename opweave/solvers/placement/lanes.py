"""What runs side by side for a placement: searches, bounds with decomposition, and an engine on small graphs."""

from __future__ import annotations

from opweave.formulations.expressions import expressible
from opweave.formulations.placement.instance import SUPPORTS, lower_unless_short
from opweave.problems.placement.spec import Placement, Schedule
from opweave.solvers.placement.auto import ENGINE_SHARE, PROGRAMMED, PROVABLE, is_whole, last_word
from opweave.solvers.placement.bounds.best import quick_bounds
from opweave.solvers.placement.decompose import decompose
from opweave.solvers.placement.equal_units import plan_units
from opweave.solvers.placement.local import (
    UNTIMED_ROUNDS,
    LocalSearch,
    empty_search,
    list_plans,
    more_list_plans,
    search_from,
)
from opweave.solvers.placement.plans import no_plan_found
from opweave.solvers.registry import run_side_by_side
from opweave.solvers.run import Outcome, Run
from opweave.solvers.scheduling.best_bound import Best
from opweave.solvers.side_by_side.lane import Lane, with_seeds

HOME = "opweave.solvers.placement"

UNITS_SHARE, SEARCH_SHARE, UNTIMED_SECONDS = 0.45, 0.3, 20.0
"""Of the time that is left: plans of equal units, then local search; seconds where there is no limit."""

FIRST_ROUNDS, MORE_ROUNDS = 1, 4
"""Rounds of annealing before a lane helps with the modules: few where plan and bound are close, and the proof is all
that is left to do."""

CLOSE = 0.02
"""Relative gap up to which they are."""


def lanes(problem: Placement, run: Run) -> tuple[Lane, ...]:
    """The lanes of ``auto``."""
    search, bound = Lane(f"{HOME}.lanes:search"), Lane(f"{HOME}.lanes:bound")
    if not all(expressible(type(constraint), SUPPORTS) for constraint in problem.constraints):
        return (Lane(f"{HOME}.auto:solve_auto", cores=run.threads),)
    if len(problem.graph.operators) <= PROVABLE and is_whole(_search_of(problem, run)):
        return (Lane(f"{HOME}.auto:solve_auto", cores=run.threads),)  # constraint programming uses all cores
    return search, bound, Lane(f"{HOME}.local:solve_local", shift=1)


def search(problem: Placement, run: Run) -> Outcome:
    """Plans first: lists, equal units, a round of annealing; then help with the modules, and annealing to the end."""
    search = _with_lists(problem, run)
    if search.instance.operators and not run.should_stop():
        with run.share(UNITS_SHARE, UNTIMED_SECONDS):
            plan_units(search.problem, search.instance, search.arrays, run)
    if not run.should_stop():
        with run.share(SEARCH_SHARE, UNTIMED_SECONDS):
            _anneal(search, FIRST_ROUNDS if _is_close(run) else MORE_ROUNDS)
    _decompose(search)
    _anneal(search)
    return _ended(problem, run)


def bound(problem: Placement, run: Run) -> Outcome:
    """Bounds and decomposition while they have something left to try, an engine on small graphs, then annealing."""
    search = _with_lists(problem, run)
    if search.instance.operators and not run.should_stop():
        decompose(problem, search.instance, run)
    if 0 < search.instance.operators <= PROGRAMMED and not run.should_stop():
        outcome = last_word(search, ENGINE_SHARE)
        if outcome.infeasible:
            return outcome
    _decompose(search)
    _anneal(search)
    return _ended(problem, run)


def _with_lists(problem: Placement, run: Run) -> LocalSearch:
    """A local search that knows what every list scheduler finds, and the run's best."""
    search = _search_of(problem, run)
    if search.instance.operators:
        quick_bounds(search.instance, search.arrays, Best(run))
    for known in (run.start, run.best):
        if isinstance(known, Schedule):
            search.consider_schedule(known)
    list_plans(search)
    if not run.should_stop():
        more_list_plans(search)
    return search


def _search_of(problem: Placement, run: Run) -> LocalSearch:
    return empty_search(problem, lower_unless_short(problem), run)


def _decompose(search: LocalSearch) -> None:
    """Bounds and plans module by module, together with all lanes that have come to this.

    While the others are at all that is left, a lane anneals.
    """
    run = search.run
    if not search.instance.operators or run.should_stop():
        return
    work = decompose(search.problem, search.instance, run)
    while not run.should_stop() and work.open():
        _anneal(search, 1)
        work.learn()
        work.advance()


def _anneal(search: LocalSearch, rounds: int | None = None) -> None:
    if search.run.should_stop():
        return
    if isinstance(search.run.best, Schedule):
        search.consider_schedule(search.run.best)
    search_from(search, rounds=UNTIMED_ROUNDS if rounds is None and search.run.time_limit is None else rounds)


def _is_close(run: Run) -> bool:
    """Whether there is hardly anything between the best plan and the bound."""
    run.take_in()
    known, bound = run.objective, run.bound
    return known is not None and bound is not None and known - bound <= CLOSE * known


def _ended(problem: Placement, run: Run) -> Outcome:
    return Outcome(run.termination(), reason=None if run.best is not None else no_plan_found(problem))


run_side_by_side(Placement.kind, "auto", lanes)
run_side_by_side(Placement.kind, "local", with_seeds(f"{HOME}.local:solve_local"))
