"""Local search over plans: annealing in rounds from the best plan.

A round starts from the best plan so far, at a temperature that is a share of the makespan; warm and cool starts
alternate. It cools with its moves, or with the time if that is nearly up, so that every round ends cold.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from opweave.formulations.batched_mapping.instance import SUPPORTS, BatchedInstance, lower_unless_short
from opweave.problems.arrays import FloatArray
from opweave.problems.batched_mapping.spec import BatchedMapping, BatchedSchedule
from opweave.problems.result import Termination
from opweave.problems.solution import Solution
from opweave.solvers.batched_mapping.anneal import DRAWS, anneal, new_walk
from opweave.solvers.batched_mapping.arrays import arrays_of, no_strings
from opweave.solvers.batched_mapping.baselines import all_strings, attempts, groups_of
from opweave.solvers.batched_mapping.bounds import critical_path, paths_of
from opweave.solvers.batched_mapping.plans import BatchPlan, granules_of, order_by_start, plan_of, report
from opweave.solvers.registry import named_solver
from opweave.solvers.run import Outcome, Run

CHUNKS = 60
"""Chunks of moves in a round."""

CHUNK_WORK = 9_000_000
"""Nodes and flows of all moves in a chunk, which takes some 30 ms: most of them are not decoded."""

MOST_MOVES = 400
"""Moves of a chunk per operator, so that small problems are not searched for too long."""

FIRST_HEAT, LAST_HEAT = 0.002, 0.00001
HEATS = (1.0, 3.0, 0.5, 8.0, 40.0)
"""Initial temperatures of successive rounds, as multiples of the first. Warm rounds leave a local minimum, cool ones
refine it."""

UNTIMED_ROUNDS = 2


class BatchSearch:
    """The best plan of one instance and the moves that improve it.

    Parameters
    ----------
    groups
        Devices that belong together, for candidates of an operator's devices.
    """

    def __init__(self, instance: BatchedInstance, run: Run, groups: list[list[int]]) -> None:
        self.instance, self.run = instance, run
        self.arrays, self.strings = arrays_of(instance), all_strings(instance, groups)
        self.best: BatchPlan | None = None
        self._seen: Solution | None = None

    @property
    def makespan(self) -> float:
        """Makespan of the best plan; inf without one."""
        return math.inf if self.best is None else self.best.makespan

    @cached_property
    def tail(self) -> FloatArray:
        """Least times after a batch."""
        return np.ascontiguousarray(paths_of(self.instance).tails)

    def consider(self, plan: BatchPlan) -> None:
        """Keep a plan if it is the best so far, after decoding it again in the order of its starts."""
        if math.isfinite(plan.makespan):
            again = plan_of(self.arrays, plan.where, order_by_start(self.instance, plan.where, plan.end))
            better = again if again.makespan <= plan.makespan else plan
            if better.makespan < self.makespan:
                self.best = better
                report(self.instance, better, self.run)

    def take_over(self, solution: Solution | None) -> None:
        """Consider a solution, unless it is the last that was taken over or parts granules."""
        if solution is not self._seen and isinstance(solution, BatchedSchedule):
            plan = granules_of(self.instance, solution)
            if plan is not None:
                self.consider(plan)
        self._seen = solution

    def list_schedules(self) -> None:
        """Consider the user's start and the plans of all baselines."""
        self.take_over(self.run.start)
        for plan in attempts(self.instance, self.arrays, self.strings):
            self.consider(plan)
            if self.run.should_stop():
                return

    def anneal_round(self, number: int) -> None:
        """Run one annealing round from the best plan, until told to stop."""
        run, instance = self.run, self.instance
        run.enter("annealing")
        self.take_over(run.best)
        if self.best is None:
            return
        rng = np.random.default_rng((run.seed, number))
        effort = max(1, (instance.operators + len(self.arrays.edges)) * len(instance.devices))
        moves = max(1, min(CHUNK_WORK // effort, MOST_MOVES * instance.operators))
        where, order, scale = self.best.where.copy(), self.best.order.copy(), self.makespan
        walk = new_walk(self.arrays, where)
        first, began, done = FIRST_HEAT * HEATS[number % len(HEATS)], run.remaining(), 0.0
        while done < 1.0 and not run.should_stop():
            heat = scale * first * (LAST_HEAT / first) ** np.linspace(done, done + 1.0 / CHUNKS, moves)
            strings, draws = no_strings(self.arrays, where), rng.random((moves, DRAWS))
            anneal(self.arrays, strings, order, self.tail, self.strings, draws, heat, walk)
            self.consider(plan_of(self.arrays, walk.best_where.copy(), walk.best_order.copy()))
            done += 1.0 / CHUNKS
            left = run.remaining()
            if began and left is not None:
                done = max(done, 1.0 - left / began)


def search_of(problem: BatchedMapping, run: Run) -> BatchSearch:
    """A search without a plan yet.

    Raises
    ------
    ContradictionError
        If there is no plan.
    """
    return BatchSearch(lower_unless_short(problem), run, groups_of(problem))


def ended(run: Run) -> Outcome:
    """How a search ended: out of its own budget unless something stopped it."""
    reason = None if run.best is not None else "no plan was found whose memory, links and batch sizes fit"
    return Outcome(run.termination() if run.best is None or run.over() else Termination.BUDGET, reason=reason)


def solve_lists(problem: BatchedMapping, run: Run) -> Outcome:
    """The start and all baselines; nothing to run takes no time."""
    search = search_of(problem, run)
    if not search.instance.operators:
        run.found(BatchedSchedule(batches=()), 0.0)
        run.proved(0.0, "trivial")
    search.list_schedules()
    if run.best is None:
        critical_path(search.instance)  # missing links may be why
    return ended(run)


@named_solver(
    BatchedMapping,
    "local",
    "simulated annealing over strings of devices and order, from the best list schedule",
    supports=SUPPORTS,
)
def solve_local(problem: BatchedMapping, run: Run) -> Outcome:
    """Local search from the start and from the list schedules; solver "local"."""
    if run.best is None:
        solve_lists(problem, run)
    search, number = search_of(problem, run), 0
    while run.best is not None and (run.time_limit is not None or number < UNTIMED_ROUNDS) and not run.should_stop():
        search.anneal_round(number)
        number += 1
    return ended(run)
