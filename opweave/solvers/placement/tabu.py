"""Tabu search from the best plan and from a balanced one: rounds of :mod:`.reinsertion`, each begun by random moves."""

from __future__ import annotations

import math
from contextlib import suppress

import numpy as np

from opweave.formulations.expressions import NARROWED
from opweave.formulations.placement.instance import SUPPORTS
from opweave.problems.graph_arrays import Adjacency
from opweave.problems.placement.spec import Placement
from opweave.problems.result import Termination
from opweave.solvers.narrowing.runs import by_best_way
from opweave.solvers.placement.anneal import CountedPlan, counted_plan
from opweave.solvers.placement.arrays import PlacementArrays, durations
from opweave.solvers.placement.earliest import earliest_first
from opweave.solvers.placement.guided import MOST_COLUMNS, shares_of
from opweave.solvers.placement.local import UNTIMED_ROUNDS, LocalSearch, empty_search, list_plans
from opweave.solvers.placement.plans import Plan, no_plan_found
from opweave.solvers.placement.ranks import upward_rank
from opweave.solvers.placement.reinsertion import DRAWS, MOVE_WORK, reinsert_many
from opweave.solvers.registry import named_solver
from opweave.solvers.rules import NoPlanError
from opweave.solvers.run import Outcome, Run

MOVES = 50
"""Moves in one call of the loop."""

KICKS = 12
"""Moves at random from the best plan with which a round begins, from the third round on."""

FIRST_PATIENCE, PATIENCE = 500, 3_000
"""Moves without a better plan after which a round ends: one of the first two, or a later one, which grow longer."""


def with_timed_flows(arrays: PlacementArrays) -> PlacementArrays:
    """The arrays without flows that take no time between any two devices; precedence stays."""
    timed = np.flatnonzero((durations(arrays) > 0.0).any(axis=(1, 2)))
    incoming = Adjacency.from_pairs(len(arrays.seconds), arrays.target[timed], timed)
    outgoing = Adjacency.from_pairs(len(arrays.seconds), arrays.source[timed], timed)
    return arrays._replace(
        in_start=incoming.start, incoming=incoming.items, out_start=outgoing.start, outgoing=outgoing.items
    )


def balanced(search: LocalSearch) -> Plan | None:
    """The plan that shares the work as the relaxation without transfers does; None if that takes too long.

    Where devices decide, not paths, single moves hardly find this balance.
    """
    count, devices = search.arrays.seconds.shape
    shares = shares_of(search.arrays) if count * devices <= MOST_COLUMNS else None
    if shares is None:
        return None
    allowed = shares == shares.max(axis=1, keepdims=True)
    with suppress(NoPlanError):
        return earliest_first(search.instance, search.arrays, upward_rank(search.arrays), allowed=allowed)
    return None


def reinsert(search: LocalSearch, rounds: int | None) -> None:
    """Run rounds, a run's first one from a balanced plan, the others from the best; None: until the run has to stop."""
    run, done = search.run, 0
    arrays = with_timed_flows(search.arrays)
    run.enter("reinsertion")
    while not run.should_stop() and done != rounds:
        kept = run.kept.get("tabu", 0)
        assert isinstance(kept, int)
        number = run.turn("reinsertion", kept)
        run.kept["tabu"] = number + 1
        search.catch_up()
        start = balanced(search) if number == 0 else None
        order, device = (search.order, search.device) if start is None else (start.order, start.device)
        _round(search, arrays, counted_plan(arrays, order, device, search.instance.cluster), number)
        done += 1


def _round(search: LocalSearch, arrays: PlacementArrays, plan: CountedPlan, number: int) -> None:
    """Move operators until too many moves in a row bring no better plan than the round's best."""
    run, rng = search.run, np.random.default_rng((search.run.seed, number))
    moved, best, idle = np.zeros(1, dtype=np.int64), math.inf, 0
    tabu = np.zeros(arrays.seconds.shape, dtype=np.int64)
    kicks, patience = (KICKS, PATIENCE * (1 + number // 8)) if number > 1 else (0, FIRST_PATIENCE)
    while not run.should_stop() and idle < patience:
        order, device = plan.order.copy(), plan.device.copy()
        draws = rng.random((MOVES, DRAWS))
        length = reinsert_many.sized(MOVES * MOVE_WORK)(
            arrays, plan, tabu, moved, draws, kicks, best, run.halt, order, device
        )
        kicks, idle = 0, idle + MOVES
        if length < best:
            best, idle = length, 0
            search.consider(order, device)


@named_solver(
    Placement,
    "tabu",
    "tabu search that puts critical operators back elsewhere, as if no transfer waited for a port",
    supports=(*SUPPORTS, NARROWED),
)
@by_best_way(SUPPORTS, "heft")
def solve_tabu(problem: Placement, run: Run) -> Outcome:
    """Tabu search from the best plan known, or from the list schedulers' plans; solver "tabu".

    Ports do not count while it moves operators, but its plans are timed with them.
    """
    search = empty_search(problem, run)
    search.consider_solution(run.start)
    search.consider_solution(run.best)
    if search.makespan == math.inf:
        list_plans(search)
    if math.isfinite(search.makespan) and search.instance.operators:
        reinsert(search, UNTIMED_ROUNDS if run.time_limit is None else None)
    if run.best is None:
        return Outcome(run.termination(), reason=no_plan_found(problem))
    return Outcome(Termination.BUDGET if run.time_limit is None and not run.closed() else run.termination())
