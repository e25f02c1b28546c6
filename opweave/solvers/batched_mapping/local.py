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
from opweave.formulations.expressions import NARROWED
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.batched_mapping.spec import BatchedMapping, BatchedSchedule
from opweave.problems.result import Termination
from opweave.problems.solution import Solution
from opweave.solvers.batched_mapping.anneal import DRAWS, SEARCH_MOVES, anneal
from opweave.solvers.batched_mapping.arrays import BatchArrays, arrays_of
from opweave.solvers.batched_mapping.baselines import attempts
from opweave.solvers.batched_mapping.bounds.reach import Reach, granule_tails, reach_of
from opweave.solvers.batched_mapping.candidates import all_strings, groups_of
from opweave.solvers.batched_mapping.plans import BatchPlan, granules_of, order_by_start, plan_of, report
from opweave.solvers.narrowing.runs import by_best_way
from opweave.solvers.registry import named_solver
from opweave.solvers.run import Outcome, Run
from opweave.solvers.scheduling.pace import PACE, chunks_within

ROUND_WORK = 540_000_000
"""Nodes and flows of all moves in one annealing round, which takes one to three seconds: most of them are not decoded.
Shorter rounds end at worse plans."""

CHUNK_WORK = 9_000_000
MOST_MOVES = 400
"""Moves of a chunk per operator, so that small problems are not searched for too long."""

FIRST_HEAT = 0.002
LAST_HEAT = 0.00001
HEATS = (1.0, 3.0, 0.5, 8.0)
"""Initial temperatures of successive rounds, as multiples of the first. Warm rounds leave a local minimum, cool ones
refine it."""

UNTIMED_ROUNDS = 2


@dataclass(eq=False)
class BatchSearch:
    """The best plan of one instance and the moves that improve it.

    ``caught`` is the last plan taken over, ``pace`` the seconds that a node or flow took recently, ``listed`` the
    makespan of the best list schedule, and ``unsplit`` that of the best one that does not split the batch.
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
    listed: float = math.inf
    unsplit: float = math.inf

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
        """Take over the best plan of the run, which other stages or lanes may have found."""
        best, known = self.run.best, self.run.objective
        if known is None or known >= self.makespan or best is self.caught:
            return
        self.caught = best
        plan = granules_of(self.instance, best) if isinstance(best, BatchedSchedule) else None
        if plan is not None:
            self.consider(plan)

    def effort(self) -> int:
        """Nodes and flows that are judged for one move."""
        return max(1, (self.instance.operators + len(self.arrays.source)) * len(self.instance.devices))

    def annealed(
        self,
        where: IntArray,
        order: IntArray,
        draws: FloatArray,
        heat: FloatArray,
        moves: FloatArray = SEARCH_MOVES,
    ) -> tuple[IntArray, IntArray]:
        """Make one move for every row of ``draws``, which changes strings and order; return the best of both."""
        best_where, best_order = where.copy(), order.copy()
        anneal(
            self.arrays, where, order, self.tail, moves, self.strings, draws, heat, self.run.halt, best_where,
            best_order,
        )  # fmt: skip
        return best_where, best_order

    def anneal_round(self, number: int) -> None:
        """Run one annealing round from the best plan."""
        self.catch_up()
        assert self.best is not None
        rng = np.random.default_rng((self.run.seed, number))
        moves = max(1, min(CHUNK_WORK // self.effort(), MOST_MOVES * self.instance.operators))
        work = moves * self.effort()
        chunks = chunks_within(self.run, ROUND_WORK // CHUNK_WORK, self.pace * work)
        first = FIRST_HEAT * HEATS[number % len(HEATS)]
        shares = np.geomspace(first, LAST_HEAT, chunks * moves) * self.makespan
        where, order = self.best.where.copy(), self.best.order.copy()
        for chunk in range(chunks):
            if self.run.should_stop():
                return
            began = self.run.elapsed()
            heat = shares[chunk * moves : (chunk + 1) * moves]
            best = self.annealed(where, order, rng.random((moves, DRAWS)), heat)
            self.consider(plan_of(self.arrays, *best))
            self.pace = (self.run.elapsed() - began) / work


def new_search(
    problem: BatchedMapping, instance: BatchedInstance, run: Run, groups: list[list[int]] | None = None
) -> BatchSearch:
    """A local search without a plan yet; ``groups`` are the devices that belong together, by default the problem's."""
    arrays = arrays_of(instance)
    reach = reach_of(instance, arrays)
    strings = all_strings(instance, groups_of(problem) if groups is None else groups)
    return BatchSearch(problem, instance, arrays, reach, run, strings, tail=granule_tails(instance, reach))


def begin(search: BatchSearch) -> None:
    """Consider the start and the list schedules, split and whole."""
    if isinstance(search.run.start, BatchedSchedule):
        plan = granules_of(search.instance, search.run.start)
        if plan is not None:
            search.consider(plan)
    search.run.enter("list schedulers")
    for plan in attempts(search.instance, search.arrays, search.strings):
        search.consider(plan)
        search.listed = min(search.listed, plan.makespan)
        if (plan.where == plan.where[:, :1]).all():
            search.unsplit = min(search.unsplit, plan.makespan)


def started(problem: BatchedMapping, run: Run) -> BatchSearch | None:
    """A search from the start and the list schedules; None if there is nothing to run, which is then reported."""
    search = new_search(problem, lower_unless_short(problem), run)
    if not search.instance.operators:
        run.proved(0.0, "trivial")
        run.found(BatchedSchedule(batches=()), 0.0)
        return None
    begin(search)
    return search


def search_from(search: BatchSearch, *, rounds: int | None) -> None:
    """Run annealing rounds from the best plan; None: until stopped, :data:`UNTIMED_ROUNDS` without a time limit."""
    run, number = search.run, 0
    last = UNTIMED_ROUNDS if rounds is None and run.time_limit is None else rounds
    while search.best is not None and (last is None or number < last) and not run.should_stop():
        search.catch_up()
        run.enter("annealing")
        number = run.turn("annealing", number) if rounds is None else number
        search.anneal_round(number)
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
        search_from(search, rounds=None)
    return ended(run)
