"""The default plan for placement: floors, list schedulers, bounds, local search and decomposition.

It contains every list scheduler, so it is never worse than any of them; "do not split" is the first of them. The time
that is left after those is shared: local search, decomposition at cut vertices with its bounds, local search again.
"""

from __future__ import annotations

from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.placement.instance import lower
from opweave.problems.placement import Placement, Schedule
from opweave.problems.placement_shortage import shortage
from opweave.problems.result import Termination
from opweave.solvers.placement.decompose import decompose
from opweave.solvers.placement.local import UNTIMED_ROUNDS, LocalSearch, empty_search, list_plans, search_from
from opweave.solvers.registry import Feature, Solver, register
from opweave.solvers.run import Outcome, Run

UNTIMED_SECONDS = 20.0
"""Most seconds of local search, and of decomposition, when there is no time limit."""

LOCAL_SHARE = 0.3
DECOMPOSITION_SHARE = 0.7
"""Of the time that is left by then; what remains goes to local search again."""


def solve_auto(problem: Placement, run: Run) -> Outcome:
    """Put the solvers of placement together."""
    reason = shortage(problem)
    if reason is not None:
        return Outcome(infeasible=True, reason=reason)
    try:
        instance = lower(problem)
    except ContradictionError as error:
        return Outcome(infeasible=True, reason=str(error))
    search = empty_search(problem, instance, run)
    if isinstance(run.start, Schedule):
        search.consider_schedule(run.start)
    list_plans(search)
    _improve_and_bound(search)
    if run.best is None:
        return Outcome(run.termination(), reason="no plan was found whose memory fits, and no proof that there is none")
    if run.time_limit is None and not run.closed():
        return Outcome(Termination.BUDGET)
    return Outcome(run.termination())


def _improve_and_bound(search: LocalSearch) -> None:
    """Share the time that is left among the stages, until objective and bound meet."""
    run, rounds = search.run, UNTIMED_ROUNDS if search.run.time_limit is None else None
    with run.at_most(_share(run, LOCAL_SHARE)):
        search_from(search, rounds=rounds)
    if not run.should_stop():
        with run.at_most(_share(run, DECOMPOSITION_SHARE)):
            decompose(search.problem, search.instance, run)
        if isinstance(run.best, Schedule):
            search.consider_schedule(run.best)
    if rounds is None and not run.should_stop():
        search_from(search, rounds=None)


def _share(run: Run, share: float) -> float:
    left = run.remaining()
    return UNTIMED_SECONDS if left is None else share * left


register(
    Solver(
        name="auto",
        problem=Placement.kind,
        kind="plan",
        run=solve_auto,
        about="do not split, list schedulers, local search, bounds and decomposition, in the order of their cost",
        proves="bound",
        features=frozenset({Feature.START, Feature.GAP, Feature.CALLBACK}),
        targets=("order_arcs", "assignment"),
    )
)
