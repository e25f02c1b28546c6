"""Parallel lanes for a placement: searches, bounds with decomposition, and an engine on small graphs."""

from __future__ import annotations

from opweave.problems.placement.spec import Placement
from opweave.solvers.placement.auto import ENGINE_SHARE, last_word, plan_equal_units, set_grain
from opweave.solvers.placement.bounds.energetic import quick_bounds
from opweave.solvers.placement.bounds.windows import is_wide
from opweave.solvers.placement.cooling import cool_down
from opweave.solvers.placement.decompose import Decomposition
from opweave.solvers.placement.local import (
    UNTIMED_ROUNDS,
    LocalSearch,
    empty_search,
    list_plans,
    more_list_plans,
    search_from,
)
from opweave.solvers.placement.plans import ended
from opweave.solvers.placement.situation import PROGRAMMED, UNDELAYED, is_close, is_tight, is_whole
from opweave.solvers.registry import go_on_with, run_side_by_side
from opweave.solvers.rounding import Best
from opweave.solvers.run import Outcome, Run
from opweave.solvers.side_by_side.lane import Lane, with_seeds

HOME = "opweave.solvers.placement"

SEARCH_SHARE, WINDOWS_SHARE, UNTIMED_SECONDS = 0.3, 0.8, 20.0
"""Shares of the time left: for local search, and on wide networks for one more long cooling with windows that are
decided anew, while the other lane bounds; and seconds when there is no limit."""

FIRST_ROUNDS, MORE_ROUNDS = 1, 4
"""Annealing rounds before a lane helps with the modules. They are few when plan and bound are close, because then only
the proof is missing."""


def lanes(problem: Placement, run: Run) -> tuple[Lane, ...]:
    """The lanes of ``auto``."""
    if problem.reading is not None:
        return with_seeds(f"{HOME}.blocking.auto:solve_calls")(problem, run)
    search, bound = Lane(f"{HOME}.lanes:search"), Lane(f"{HOME}.lanes:bound")
    if len(problem.graph.operators) <= UNDELAYED and is_whole(empty_search(problem, run)):
        return (Lane(f"{HOME}.auto:solve_auto", cores=run.threads),)  # constraint programming uses all cores
    again = "tabu:solve_tabu" if problem.transfers == "delay" else "local:solve_local"
    return search, bound, Lane(f"{HOME}.{again}", shift=1)


def search(problem: Placement, run: Run) -> Outcome:
    """Search plans: lists, equal units, rounds of annealing; then help with the modules, and anneal to the end."""
    search = _with_lists(problem, run)
    equal = search.instance.operators > 0 and not run.should_stop() and plan_equal_units(search)
    if not run.should_stop():
        with run.share(SEARCH_SHARE, UNTIMED_SECONDS):
            run.take_in()
            _anneal(search, FIRST_ROUNDS if is_close(run) else MORE_ROUNDS)
            wide = not equal and is_wide(search.arrays)
            if wide or (not equal and is_tight(search)):
                cool_down(search)
        if wide and run.time_limit is not None:
            with run.share(WINDOWS_SHARE):
                go_on_with(problem, "reoptimise", run)
    _decompose(search)
    _anneal(search)
    return ended(problem, run)


def bound(problem: Placement, run: Run) -> Outcome:
    """Compute bounds and decompose while there is something left to try; run an engine on small graphs; then anneal."""
    search = _with_lists(problem, run)
    if search.instance.operators and not run.should_stop():
        Decomposition(problem, run).advance()
    if 0 < search.instance.operators <= PROGRAMMED and not run.should_stop():
        outcome = last_word(search, ENGINE_SHARE)
        if outcome.infeasible:
            return outcome
    _decompose(search)
    _anneal(search)
    return ended(problem, run)


def _with_lists(problem: Placement, run: Run) -> LocalSearch:
    """A local search that starts from the list schedules and the run's best plan."""
    search = empty_search(problem, run)
    set_grain(search)
    if search.instance.operators:
        quick_bounds(search.instance, search.arrays, Best(run))
    search.consider_solution(run.start)
    search.consider_solution(run.best)
    list_plans(search)
    if not run.should_stop():
        more_list_plans(search)
    return search


def _decompose(search: LocalSearch) -> None:
    """Compute bounds and plans module by module, together with all other lanes at this stage.

    A lane anneals while other lanes work on all that is left.
    """
    run = search.run
    if not search.instance.operators or run.should_stop():
        return
    work = Decomposition(search.problem, run)
    work.advance()
    while not run.should_stop() and work.open():
        _anneal(search, 1)
        work.advance()


def _anneal(search: LocalSearch, rounds: int | None = None) -> None:
    if search.run.should_stop():
        return
    search.consider_solution(search.run.best)
    search_from(search, rounds=UNTIMED_ROUNDS if rounds is None and search.run.time_limit is None else rounds)


run_side_by_side(Placement.kind, "auto", lanes)
run_side_by_side(Placement.kind, "local", with_seeds(f"{HOME}.local:solve_local"))
