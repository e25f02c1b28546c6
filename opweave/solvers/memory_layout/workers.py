"""The workers of memory layout, which "auto" runs as a portfolio, and the engines."""

from __future__ import annotations

from opweave.formulations.memory_layout import milp  # noqa: F401 - it registers itself
from opweave.formulations.memory_layout.instance import lower
from opweave.problems.memory_layout.spec import MemoryLayout
from opweave.solvers.auto import register_auto
from opweave.solvers.engines.engine import HeadStart
from opweave.solvers.engines.registration import register_engines
from opweave.solvers.memory_layout.annealing import applies, solve_annealing
from opweave.solvers.memory_layout.baselines import solve_baselines
from opweave.solvers.memory_layout.bounds import bound_pools
from opweave.solvers.memory_layout.exact import solve_exact
from opweave.solvers.run import Run
from opweave.solvers.workers import Steps, Worker, by_name

KNOWN_BEFORE = HeadStart()

register_engines(MemoryLayout, "which of two storages is below the other", KNOWN_BEFORE)


def workers(problem: MemoryLayout, _run: Run) -> list[Worker]:
    """One arena: the exact search. Pools: annealing, a bound, and HiGHS for what these leave open."""
    first = Steps("greedy rules", solve_baselines, problem)
    if len(problem.pools) == 1 and problem.objective == "arena":
        return [first, Steps("exact", solve_exact, problem)]
    found: list[Worker] = [first, Steps("linear program", bound_pools, problem, seeded=False)]
    if applies(lower(problem)):
        found.insert(1, Steps("annealing", solve_annealing, problem))
    return [*found, *by_name(problem, "highs")]


register_auto(MemoryLayout, workers, "one arena: the exact search; pools: annealing, linear programs and HiGHS")
