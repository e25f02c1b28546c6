"""The default solver of batched mapping: baselines and list schedules, split and whole; bounds; windows; local search.

It runs every list scheduler, so it is never worse than any of them; the first of them uses the best single device. If
the batch cannot be split, the problem is a placement, and placement's default solver takes over.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager

from opweave.formulations.batched_mapping.instance import SUPPORTS, lower_unless_short
from opweave.formulations.expressions import expressible
from opweave.problems.batched_mapping.spec import BatchedMapping, BatchedSchedule
from opweave.problems.errors import EngineError, InvalidInputError
from opweave.problems.result import Termination
from opweave.solvers.batched_mapping.bounds.best import CHANNELS, WIDE, module_bounds, quick_bounds
from opweave.solvers.batched_mapping.bounds.one_input import shortest_way
from opweave.solvers.batched_mapping.local import UNTIMED_ROUNDS, BatchSearch, begin, new_search, search_from
from opweave.solvers.batched_mapping.modules import Module, modules_of
from opweave.solvers.batched_mapping.plans import granules_of
from opweave.solvers.batched_mapping.replicate import replicated
from opweave.solvers.batched_mapping.rolling import effort_of_pass, roll
from opweave.solvers.batched_mapping.split import (
    BATCH_SOLVER,
    EXACT_SECONDS,
    LARGE_SOLVER,
    SEARCH_SECONDS,
    Split,
    split,
)
from opweave.solvers.batched_mapping.whole import by_name, never_splits, solve_whole
from opweave.solvers.registry import Feature, Solver, find_solver, register
from opweave.solvers.run import Outcome, Run

logger = logging.getLogger("opweave")

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

MODULE_SHARE = 0.2
"""Share of the time for MILP-SPLIT, if the user's executor solves its modules."""

UNTIMED_SECONDS = 20.0
"""Seconds shared by the stages when there is no time limit."""

BOUND_SHARE = 0.15
"""Largest share of the time for lower bounds by modules, which mostly take less."""

PLACEMENT_SHARE = 0.15
"""Share of the time for placement's solver. Then an engine takes modules too large for placement's search to close."""

WHOLE_SHARE = 0.12
"""Share of the time for plans that do not split the batch, by placement's local search."""

ROLLS = 2

INSTANT_CELLS = 24
"""Operators x devices up to which a constraint program finishes before annealing has loaded its compiled loop."""


def solve_auto(problem: BatchedMapping, run: Run) -> Outcome:
    """Run the solvers of batched mapping in turn."""
    instance = lower_unless_short(problem)
    if not all(expressible(type(constraint), SUPPORTS) for constraint in problem.constraints):
        return find_solver(problem, ENGINE).run(problem, run)
    if not instance.operators:
        run.proved(0.0, "trivial")
        run.found(BatchedSchedule(batches=()), 0.0)
        return Outcome(run.termination())
    search = new_search(problem, instance, run)
    begin(search)
    for plan in replicated(problem, instance, search.arrays, run):
        search.consider(plan)
    best = quick_bounds(instance, search.reach, run)
    if not never_splits(instance):
        outcome = _count(search)
        if outcome is not None:
            return outcome
    if run.time_limit is not None and not never_splits(instance):
        search_from(search, rounds=1)  # bounds may take longer than everything else, so a plan comes first
    if not run.should_stop():
        with _stage(run, BOUND_SHARE):
            module_bounds(problem, instance, best, run)
    if never_splits(instance):
        return _whole(search)
    if not run.should_stop():
        with _stage(run, BOUND_SHARE):
            best.report(shortest_way(problem, instance, best.value, run), "one input")
    if instance.operators * len(instance.devices) * instance.batch <= ENGINE_CELLS and not run.should_stop():
        search_from(search, rounds=1)
        outcome = _by_engine(search, ENGINE, ENGINE_SHARE)
        if outcome.infeasible:
            return outcome
    _improve(search, modules_of(instance, CHANNELS, least=WIDE))
    return _finish(search)


