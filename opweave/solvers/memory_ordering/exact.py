"""The smallest peak with proof: greedy orders, minimum cuts, and a search over states from both ends.

Each step runs only if the steps before it left a gap between incumbent and bound:

1. every named order and the greedy portfolio from both ends;
2. the largest L2 bound, evaluated lazily;
3. min-cut local search on the best starts;
4. with growing budgets, in turn: searches at the bound (a refusal raises the bound to the least refused footprint),
   inside the gap, and below the incumbent, farther after each success, there with the precedences that this target
   forces.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opweave.formulations.memory_ordering.instance import lower
from opweave.formulations.order_arcs import only_order_arcs
from opweave.problems.arrays import IntArray
from opweave.problems.graph_arrays import Adjacency, topological_order
from opweave.problems.memory_ordering.spec import MemoryOrdering
from opweave.problems.result import Termination
from opweave.problems.words import counted
from opweave.solvers.memory_ordering import btsearch
from opweave.solvers.memory_ordering.arrays import BACKWARD, OrderingArrays, arrays_of, footprints, peak, with_arcs
from opweave.solvers.memory_ordering.baselines import definition, starting_orders
from opweave.solvers.memory_ordering.bounds import least_increase, step_bound, upper_keys
from opweave.solvers.memory_ordering.closure import INSIDE, OUTSIDE, least_live, sides_around, unavoidable
from opweave.solvers.memory_ordering.search import REFUTED, UNDECIDED, Decision, decide
from opweave.solvers.registry import named_solver
from opweave.solvers.run import Outcome, Run

RESTARTS = 3


def improve(arrays: OrderingArrays, order: IntArray, rounds: int, should_stop: Callable[[], bool]) -> IntArray:
    """An order with a peak no higher than the given one's.

    The busiest operator v runs in some state between two fixed states. The emptiest such state becomes fixed, too: its
    operators run first, then v, then the rest, each in the old order. When v cannot do better between its fixed states,
    these are dropped. When an order recurs, all fixed states are dropped; this happens a few times at most.

    Parameters
    ----------
    arrays
        The problem.
    order
        The order to start from. Shape (operators,).
    rounds
        Most minimum cuts to compute.
    should_stop
        Asked before each of them.
    """
    count = len(order)
    best, current = order, order
    cost = footprints(arrays, current)
    best_peak = int(cost.max(initial=0))
    fixed = [0, count]
    seen: set[bytes] = set()
    restarts = 0
    for turn in range(rounds):
        if should_stop():
            break
        at = int(cost.argmax())
        v = int(current[at])
        low = max(c for c in fixed if c <= at)
        high = min(c for c in fixed if c > at)
        side = sides_around(arrays, v)
        side[current[:low]] = INSIDE
        side[current[high:]] = OUTSIDE
        live, smallest, largest = least_live(arrays, side)
        if live + least_increase(arrays, v, side) >= cost[at]:
            if (low, high) == (0, count):
                break
            fixed = [c for c in fixed if c in (0, count) or c not in (low, high)]
            continue
        inside = (smallest if turn % 2 == 0 else largest).astype(bool)
        segment = current[low:high]
        chosen = inside[segment]
        later = segment[~chosen]
        current = np.concatenate([current[:low], segment[chosen], [v], later[later != v], current[high:]])
        fixed = sorted({*fixed, low + int(chosen.sum())})
        cost = footprints(arrays, current)
        peak = int(cost.max())
        if peak < best_peak:
            best, best_peak = current, peak
        mark = current.tobytes()
        if mark in seen:
            if restarts == RESTARTS:
                break
            restarts += 1
            fixed = [0, count]
            seen.clear()
        seen.add(mark)
    return best


BUSIEST = 60
"""Operators whose steps are examined, by decreasing upper bound of their L2."""


def propagate(
    arrays: OrderingArrays, target: int, keys: IntArray, cuts: int, should_stop: Callable[[], bool]
) -> OrderingArrays | None:
    """Add every forced precedence that the busiest operators reveal, until there is nothing new.

    Returns None when no order stays within the target.

    Parameters
    ----------
    arrays
        The problem.
    target
        Bytes; arcs hold for orders whose peak is at most this.
    keys
        Upper bounds of every operator's L2, to rank the operators. Shape (operators,).
    cuts
        Most minimum cuts to compute, roughly; stopping early only loses arcs.
    should_stop
        Asked between operators.
    """
    left = cuts
    busy = np.argsort(-keys, kind="stable")[:BUSIEST].tolist()
    order = topological_order(Adjacency(arrays.after_start, arrays.after))
    found = True
    while found:
        found = False
        for v in busy:
            if left <= 0 or should_stop():
                return arrays
            side = sides_around(arrays, v)
            room = target - least_increase(arrays, v, side)
            verdict, used = unavoidable(arrays, side, room, order, left)
            if verdict is None:
                return None
            left -= used
            before, after = np.flatnonzero(verdict == INSIDE), np.flatnonzero(verdict == OUTSIDE)
            if len(before) + len(after):
                early = np.concatenate([before, np.full(len(after), v)])
                late = np.concatenate([np.full(len(before), v), after])
                arrays = with_arcs(arrays, early, late)
                found = True
    return arrays


FIRST_BUDGET = 500
"""States of a first search."""

SEARCHED_BYTES = 1 << 30
"""Memory limit for the states of one search; it bounds the budget."""

MOST_STATES = 1 << 22
"""Default budget of the last and largest search."""

STARTS, ROUNDS = 5, 40
"""Local search: the best starts before the state search, and minimum cuts for each."""


class PeakSearch:
    """Incumbent and bound of one instance, and the steps that close the gap between them.

    Attributes
    ----------
    granularity
        Every footprint is a multiple of it.
    keys
        Upper bounds of every operator's L2. Shape (operators,).
    bounding_operator
        The operator whose step proves the bound, if one does.
    lucky_sign
        The end from which the last successful search began; it is tried first.
    """

    def __init__(self, problem: MemoryOrdering, run: Run) -> None:
        self.problem, self.run, self.instance = problem, run, lower(problem)
        self.arrays, self.granularity = arrays_of(self.instance), self.instance.granularity()
        self.bound, self.lucky_sign = 0, BACKWARD
        self.bounding_operator: str | None = None
        self.orders: list[IntArray] = []
        self.best = definition(self.instance)
        self.peak = peak(self.arrays, self.best)
        self.keys = upper_keys(self.arrays, [self.best])
        self._report()
        self.prove(self.arrays.start_bytes, "the graph inputs")
        if run.start is not None:
            self.orders.append(self.instance.positions(run.start))  # type: ignore[arg-type]
            self.consider(self.orders[0])

    @property
    def closed(self) -> bool:
        """Whether the incumbent is proved optimal."""
        return self.bound >= self.peak

    @property
    def hopeless(self) -> bool:
        """Whether it is proved that no order respects the problem's limit."""
        return self.problem.limit_bytes is not None and self.bound > self.problem.limit_bytes

    def consider(self, order: IntArray) -> None:
        """Keep an order if it is the best so far."""
        value = peak(self.arrays, order)
        if value < self.peak:
            self.best, self.peak = order, value
            self._report()

    def prove(self, bound: int, source: str) -> None:
        """Raise the bound."""
        if bound > self.bound or self.run.bound is None:
            if not source.startswith("L2"):
                self.bounding_operator = None
            self.bound = min(bound, self.peak)
            self.run.proved(self.bound, source)

    def _report(self) -> None:
        limit = self.problem.limit_bytes
        if limit is None or self.peak <= limit:
            self.run.found(self.instance.ordering(self.best), self.peak)

    def start(self) -> None:
        """Report the named orders and the greedy portfolio."""
        self.run.enter("greedy orders")
        for order in starting_orders(self.instance, self.arrays):
            self.orders.append(order)
            self.consider(order)
            if self.run.should_stop():
                break

    def cut(self) -> None:
        """Compute the largest L2 bound by decreasing keys, and report it as it grows."""
        self.run.enter("minimum cuts")
        self.keys = upper_keys(self.arrays, self.orders)
        order = np.argsort(-self.keys, kind="stable")
        for v in order.tolist():
            if self.settled() or self.keys[v] <= self.bound:
                return
            self.keys[v] = step_bound(self.arrays, v)
            if self.keys[v] > self.bound:
                self.bounding_operator = self.instance.names[v]
                self.prove(int(self.keys[v]), f"L2 at {self.bounding_operator!r}")

    def polish(self) -> None:
        """Run min-cut local search on the best starts."""
        self.run.enter("min-cut local search")
        for order in sorted(self.orders, key=lambda order: peak(self.arrays, order))[:STARTS]:
            if self.settled():
                return
            better = improve(self.arrays, order, ROUNDS, self.run.should_stop)
            self.keys = np.minimum(self.keys, upper_keys(self.arrays, [better]))
            self.consider(better)

    def search(self, most_states: int) -> bool:
        """Search with growing budgets; return whether the gap closed or time ran out.

        If there are several lanes, the first one decides targets inside the gap, the others those near the incumbent.
        """
        self.run.enter("state search")
        words = (self.instance.operators + 63) // 64
        most = min(most_states, SEARCHED_BYTES // (24 * words + 100))
        budget = 0
        while budget < most and not self.settled():
            budget = min(max(2 * budget, FIRST_BUDGET), most)
            if self.run.findings.lane in (None, 0):
                self._divide(budget)
            if self.run.findings.lane != 0:
                self._undercut(budget)
        return self.settled()

    def prepare(self) -> bool:
        """Run everything before the search; return whether nothing is left to do, or no time."""
        self.start()
        self.cut()  # runs first, since it names the operator that makes a limit infeasible
        self.polish()
        return self.settled()

    def settled(self) -> bool:
        """Whether nothing is left to do, or no time is left, with what others have reported to the run."""
        stop = self.run.should_stop()
        if self.run.best is not None and self.run.objective is not None and self.run.objective < self.peak:
            self.consider(self.instance.positions(self.run.best))  # type: ignore[arg-type]
        if self.run.bound is not None and self.run.bound > self.bound:
            self.bound, self.bounding_operator = min(int(self.run.bound), self.peak), None
        return stop or self.closed or self.hopeless

    def stale(self, target: int) -> bool:
        """Whether another lane has decided a target, or no time is left."""
        return self.run.should_stop() or (self.run.bound or 0) > target or (self.run.objective or self.peak) <= target

    def _divide(self, budget: int) -> None:
        """Decide the bound, then targets in the middle and at the quarters of the gap, until none can be decided."""
        quarters = [1, 3, 2, 0]
        while quarters and not self.settled():
            target = self.bound + quarters.pop() * (self.peak - self.bound) // 4
            if self._probe(target, budget):
                quarters = [1, 3, 2]

    def _undercut(self, budget: int) -> None:
        """Decide the target just below the incumbent, farther below it after each success, until that fails."""
        steps, decided = 1, True
        while (decided or steps > 1) and not self.settled():
            steps, before = steps if decided else 1, self.peak
            target = self.peak - steps * self.granularity
            decided = self._tighten(max(target, self.bound) if steps > 1 else target, budget)
            steps = 2 * steps if self.peak < before else max(1, steps // 2)

    def _probe(self, target: int, budget: int) -> bool:
        """Search at a target from both ends; return whether it was decided."""
        decision = self._decide(self.arrays, target, budget)
        if decision.answer == REFUTED:
            self.prove(self.peak if decision.least_refused is None else decision.least_refused, "state search")
        return decision.answer != UNDECIDED

    def _tighten(self, target: int, budget: int) -> bool:
        """Decide a target with the precedences that it forces; return whether that succeeded.

        These precedences hold only for peaks up to the target. So a refusal raises the bound just above the target,
        whatever footprint was refused.
        """
        if target < self.bound:
            self.prove(self.peak, "granularity of the sizes")
            return True
        tightened = propagate(self.arrays, target, self.keys, budget, self.run.should_stop)
        if tightened is None:
            self.prove(target + self.granularity, "forced precedences")
            return True
        decision = self._decide(tightened, target, budget)
        if decision.answer == REFUTED:
            self.prove(target + self.granularity, "state search with forced precedences")
        return decision.answer != UNDECIDED

    def _decide(self, arrays: OrderingArrays, target: int, budget: int) -> Decision:
        """Search from both ends; an order that is found is considered as the incumbent."""
        decision = Decision(UNDECIDED, None, None)
        for sign in (self.lucky_sign, -self.lucky_sign):
            if decision.answer == UNDECIDED and not self.stale(target):
                decision = decide(arrays, target, sign, budget, lambda: self.stale(target))
                self.lucky_sign = -sign if decision.answer == UNDECIDED else sign
        if decision.order is not None:
            self.consider(decision.order)
        return decision

    def complete(self, most_states: int) -> Outcome:
        """Run all steps; one search expands at most ``most_states`` states."""
        if self.prepare() or self.search(most_states):
            return self.outcome()
        return Outcome(Termination.BUDGET, reason=self._no_order())

    def outcome(self) -> Outcome:
        """Infeasible when the bound exceeds the limit, else as the run says."""
        limit = self.problem.limit_bytes
        if limit is None or not self.hopeless:
            return Outcome(self.run.termination(), reason=self._no_order())
        needed = "exactly" if self.closed else "at least"
        where = "" if self.bounding_operator is None else f" (operator {self.bounding_operator!r} cannot run with less)"
        return Outcome(
            infeasible=True,
            reason=f"every order needs {needed} {self.bound:,} bytes{where}; "
            f"that is {counted(self.bound - limit, 'byte')} more than the limit of {limit:,}",
        )

    def _no_order(self) -> str | None:
        """Why no order was found although none was proved impossible; None when there is one."""
        if self.run.best is not None:
            return None
        return (
            f"no order within the limit of {self.problem.limit_bytes:,} bytes was found; the best one needs "
            f"{self.peak:,}, and every order needs at least {self.bound:,}"
        )


@named_solver(
    MemoryOrdering,
    "exact",
    "greedy orders, minimum cuts and a two-way search over states; proves the smallest peak",
    proves="optimum",
    supports=("order_arcs", "step_rule"),
    options={"max_states": "largest number of states to remember, a limit on memory"},
)
def solve_exact(problem: MemoryOrdering, run: Run) -> Outcome:
    """Minimise the peak to proven optimality; solver "exact"."""
    if problem.objective == "total" or not only_order_arcs(problem):
        return btsearch.solve_btsearch(problem, run)
    return PeakSearch(problem, run).complete(btsearch.state_budget(run, MOST_STATES))
