"""Placement with blocking calls: simple plans, cuts of orders, bounds over paths, annealing, and an engine."""

from __future__ import annotations

import logging
import math
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.placement.calls import SUPPORTS, CallInstance, calls_of, lower_calls
from opweave.problems.arrays import IntArray
from opweave.problems.graph_arrays import Adjacency
from opweave.problems.placement.spec import Placement, Schedule
from opweave.problems.result import Termination
from opweave.solvers.loops import clock
from opweave.solvers.placement.blocking.arrays import CallArrays, arrays_of, in_order, judged, schedule_of
from opweave.solvers.placement.blocking.bounds import prove
from opweave.solvers.placement.blocking.cuts import blocks_of, cut, ordered, units_of
from opweave.solvers.placement.blocking.search import DRAWS, anneal_calls
from opweave.solvers.placement.plans import no_plan_found
from opweave.solvers.registry import named_solver
from opweave.solvers.rules import NoPlanError
from opweave.solvers.run import Outcome, Run

logger = logging.getLogger("opweave")

READING = "transfers='blocking'"

PROOF_SHARE, CUTS_SHARE = 0.25, 0.5
"""Most of the time left for the bounds, and then for cuts of orders."""

ROUNDS, UNTIMED_SECONDS = 3, 10.0
"""Annealings, and their seconds in all, when there is no time limit."""

MOVES, LEAST_MOVES, MOST_MOVES = 400, 4_000, 400_000
"""Moves of an annealing: for each unit, at least and at most."""

HOT, COLD = 0.03, 0.0003
"""Temperature at first and at last, as a share of the makespan."""

CHUNK_SECONDS = 0.1
"""Seconds of moves between two looks at the clock."""


