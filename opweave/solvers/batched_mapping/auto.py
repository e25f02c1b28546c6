"""The default solver of batched mapping: list schedules, replicas, bounds, constraint programming, local search.

It runs every list scheduler, so it is never worse than any of them. If the batch cannot be split, the problem is a
placement, and placement's default solver takes over.
"""

from __future__ import annotations

import logging

from opweave.formulations.batched_mapping.instance import SUPPORTS
from opweave.formulations.expressions import expressible
from opweave.problems.batched_mapping.spec import BatchedMapping
from opweave.problems.errors import EngineError, InvalidInputError
from opweave.solvers.batched_mapping.bounds.area import area
from opweave.solvers.batched_mapping.bounds.mean_passage import mean_passage
from opweave.solvers.batched_mapping.bounds.paths import critical_path
from opweave.solvers.batched_mapping.replicas import replicated
from opweave.solvers.batched_mapping.search import BatchSearch, ended, search_from, started
from opweave.solvers.batched_mapping.unsplit import never_splits, shortest_way, solve_unsplit
from opweave.solvers.registry import Feature, find_solver, go_on_with, is_available, named_solver, run_side_by_side
from opweave.solvers.rounding import Best
from opweave.solvers.run import Outcome, Run
from opweave.solvers.side_by_side.lane import with_seeds

logger = logging.getLogger("opweave")

SMALL, SHARE = 40, 0.3
"""Operators x devices up to which constraint programming proves many problems, and its share of the time."""

BOUND_SHARE, UNTIMED_SECONDS = 0.25, 10.0


@named_solver(
    BatchedMapping,
    "auto",
    "list schedules, replicas of a server's plan, bounds, constraint programming and local search",
    kind="plan",
    proves="bound",
    features=frozenset({Feature.START, Feature.GAP, Feature.CALLBACK}),
    supports=SUPPORTS,
)
def solve_auto(problem: BatchedMapping, run: Run) -> Outcome:
    """Run the solvers of batched mapping in turn."""
    search = started(problem, run)
    if search is None:
        return ended(run)
    best = Best(run)
    best.report(critical_path(search.instance), "critical path")
    if never_splits(search.instance):
        return solve_unsplit(problem, run, lambda same, inner: go_on_with(same, "auto", inner))
    for plan in replicated(search, problem):
        search.consider(plan)
    search_from(search, rounds=1)
    _bound(problem, search, best)
    if search.instance.operators * len(search.instance.devices) <= SMALL and not run.should_stop():
        outcome = _by_engine(problem, search)
        if outcome is not None and (outcome.infeasible or run.closed()):
            return outcome
    search_from(search)
    return ended(run)


def _bound(problem: BatchedMapping, search: BatchSearch, best: Best) -> None:
    run, instance = search.run, search.instance
    run.enter("bounds")
    best.report(area(instance.seconds, instance.granules), "area")
    with run.share(BOUND_SHARE, UNTIMED_SECONDS):
        if not run.should_stop():
            best.report(mean_passage(instance, best.value, run.remaining(), search.makespan), "mean passage")
        if not run.should_stop():
            best.report(shortest_way(problem, instance, best.value, run), "one input")


def _by_engine(problem: BatchedMapping, search: BatchSearch) -> Outcome | None:
    """Run constraint programming; if it does not know a rule or its range of numbers is too small, go on without it."""
    solver = find_solver(problem, "cp-sat")
    if not is_available(problem, "cp-sat") or not all(
        expressible(type(c), solver.supports) for c in problem.constraints
    ):
        return None
    try:
        with search.run.share(SHARE, UNTIMED_SECONDS):
            return solver.run(problem, search.run)
    except (EngineError, InvalidInputError) as error:
        logger.info("batched mapping goes on without constraint programming: %s", error)
        return None


run_side_by_side(BatchedMapping.kind, "local", with_seeds("opweave.solvers.batched_mapping.search:solve_local"))
