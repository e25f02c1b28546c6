"""Parallel lanes for memory ordering: peaks from above and from below, totals by search and by bound."""

from __future__ import annotations

from dataclasses import replace

from opweave.formulations.memory_ordering.instance import lower
from opweave.formulations.order_arcs import only_order_arcs
from opweave.problems.memory_ordering.spec import MemoryOrdering
from opweave.solvers.memory_ordering.arrays import BACKWARD, arrays_of
from opweave.solvers.memory_ordering.auto import UNTIMED_WORK
from opweave.solvers.memory_ordering.bounds.best import forced_footprints
from opweave.solvers.memory_ordering.btsearch import solve_btsearch, state_budget
from opweave.solvers.memory_ordering.exact import MOST_STATES, PeakSearch
from opweave.solvers.memory_ordering.helping import engine_for, run_while_it_helps
from opweave.solvers.memory_ordering.totals import (
    CUT_OPERATORS,
    KICKS,
    improve_total,
    prove_total,
    report_greedy_totals,
)
from opweave.solvers.registry import run_side_by_side
from opweave.solvers.run import Outcome, Run
from opweave.solvers.side_by_side.lane import Lane

HOME = "opweave.solvers.memory_ordering"


class SharedPeaks(PeakSearch):
    """A peak search that skips every target that another lane is working on."""

    def _tighten(self, target: int, budget: int) -> bool:
        """Like the base method, but skip a target that another lane works on; this lane takes over its result."""
        if not self._takes(("target", target, budget)):
            return False
        return super()._tighten(target, budget)


class FromBack(SharedPeaks):
    """Searches states from the back, which proves most on wide graphs."""

    signs = (BACKWARD,)


class FromAbove(SharedPeaks):
    """Improves the incumbent before the bound; searches states from the front first, which proves some graphs."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.lucky_sign = -BACKWARD

    def _turn(self, budget: int, *, easy: bool) -> None:
        self._undercut(budget)
        self._divide(budget, self._probe if easy else self._tighten)
        if not self.settled():
            self._probe(self.bound, budget)


def lanes(problem: MemoryOrdering, run: Run) -> tuple[Lane, ...]:
    """The lanes of ``auto``."""
    if run.time_limit is not None or problem.objective == "total":
        return exact_lanes(problem, run)
    states = min(MOST_STATES, UNTIMED_WORK // max(1, len(problem.graph.operators)))
    return tuple(replace(lane, options={"max_states": states}) for lane in exact_lanes(problem, run))


def exact_lanes(problem: MemoryOrdering, _run: Run) -> tuple[Lane, ...]:
    """The lanes of ``exact``."""
    if not only_order_arcs(problem):
        return (Lane(f"{HOME}.auto:solve_auto"),)
    if problem.objective == "peak" and engine_for(problem) is not None:
        return Lane(f"{HOME}.lanes:states"), Lane(f"{HOME}.lanes:engine"), Lane(f"{HOME}.lanes:from_above")
    if problem.objective == "peak":
        return Lane(f"{HOME}.lanes:from_back"), Lane(f"{HOME}.lanes:from_above")
    first = "auto:solve_auto" if problem.limit_bytes is not None else "lanes:search_total"
    return Lane(f"{HOME}.{first}"), Lane(f"{HOME}.lanes:bound_total")


def states(problem: MemoryOrdering, run: Run) -> Outcome:
    """Peaks: search states from both ends."""
    return SharedPeaks(problem, run).complete(state_budget(run, MOST_STATES))


def engine(problem: MemoryOrdering, run: Run) -> Outcome:
    """Peaks: run the engine that suits the graph while it helps, then search states."""
    suited = engine_for(problem)
    outcome = Outcome() if suited is None else run_while_it_helps(suited, problem, run)
    return outcome if outcome.infeasible or run.should_stop() else from_above(problem, run)


def from_back(problem: MemoryOrdering, run: Run) -> Outcome:
    """Peaks: raise the bound first."""
    return FromBack(problem, run).complete(state_budget(run, MOST_STATES))


def from_above(problem: MemoryOrdering, run: Run) -> Outcome:
    """Peaks: improve the incumbent first."""
    return FromAbove(problem, run).complete(state_budget(run, MOST_STATES))


def search_total(problem: MemoryOrdering, run: Run) -> Outcome:
    """Totals: greedy orders, local search, and kicks until the end."""
    starts = report_greedy_totals(problem, run)
    if len(problem.graph.operators) <= CUT_OPERATORS:
        run.proved(int(forced_footprints(arrays_of(lower(problem), run.halt)).sum()), "sum of L1")
    kicks = None if run.time_limit is not None else KICKS
    if not run.should_stop():
        improve_total(problem, run, starts, kicks)
    return Outcome(run.termination())


def bound_total(problem: MemoryOrdering, run: Run) -> Outcome:
    """Totals: the sum of least footprints, the integer program if it is small enough, then the state search."""
    report_greedy_totals(problem, run)
    prove_total(problem, run)
    suited = engine_for(problem)
    if suited is not None and not run.should_stop():
        outcome = run_while_it_helps(suited, problem, run)
        if outcome.infeasible:
            return outcome
    return Outcome(run.termination()) if run.should_stop() else solve_btsearch(problem, run)


run_side_by_side(MemoryOrdering.kind, "auto", lanes)
run_side_by_side(MemoryOrdering.kind, "exact", exact_lanes)
