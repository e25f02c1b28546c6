"""The default solver of memory ordering: baselines and greedy orders, bounds, local search, then exact search.

It tries every named order, so it is never worse than any of them.
"""

from __future__ import annotations

from dataclasses import replace

from opweave.formulations.memory_ordering.instance import lower
from opweave.formulations.order_arcs import only_order_arcs
from opweave.problems.memory_ordering.spec import MemoryOrdering
from opweave.problems.result import Termination
from opweave.solvers.memory_ordering.btsearch import solve_btsearch
from opweave.solvers.memory_ordering.exact import MOST_STATES, PeakSearch
from opweave.solvers.memory_ordering.helping import GAIN, engine_for, run_while_it_helps
from opweave.solvers.memory_ordering.totals import KICKS, improve_total, prove_total, report_greedy_totals
from opweave.solvers.registry import named_solver
from opweave.solvers.run import Outcome, Run

UNTIMED_WORK = 100_000_000
"""Largest search without a time limit, in states times operators. It takes seconds; then order and bound are
returned."""

BOUND_SHARE = 0.6
"""For the total: largest share of the time left for the bound, after a first local search. On thousands of operators
its cuts narrow the gap for seconds, while random moves gain little."""

FIRST_SHARE, FIRST_SECONDS = 0.15, 5.0
"""Limits of a first search before the engine: share of the time left, and states when there is no time limit."""

ENGINE_SECONDS = 4.0
"""For the peak: least time left with which an engine begins. It may take half a second to start, and gets half of the
time if it makes no progress; the search over states makes more of two seconds."""

QUICK_STATES, QUICK_KICKS = 3_000, 20
"""Limits for the total: of a first search, which settles narrow graphs, and of local search before it."""


@named_solver(
    MemoryOrdering,
    "auto",
    "all solvers below, cheapest first, as far as they help",
    kind="plan",
    proves="optimum",
    supports=("order_arcs", "step_rule"),
)
def solve_auto(problem: MemoryOrdering, run: Run) -> Outcome:
    """Minimise the peak or the total with all solvers that apply."""
    if not only_order_arcs(problem):
        return solve_btsearch(problem, run)
    untimed = UNTIMED_WORK // max(1, len(problem.graph.operators))
    most_states = MOST_STATES if run.time_limit is not None else min(MOST_STATES, untimed)
    if problem.objective == "peak":
        return _minimise_peak(problem, run, most_states)
    return _minimise_total(problem, run, most_states)


def _minimise_peak(problem: MemoryOrdering, run: Run, most_states: int) -> Outcome:
    """Run the state search; if it leaves a gap, run an engine for as long as it helps, then search again."""
    peaks = PeakSearch(problem, run)
    if peaks.prepare():
        return peaks.outcome()
    engine = engine_for(problem)
    if engine is not None:
        while _search_states(peaks, most_states):
            pass
        if peaks.settled():
            return peaks.outcome()
        left = run.remaining()
        if left is not None and left < ENGINE_SECONDS:
            return peaks.finish(most_states)
        outcome = run_while_it_helps(engine, problem, run)
        if outcome.infeasible:
            return outcome
        peaks.adopt()
        if peaks.settled():
            return peaks.outcome()
    return peaks.finish(most_states)


def _search_states(peaks: PeakSearch, most_states: int) -> bool:
    """Search states for a turn; whether another one is worth while, because this one narrowed the gap."""
    run, gap = peaks.run, peaks.peak - peaks.bound
    with run.share(FIRST_SHARE, FIRST_SECONDS):
        over = peaks.search(most_states) and run.closed()
    gained = gap - (peaks.peak - peaks.bound)
    return run.time_limit is not None and not over and not peaks.settled() and gained >= GAIN * peaks.peak


def _minimise_total(problem: MemoryOrdering, run: Run, most_states: int) -> Outcome:
    if problem.limit_bytes is not None and run.best is None:
        under = _under_the_limit(problem, run, most_states)
        if under.infeasible or run.best is None:
            return under
    starts = report_greedy_totals(problem, run)
    with run.share(FIRST_SHARE):
        improve_total(problem, run, starts, 0)
        cut_short = run.should_stop()
    with run.share(BOUND_SHARE):
        prove_total(problem, run)
    if run.best is not None:
        starts = [lower(problem).positions(run.best), *(starts if cut_short else [])]  # type: ignore[arg-type]
    engine = engine_for(problem)
    if not _over(run):
        with run.share(FIRST_SHARE if engine else 1.0):
            improve_total(problem, run, starts, QUICK_KICKS if engine else KICKS)
    if engine is not None and not _over(run):
        with run.share(FIRST_SHARE):
            solve_btsearch(problem, run, QUICK_STATES)
        if not _over(run):
            run_while_it_helps(engine, problem, run)
    if not _over(run) and run.time_limit is not None and run.best is not None:
        with run.share(0.5):
            improve_total(problem, run, [lower(problem).positions(run.best)], kicks=None)  # type: ignore[arg-type]
    return Outcome(run.termination()) if _over(run) else solve_btsearch(problem, run)


def _over(run: Run) -> bool:
    return run.closed() or run.should_stop()


def _under_the_limit(problem: MemoryOrdering, run: Run, most_states: int) -> Outcome:
    """Find any order under the limit, or prove that there is none; the order becomes the run's first incumbent."""
    scout = Run(
        time_limit=run.remaining(),
        callback=lambda progress: run.should_stop() or progress.objective is not None,
        stage="orders under the limit",
    )
    outcome = PeakSearch(problem, scout).complete(most_states)
    if scout.best is not None:
        judged = problem.evaluate(scout.best)  # type: ignore[arg-type]
        if judged.objective is not None:
            run.found(scout.best, judged.objective)
    # The scout was interrupted in any case, so its outcome does not tell why the run ended; the run does.
    stopped = outcome.termination is Termination.INTERRUPTED
    return replace(outcome, termination=run.termination()) if stopped else outcome
