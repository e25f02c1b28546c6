"""Small graphs are searched whole: by branch and bound, or by constraint programming from a good plan and bound.

Neither method sees memory or Colocate, so its plans are checked afterwards; the bounds hold all the same.
"""

from __future__ import annotations

import numpy as np

from opweave.formulations.expressions import NARROWED
from opweave.formulations.placement.instance import SUPPORTS, lower_unless_short
from opweave.problems.placement.spec import Placement
from opweave.solvers.narrowing.runs import by_best_way
from opweave.solvers.placement.arrays import PlacementArrays, arrays_of
from opweave.solvers.placement.bounds.critical_path import reach_of
from opweave.solvers.placement.bounds.energetic import energetic_at_best_prices, finite_path
from opweave.solvers.placement.decompose import NODES_PER_SECOND, solve_decompose
from opweave.solvers.placement.insertion import heft
from opweave.solvers.placement.local import empty_search, list_plans, search_from
from opweave.solvers.placement.module_intervals import solve_intervals
from opweave.solvers.placement.module_search import search_module
from opweave.solvers.placement.plans import ended, report
from opweave.solvers.registry import named_solver
from opweave.solvers.rounding import SUMMATION
from opweave.solvers.rules import NoPlanError
from opweave.solvers.run import Outcome, Run

LARGEST_SEARCHED = 40
LAST_BUDGET = 20_000_000
"""Most operators of a graph that is searched whole, and most nodes of that search."""

NODES = "nodes"
"""Option of the search: most nodes, regardless of time, so that every machine gives the same result."""

LOCAL_SHARE, LOCAL_SECONDS, LAST_SECONDS = 0.15, 1.0, 20.0
"""Share of the time for local search before constraint programming, and seconds for both when there is no time
limit."""


@named_solver(
    Placement,
    "search",
    "branch and bound over a small graph; a large one is decomposed",
    proves="bound",
    supports=(*SUPPORTS, NARROWED),
    options={NODES: "most nodes of the search, whatever the time, so that every machine gives the same plan"},
)
@by_best_way(SUPPORTS, "heft")
def solve_search(problem: Placement, run: Run) -> Outcome:
    """Start from HEFT's plan and the energetic bound, then branch and bound over a small graph; solver "search"."""
    instance = lower_unless_short(problem)
    arrays = arrays_of(instance, problem)
    if not instance.operators or instance.operators > LARGEST_SEARCHED:
        return solve_decompose(problem, run)
    low, high = _energetic(arrays, run), np.inf
    try:
        plan = heft(instance, arrays)
        report(instance, arrays, plan, run)
        high = plan.makespan
    except NoPlanError:
        pass  # the search finds its first plan on its own
    left = run.remaining()
    budget = LAST_BUDGET if left is None else int(min(LAST_BUDGET, 1 + left * NODES_PER_SECOND))
    nodes = run.option(NODES, default=budget)
    assert isinstance(nodes, int)
    found = search_module(arrays, high, low, nodes, run.halt)
    if found.device[0] >= 0 and found.makespan < high:
        report(instance, arrays, found.plan(), run)
    if found.proved and np.isfinite(found.makespan):
        run.proved(found.makespan, "module search")
    return ended(problem, run)


@named_solver(
    Placement,
    "intervals",
    "local search, then constraint programming from its plan",
    proves="bound",
    supports=(*SUPPORTS, NARROWED),
)
@by_best_way(SUPPORTS, "heft")
def solve_by_intervals(problem: Placement, run: Run) -> Outcome:
    """Run a short local search and the energetic bound, then constraint programming between them; solver "intervals".

    Starting from a good plan and that bound, it closes graphs of 34 operators on three devices in 2 to 5 seconds.
    """
    search = empty_search(problem, run)
    arrays = search.arrays
    if not search.instance.operators:
        return solve_decompose(problem, run)
    with run.share(LOCAL_SHARE, LOCAL_SECONDS):
        list_plans(search)
        search_from(search, rounds=1)
    low = _energetic(arrays, run)
    left = LAST_SECONDS if run.time_limit is None else run.remaining() or 0.0
    if run.objective is None or run.closed() or left == 0.0:
        return ended(problem, run)
    found = solve_intervals(arrays, float(run.objective), low, left, threads=run.threads)
    if found.device[0] >= 0:
        report(search.instance, arrays, found.plan(), run)
    # Constraint programming knows no memory: what it proves is its own length, not that of the plan found before.
    run.proved(found.makespan if found.proved else found.bound, "intervals")
    return ended(problem, run)


def _energetic(arrays: PlacementArrays, run: Run) -> float:
    """Report the energetic bound and return it, in seconds."""
    reach = reach_of(arrays)
    low = energetic_at_best_prices(arrays, reach, finite_path(arrays, reach))
    run.proved(low * (1.0 - SUMMATION), "energetic")
    return low
