"""Local search over plans: annealing in rounds from the best plan, list schedules first.

A round starts from the best plan so far, at a temperature that is a share of the makespan; warm and cool starts
alternate. The number of moves in a round depends only on the size of the problem, so the same seed gives the same plan
unless the time limit cuts it short. A round that would not end in time cools faster.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from opweave.formulations.batched_mapping.instance import SUPPORTS, BatchedInstance, lower_unless_short
from opweave.formulations.expressions import NARROWED
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.batched_mapping.spec import BatchedMapping, BatchedSchedule
from opweave.problems.result import Termination
from opweave.problems.solution import Solution
from opweave.solvers.batched_mapping.anneal import DRAWS, anneal
from opweave.solvers.batched_mapping.arrays import BatchArrays, arrays_of
from opweave.solvers.batched_mapping.baselines import attempts
from opweave.solvers.batched_mapping.bounds.paths import paths_of
from opweave.solvers.batched_mapping.candidates import all_strings, groups_of
from opweave.solvers.batched_mapping.plans import BatchPlan, granules_of, order_by_start, plan_of, report
from opweave.solvers.loops import PACE, chunks_within
from opweave.solvers.narrowing.runs import by_best_way
from opweave.solvers.registry import named_solver
from opweave.solvers.run import Outcome, Run

ROUND_WORK = 540_000_000
"""Nodes and flows of all moves in one annealing round, which takes one to three seconds: most of them are not decoded.
Shorter rounds end at worse plans."""

CHUNK_WORK = 9_000_000
MOST_MOVES = 400
"""Moves of a chunk per operator, so that small problems are not searched for too long."""

FIRST_HEAT, LAST_HEAT = 0.002, 0.00001
HEATS = (1.0, 3.0, 0.5, 8.0)
"""Initial temperatures of successive rounds, as multiples of the first. Warm rounds leave a local minimum, cool ones
refine it."""

UNTIMED_ROUNDS = 2


@dataclass(eq=False)
class BatchSearch:
    """The best plan of one instance and the moves that improve it.

    ``strings`` are candidates for an operator's devices, ``tail`` the least times after a batch, ``caught`` the last
    plan taken over from the run, and ``pace`` the seconds that a node or flow took recently.
    """

    instance: BatchedInstance
    arrays: BatchArrays
    run: Run
    strings: IntArray
    tail: FloatArray
    best: BatchPlan | None = None
    caught: Solution | None = None
    pace: float = PACE

    @property
    def makespan(self) -> float:
        """Makespan of the best plan; inf without one."""
        return math.inf if self.best is None else self.best.makespan

    def consider(self, plan: BatchPlan) -> None:
        """Keep a plan if it is the best so far, after decoding it again in the order of its starts."""
        if math.isfinite(plan.makespan):
            again = plan_of(self.arrays, plan.where, order_by_start(self.instance, plan.where, plan.end))
            better = again if again.makespan <= plan.makespan else plan
            if better.makespan < self.makespan:
                self.best = better
                report(self.instance, better, self.run)

    def catch_up(self) -> None:
        """Take over the best plan of the run, which other solvers may have found."""
        best, known = self.run.best, self.run.objective
        if (
            known is not None
            and known < self.makespan
            and isinstance(best, BatchedSchedule)
            and best is not self.caught
        ):
            self.caught = best
            self.take_over(best)

    def take_over(self, solution: Solution | None) -> None:
        """Consider a solution, unless it parts granules."""
        plan = granules_of(self.instance, solution) if isinstance(solution, BatchedSchedule) else None
        if plan is not None:
            self.consider(plan)

    def anneal_round(self, number: int) -> Iterator[None]:
        """Run one annealing round from the best plan, a chunk of moves at a time."""
        self.catch_up()
        assert self.best is not None
        rng = np.random.default_rng((self.run.seed, number))
        effort = max(1, (self.instance.operators + len(self.arrays.source)) * len(self.instance.devices))
        moves = max(1, min(CHUNK_WORK // effort, MOST_MOVES * self.instance.operators))
        chunks = chunks_within(self.run, ROUND_WORK // CHUNK_WORK, self.pace * moves * effort)
        first = FIRST_HEAT * HEATS[number % len(HEATS)]
        shares = np.geomspace(first, LAST_HEAT, chunks * moves) * self.makespan
        where, order = self.best.where.copy(), self.best.order.copy()
        for heat in shares.reshape(chunks, moves):
            began = self.run.elapsed()
            best = where.copy(), order.copy()
            anneal.sized(moves * effort)(
                self.arrays,
                where,
                order,
                self.tail,
                self.strings,
                rng.random((moves, DRAWS)),
                heat,
                self.run.halt,
                *best,
            )
            self.consider(plan_of(self.arrays, *best))
            self.pace = (self.run.elapsed() - began) / (moves * effort)
            yield


def new_search(instance: BatchedInstance, run: Run, groups: list[list[int]]) -> BatchSearch:
    """A local search without a plan yet; ``groups`` are devices that belong together."""
    arrays, strings = arrays_of(instance), all_strings(instance, groups)
    return BatchSearch(instance, arrays, run, strings, np.ascontiguousarray(paths_of(instance).tails))


def begin(search: BatchSearch) -> None:
    """Consider the start and the list schedules, split and whole."""
    search.take_over(search.run.start)
    search.run.enter("list schedulers")
    for plan in attempts(search.instance, search.arrays, search.strings):
        search.consider(plan)


def started(problem: BatchedMapping, run: Run) -> BatchSearch | None:
    """A search from the start and the list schedules; None if there is nothing to run, which is then reported."""
    instance = lower_unless_short(problem)
    if not instance.operators:
        run.proved(0.0, "trivial")
        run.found(BatchedSchedule(batches=()), 0.0)
        return None
    search = new_search(instance, run, groups_of(problem))
    begin(search)
    return search


def search_from(search: BatchSearch, *, rounds: int | None = None) -> None:
    """Run annealing rounds from the best plan; None: until stopped, :data:`UNTIMED_ROUNDS` without a time limit."""
    run, number = search.run, 0
    last = UNTIMED_ROUNDS if rounds is None and run.time_limit is None else rounds
    while search.best is not None and (last is None or number < last) and not run.should_stop():
        run.enter("annealing")
        number = run.turn("annealing", number) if rounds is None else number
        for _ in search.anneal_round(number):
            if run.should_stop():
                break
        number += 1


def ended(run: Run) -> Outcome:
    """How a search ended: out of its own budget unless something stopped it."""
    reason = None if run.best is not None else "no plan was found whose memory, links and batch sizes fit"
    stopped = run.best is None or run.closed() or run.should_stop()
    return Outcome(run.termination() if stopped else Termination.BUDGET, reason=reason)


@named_solver(
    BatchedMapping,
    "local",
    "simulated annealing over strings of devices and order, from the best list schedule",
    supports=(*SUPPORTS, NARROWED),
)
@by_best_way(SUPPORTS, "heft")
def solve_local(problem: BatchedMapping, run: Run) -> Outcome:
    """Local search from the start and from the list schedules; solver "local"."""
    search = started(problem, run)
    if search is not None:
        search_from(search)
    return ended(run)
