"""The best plan of a problem, which searches share, and tabu search from it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from opweave.formulations.placement.instance import SUPPORTS, PlacementInstance, lower_unless_short
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.placement.spec import Placement, Schedule
from opweave.problems.solution import Solution
from opweave.solvers.loops import clock
from opweave.solvers.placement.arrays import (
    PlacementArrays,
    arrays_of,
    length_within,
    mean_seconds,
    order_by,
    order_for,
    order_of_graph,
    upward_rank,
)
from opweave.solvers.placement.baselines import RULES, insertion
from opweave.solvers.placement.moves import counted_plan
from opweave.solvers.placement.plans import ended, fits, order_by_start, report, schedule_of, times_of
from opweave.solvers.placement.tabu import DRAWS, reinsert_many, trial_of
from opweave.solvers.registry import named_solver, rounds_asked
from opweave.solvers.rules import NoPlanError
from opweave.solvers.run import Outcome, Run

CHUNK_WORK = 2_000_000
"""Operators and flows judged in a chunk of moves, which takes a few hundredths of a second."""

MOST_MOVES = 100
"""Moves of a chunk per operator, so that small problems are not searched for too long."""


@dataclass(eq=False)
class LocalSearch:
    """The best plan of one instance and the moves that improve it.

    ``seen`` is the last plan that was taken over from another search.
    """

    problem: Placement
    instance: PlacementInstance
    arrays: PlacementArrays
    run: Run
    order: IntArray
    device: IntArray
    makespan: float = math.inf
    seen: Solution | None = None

    def consider(self, order: IntArray, device: IntArray) -> None:
        """Keep a plan if it fits into memory and is the best so far."""
        if not fits(self.arrays, device):
            return
        value = length_within(self.arrays, order, device, self.makespan)
        if value < self.makespan:
            self.order = order.copy()
            self.device = device.copy()
            self.makespan = value
            self.run.found(schedule_of(self.instance, self.arrays, order, device), value)

    def consider_solution(self, solution: Solution | None) -> None:
        """Decode a schedule's assignment and order, if there is a schedule."""
        if isinstance(solution, Schedule):
            self.consider_times(*times_of(self.instance, solution))

    def consider_times(self, starts: FloatArray, device: IntArray) -> None:
        """Decode an assignment in the order of its starts, and in the order of its upward ranks."""
        order = order_by_start(self.instance, starts)
        self.consider(order, device)
        self.consider(order_for(self.arrays, device), device)

    def catch_up(self) -> None:
        """Take over the best plan of the run."""
        best, known = self.run.best, self.run.objective
        if known is not None and known < self.makespan and best is not self.seen:
            self.seen = best
            self.consider_solution(best)

    def moves(self, arrays: PlacementArrays) -> int:
        """Moves of a chunk, which takes a few hundredths of a second."""
        return max(1, min(CHUNK_WORK // (len(arrays.seconds) + len(arrays.source)), MOST_MOVES * len(arrays.seconds)))


class Spell:
    """Seconds of work, without those in which others work; None for as many as there are."""

    def __init__(self, run: Run, seconds: float | None) -> None:
        self._run = run
        self._seconds = math.inf if seconds is None else seconds
        self._since = clock()

    def left(self) -> float:
        """Seconds that are left."""
        return self._seconds + self._since - clock()

    def is_over(self) -> bool:
        """Let others work; whether the time is up, or the run has to stop."""
        began = clock()
        stop = self._run.should_stop()
        self._since += clock() - began
        return stop or self.left() <= 0.0


def empty_search(problem: Placement, run: Run) -> LocalSearch:
    """A local search without a plan yet."""
    instance = lower_unless_short(problem)
    nothing = np.zeros(instance.operators, dtype=np.int64)
    return LocalSearch(problem, instance, arrays_of(instance, problem), run, nothing, nothing)


def search_from_best(problem: Placement, run: Run) -> LocalSearch:
    """A local search that starts from the best plan so far, or from the list schedulers' plans if there is none."""
    search = empty_search(problem, run)
    search.consider_solution(run.start)
    search.catch_up()
    if not math.isfinite(search.makespan):
        list_plans(search)
    return search


def list_plans(search: LocalSearch) -> None:
    """Report the list schedulers' plans, and start from the best."""
    search.run.enter("list schedulers")
    for rule, _ in RULES.values():
        try:
            plan = rule(search.instance, search.arrays)
        except NoPlanError:
            continue
        report(search.instance, search.arrays, plan, search.run)
        search.consider_times(plan.start, plan.device)
        if search.run.over():
            return


MOVES = 50
"""Moves in one call of the loop."""

UNTIMED_ROUNDS = 8

KICKS = 12
"""Moves at random from the best plan with which a round begins, from the second round on."""

FIRST_PATIENCE, PATIENCE = 500, 3_000
"""Moves without a better plan after which a round ends: the first one, or a later one, which grow longer."""


def _round(search: LocalSearch, number: int) -> None:
    """Move operators, from the best plan, until too many moves in a row brought no better plan of the round."""
    search.catch_up()
    plan = counted_plan(search.arrays, search.order, search.device, search.instance.cluster)
    trial = trial_of(search.arrays, plan)
    tabu = np.zeros(search.arrays.seconds.shape, dtype=np.int64)
    moved = np.zeros(1, dtype=np.int64)
    rng = np.random.default_rng((search.run.seed, number))
    best = math.inf
    idle = 0
    patience = PATIENCE * (1 + number // 8) if number else FIRST_PATIENCE
    while idle < patience and not search.run.should_stop():
        kicks = max(0, KICKS - int(moved[0])) if number else 0
        order, device = plan.order.copy(), plan.device.copy()
        length = reinsert_many(trial, tabu, moved, rng.random((MOVES, DRAWS)), kicks, best, order, device)
        idle += MOVES
        if length < best:
            best, idle = length, 0
            search.consider(order, device)


@named_solver(
    Placement,
    "tabu",
    "tabu search that reinserts critical operators elsewhere, ignoring waits at ports",
    supports=SUPPORTS,
    options={"rounds": "number of rounds; 0 for as many as the time allows"},
)
def solve_tabu(problem: Placement, run: Run) -> Outcome:
    """Tabu search from the best plan known, or from the list schedulers' plans; solver "tabu".

    Ports do not count while it moves operators, but its plans are timed with them.
    """
    search = search_from_best(problem, run)
    rounds, number = rounds_asked(run, "rounds", UNTIMED_ROUNDS), 0
    run.enter("reinsertion")
    while math.isfinite(search.makespan) and search.instance.operators and number != rounds and not run.should_stop():
        _round(search, number)
        number += 1
    return ended(problem, run)


SPREAD, FRUITLESS = 0.3, 300
"""Logarithmic spread of the factors on run times in a further try, and the tries in a row without a better plan after
which no more follow."""


def solve_ranks(problem: Placement, run: Run) -> Outcome:
    """HEFT again and again, with the ranks that other run times would give; solver "ranks".

    The run times of each try lie near those of the best try so far. On wide graphs, some of the many orders that hardly
    differ in their ranks give much shorter plans than others.
    """
    search = search_from_best(problem, run)
    arrays, rng, first = search.arrays, np.random.default_rng(run.seed), order_of_graph(search.arrays)
    seconds, best, fruitless = mean_seconds(arrays), math.inf, 0
    run.enter("ranks of other run times")
    while search.instance.operators and fruitless < FRUITLESS and not run.should_stop():
        changed = rng.random(len(seconds)) < rng.random()
        trial = seconds * np.exp(SPREAD * changed * rng.standard_normal(len(seconds)))
        try:
            plan = insertion(search.instance, arrays, order_by(upward_rank(arrays, trial), first))
        except NoPlanError:
            break
        fruitless += 1
        if plan.makespan < best:
            seconds, best, fruitless = trial, plan.makespan, 0
            report(search.instance, arrays, plan, run)
    return ended(problem, run)
