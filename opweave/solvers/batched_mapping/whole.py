"""Solvers of placement on the whole batch: one device for each operator, batches never split.

With one input, or where devices support nothing but the whole batch, that is the problem itself, and their bounds hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from opweave.formulations.batched_mapping.instance import BatchedInstance, lower_unless_short
from opweave.formulations.batched_mapping.unsplit import single, unsplit, whole
from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.placement.instance import SUPPORTS
from opweave.formulations.placement.instance import lower as lower_placement
from opweave.problems.batched_mapping.spec import BatchedMapping, BatchedSchedule
from opweave.problems.placement.spec import Placement, Schedule
from opweave.problems.result import Termination
from opweave.problems.solution import Solution
from opweave.solvers.linear import SUMMATION
from opweave.solvers.placement.arrays import arrays_of as placement_net
from opweave.solvers.placement.auto import solve_auto as solve_placement
from opweave.solvers.placement.bounds.critical_path import longest, reach_of
from opweave.solvers.placement.bounds.energetic import energetic_at_best_prices
from opweave.solvers.placement.decompose import NODES_PER_SECOND, solve_decompose
from opweave.solvers.placement.heft import heft
from opweave.solvers.placement.local import empty_search, list_plans, search_from
from opweave.solvers.placement.module_intervals import solve_intervals
from opweave.solvers.placement.module_search import search_module
from opweave.solvers.placement.plans import Plan
from opweave.solvers.placement.plans import report as placement_report
from opweave.solvers.registry import Feature, Solver, register
from opweave.solvers.rules import NoPlanError
from opweave.solvers.run import Outcome, Run

LARGEST_SEARCHED = 40
LAST_BUDGET = 20_000_000
"""Most operators of a graph that is searched whole, and most nodes of the search."""

LOCAL_SHARE, LOCAL_SECONDS, LAST_SECONDS = 0.15, 1.0, 20.0
"""Of the time: local search before constraint programming; seconds of both where there is no time limit."""


def never_splits(instance: BatchedInstance) -> bool:
    """Whether the batch cannot be split at all."""
    return instance.granules == 1


def solve_whole(solver: Callable[[Placement, Run], Outcome], problem: BatchedMapping, run: Run) -> Outcome:
    """As :func:`_solve_whole`; that the whole batch cannot run on single devices proves nothing of split ones."""
    instance = lower_unless_short(problem)
    try:
        return _solve_whole(solver, problem, instance, run)
    except ContradictionError as error:
        if never_splits(instance):
            raise
        return Outcome(reason=f"without splitting the batch: {error}")


def _solve_whole(
    solver: Callable[[Placement, Run], Outcome], problem: BatchedMapping, instance: BatchedInstance, run: Run
) -> Outcome:
    """Run a solver of placement; plans go to ``run`` as they are found, bounds where they hold."""
    same = unsplit(problem)
    if same is None:
        return Outcome(Termination.COMPLETED, reason="some operator has no device that takes the whole batch")
    arrays = placement_net(lower_placement(same), same)
    if not np.isfinite(longest(arrays, reach_of(arrays))):
        reason = "links leave some operator no device on which its data could reach it"
        return Outcome(infeasible=never_splits(instance), reason=reason)
    first = single(problem, run.best) if isinstance(run.best, BatchedSchedule) else None
    inner = WholeRun(
        time_limit=run.remaining(),
        gap=run.gap,
        seed=run.seed,
        start=first,
        callback=lambda _: run.should_stop(),
        outer=run,
        problem=problem,
        exact=never_splits(instance),
    )
    if first is not None and run.objective is not None:
        inner.found(first, run.objective)
    outcome = solver(same, inner)
    if outcome.infeasible and not inner.exact:
        return replace(outcome, infeasible=False)
    termination = run.termination() if outcome.termination is Termination.INTERRUPTED else outcome.termination
    return replace(outcome, termination=termination)


class WholeRun(Run):
    """A run of placement that passes on what it learns."""

    def __init__(self, *, outer: Run, problem: BatchedMapping, exact: bool, **fields: object) -> None:
        super().__init__(**fields)  # type: ignore[arg-type]
        self.outer, self.problem, self.exact = outer, problem, exact

    def found(self, solution: Solution, objective: int | float) -> bool:
        """Report a schedule in the words of batched mapping, too."""
        assert isinstance(solution, Schedule)
        better = super().found(solution, objective)
        if better and (self.outer.objective is None or objective < self.outer.objective):
            self.outer.found(whole(self.problem, solution), objective)
        return better

    def proved(self, bound: int | float, source: str) -> None:
        """Report a bound where it holds."""
        super().proved(bound, source)
        if self.exact:
            self.outer.proved(bound, source)


def solve_search(problem: Placement, run: Run) -> Outcome:
    """HEFT's plan, then placement's branch and bound over a small graph; memory is looked at afterwards."""
    instance = lower_placement(problem)
    arrays = placement_net(instance, problem)
    if not instance.operators or instance.operators > LARGEST_SEARCHED:
        return solve_decompose(problem, run)
    high = np.inf
    try:
        plan = heft(instance, arrays)
        placement_report(instance, arrays, plan, run)
        high = plan.makespan
    except NoPlanError:
        pass  # the search finds its first plan by itself
    left = run.remaining()
    budget = LAST_BUDGET if left is None else int(min(LAST_BUDGET, 1 + left * NODES_PER_SECOND))
    found = search_module(arrays, high, 0.0, budget, run.halt)
    if found.device[0] >= 0 and found.makespan < high:
        order = np.argsort(found.start, kind="stable").astype(np.int64)
        placement_report(instance, arrays, Plan(order, found.device, found.start, found.begins, found.makespan), run)
    if found.proved and np.isfinite(found.makespan):
        run.proved(found.makespan, "module search")
    return Outcome(run.termination() if run.closed() else Termination.BUDGET)


def solve_by_intervals(problem: Placement, run: Run) -> Outcome:
    """A short local search, the energetic bound, then constraint programming between the two, over a small graph.

    Memory and side constraints that are more than run times are looked at afterwards. With a good plan and that bound
    to begin with, modules of 34 operators on three devices are closed in 2 to 5 seconds.
    """
    instance = lower_placement(problem)
    arrays = placement_net(instance, problem)
    if not instance.operators:
        return solve_decompose(problem, run)
    search = empty_search(problem, instance, run)
    with run.share(LOCAL_SHARE, LOCAL_SECONDS):
        list_plans(search)
        search_from(search, rounds=1)
    reach = reach_of(arrays)
    low = energetic_at_best_prices(arrays, reach, longest(arrays, reach))
    if np.isfinite(low):
        run.proved(low * (1.0 - SUMMATION), "energetic")
    left = LAST_SECONDS if run.time_limit is None else run.remaining() or 0.0
    if run.objective is None or run.closed() or left == 0.0:
        return Outcome(run.termination())
    found = solve_intervals(arrays, float(run.objective), low, left, threads=run.threads)
    if found.device[0] >= 0:
        order = np.argsort(found.start, kind="stable").astype(np.int64)
        placement_report(instance, arrays, Plan(order, found.device, found.start, found.begins, found.makespan), run)
    run.proved(float(run.objective) if found.proved else found.bound, "intervals")
    return Outcome(run.termination() if run.closed() or run.should_stop() else Termination.BUDGET)


for _name, _solver, _about in (
    ("search", solve_search, "placement's branch and bound over a small graph, the batch never split"),
    ("intervals", solve_by_intervals, "local search, then constraint programming from it over a small graph, unsplit"),
    ("whole", solve_placement, "the default plan of placement, the whole batch on one device for each operator"),
    ("decompose", solve_decompose, "placement's exact decomposition at cut vertices, the batch never split"),
):
    register(
        Solver(
            name=_name,
            problem=BatchedMapping.kind,
            kind="algorithm",
            run=partial(solve_whole, _solver),
            about=_about,
            proves="bound",
            features=frozenset({Feature.START, Feature.GAP, Feature.CALLBACK}),
            supports=(*SUPPORTS, "batched_arrays"),
        )
    )
