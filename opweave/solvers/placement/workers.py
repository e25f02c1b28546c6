"""The workers of placement, which "auto" runs as a portfolio."""

from __future__ import annotations

from functools import partial

from opweave.formulations.placement import programs  # noqa: F401 - they register themselves
from opweave.formulations.placement.instance import SUPPORTS, TAKEN_IN, common_tick, lower_unless_short
from opweave.problems.constraints import Constraint, MaxDevices, Precede, Separate, means
from opweave.problems.placement.spec import Placement
from opweave.solvers.auto import register_auto
from opweave.solvers.engines.engine import run_engine
from opweave.solvers.engines.known import CpSat, Highs
from opweave.solvers.language.layers import solve_layers
from opweave.solvers.placement.arrays import arrays_of
from opweave.solvers.placement.blocking.search import solve_calls
from opweave.solvers.placement.bounds.energetic import quick_bounds
from opweave.solvers.placement.decompose import Chained, solve_decompose, solve_prices
from opweave.solvers.placement.local import empty_search, list_plans, solve_ranks
from opweave.solvers.placement.plans import ended
from opweave.solvers.placement.stages import solve_staged
from opweave.solvers.placement.tabu import solve_tabu
from opweave.solvers.placement.windows import solve_local
from opweave.solvers.rounding import Best
from opweave.solvers.run import Outcome, Run
from opweave.solvers.workers import Steps, Worker

MOST_GRAINS = 10_000_000
"""Most common measures of all times in a schedule for which bounds are rounded up to one."""

UNTIMED_RULES: tuple[type[Constraint], ...] = (*TAKEN_IN, Precede, Separate, MaxDevices)
"""Constraints that a schedule still obeys when everything in it starts earlier, in the same order."""

MOST_PROGRAMMED = 60
"""Operators up to which constraint programming proves problems as a whole."""


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


def workers(problem: Placement, run: Run) -> list[Worker]:
    """Baselines and quick bounds, exact methods for special cases, searches, bounds, and engines on the whole."""
    del run
    engines = [engine for engine in (CpSat(), Highs()) if engine.missing() is None]
    if problem.reading is not None:
        return [Steps("calls", solve_calls, problem)]
    chained = Chained(problem)
    steps = [
        Steps("baselines", solve_baselines, problem),
        Steps("quick bounds", solve_quick_bounds, problem),
        Steps("layers", solve_layers, problem),
        Steps("stages", solve_staged, problem),
        Steps("ranks", solve_ranks, problem),
        Steps("local", solve_local, problem),
        Steps("prices", partial(solve_prices, chained=chained), problem),
        Steps("decompose", partial(solve_decompose, chained=chained), problem),
    ]
    if problem.transfers == "delay":
        steps.append(Steps("tabu", solve_tabu, problem))
    if len(problem.graph.operators) <= MOST_PROGRAMMED:
        steps += [Steps(each.name, partial(run_engine, engine=each), problem) for each in engines[:1]]
    return [*steps]


register_auto(
    Placement,
    workers,
    "baselines, local searches, windows by constraint programming, decomposition with its bounds, engines",
    proves="bound",
    supports=SUPPORTS,
    readings=(None, "transfers='blocking'"),
)
