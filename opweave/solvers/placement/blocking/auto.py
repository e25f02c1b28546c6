"""Placement with blocking calls: simple plans, cuts of orders, bounds over paths, annealing, and an engine."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from opweave.formulations.expressions import NARROWED
from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.placement.calls import SUPPORTS, CallInstance, calls_of, lower_calls
from opweave.problems.arrays import IntArray
from opweave.problems.errors import EngineError, InvalidInputError
from opweave.problems.graph_arrays import Adjacency
from opweave.problems.placement.spec import Placement, Schedule
from opweave.problems.result import Termination
from opweave.solvers.loops import clock
from opweave.solvers.narrowing.runs import by_every_way
from opweave.solvers.placement.blocking.arrays import CallArrays, arrays_of, in_order, judged, schedule_of
from opweave.solvers.placement.blocking.bounds import carrying, heaviest, prove
from opweave.solvers.placement.blocking.cuts import blocks_of, cut, ordered, orders, units_of, with_branches_apart
from opweave.solvers.placement.blocking.search import DRAWS, anneal_calls
from opweave.solvers.placement.plans import no_plan_found
from opweave.solvers.registry import go_on_with, is_available, named_solver
from opweave.solvers.rules import NoPlanError, register_rule
from opweave.solvers.run import Outcome, Run

logger = logging.getLogger("opweave")

READING = "transfers='blocking'"

ENGINE, PROGRAMMED, ENGINE_SHARE, ENGINE_SECONDS = "highs", 40, 0.5, 20.0
"""The engine, the most operators for which it runs, and its share of the time left or its seconds without a limit."""

TINY = 10
"""Operators up to which the engine runs right after the first plans."""

PROOF_SHARE, CUTS_SHARE = 0.25, 0.5
"""Most of the time left for the bounds, and then for cuts of orders."""

STALE_ROUNDS = 6
"""Annealings without a better plan after which the engine gets the rest of the time, if it runs at all."""

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
        self._took = 0.0

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
        """Cut some orders of the operators, and the order of the best plan, as long as that helps."""
        if not self.instance.operators:
            return
        for order in orders(self.instance, self.unit):
            self._cut(order)
        self.again()
        path = np.array(heaviest(self.instance, carrying(self.instance)), dtype=np.int64)
        value = math.inf
        while self.best is not None and self.value < value and not self.run.should_stop():
            value = self.value
            for order in with_branches_apart(self.instance, self.unit, self._order(), path):
                self._cut(order)
            self.again()

    def _cut(self, order: IntArray) -> None:
        """Cut an order of units: all of it one after the other, and all but a heavy path beside."""
        block = blocks_of(self.unit, order)
        path = np.zeros(self.instance.operators, dtype=bool)
        path[heaviest(self.instance, carrying(self.instance))] = True
        for counts in (np.ones_like(path), path):
            left = self.run.remaining()
            if self.run.should_stop() or (left is not None and left < self._took):
                return
            began = clock()
            self.consider(cut(self.instance, self.arrays, block, counts))
            self._took = clock() - began

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
                run.halt,
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


def fill_calls(search: CallSearch) -> IntArray:
    """Fill one accelerator after the other, depth first; what is too large, and the rest, runs on the host.

    Source: the greedy baseline of Tarnawski et al. (2020), appendix F.
    """
    instance, arrays = search.instance, search.arrays
    each = len(arrays.on) // max(1, len(instance.accelerators))
    where = np.full(instance.operators, search.host, dtype=np.int64)
    k, held = 0, 0
    members = Adjacency.from_pairs(len(np.unique(search.unit)), search.unit, np.arange(len(search.unit)))
    for u in ordered(instance, search.unit, None).tolist():
        ops = members[u]
        used = np.unique(np.concatenate([instance.whole.parameters[v] for v in ops.tolist()] or [ops[:0]]))
        size = int(arrays.memory[ops].sum() + arrays.parameter_bytes[used].sum())
        while k < len(instance.accelerators) and held and held + size > arrays.capacity[k]:
            k, held = k + 1, 0
        fits = k < len(instance.accelerators) and size <= arrays.capacity[k]
        if fits and np.isfinite(instance.seconds[ops, k]).all():
            where[ops] = k * each
            held += size
    return where


def best_cuts(search: CallSearch) -> IntArray | None:
    """The best of the cuts of some orders."""
    search.cuts()
    return search.best


Rule = Callable[[CallSearch], IntArray | None]

RULES: dict[str, tuple[Rule, str]] = {
    "one_place": (one_place, "everything on the host, or in one call of the best accelerator"),
    "fill_calls": (fill_calls, "fills the accelerators one after the other, depth first (the greedy of Tarnawski)"),
    "cut_calls": (best_cuts, "cuts some orders of the operators into calls by dynamic programming"),
}
"""Rules for blocking calls by name, and what they do."""


def carry_out(rule: Rule, problem: Placement, run: Run) -> None:
    """Build a rule's plan and report it."""
    search = CallSearch(problem, run)
    if not math.isfinite(search.consider(rule(search))):
        raise NoPlanError("the plan does not fit")


