"""Placement with blocking calls: everything in one place, bounds over paths, and annealing; solver "calls"."""

from __future__ import annotations

import math
from contextlib import suppress

import numpy as np

from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.placement.calls import SUPPORTS, CallInstance, calls_of, lower_calls
from opweave.problems.arrays import IntArray
from opweave.problems.graph_arrays import Adjacency, topological_order
from opweave.problems.placement.spec import Placement, Schedule
from opweave.problems.result import Termination
from opweave.solvers.loops import clock
from opweave.solvers.placement.blocking.arrays import DRAWS, Units, anneal_calls, arrays_of
from opweave.solvers.placement.blocking.bounds import prove
from opweave.solvers.placement.plans import no_plan_found
from opweave.solvers.registry import named_solver
from opweave.solvers.rules import NoPlanError
from opweave.solvers.run import Outcome, Run

READING = "transfers='blocking'"

ROUNDS, MOVES = 3, 4_000
"""Annealings and moves of each when there is no time limit."""

FIRST_SHARE, LONGER = 0.05, 2.0
"""Seconds of the first annealing, as a share of the time limit, and how many times longer each next one is."""

HOT, COLD = 0.03, 0.0003
"""Temperature at first and at last, as a share of the makespan."""

CHUNK_WORK = 10_000_000
"""Operators and readers judged between two looks at the clock."""


def units_of(instance: CallInstance) -> IntArray:
    """Number of every operator's unit: tied operators, and groups that wait for each other. Shape (operators,)."""
    from scipy.sparse import csr_array  # importing takes a third of a second, and few problems have calls
    from scipy.sparse.csgraph import connected_components

    group, after = instance.whole.cluster, instance.whole.after
    size = int(group.max(initial=-1)) + 1
    edges = (np.ones(len(after.items)), (group[after.heads()], group[after.items]))
    _, label = connected_components(csr_array(edges, shape=(size, size)), directed=True, connection="strong")
    _, unit = np.unique(np.asarray(label, dtype=np.int64)[group], return_inverse=True)
    return unit.astype(np.int64)


class CallSearch:
    """The best assignment so far, and what the search needs to go on from it."""

    def __init__(self, problem: Placement, run: Run) -> None:
        self.problem, self.run, self.instance = problem, run, lower_calls(problem)
        self.arrays, self.best, self.value = arrays_of(self.instance), None, math.inf
        self.host = len(self.arrays.on)
        self.each = self.host // max(1, len(self.instance.accelerators))
        self.units = self._units(units_of(self.instance))

    best: IntArray | None

    def _units(self, unit: IntArray) -> Units:
        """The units, each at its first operator in an order that data allow."""
        count, after = int(unit.max(initial=-1)) + 1, self.instance.whole.after
        found, first = np.unique(unit[topological_order(after)], return_index=True)
        members = Adjacency.from_pairs(count, unit, np.arange(len(unit)))
        heads, tails = unit[after.heads()], unit[after.items]
        heads, tails = heads[heads != tails], tails[heads != tails]
        near = Adjacency.from_pairs(count, np.concatenate([heads, tails]), np.concatenate([tails, heads]))
        order = np.ascontiguousarray(found[np.argsort(first, kind="stable")])
        return Units(order, members.start, members.items, near.start, near.items)

    def consider(self, where: IntArray) -> float:
        """Judge an assignment and report it if it is the best so far; its makespan."""
        count, begin = len(where), np.zeros(len(where) + self.host)
        value = anneal_calls(self.arrays, self.units, where.copy(), where, begin, 1.0, 1.0, np.empty((0, DRAWS)))
        if value < self.value:
            self.best, self.value = where.copy(), value
            devices = np.array([*self.instance.accelerators[self.arrays.on], self.instance.host], dtype=np.int64)
            start = begin[np.where(where < self.host, count + where, np.arange(count))]
            self.run.found(self.instance.schedule(devices[where], start), value)
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
        if not (call % most >= self.each)[call >= 0].any():
            self.consider(np.where(call >= 0, call // most * self.each + call % most, self.host))

    def in_one_place(self) -> None:
        """Everything on the host, or in one call, wherever that takes least."""
        for place in (self.host, *range(0, self.host, max(1, self.each))):
            self.consider(np.full(self.instance.operators, place, dtype=np.int64))

    def anneal(self, number: int, seconds: float | None) -> None:
        """One annealing from the best assignment, for some seconds of moves; it ends cold when the run has to stop."""
        assert self.best is not None
        run, rng, now, best = (
            self.run,
            np.random.default_rng([self.run.seed, number]),
            self.best.copy(),
            self.best.copy(),
        )
        begin, done, spent, first = np.zeros(len(now) + self.host), 0.0, 0.0, run.elapsed()
        left, chunk = run.remaining() or 0.0, max(16, CHUNK_WORK // (40 * (len(now) + len(self.arrays.readers) + 1)))
        while done < 1.0 and not run.should_stop():
            began, heat = clock(), max(HOT * self.value * (COLD / HOT) ** done, 1e-300)
            value = anneal_calls(self.arrays, self.units, now, best, begin, heat, heat, rng.random((chunk, DRAWS)))
            if value < self.value:
                self.consider(best)
            spent += clock() - began
            if seconds is None:
                done += chunk / MOVES
            else:
                done = max(spent / seconds, (run.elapsed() - first) / max(left, 1e-9))


def carry_out_in_one_place(problem: Placement, run: Run) -> None:
    """Report the best plan on one device, or say that there is none."""
    search = CallSearch(problem, run)
    search.in_one_place()
    if search.best is None:
        raise NoPlanError("the plan does not fit")


@named_solver(
    Placement,
    "calls",
    "blocking calls: everything in one place, annealing, and bounds over paths",
    proves="bound",
    supports=SUPPORTS,
    readings=(READING,),
)
def solve_calls(problem: Placement, run: Run) -> Outcome:
    """Search plans and prove bounds until they meet or the time is up."""
    search = CallSearch(problem, run)
    search.consider_schedule(run.start)
    search.consider_schedule(run.best)
    search.in_one_place()
    run.enter("paths")
    prove(search.instance, run)
    run.enter("annealing")
    number, seconds = 0, None if run.time_limit is None else FIRST_SHARE * run.time_limit
    while search.best is not None and not run.should_stop() and (seconds is not None or number < ROUNDS):
        search.anneal(number, seconds)
        number, seconds = number + 1, None if seconds is None else LONGER * seconds
    if run.best is None:
        return Outcome(run.termination(), reason=f"{no_plan_found(problem)}, and no proof that there is none")
    return Outcome(Termination.BUDGET if seconds is None and not run.closed() else run.termination())


def good_calls(problem: Placement) -> Schedule | None:
    """The best plan of one place that the referee accepts; None if there is none."""
    run = Run()
    with suppress(ContradictionError):
        CallSearch(problem, run).in_one_place()
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
