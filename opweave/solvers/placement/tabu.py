"""Tabu search from the best plan: rounds of :mod:`.reinsertion`, each begun by random moves."""

from __future__ import annotations

import math

import numpy as np

from opweave.formulations.placement.instance import SUPPORTS
from opweave.problems.graph_arrays import Adjacency
from opweave.problems.placement.spec import Placement
from opweave.solvers.placement.arrays import PlacementArrays, durations
from opweave.solvers.placement.local import LocalSearch, search_from_best
from opweave.solvers.placement.moves import counted_plan
from opweave.solvers.placement.plans import ended
from opweave.solvers.placement.reinsertion import DRAWS, reinsert_many
from opweave.solvers.registry import named_solver, rounds_asked
from opweave.solvers.run import Outcome, Run

MOVES = 50
"""Moves in one call of the loop."""

UNTIMED_ROUNDS = 8

KICKS = 12
"""Moves at random from the best plan with which a round begins, from the second round on."""

FIRST_PATIENCE, PATIENCE = 500, 3_000
"""Moves without a better plan after which a round ends: the first one, or a later one, which grow longer."""


def with_timed_flows(arrays: PlacementArrays) -> PlacementArrays:
    """The arrays without flows that take no time between any two devices; precedence stays."""
    timed = np.flatnonzero((durations(arrays) > 0.0).any(axis=(1, 2)))
    incoming = Adjacency.from_pairs(len(arrays.seconds), arrays.target[timed], timed)
    outgoing = Adjacency.from_pairs(len(arrays.seconds), arrays.source[timed], timed)
    return arrays._replace(
        in_start=incoming.start, incoming=incoming.items, out_start=outgoing.start, outgoing=outgoing.items
    )


def _round(search: LocalSearch, arrays: PlacementArrays, number: int) -> None:
    """Move operators, from the best plan, until too many moves in a row brought no better plan of the round."""
    search.catch_up()
    plan = counted_plan(arrays, search.order, search.device, search.instance.cluster)
    tabu, moved = np.zeros(arrays.seconds.shape, dtype=np.int64), np.zeros(1, dtype=np.int64)
    rng, best, idle = np.random.default_rng((search.run.seed, number)), math.inf, 0
    patience = PATIENCE * (1 + number // 8) if number else FIRST_PATIENCE
    while idle < patience and not search.run.should_stop():
        kicks = max(0, KICKS - int(moved[0])) if number else 0
        order, device = plan.order.copy(), plan.device.copy()
        length = reinsert_many(arrays, plan, tabu, moved, rng.random((MOVES, DRAWS)), kicks, best, order, device)
        idle += MOVES
        if length < best:
            best, idle = length, 0
            search.consider(order, device)


@named_solver(
    Placement,
    "tabu",
    "tabu search that puts critical operators back elsewhere, as if no transfer waited for a port",
    supports=SUPPORTS,
    options={"rounds": "number of rounds; 0 for as many as the time allows"},
)
def solve_tabu(problem: Placement, run: Run) -> Outcome:
    """Tabu search from the best plan known, or from the list schedulers' plans; solver "tabu".

    Ports do not count while it moves operators, but its plans are timed with them.
    """
    search = search_from_best(problem, run)
    arrays, rounds, number = with_timed_flows(search.arrays), rounds_asked(run, "rounds", UNTIMED_ROUNDS), 0
    run.enter("reinsertion")
    while math.isfinite(search.makespan) and search.instance.operators and number != rounds and not run.should_stop():
        _round(search, arrays, number)
        number += 1
    return ended(problem, run)