@named_solver(
    Placement,
    "calls",
    "blocking calls: cuts of orders, annealing, bounds over paths, and HiGHS on small problems",
    proves="bound",
    supports=SUPPORTS,
    readings=(READING,),
)
def solve_calls(problem: Placement, run: Run) -> Outcome:
    """Search plans and prove bounds until they meet or the time is up."""
    search = CallSearch(problem, run)
    search.consider_schedule(run.start)
    search.consider_schedule(run.best)
    for rule in (one_place, fill_calls):
        search.consider(rule(search))
    run.enter("paths")
    with run.share(PROOF_SHARE, UNTIMED_SECONDS):
        prove(search.instance, run)
    run.enter("cuts")
    with run.share(CUTS_SHARE, UNTIMED_SECONDS):
        search.cuts()
    operators, outcome = search.instance.operators, None
    if operators <= TINY and not run.should_stop():
        outcome = _engine(search, 1.0)
        if outcome is not None and (outcome.infeasible or outcome.termination is Termination.COMPLETED):
            return outcome
    run.enter("annealing")
    programmed = TINY < operators <= PROGRAMMED and is_available(problem, ENGINE)
    with run.share(ENGINE_SHARE if programmed else 1.0, UNTIMED_SECONDS):
        _anneal(search, STALE_ROUNDS if programmed else None)
    if programmed and not run.should_stop():
        outcome = _engine(search, 1.0)
        if outcome is not None and (outcome.infeasible or outcome.termination is Termination.COMPLETED):
            return outcome
    return _ended(problem, run)


def _anneal(search: CallSearch, patience: int | None) -> None:
    """Anneal until the time is up, or until ``patience`` rounds in a row have found nothing better."""
    stale = 0
    for number in _rounds(search.run):
        if search.best is None or search.run.should_stop() or stale == patience:
            return
        known = search.value
        search.anneal(number)
        search.again()
        stale = 0 if search.value < known else stale + 1


def good_calls(problem: Placement, run: Run) -> Schedule | None:
    """The best plan of the rules that the referee accepts; None if there is none."""
    with suppress(ContradictionError):
        search = CallSearch(problem, run)
        for rule in (one_place, fill_calls, best_cuts):
            search.consider(rule(search))
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


def _rounds(run: Run) -> Iterator[int]:
    number = 0
    while run.time_limit is not None or number < ROUNDS:
        yield run.turn("calls", number)
        number += 1


def _engine(search: CallSearch, share: float) -> Outcome | None:
    """Let an engine go on from the best plan, if there is one here; None if its range of numbers is too small, too."""
    if not is_available(search.problem, ENGINE):
        return None
    outcome = None
    try:
        with search.run.share(share, ENGINE_SECONDS):
            outcome = go_on_with(search.problem, ENGINE, search.run, head_start=False)
    except (EngineError, InvalidInputError) as error:
        logger.info("placement goes on without %s: %s", ENGINE, error)
    search.consider_schedule(search.run.best)
    return outcome


def _ended(problem: Placement, run: Run) -> Outcome:
    if run.best is None:
        return Outcome(run.termination(), reason=f"{no_plan_found(problem)}, and no proof that there is none")
    if run.time_limit is None and not run.closed():
        return Outcome(Termination.BUDGET)
    return Outcome(run.termination())


_SUPPORTS, _widened = (*SUPPORTS, NARROWED), by_every_way(SUPPORTS)

for _name, (_rule, _about) in RULES.items():
    register_rule(
        Placement,
        _name,
        _widened(partial(carry_out, _rule)),
        _about,
        supports=_SUPPORTS,
        baseline=_rule is fill_calls,
        readings=(READING,),
    )
