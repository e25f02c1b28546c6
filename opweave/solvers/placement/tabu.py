"""Tabu search from the best plan and from a balanced one: rounds of :mod:`.reinsertion`, each begun by random moves."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from opweave.formulations.expressions import NARROWED
from opweave.formulations.placement.instance import SUPPORTS
from opweave.problems.arrays import FloatMatrix, IntArray, IntMatrix
from opweave.problems.graph_arrays import Adjacency
from opweave.problems.placement.spec import Placement
from opweave.solvers.narrowing.runs import by_best_way
from opweave.solvers.placement.anneal import CountedPlan, counted_plan
from opweave.solvers.placement.arrays import PlacementArrays, durations
from opweave.solvers.placement.earliest import earliest_first
from opweave.solvers.placement.guided import MOST_COLUMNS, shares_of
from opweave.solvers.placement.local import FIRST_ROUNDS_OVER, UNTIMED_ROUNDS, LocalSearch, empty_search, list_plans
from opweave.solvers.placement.plans import Plan, ended
from opweave.solvers.placement.ranks import upward_rank
from opweave.solvers.placement.reinsertion import DRAWS, reinsert_many
from opweave.solvers.registry import named_solver, rounds_asked
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
        """The open round, or the next one if there is none; the very first solves a linear program."""
        if self.round is None or self.round.over():
            self.round = _begun(self.search, self._arrays, 0 if self.round is None else self.round.number + 1)
            if self.round.number > 1:
                self.search.run.kept[FIRST_ROUNDS_OVER] = True
        return self.round

    def go_on(self, rounds: int | None) -> None:
        """Run rounds, the first from a balanced plan, the others from the best; None: until the run has to stop."""
        run, done = self.search.run, 0
        run.enter("reinsertion")
        while not run.should_stop() and done != rounds:
            _go_on(self.search, self._arrays, self.begin())
            done += 1


def _begun(search: LocalSearch, arrays: PlacementArrays, number: int) -> Round:
    """The next round that no other lane has taken."""
    number = search.run.turn("reinsertion", number)
    search.catch_up()
    start = balanced(search) if number == 0 else None
    order, device = (search.order, search.device) if start is None else (start.order, start.device)
    return Round(
        number,
        counted_plan(arrays, order, device, search.instance.cluster),
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
        length = reinsert_many(
            arrays, plan, now.tabu, now.moved, draws, kicks, now.best, search.run.halt, order, device
        )
        done = int(now.moved[0]) - done
        now.idle, now.waiting = now.idle + done, draws[done:]
        if length < now.best:
            now.best, now.idle = length, 0
            search.consider(order, device)


def tabu_search(problem: Placement, run: Run) -> TabuSearch | None:
    """The search that the run keeps, with the best plan known; None without a plan, or with nothing to move."""
    known = run.kept.get("tabu")
    if not isinstance(known, TabuSearch):
        known = run.kept["tabu"] = TabuSearch(empty_search(problem, run))
        known.search.consider_solution(run.start)
    search = known.search
    if run.objective is not None and run.objective < search.makespan:
        search.consider_solution(run.best)  # others have found it
    if search.makespan == math.inf:
        list_plans(search)
    return known if math.isfinite(search.makespan) and search.instance.operators else None


@named_solver(
    Placement,
    "tabu",
    "tabu search that puts critical operators back elsewhere, as if no transfer waited for a port",
    supports=(*SUPPORTS, NARROWED),
    options={"rounds": "number of rounds; 0 for as many as the time allows"},
)
@by_best_way(SUPPORTS, "heft")
def solve_tabu(problem: Placement, run: Run) -> Outcome:
    """Tabu search from the best plan known, or from the list schedulers' plans; solver "tabu".

    Ports do not count while it moves operators, but its plans are timed with them.
    """
    known = tabu_search(problem, run)
    if known is not None:
        known.go_on(rounds_asked(run, "rounds", UNTIMED_ROUNDS))
    return ended(problem, run)
