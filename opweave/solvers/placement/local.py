"""Local search over plans: hub descent from several starts, then annealing from the best, in rounds.

Two kinds of annealing rounds alternate: over assignments alone, with orders that follow, and over orders and
assignments. A round starts from the best plan so far, at a temperature that is a share of the makespan. Later rounds
start cooler, and after the first few they grow longer. The number of moves in a round depends only on its number and
the size of the problem. So the same seed gives the same plan unless the time limit cuts it short. A round that would
not end in time cools faster.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile, tee

import numpy as np

from opweave.formulations.expressions import NARROWED
from opweave.formulations.placement.instance import SUPPORTS, PlacementInstance, lower_unless_short
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.graph_arrays import Adjacency
from opweave.problems.placement.spec import Placement, Schedule
from opweave.problems.result import Termination
from opweave.problems.solution import Solution
from opweave.solvers.narrowing.runs import by_best_way
from opweave.solvers.placement.anneal import DRAWS, anneal_assignment, counted_plan, order_for
from opweave.solvers.placement.anneal_orders import anneal
from opweave.solvers.placement.arrays import PlacementArrays, arrays_of, makespan_within
from opweave.solvers.placement.baselines import RULES, Rule
from opweave.solvers.placement.plans import ended, fits, order_by_start, report, schedule_of, times_of
from opweave.solvers.placement.variants import variants
from opweave.solvers.registry import named_solver
from opweave.solvers.rules import NoPlanError, plans_of
from opweave.solvers.run import Outcome, Run
from opweave.solvers.scheduling.pace import PACE, chunks_within

ROUND_WORK = 60_000_000
"""Operators and flows judged in one annealing round; takes about a second."""

CHUNK_WORK = 6_000_000
MOST_MOVES = 100
"""Moves of a chunk per operator, so that small problems are not searched for too long."""

FIRST_HEAT = 0.004
HOT_OPERATORS = 500
"""The initial temperature of a round, as a share of the makespan. It is higher in smaller problems, where one operator
is a larger part of the whole."""

LAST_HEAT = 0.00002
UNTIMED_ROUNDS = 8

NEVER_CUT = 500
"""Operators up to which every list scheduler takes milliseconds. All of them run then, whatever the time limit."""

FIRST_ROUNDS_OVER = "tabu: first rounds over"
"""What a run keeps once tabu search has done the rounds that come before those with random moves."""

LONGEST_ROUND = 8
"""Length of a late round as a multiple of a first round's."""


