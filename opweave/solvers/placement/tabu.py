"""Tabu search from the best plan: rounds of :mod:`.reinsertion`, each begun by random moves."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from opweave.formulations.placement.instance import SUPPORTS
from opweave.problems.arrays import FloatMatrix, IntArray, IntMatrix
from opweave.problems.graph_arrays import Adjacency
from opweave.problems.placement.spec import Placement
from opweave.solvers.placement.anneal import CountedPlan, counted_plan
from opweave.solvers.placement.arrays import PlacementArrays, durations
from opweave.solvers.placement.local import LocalSearch, search_from_best
from opweave.solvers.placement.plans import ended
from opweave.solvers.placement.reinsertion import DRAWS, reinsert_many
from opweave.solvers.registry import named_solver, rounds_asked
from opweave.solvers.run import Outcome, Run

MOVES = 50
"""Moves in one call of the loop."""

UNTIMED_ROUNDS = 8

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


@dataclass(eq=False)
class Round:
    """A round and its state; one that was cut short goes on with the next turn, as if nothing had happened.

    ``waiting`` are numbers that were drawn for moves and not used.
    """

    number: int
    plan: CountedPlan
    tabu: IntMatrix
    draws: np.random.Generator
    moved: IntArray
    waiting: FloatMatrix
    best: float = math.inf
    idle: int = 0

    def over(self) -> bool:
        """Whether too many moves in a row brought no better plan than the round's best."""
        return self.idle >= (PATIENCE * (1 + self.number // 8) if self.number > 1 else FIRST_PATIENCE)


@dataclass(eq=False)
class TabuSearch:
    """A search and its open round; solver "tabu" goes on with them where a plan calls it again."""

    search: LocalSearch
    round: Round | None = None

    def __post_init__(self) -> None:
        self._arrays = with_timed_flows(self.search.arrays)

    def begin(self) -> Round:
        """The open round, or the next one if there is none."""
        if self.round is None or self.round.over():
            self.round = _begun(self.search, self._arrays, 0 if self.round is None else self.round.number + 1)
        return self.round

    def go_on(self, rounds: int | None) -> None:
        """Run rounds from the best plan; None: until the run has to stop."""
        run, done = self.search.run, 0
        run.enter("reinsertion")
        while not run.should_stop() and done != rounds:
            _go_on(self.search, self._arrays, self.begin())
            done += 1


def _begun(search: LocalSearch, arrays: PlacementArrays, number: int) -> Round:
    """The next round, from the best plan."""
    search.catch_up()
    return Round(
        number,
        counted_plan(arrays, search.order, search.device, search.instance.cluster),
        np.zeros(arrays.seconds.shape, dtype=np.int64),
        np.random.default_rng((search.run.seed, number)),
        np.zeros(1, dtype=np.int64),
        np.empty((0, DRAWS)),
    )


def _go_on(search: LocalSearch, arrays: PlacementArrays, now: Round) -> None:
    """Move operators until the round is over or the run has to stop."""
    plan = now.plan
    while not search.run.should_stop() and not now.over():
        done = int(now.moved[0])
        kicks = max(0, KICKS - done) if now.number > 1 else 0
        order, device = plan.order.copy(), plan.device.copy()
        draws = now.waiting if len(now.waiting) else now.draws.random((MOVES, DRAWS))
        length = reinsert_many(arrays, plan, now.tabu, now.moved, draws, kicks, now.best, order, device)
        done = int(now.moved[0]) - done
        now.idle, now.waiting = now.idle + done, draws[done:]
        if length < now.best:
            now.best, now.idle = length, 0
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
    if math.isfinite(search.makespan) and search.instance.operators:
        TabuSearch(search).go_on(rounds_asked(run, "rounds", UNTIMED_ROUNDS))
    return ended(problem, run)
