"""Parallel lanes for batched mapping: annealing and windows, bounds, placement of the whole batch."""

from __future__ import annotations

from opweave.formulations.batched_mapping.instance import SUPPORTS, lower_unless_short
from opweave.formulations.expressions import expressible
from opweave.problems.batched_mapping.spec import BatchedMapping
from opweave.solvers.batched_mapping.bounds.best import CHANNELS, WIDE, module_bounds, quick_bounds
from opweave.solvers.batched_mapping.bounds.one_input import shortest_way
from opweave.solvers.batched_mapping.local import UNTIMED_ROUNDS, BatchSearch, begin, new_search
from opweave.solvers.batched_mapping.modules import modules_of
from opweave.solvers.batched_mapping.replicate import replicated
from opweave.solvers.batched_mapping.rolling import roll
from opweave.solvers.batched_mapping.split import EXACT_SECONDS, LARGE_SOLVER, Split, split
from opweave.solvers.batched_mapping.whole import by_name, lane_of_auto, never_splits, solve_whole
from opweave.solvers.registry import find_solver, run_side_by_side
from opweave.solvers.run import Outcome, Run
from opweave.solvers.side_by_side.lane import Lane, with_seeds

HOME = "opweave.solvers.batched_mapping"

ENGINE = "highs"
ENGINE_CELLS = 40
"""Operators x devices x inputs up to which the integer program runs."""

WHOLE_SHARE, QUICK_SHARE = 0.12, 0.02
"""Shares of the time: for plans that do not split the batch, by placement's local search; and for the quick bounds."""

BOUND_SHARE = 0.2
"""Share of the time left for each bound, before the second lane also anneals."""

UNTIMED_SECONDS = 20.0

ROLLS = 2


def lanes(problem: BatchedMapping, _run: Run) -> tuple[Lane, ...]:
    """The lanes of ``auto``."""
    tiny = len(problem.graph.operators) * len(problem.cluster.devices) * problem.batch <= ENGINE_CELLS
    known = all(expressible(type(constraint), SUPPORTS) for constraint in problem.constraints)
    if tiny or not known:
        return (Lane(f"{HOME}.auto:solve_auto"),)
    return Lane(f"{HOME}.lanes:search"), Lane(f"{HOME}.lanes:bound", shift=1)


def search(problem: BatchedMapping, run: Run) -> Outcome:
    """Search plans only: lists, the whole batch as a placement, then windows and annealing in turn."""
    search = _with_lists(problem, run)
    if search is None or run.should_stop():
        return _ended(run)
    with run.share(QUICK_SHARE, QUICK_SHARE * UNTIMED_SECONDS):
        quick_bounds(search.instance, search.reach, run)
    if never_splits(search.instance):
        return solve_whole(lane_of_auto(0), problem, run)
    with run.share(WHOLE_SHARE, WHOLE_SHARE * UNTIMED_SECONDS):
        solve_whole(by_name("local"), problem, run)
    _anneal(search, ROLLS)
    return _ended(run)


def bound(problem: BatchedMapping, run: Run) -> Outcome:
    """Compute bounds, solve modules if the batch cannot be split, then anneal."""
    search = _with_lists(problem, run)
    if search is None or run.should_stop():
        return _ended(run)
    best = quick_bounds(search.instance, search.reach, run)
    whole = never_splits(search.instance)
    share = 1.0 if whole else BOUND_SHARE
    if not run.should_stop():
        with run.share(share, UNTIMED_SECONDS):
            module_bounds(problem, search.instance, best, run)
    if whole:
        return _bound_whole(search)
    if not run.should_stop():
        with run.share(share, UNTIMED_SECONDS):
            best.report(shortest_way(problem, search.instance, best.value, run), "one input")
    _anneal(search, 1)
    return _ended(run)


def _bound_whole(search: BatchSearch) -> Outcome:
    """Solve modules by a constraint program if one channel joins them; compute placement's bounds."""
    run, problem = search.run, search.problem
    cut = Split(search, 1)
    if not run.should_stop() and len(cut.modules) > 1 and cut.solver() == LARGE_SOLVER and cut.separates():
        split(cut, solver=LARGE_SOLVER, seconds=EXACT_SECONDS)
    if run.should_stop():
        return _ended(run)
    return solve_whole(lane_of_auto(1), problem, run)


def _with_lists(problem: BatchedMapping, run: Run) -> BatchSearch | None:
    """A search that starts from the list schedules and the run's best plan; None if there is nothing to run."""
    instance = lower_unless_short(problem)
    if not instance.operators:
        find_solver(problem, "auto").run(problem, run)
        return None
    search = new_search(problem, instance, run)
    begin(search)
    for plan in replicated(problem, instance, search.arrays, run):
        search.consider(plan)
    return search


def _anneal(search: BatchSearch, most: int) -> None:
    """Alternate windows, at most ``most`` times, and annealing."""
    run, modules = search.run, modules_of(search.instance, CHANNELS, least=WIDE)
    rounds = rolls = 0
    while search.best is not None and not run.should_stop() and (run.time_limit is not None or rounds < UNTIMED_ROUNDS):
        search.catch_up()
        if rolls < most and len(modules) > 1:
            roll(search, modules, rolls)
            rolls += 1
        rounds = run.turn("annealing", rounds)
        search.anneal_round(rounds)
        rounds += 1


def _ended(run: Run) -> Outcome:
    reason = None if run.best is not None else "no plan was found whose memory, links and batch sizes fit"
    return Outcome(run.termination(), reason=reason)


run_side_by_side(BatchedMapping.kind, "auto", lanes)
run_side_by_side(BatchedMapping.kind, "local", with_seeds(f"{HOME}.local:solve_local"))
