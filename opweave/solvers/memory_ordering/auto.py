"""The default plan for memory ordering: floors and greedy orders, bounds, local search, then exact search.

It contains every named order, so it is never worse than any of them.
"""

from __future__ import annotations

from dataclasses import replace

from opweave.formulations.memory_ordering.instance import OrderingInstance, lower
from opweave.problems.memory_ordering import MemoryOrdering
from opweave.problems.result import Termination
from opweave.solvers.memory_ordering.btsearch import solve_btsearch
from opweave.solvers.memory_ordering.exact import MOST_STATES, minimise_peak, only_arcs
from opweave.solvers.memory_ordering.net import net_of
from opweave.solvers.memory_ordering.totals import improve_total, report_greedy_totals, total_bound
from opweave.solvers.registry import Feature, Solver, find_solver, register
from opweave.solvers.run import Outcome, Run

UNTIMED_WORK = 100_000_000
"""Largest search without a time limit, in states times operators: seconds, then order and bound are returned."""


ENGINE_OPERATORS = 1_000
ENGINE_SECONDS = 10.0
"""For the total: up to this size the pairwise integer program is tried, for this long, before the state search."""

BOUND_SHARE = 0.25
"""For the total: most of the time left that may go into the bound before local search begins."""


def solve_auto(problem: MemoryOrdering, run: Run) -> Outcome:
    """Minimise peak or total by all means that apply."""
    instance = lower(problem)
    if not only_arcs(problem):
        return solve_btsearch(problem, run)
    untimed = UNTIMED_WORK // max(1, instance.operators)
    most_states = MOST_STATES if run.time_limit is not None else min(MOST_STATES, untimed)
    if problem.objective == "peak":
        return minimise_peak(problem, instance, run, most_states)
    return _minimise_total(problem, instance, run, most_states)


def _minimise_total(problem: MemoryOrdering, instance: OrderingInstance, run: Run, most_states: int) -> Outcome:
    if problem.limit_bytes is not None and run.best is None:
        under = _under_the_limit(problem, instance, run, most_states)
        if under.infeasible or run.best is None:
            return under
    starts = report_greedy_totals(problem, instance, run)
    with run.share(BOUND_SHARE):
        run.enter("minimum cuts")
        run.proved(*total_bound(net_of(instance, run.halt), run.should_stop))
    if run.closed() or run.should_stop():
        return Outcome(run.termination())
    improve_total(problem, instance, run, starts)
    if run.closed() or run.should_stop():
        return Outcome(run.termination())
    if instance.operators <= ENGINE_OPERATORS:
        with run.at_most(ENGINE_SECONDS):
            find_solver(problem, "highs").run(problem, run)
    if run.closed() or run.should_stop():
        return Outcome(run.termination())
    return solve_btsearch(problem, run)


def _under_the_limit(problem: MemoryOrdering, instance: OrderingInstance, run: Run, most_states: int) -> Outcome:
    """Find any order under the limit, or prove that there is none; the order becomes the run's first incumbent."""
    scout = Run(
        time_limit=run.remaining(),
        callback=lambda progress: run.should_stop() or progress.objective is not None,
        stage="orders under the limit",
    )
    outcome = minimise_peak(problem, instance, scout, most_states)
    if scout.best is not None:
        judged = problem.evaluate(scout.best)  # type: ignore[arg-type]
        if judged.objective is not None:
            run.found(scout.best, judged.objective)
    # The scout was interrupted in any case; why the run ended, only the run itself knows.
    stopped = outcome.termination is Termination.INTERRUPTED
    return replace(outcome, termination=run.termination()) if stopped else outcome


register(
    Solver(
        name="auto",
        problem=MemoryOrdering.kind,
        kind="plan",
        run=solve_auto,
        about="all of the below as far as they help, in the order of their cost",
        proves="optimum",
        features=frozenset({Feature.START, Feature.GAP, Feature.CALLBACK}),
        targets=("order_arcs", "step_rule"),
    )
)
