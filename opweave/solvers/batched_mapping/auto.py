"""The default solver of batched mapping: baselines and list schedules, split and whole; bounds; local search.

It runs every list scheduler, so it is never worse than any of them; the first of them uses the best single device. If
the batch cannot be split, the problem is a placement, and placement's default solver takes over.

Several cores get one lane that searches plans and one that computes bounds first.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager

from opweave.formulations.batched_mapping.instance import SUPPORTS
from opweave.formulations.expressions import expressible
from opweave.problems.batched_mapping.spec import BatchedMapping
from opweave.problems.errors import EngineError, InvalidInputError
from opweave.problems.result import Termination
from opweave.solvers.batched_mapping.bounds.best import module_bounds, quick_bounds
from opweave.solvers.batched_mapping.bounds.one_input import shortest_way
from opweave.solvers.batched_mapping.local import BatchSearch, ended, search_from, started
from opweave.solvers.batched_mapping.modules import modules_of
from opweave.solvers.batched_mapping.replicate import replicated
from opweave.solvers.batched_mapping.split import (
    BATCH_SOLVER,
    EXACT_SECONDS,
    LARGE_SOLVER,
    SEARCH_SECONDS,
    SMALL_MODULE,
    Split,
    split,
)
from opweave.solvers.batched_mapping.whole import by_name, lane_of_auto, never_splits, solve_whole
from opweave.solvers.registry import Feature, find_solver, is_available, named_solver, run_side_by_side
from opweave.solvers.rounding import Best
from opweave.solvers.run import Outcome, Run
from opweave.solvers.side_by_side.lane import Lane, with_seeds

logger = logging.getLogger("opweave")

HOME = "opweave.solvers.batched_mapping"

ENGINE = "highs"
ENGINE_CELLS = 40
"""Operators x devices x inputs up to which the integer program runs. It proves such problems, mostly at once."""

ENGINE_SHARE = 0.5
"""Share of the time for the integer program, which would use up all time on an instance too hard for it."""

COUNTED = {"counts": (40, 0.5), "cp-sat": (24, 0.5)}
"""Constraint programs, if installed: operators x devices up to which each proves many problems or finds the best plans,
and its share of the time."""

NO_GAP = 1e-8
"""Relative gap that rounding to ticks may leave: the solver stops when an engine ends within it."""

FIRST_SHARE = 0.02
"""Share of the time for the first annealing round. It only gives the bounds a plan to begin with: later rounds do not
leave a plan that was cooled fast."""

MODULE_SHARE = 0.2
"""Share of the time for MILP-SPLIT, if the user's executor solves its modules."""

UNTIMED_SECONDS = 20.0
"""Seconds shared by the stages when there is no time limit."""

BOUND_SHARE = 0.15
"""Largest share of the time for lower bounds by modules, which mostly take less."""

LANE_BOUND_SHARE, QUICK_SHARE = 0.2, 0.02
"""Shares of a lane's time left: for each bound, before the second lane also anneals; and for the quick bounds, when the
first lane computes them."""

PLACEMENT_SHARE = 0.15
"""Share of the time for placement's solver. Then an engine takes modules too large for placement's search to close."""

WHOLE_SHARE, FAR_SHARE, NEAR = 0.35, 0.05, 1.05
"""Share of the time for plans that do not split the batch, by placement's local search: the first if the best list
schedule that does not split it takes at most ``NEAR`` times as long as the best of all, else the second."""

INSTANT_CELLS = 24
"""Operators x devices up to which a constraint program finishes before annealing has loaded its compiled loop."""


@named_solver(
    BatchedMapping,
    "auto",
    "one device, list schedules split and whole, bounds and local search",
    kind="plan",
    proves="bound",
    features=frozenset({Feature.START, Feature.GAP, Feature.CALLBACK, Feature.EXECUTOR}),
    supports=SUPPORTS,
)
def solve_auto(problem: BatchedMapping, run: Run) -> Outcome:
    """Run the solvers of batched mapping in turn."""
    search = _with_lists(problem, run)
    if search is None:
        return ended(run)
    best, whole = quick_bounds(search.instance, search.reach, run), never_splits(search.instance)
    if not whole:
        outcome = _count(search)
        if outcome is not None:
            return outcome
    if whole and _has_small_modules(search):
        return solve_whole(by_name("auto"), problem, run)
    if run.time_limit is not None and not whole:
        _anneal_once(search)  # bounds may take longer than everything else, so a plan comes first
    _more_bounds(search, best, BOUND_SHARE, BOUND_SHARE * UNTIMED_SECONDS)
    if whole:
        return _whole(search)
    if _is_tiny(problem) and not run.should_stop():
        _anneal_once(search)
        outcome = _by_engine(search, ENGINE, ENGINE_SHARE)
        if outcome.infeasible:
            return outcome
    _search_whole(search)
    if run.executor is not None and not run.should_stop():
        cut = Split(search, 1)
        if len(cut.modules) > 1:
            with _stage(run, MODULE_SHARE):
                split(cut, solver=BATCH_SOLVER, seconds=SEARCH_SECONDS)
    search_from(search, rounds=None)
    return ended(run)


def lanes(problem: BatchedMapping, _run: Run) -> tuple[Lane, ...]:
    """The lanes of ``auto``."""
    if _is_tiny(problem):
        return (Lane(f"{HOME}.auto:solve_auto"),)
    return Lane(f"{HOME}.auto:search_lane"), Lane(f"{HOME}.auto:bound_lane", shift=1)


def search_lane(problem: BatchedMapping, run: Run) -> Outcome:
    """Search plans only: lists, the whole batch as a placement, then annealing."""
    search = _with_lists(problem, run)
    if search is None or run.should_stop():
        return ended(run)
    with _stage(run, QUICK_SHARE):
        quick_bounds(search.instance, search.reach, run)
    if never_splits(search.instance):
        return solve_whole(lane_of_auto(0), problem, run)
    _search_whole(search)
    search_from(search, rounds=None)
    return ended(run)


