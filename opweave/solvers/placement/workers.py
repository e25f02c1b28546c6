"""The workers of placement, which "auto" runs as a portfolio.

Consecutive stages as a placement: the model is cut as in a pipeline, for the least latency of one input.

A pipeline that takes one input at a time is a placement in which every device has a run of consecutive operators. Up to
a dozen devices, the best such plan is known exactly within milliseconds (see :mod:`opweave.solvers.pipeline.sums`).
Where memory decides and links are slow, as with language models on machines at home, few other plans come near it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from opweave.formulations.placement.instance import SUPPORTS, TAKEN_IN, common_tick, lower_unless_short
from opweave.problems.constraints import Constraint, MaxDevices, Precede, Separate, means
from opweave.problems.errors import OpweaveError
from opweave.problems.on_cluster import MEMORY
from opweave.problems.pipeline.spec import Pipeline, Stages
from opweave.problems.placement.spec import Placement
from opweave.solvers.auto import register_auto
from opweave.solvers.placement.arrays import arrays_of, order_of_graph
from opweave.solvers.placement.baselines import drawn_fill, work_of
from opweave.solvers.placement.bounds.area import quick_bounds
from opweave.solvers.placement.cooling import cool_down, solve_local
from opweave.solvers.placement.decompose import Chained, solve_decompose, solve_prices
from opweave.solvers.placement.local import empty_search, list_plans, solve_ranks, solve_tabu
from opweave.solvers.placement.plans import ended, fits, plan_of, solution_of, take_over
from opweave.solvers.registry import Feature, find_solver, named_solver
from opweave.solvers.rounding import Best
from opweave.solvers.run import Outcome, Run
from opweave.solvers.workers import Steps, Worker, by_name

MOST_GRAINS = 10_000_000
"""Most common measures of all times in a schedule for which bounds are rounded up to one."""

UNTIMED_RULES: tuple[type[Constraint], ...] = (*TAKEN_IN, Precede, Separate, MaxDevices)
"""Constraints that a schedule still obeys when everything in it starts earlier, in the same order."""

COOLING, UNTIMED_FILLS = 0.01, 4
"""Seconds of cooling a plan of filled devices, as a share of the time limit; and such plans without one."""


def solve_baselines(problem: Placement, run: Run) -> Outcome:
    """The list schedulers, and a common measure of all times.

    Some shortest schedule waits for nothing but the ends of operators and transfers, so it takes a sum of durations.
    Then bounds are rounded up to a common measure of all times, unless a rule or row of a user's own may add times.
    """
    search = empty_search(problem, run)
    search.consider_solution(run.start)
    list_plans(search)
    if run.objective is not None and run.extend is None and all(means(c, *UNTIMED_RULES) for c in problem.constraints):
        run.findings.grain = common_tick(search.instance, float(run.objective), MOST_GRAINS) or 0.0
    return ended(problem, run)


def solve_quick_bounds(problem: Placement, run: Run) -> Outcome:
    """Critical path, area and energetic bounds."""
    instance = lower_unless_short(problem)
    if instance.operators:
        quick_bounds(instance, arrays_of(instance, problem), Best(run))
    return Outcome(run.termination())


def solve_fills(problem: Placement, run: Run) -> Outcome:
    """Fill devices in orders drawn at random, and cool each plan down, if the fastest device does not hold the model.

    What is long at first often becomes the shortest, so annealing goes on from every plan, not only from the best.
    """
    search, rng, tries = empty_search(problem, run), np.random.default_rng(run.seed), 0
    arrays = search.arrays
    binds = not fits(arrays, np.full(len(arrays.seconds), int(np.argmin(work_of(arrays)))))
    run.enter("fills")
    while binds and not run.should_stop() and (run.time_limit is not None or tries < UNTIMED_FILLS):
        device, tries = drawn_fill(search.instance, arrays, rng), tries + 1
        each = replace(search, makespan=math.inf)
        if device is not None:
            each.consider(order_of_graph(arrays), device)
        if math.isfinite(each.makespan):
            cool_down(each, None if run.time_limit is None else COOLING * run.time_limit, tries)
    return Outcome(run.termination())


def workers(problem: Placement, _run: Run) -> list[Worker]:
    """Baselines and quick bounds, exact methods for special cases, searches, bounds, and engines on the whole."""
    if problem.mode is not None:
        return [*by_name(problem, *(("stages", "highs") if problem.objective == "memory" else ("calls",)))]
    chained = Chained(problem)
    steps = [
        Steps("baselines", solve_baselines, problem),
        Steps("quick bounds", solve_quick_bounds, problem, seeded=False),
        *by_name(problem, "layers"),
        Steps("stages", solve_staged, problem, seeded=False),
        Steps("ranks", solve_ranks, problem),
        Steps("local", solve_local, problem),
        Steps("fills", solve_fills, problem),
        Steps("prices", partial(solve_prices, chained=chained), problem, seeded=False),
        Steps("decompose", partial(solve_decompose, chained=chained), problem, seeded=False),
    ]
    if problem.transfers == "delay":
        steps.append(Steps("tabu", solve_tabu, problem))
    return [*steps, *by_name(problem, "cp-sat")]


register_auto(
    Placement,
    workers,
    "baselines, local searches, windows by constraint programming, decomposition with its bounds, engines",
    proves="bound",
    supports=SUPPORTS,
    modes=(None, MEMORY, "transfers='blocking'"),
)


@named_solver(
    Placement,
    "stages",
    "consecutive stages, one for each device that is used: a pipeline's exact search",
    features=frozenset({Feature.GAP, Feature.CALLBACK}),
    supports=SUPPORTS,
    modes=(None, MEMORY),
)
def solve_staged(problem: Placement, run: Run) -> Outcome:
    """Cut the model into stages for the least latency; solver "stages"."""
    run.enter("stages")
    instance, scout = lower_unless_short(problem), run.child()
    try:
        pipeline = pipeline_of(problem)
        solver = find_solver(pipeline, "auto")
        if solver.beyond(pipeline):
            return Outcome(run.termination(), reason="a pipeline cannot honour all constraints")
        solver.run(pipeline, scout)
    except OpweaveError as error:
        return Outcome(run.termination(), reason=f"as a pipeline: {error}")
    if not isinstance(scout.best, Stages):
        return Outcome(run.termination(), reason="no consecutive stages fit the devices")
    index = {name: v for v, name in enumerate(instance.names)}
    position = {name: k for k, name in enumerate(instance.devices)}
    homes = [(index[name], position[stage.device]) for stage in scout.best.stages for name in stage.operators]
    order, device = np.ascontiguousarray(np.asarray(homes, dtype=np.int64).reshape(-1, 2).T)
    arrays = arrays_of(instance, problem)
    plan = plan_of(arrays, order, device[np.argsort(order)])
    if np.isfinite(plan.makespan) and fits(arrays, plan.device):
        take_over(problem, solution_of(instance, arrays, plan), run)
    return Outcome(run.termination())


def pipeline_of(problem: Placement) -> Pipeline:
    """The pipeline whose plans are the placements in consecutive stages, for one input at a time.

    Raises
    ------
    InvalidSpecError
        If a constraint of the placement does not fit a pipeline.
    """
    return Pipeline(
        graph=problem.graph,
        cluster=problem.cluster,
        costs=problem.costs,
        memory=problem.memory,
        constraints=problem.constraints,
        objective="memory" if problem.objective == "memory" else "latency",
        inputs="everywhere",
    )