def _whole(search: BatchSearch) -> Outcome:
    """Solve a batch that cannot be split: by placement's solver, then by modules if single channels join them.

    Placement's own decomposition closes small modules at once; the constraint program proves more of the larger ones.
    """
    run, problem = search.run, search.problem
    if run.should_stop():
        return Outcome(run.termination())
    cut = Split(search, 1)
    modular = len(cut.modules) > 1 and cut.solver() == LARGE_SOLVER and cut.separates()
    if run.time_limit is None or not modular:
        return solve_whole(by_name("auto"), problem, run)
    with _stage(run, PLACEMENT_SHARE):
        outcome = solve_whole(by_name("auto"), problem, run)
    if outcome.infeasible or run.closed() or run.should_stop():
        return outcome
    begin_again(search)
    split(Split(search, 1), solver=LARGE_SOLVER, seconds=EXACT_SECONDS)
    return outcome if run.should_stop() or run.closed() else solve_whole(by_name("auto"), problem, run)


def _count(search: BatchSearch) -> Outcome | None:
    """Run the constraint programs for which the problem is small enough; return the outcome if one was final."""
    run, instance = search.run, search.instance
    cells = instance.operators * len(instance.devices)
    for name, (most, share) in COUNTED.items():
        solver = find_solver(search.problem, name)
        known = all(expressible(type(constraint), solver.supports) for constraint in search.problem.constraints)
        if cells > most or run.should_stop() or not known or solver.missing() is not None:
            continue
        if cells > INSTANT_CELLS:
            search_from(search, rounds=1)
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
    begin_again(search)
    return outcome


def _improve(search: BatchSearch, modules: list[Module]) -> None:
    """Search plans that do not split the batch, then alternate windows and annealing."""
    run = search.run
    if not run.should_stop():
        with _stage(run, WHOLE_SHARE):
            solve_whole(by_name("local"), search.problem, run)
        begin_again(search)
    if run.executor is not None and len(modules) > 1 and not run.should_stop():
        with _stage(run, MODULE_SHARE):
            split(Split(search, 1), solver=BATCH_SOLVER, seconds=SEARCH_SECONDS)
    rounds = 0
    timed = run.time_limit is not None
    while search.best is not None and not run.should_stop() and (timed or rounds < UNTIMED_ROUNDS):
        if rounds < ROLLS and len(modules) > 1 and _ends_in_time(search, modules):
            roll(search, modules, rounds)
        search.anneal_round(rounds)
        rounds += 1


def _ends_in_time(search: BatchSearch, modules: list[Module]) -> bool:
    """Whether a pass of windows takes at most half of the time left; a pass that is cut short brings no gain."""
    left = search.run.remaining()
    return left is None or effort_of_pass(search, modules) * search.pace <= left / 2


def begin_again(search: BatchSearch) -> None:
    """Take over the run's best plan, if it is not the search's own."""
    if isinstance(search.run.best, BatchedSchedule) and (search.run.objective or 0.0) < search.makespan:
        plan = granules_of(search.instance, search.run.best)
        if plan is not None:
            search.consider(plan)


def _finish(search: BatchSearch) -> Outcome:
    """The outcome of the search."""
    run = search.run
    if run.best is None:
        return Outcome(run.termination(), reason="no plan was found whose memory, links and batch sizes fit")
    if run.time_limit is None and not run.closed():
        return Outcome(Termination.BUDGET)
    return Outcome(run.termination())


def _stage(run: Run, share: float) -> AbstractContextManager[None]:
    return run.share(share, share * UNTIMED_SECONDS)


register(
    Solver(
        name="auto",
        problem=BatchedMapping.kind,
        kind="plan",
        run=solve_auto,
        about="one device, list schedules split and whole, bounds, rolling windows and local search",
        proves="bound",
        features=frozenset({Feature.START, Feature.GAP, Feature.CALLBACK, Feature.EXECUTOR}),
        supports=(*SUPPORTS, "identities", "on", "uses"),
    )
)