def bound_lane(problem: BatchedMapping, run: Run) -> Outcome:
    """Compute bounds, solve modules if the batch cannot be split, then anneal."""
    search = _with_lists(problem, run)
    if search is None or run.should_stop():
        return ended(run)
    best = quick_bounds(search.instance, search.reach, run)
    whole = never_splits(search.instance)
    _more_bounds(search, best, 1.0 if whole else LANE_BOUND_SHARE, UNTIMED_SECONDS)
    if not whole:
        search_from(search, rounds=None)
        return ended(run)
    cut = None if run.should_stop() else _modular(search)
    if cut is not None:
        split(cut, solver=LARGE_SOLVER, seconds=EXACT_SECONDS)
    return ended(run) if run.should_stop() else solve_whole(lane_of_auto(1), problem, run)


def _known(problem: BatchedMapping, supports: tuple[str, ...]) -> bool:
    """Whether a solver that supports these expressions knows all constraints."""
    return all(expressible(type(constraint), supports) for constraint in problem.constraints)


def _is_tiny(problem: BatchedMapping) -> bool:
    return len(problem.graph.operators) * len(problem.cluster.devices) * problem.batch <= ENGINE_CELLS


def _with_lists(problem: BatchedMapping, run: Run) -> BatchSearch | None:
    """A search that starts from the list schedules and from plans of one server; None if there is nothing to run."""
    search = started(problem, run)
    if search is not None:
        for plan in replicated(problem, search.instance, search.arrays, run):
            search.consider(plan)
    return search


def _anneal_once(search: BatchSearch) -> None:
    """The first annealing round."""
    with _stage(search.run, FIRST_SHARE):
        search_from(search, rounds=1)


def _more_bounds(search: BatchSearch, best: Best, share: float, seconds: float) -> None:
    """Bounds by modules, then by one input unless the batch is whole anyway.

    Each has a share of the time left, or some seconds if there is no time limit.
    """
    run = search.run
    if not run.should_stop():
        with run.share(share, seconds):
            module_bounds(search.problem, search.instance, best, run)
    if not never_splits(search.instance) and not run.should_stop():
        with run.share(share, seconds):
            best.report(shortest_way(search.problem, search.instance, best.value, run), "one input")


def _has_small_modules(search: BatchSearch) -> bool:
    """Whether placement's decomposition closes all modules of a whole batch at once, better than bounds by modules."""
    return max(len(module.operators) for module in modules_of(search.instance, 1)) <= SMALL_MODULE


def _search_whole(search: BatchSearch) -> None:
    """Search plans that do not split the batch."""
    if not search.run.should_stop():
        near = search.unsplit <= NEAR * search.listed
        with _stage(search.run, WHOLE_SHARE if near else FAR_SHARE):
            solve_whole(by_name("local"), search.problem, search.run)
        search.catch_up()


def _modular(search: BatchSearch) -> Split | None:
    """The modules, if they are joined by single channels and suit a constraint program."""
    cut = Split(search, 1)
    return cut if len(cut.modules) > 1 and cut.solver() == LARGE_SOLVER and cut.separates() else None


def _whole(search: BatchSearch) -> Outcome:
    """Solve a batch that cannot be split: by placement's solver, then by modules if single channels join them.

    Placement's own decomposition closes small modules at once; the constraint program proves more of the larger ones.
    """
    run, problem = search.run, search.problem
    if run.should_stop():
        return Outcome(run.termination())
    cut = None if run.time_limit is None else _modular(search)
    if cut is None:
        return solve_whole(by_name("auto"), problem, run)
    with _stage(run, PLACEMENT_SHARE):
        outcome = solve_whole(by_name("auto"), problem, run)
    if outcome.infeasible or run.closed() or run.should_stop():
        return outcome
    search.catch_up()
    split(cut, solver=LARGE_SOLVER, seconds=EXACT_SECONDS)
    return outcome if run.should_stop() or run.closed() else solve_whole(by_name("auto"), problem, run)


def _count(search: BatchSearch) -> Outcome | None:
    """Run the constraint programs for which the problem is small enough; return the outcome if one was final."""
    run, instance = search.run, search.instance
    cells = instance.operators * len(instance.devices)
    for name, (most, share) in COUNTED.items():
        if cells > most or run.should_stop() or not is_available(search.problem, name):
            continue
        if not _known(search.problem, find_solver(search.problem, name).supports):
            continue
        if cells > INSTANT_CELLS:
            _anneal_once(search)
        if run.should_stop():
            break
        outcome = _by_engine(search, name, share)
        if outcome.infeasible:
            return outcome
        if run.objective is not None and run.bound is not None and run.objective <= run.bound * (1 + NO_GAP):
            return Outcome(Termination.COMPLETED)
    return None


def _by_engine(search: BatchSearch, name: str, share: float) -> Outcome:
    """Run an engine; if its range of numbers is too small, the search goes on without it."""
    try:
        with _stage(search.run, share):
            outcome = find_solver(search.problem, name).run(search.problem, search.run)
    except (EngineError, InvalidInputError) as error:
        logger.info("batched mapping goes on without %s: %s", name, error)
        outcome = Outcome(Termination.ENGINE_ERROR)
    search.catch_up()
    return outcome


def _stage(run: Run, share: float) -> AbstractContextManager[None]:
    return run.share(share, share * UNTIMED_SECONDS)


run_side_by_side(BatchedMapping.kind, "auto", lanes)
run_side_by_side(BatchedMapping.kind, "local", with_seeds(f"{HOME}.local:solve_local"))
