"""The workers of memory ordering, which "auto" runs as a portfolio."""

from __future__ import annotations

from opweave.formulations.order_arcs import only_order_arcs
from opweave.problems.memory_ordering.spec import MemoryOrdering
from opweave.solvers.auto import register_auto
from opweave.solvers.memory_ordering import baselines  # noqa: F401 - registers the baselines
from opweave.solvers.memory_ordering.btsearch import solve_btsearch
from opweave.solvers.memory_ordering.exact import solve_exact
from opweave.solvers.memory_ordering.totals import KICKS, improve_total, report_greedy_totals
from opweave.solvers.run import Outcome, Run
from opweave.solvers.workers import Steps, Worker


def search_totals(problem: MemoryOrdering, run: Run) -> Outcome:
    """Greedy orders, then local search with kicks."""
    starts = report_greedy_totals(problem, run)
    improve_total(problem, run, starts, kicks=None if run.time_limit is not None else KICKS)
    return Outcome(run.termination())


def workers(problem: MemoryOrdering, _run: Run) -> list[Worker]:
    """Peaks: the exact search. Totals: local search, and the search over states after a bound."""
    if not only_order_arcs(problem):
        return [Steps("btsearch", solve_btsearch, problem)]
    if problem.objective == "peak":
        return [Steps("exact", solve_exact, problem)]
    return [Steps("kicks", search_totals, problem), Steps("btsearch", solve_btsearch, problem, seeded=False)]


register_auto(
    MemoryOrdering,
    workers,
    "peaks: the exact search; totals: local search, a bound, and the search over states",
    supports=("order_arcs", "step_rule"),
)