@dataclass(eq=False)
class LocalSearch:
    """The best plan of one instance and the moves that improve it.

    ``rounds`` annealing rounds have run.

    ``caught`` is the last plan taken over from another lane, ``pace`` the seconds that an operator or flow took
    recently.
    """

    problem: Placement
    instance: PlacementInstance
    arrays: PlacementArrays
    run: Run
    order: IntArray
    device: IntArray
    makespan: float = math.inf
    rounds: int = 0
    pace: float = PACE
    caught: Solution | None = None

    def consider(self, order: IntArray, device: IntArray) -> None:
        """Keep a plan if it fits into memory and is the best so far."""
        if not fits(self.arrays, device):
            return
        value = float(makespan_within(self.arrays, order, device, self.makespan))
        if value < self.makespan:
            self.order, self.device, self.makespan = order.copy(), device.copy(), value
            self.run.found(schedule_of(self.instance, self.arrays, order, device), value)

    def consider_solution(self, solution: Solution | None) -> None:
        """Decode a schedule's assignment and order, if there is a schedule."""
        if isinstance(solution, Schedule):
            self.consider_times(*times_of(self.instance, solution))

    def consider_times(self, starts: FloatArray, device: IntArray) -> None:
        """Decode an assignment in the order of its starts, and in the order of its upward ranks."""
        order = order_by_start(self.instance, starts)
        self.consider(order, device)
        again = np.empty_like(order)
        order_for(self.arrays, device, again)
        self.consider(again, device)

    def catch_up(self) -> None:
        """Take over the best plan of the other lanes."""
        best, known = self.run.best, self.run.objective
        if self.run.exchange is None or known is None or known >= self.makespan or best is self.caught:
            return
        self.caught = best
        self.consider_solution(best)

    def _work(self) -> int:
        return 10 * (len(self.arrays.seconds) + len(self.arrays.source))

    def descend_from(self, device: IntArray) -> None:
        """Hub descent from an assignment."""
        self.run.enter("hub descent")
        self.consider(*descend(self.arrays, self.instance.cluster, device, self.run.should_stop)[:2])

    def anneal_round(self) -> None:
        """Run the next annealing round from the best plan."""
        self.run.enter("annealing")
        number = self.run.turn("annealing", self.rounds)
        self.rounds = number + 1
        rng = np.random.default_rng((self.run.seed, number))
        effort = len(self.arrays.seconds) + len(self.arrays.source)
        longer = max(0, number - UNTIMED_ROUNDS) // 2
        moves = max(1, min(CHUNK_WORK // effort, MOST_MOVES * len(self.arrays.seconds)))
        work = moves * effort
        chunks = chunks_within(self.run, ROUND_WORK // CHUNK_WORK * min(LONGEST_ROUND, 2**longer), self.pace * work)
        method = anneal if number % 2 else anneal_assignment
        first = FIRST_HEAT * max(1.0, HOT_OPERATORS / len(self.arrays.seconds)) / (1 + number % 4)
        shares = np.geomspace(first, min(first, LAST_HEAT), chunks * moves)
        plan = counted_plan(self.arrays, self.order, self.device, self.instance.cluster)
        scale = self.makespan
        for chunk in range(chunks):
            if self.run.should_stop():
                return
            began = self.run.elapsed()
            self.catch_up()
            order, device = self.order.copy(), self.device.copy()
            method(
                self.arrays,
                plan,
                rng.random((moves, DRAWS)),
                scale * shares[chunk * moves : (chunk + 1) * moves],
                self.run.halt,
                order,
                device,
            )
            self.consider(order, device)
            self.pace = (self.run.elapsed() - began) / work


def search_from(search: LocalSearch, *, rounds: int | None) -> None:
    """Hub descent from the best plan, then more annealing rounds (None: until stopped).

    Before the first round, hub descent starts from good single devices too. Without operators there is nothing to
    search: no plan takes less than 0 seconds.
    """
    if not search.instance.operators:
        search.run.proved(0.0, "trivial")
        return
    if search.rounds == 0:
        seconds = np.where(np.isfinite(search.arrays.seconds), search.arrays.seconds, 1e15)
        for k in np.argsort(seconds.sum(axis=0)).tolist()[:2]:
            alone = np.full(search.instance.operators, k, dtype=np.int64)
            if np.isfinite(search.arrays.seconds[:, k]).all() and fits(search.arrays, alone):
                search.descend_from(alone)
    if math.isfinite(search.makespan):
        search.descend_from(search.device)
    last = None if rounds is None else search.rounds + rounds
    while math.isfinite(search.makespan) and search.rounds != last and not search.run.should_stop():
        search.anneal_round()


def empty_search(problem: Placement, run: Run) -> LocalSearch:
    """A local search without a plan yet."""
    instance = lower_unless_short(problem)
    nothing = np.zeros(instance.operators, dtype=np.int64)
    return LocalSearch(problem, instance, arrays_of(instance, problem), run, nothing, nothing)


def list_plans(search: LocalSearch, rules: Sequence[Rule] = RULES) -> None:
    """Report the list schedulers' plans, and start from the best."""
    search.run.enter("list schedulers")
    plans = []
    for rule in rules:
        try:
            plans.append(rule(search.instance, search.arrays))
        except NoPlanError:
            continue
        report(search.instance, search.arrays, plans[-1], search.run)
        if _is_over(search):
            return
    for plan in plans:  # all are reported first, because the first decoding may have to load its loop
        search.consider_times(plan.start, plan.device)
        if search.run.should_stop():
            return


def _is_over(search: LocalSearch) -> bool:
    """Whether to skip the remaining list schedulers. On small problems the time limit alone never skips one."""
    if not search.run.should_stop():
        return False
    return search.instance.operators > NEVER_CUT or search.run.termination() is not Termination.TIME_LIMIT


def more_list_plans(search: LocalSearch) -> None:
    """Start from the best of all variants of list rules, if there is time for them."""
    search.run.enter("variants of list rules")
    builders = variants(search.instance, search.arrays, search.run.halt)
    for plan in plans_of(takewhile(lambda _: not search.run.should_stop(), builders)):
        report(search.instance, search.arrays, plan, search.run)
        search.consider_times(plan.start, plan.device)


@named_solver(
    Placement, "local", "hub descent and simulated annealing over order and assignment", supports=(*SUPPORTS, NARROWED)
)
@by_best_way(SUPPORTS, "heft")
def solve_local(problem: Placement, run: Run) -> Outcome:
    """Local search from the start and from the list schedulers' plans; solver "local"."""
    search = empty_search(problem, run)
    search.consider_solution(run.start)
    list_plans(search)
    more_list_plans(search)
    search_from(search, rounds=UNTIMED_ROUNDS if run.time_limit is None else None)
    return ended(problem, run)


MOST_HUBS = 400
LARGEST_GROUP = 4_000


def groups_around_hubs(before: Adjacency, after: Adjacency) -> Iterator[IntArray]:
    """Operators that should move together: each hub with its private successors and every operator fed only by these.

    Hubs are yielded by decreasing number of readers.
    """
    readers = np.diff(after.start)
    for hub in np.argsort(-readers, kind="stable")[:MOST_HUBS].tolist():
        if readers[hub] < 2:
            return
        private = [int(w) for w in after[hub] if len(before[w]) == 1]
        yield np.asarray([hub, *private], dtype=np.int64)
        owned = _fed_only_by(before, after, {hub, *private})
        if len(owned) > 1 + len(private):
            yield np.asarray(sorted(owned), dtype=np.int64)
        if len(private) <= 32:
            for child in private:
                branch = _fed_only_by(before, after, {child})
                if len(branch) > 1:
                    yield np.asarray(sorted(branch), dtype=np.int64)


def _fed_only_by(before: Adjacency, after: Adjacency, seeds: set[int]) -> set[int]:
    """The seeds, and repeatedly every operator whose predecessors are all in the set, up to a maximum size."""
    inside = set(seeds)
    stack = list(seeds)
    while stack and len(inside) < LARGEST_GROUP:
        for w in after[stack.pop()].tolist():
            if w not in inside and inside.issuperset(before[w].tolist()):
                inside.add(w)
                stack.append(w)
    return inside


def descend(
    arrays: PlacementArrays,
    cluster: IntArray,
    device: IntArray,
    should_stop: Callable[[], bool],
) -> tuple[IntArray, IntArray, float]:
    """Move groups around hubs to other devices as long as that shortens the schedule.

    One move can save a transfer for each of a hub's readers, yet a local search of single steps does not find it. Here
    the hub and its private successors change device together, and the order is derived again from the new assignment.
    Operators with equal ``cluster`` move together (Colocate).

    Returns
    -------
    order, device, makespan
        The best plan found; it fits into memory if the assignment ``device`` did.
    """
    order = np.empty(len(device), dtype=np.int64)

    def judged(candidate: IntArray, threshold: float) -> float:
        order_for(arrays, candidate, order)
        return float(makespan_within(arrays, order, candidate, threshold))

    device = device.copy()
    best = judged(device, np.inf)
    best_order = order.copy()
    before, after = Adjacency(arrays.before_start, arrays.before), Adjacency(arrays.after_start, arrays.after)
    groups: Iterator[IntArray] = (
        np.flatnonzero(np.isin(cluster, cluster[group])) for group in groups_around_hubs(before, after)
    )
    improved = True
    while improved and not should_stop():
        improved = False
        groups, now = tee(groups)  # groups of thousands of operators take a while, so each is made when it is needed
        for group in now:
            if should_stop():
                break
            for k in range(arrays.seconds.shape[1]):
                if (device[group] == k).all() or not np.isfinite(arrays.seconds[group, k]).all():
                    continue
                candidate = device.copy()
                candidate[group] = k
                if not fits(arrays, candidate):
                    continue
                value = judged(candidate, best)
                if value < best * (1 - 1e-12):
                    device, best, best_order, improved = candidate, value, order.copy(), True
    return best_order, device, best
