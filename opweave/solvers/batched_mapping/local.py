"""Local search over plans: annealing in rounds from the best list schedule.

A round starts from the best plan so far, at a temperature that is a share of the makespan; warm and cool starts
alternate. The number of moves in a round depends only on the size of the problem, so the same seed gives the same plan
unless the time limit cuts it short. A round that would not end in time cools faster.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from opweave.formulations.batched_mapping.instance import SUPPORTS, BatchedInstance, lower_unless_short
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.batched_mapping.spec import BatchedMapping, BatchedSchedule
from opweave.problems.result import Termination
from opweave.problems.solution import Solution
from opweave.solvers.batched_mapping.anneal import DRAWS, SEARCH_MOVES, Window, anneal
from opweave.solvers.batched_mapping.arrays import BatchArrays, arrays_of
from opweave.solvers.batched_mapping.baselines import attempts
from opweave.solvers.batched_mapping.bounds.reach import Reach, granule_tails, reach_of
from opweave.solvers.batched_mapping.candidates import all_strings
from opweave.solvers.batched_mapping.plans import (
    BatchPlan,
    granules_of,
    order_by_start,
    plan_of,
    report,
)
from opweave.solvers.registry import Feature, Solver, register
from opweave.solvers.run import Outcome, Run
from opweave.solvers.scheduling.annealing import PACE, chunks_within

ROUND_WORK = 90_000_000
"""Nodes and flows judged in one annealing round; takes about a second."""

CHUNK_WORK = 9_000_000
MOST_MOVES = 400
"""Moves of a chunk per operator, so that small problems are not searched for too long."""

FIRST_HEAT = 0.002
LAST_HEAT = 0.00001
HEATS = (1.0, 3.0, 0.5, 8.0)
"""Initial temperatures of successive rounds, as multiples of the first. Warm rounds leave a local minimum, cool ones
refine it."""

UNTIMED_ROUNDS = 4


@dataclass(eq=False)
class BatchSearch:
    """The best plan of one instance and the moves that improve it.

    ``caught`` is the last plan taken over from another lane, ``pace`` the seconds that a node or flow took recently.
    """

    problem: BatchedMapping
    instance: BatchedInstance
    arrays: BatchArrays
    reach: Reach
    run: Run
    strings: IntArray
    best: BatchPlan | None = None
    tail: FloatArray = field(default_factory=lambda: np.zeros((0, 0, 0)))
    caught: Solution | None = None
    pace: float = PACE

    @property
    def makespan(self) -> float:
        """Makespan of the best plan; inf without one."""
        return math.inf if self.best is None else self.best.makespan

    def consider(self, plan: BatchPlan) -> bool:
        """Keep a plan if it is the best so far, after decoding it again in the order of its starts."""
        if not math.isfinite(plan.makespan):
            return False
        again = plan_of(self.arrays, plan.where, order_by_start(self.instance, plan.where, plan.end))
        better = again if again.makespan <= plan.makespan else plan
        if better.makespan >= self.makespan:
            return False
        self.best = better
        report(self.instance, better, self.run)
        return True

    def catch_up(self) -> None:
        """Take over the best plan of the other lanes."""
        best, known = self.run.best, self.run.objective
        if self.run.exchange is None or known is None or known >= self.makespan or best is self.caught:
            return
        self.caught = best
        plan = granules_of(self.instance, best) if isinstance(best, BatchedSchedule) else None
        if plan is not None:
            self.consider(plan)

    def everything(self) -> Window:
        """The whole plan."""
        operators, devices = self.arrays.seconds.shape[:2]
        return Window(
            operators=np.arange(operators),
            low=0,
            high=operators * devices,
            free=np.zeros(devices),
            end=np.full((operators, devices), -1.0),
            tail=self.tail,
        )

    def effort(self, window: Window) -> int:
        """Nodes and flows that are judged for one move."""
        return max(1, (window.high - window.low) + len(self.arrays.source) * len(window.free))

    def moves(self, window: Window) -> int:
        """Moves of one chunk."""
        return max(1, min(CHUNK_WORK // self.effort(window), MOST_MOVES * len(window.operators)))

    def anneal_round(self, number: int, window: Window | None = None, heat: float = FIRST_HEAT) -> None:
        """Run one annealing round from the best plan, in a window or everywhere."""
        self.catch_up()
        assert self.best is not None
        window = self.everything() if window is None else window
        rng = np.random.default_rng((self.run.seed, number))
        moves = self.moves(window)
        work = moves * self.effort(window)
        chunks = chunks_within(self.run, ROUND_WORK // CHUNK_WORK, self.pace * work)
        first = heat * HEATS[number % len(HEATS)]
        shares = np.geomspace(first, min(first, LAST_HEAT), chunks * moves) * self.makespan
        where, order = self.best.where.copy(), self.best.order.copy()
        for chunk in range(chunks):
            if self.run.should_stop():
                return
            began = self.run.elapsed()
            best_where, best_order = where.copy(), order.copy()
            anneal.sized(CHUNK_WORK)(
                self.arrays,
                where,
                order,
                window,
                SEARCH_MOVES,
                self.strings,
                rng.random((moves, DRAWS)),
                shares[chunk * moves : (chunk + 1) * moves],
                self.run.halt,
                best_where,
                best_order,
            )
            self.consider(plan_of(self.arrays, best_where, best_order))
            self.pace = (self.run.elapsed() - began) / work


def new_search(problem: BatchedMapping, instance: BatchedInstance, run: Run) -> BatchSearch:
    """A local search without a plan yet."""
    arrays = arrays_of(instance)
    reach = reach_of(instance, arrays)
    strings = all_strings(problem, instance)
    return BatchSearch(problem, instance, arrays, reach, run, strings, tail=granule_tails(instance, reach))


def begin(search: BatchSearch) -> None:
    """Consider the start and the list schedules, split and whole."""
    if isinstance(search.run.start, BatchedSchedule):
        plan = granules_of(search.instance, search.run.start)
        if plan is not None:
            search.consider(plan)
    search.run.enter("list schedulers")
    for plan in attempts(search.problem, search.instance, search.arrays):
        search.consider(plan)


def search_from(search: BatchSearch, *, rounds: int | None) -> None:
    """Run annealing rounds from the best plan (None: until stopped)."""
    search.run.enter("annealing")
    number = 0
    while search.best is not None and (rounds is None or number < rounds) and not search.run.should_stop():
        search.anneal_round(number)
        number += 1


def solve_local(problem: BatchedMapping, run: Run) -> Outcome:
    """Local search from the start and from the list schedules; solver "local"."""
    search = new_search(problem, lower_unless_short(problem), run)
    if not search.instance.operators:
        run.found(BatchedSchedule(batches=()), 0.0)
        return Outcome(run.termination())
    begin(search)
    search_from(search, rounds=UNTIMED_ROUNDS if run.time_limit is None else None)
    if run.best is None:
        return Outcome(run.termination(), reason="no plan was found whose memory, links and batch sizes fit")
    return Outcome(Termination.BUDGET if run.time_limit is None else run.termination())


register(
    Solver(
        name="local",
        problem=BatchedMapping.kind,
        kind="algorithm",
        run=solve_local,
        about="simulated annealing over strings of devices and order, from the best list schedule",
        features=frozenset({Feature.START, Feature.GAP, Feature.CALLBACK}),
        supports=SUPPORTS,
    )
)