@dataclass(eq=False)
class CallSearch:
    """The best assignment so far, and what the search needs to go on from it."""

    problem: Placement
    run: Run
    best: IntArray | None = None
    value: float = math.inf
    instance: CallInstance = field(init=False)
    arrays: CallArrays = field(init=False)
    unit: IntArray = field(init=False)

    def __post_init__(self) -> None:
        self.instance = lower_calls(self.problem)
        self.arrays, self.unit = arrays_of(self.instance), units_of(self.instance)

    @property
    def host(self) -> int:
        """The place of the host."""
        return len(self.arrays.on)

    def consider(self, where: IntArray | None) -> float:
        """Judge an assignment and report it if it is the best so far; its makespan."""
        if where is None:
            return math.inf
        value, start = judged(self.arrays, where)
        if value < self.value:
            self.best, self.value = where.copy(), value
            self.run.found(schedule_of(self.instance, self.arrays, where, start), value)
        return value

    def consider_schedule(self, schedule: object) -> None:
        """Take in a solution from elsewhere."""
        if not isinstance(schedule, Schedule):
            return
        judgement = self.problem.evaluate(schedule)
        if not judgement.feasible or judgement.objective is None:
            return
        self.run.found(schedule, judgement.objective)
        call, most = calls_of(self.instance, schedule), self.instance.most
        each = len(self.arrays.on) // max(1, len(self.instance.accelerators))
        if (call >= 0).any() and int((call % most).max()) >= each:
            return
        self.consider(np.where(call >= 0, call // most * each + call % most, self.host))

    def cuts(self) -> None:
        """Cut the operators depth first, and then in the order of the best plan, as long as that helps."""
        if self.instance.operators:
            self._cut(ordered(self.instance, self.unit, None))
            self.again()

    def _cut(self, order: IntArray) -> None:
        self.consider(cut(self.instance, self.arrays, blocks_of(self.unit, order)))

    def again(self) -> None:
        """Cut the order of the best plan, as long as that helps."""
        value = math.inf
        while self.best is not None and self.value < value and not self.run.should_stop():
            value = self.value
            self._cut(self._order())

    def _order(self) -> IntArray:
        """Units in the order of the best plan."""
        assert self.best is not None
        _, start = judged(self.arrays, self.best)
        key = np.full(int(self.unit.max(initial=-1)) + 1, np.inf)
        rank = np.empty(self.instance.operators)
        rank[in_order(self.instance, start)] = np.arange(self.instance.operators)
        np.minimum.at(key, self.unit, rank)
        return ordered(self.instance, self.unit, key)

    def anneal(self, number: int) -> None:
        """One annealing from the best assignment."""
        assert self.best is not None
        run, rng = self.run, np.random.default_rng([self.run.seed, number])
        units = int(self.unit.max(initial=-1)) + 1
        moves = min(MOST_MOVES, max(LEAST_MOVES, MOVES * units))
        order = ordered(self.instance, self.unit, None)
        members = Adjacency.from_pairs(units, self.unit, np.arange(len(self.unit)))
        near, now, best = self._near(units), self.best.copy(), self.best.copy()
        work = 40 * (self.instance.operators + len(self.arrays.readers))
        done, chunk = 0, max(16, 20_000_000 // work)
        while done < moves and not run.should_stop():
            count = min(chunk, moves - done)
            ends = [HOT * self.value * (COLD / HOT) ** (at / moves) for at in (done, done + count)]
            began = clock()
            value = anneal_calls(
                self.arrays,
                order,
                members.start,
                members.items,
                near.start,
                near.items,
                now,
                best,
                max(ends[0], 1e-300),
                max(ends[1], 1e-300),
                rng.random((count, DRAWS)),
            )
            if value < self.value:
                self.consider(best)
            done += count
            spent = clock() - began
            chunk = max(16, min(4 * chunk, int(chunk * CHUNK_SECONDS / max(spent, 1e-4))))
            left = run.remaining()
            if left is not None:
                moves = min(moves, done + int(count * left / max(spent, 1e-6)))  # a round must still cool down

    def _near(self, units: int) -> Adjacency:
        """Units that exchange data."""
        after = self.instance.whole.after
        heads, tails = self.unit[after.heads()], self.unit[after.items]
        apart = heads != tails
        heads, tails = heads[apart], tails[apart]
        return Adjacency.from_pairs(units, np.concatenate([heads, tails]), np.concatenate([tails, heads]))


def one_place(search: CallSearch) -> IntArray:
    """Everything on the host, or in one call, wherever that takes least."""
    each = len(search.arrays.on) // max(1, len(search.instance.accelerators))
    places = [search.host, *range(0, search.host, max(1, each))]
    whole = [np.full(search.instance.operators, place, dtype=np.int64) for place in places]
    return min(whole, key=lambda where: judged(search.arrays, where)[0])


def carry_out_in_one_place(problem: Placement, run: Run) -> None:
    """Report the best plan on one device, or say that there is none."""
    search = CallSearch(problem, run)
    if not math.isfinite(search.consider(one_place(search))):
        raise NoPlanError("the plan does not fit")


@named_solver(
    Placement,
    "calls",
    "blocking calls: cuts of orders, annealing, and bounds over paths",
    proves="bound",
    supports=SUPPORTS,
    readings=(READING,),
)
def solve_calls(problem: Placement, run: Run) -> Outcome:
    """Search plans and prove bounds until they meet or the time is up."""
    search = CallSearch(problem, run)
    search.consider_schedule(run.start)
    search.consider_schedule(run.best)
    search.consider(one_place(search))
    run.enter("paths")
    with run.share(PROOF_SHARE, UNTIMED_SECONDS):
        prove(search.instance, run)
    run.enter("cuts")
    with run.share(CUTS_SHARE, UNTIMED_SECONDS):
        search.cuts()
    run.enter("annealing")
    number = 0
    while search.best is not None and not run.should_stop() and (run.time_limit is not None or number < ROUNDS):
        search.anneal(number)
        search.again()
        number += 1
    return _ended(problem, run)


def good_calls(problem: Placement) -> Schedule | None:
    """The best plan of one place and of cuts that the referee accepts; None if there is none."""
    run = Run()
    with suppress(ContradictionError):
        search = CallSearch(problem, run)
        search.consider(one_place(search))
        search.cuts()
    plans = (each.solution for each in reversed(run.candidates))
    return next((plan for plan in plans if isinstance(plan, Schedule) and problem.evaluate(plan).feasible), None)


def bound_of_calls(problem: Placement) -> float | None:
    """The bound over paths, in seconds; None if there is no plan."""
    run = Run()
    try:
        prove(lower_calls(problem), run)
    except ContradictionError:
        return None
    return run.bound


def _ended(problem: Placement, run: Run) -> Outcome:
    if run.best is None:
        return Outcome(run.termination(), reason=f"{no_plan_found(problem)}, and no proof that there is none")
    if run.time_limit is None and not run.closed():
        return Outcome(Termination.BUDGET)
    return Outcome(run.termination())
