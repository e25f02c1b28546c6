"""Lower bounds of placements with blocking calls: how fast a path can be walked.

Take a path of the graph. A call is contiguous, so its operators on the path are a stretch of it, and with two of them
it runs everything between them. Whatever leaves the stretch before or behind it must be carried: the call cannot run an
operator before the stretch, because then it would also run the one in between. So a stretch from i to j takes at
least the computing of everything between i and j, the transfers of tensors made before i and read between them, and the
transfers of tensors made between them and read behind j. It needs the memory of everything between. Operators
of the path that run on the host take their time there. Calls and host operators of the path follow each other, so
a shortest walk over stretches is a lower bound of the makespan.

A long path is cut into pieces, whose bounds add up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import networkx as nx
import numpy as np

from opweave.formulations.placement.calls import SUPPORTS, CallInstance, calls_of, lower_calls
from opweave.formulations.placement.instance import SUPPORTS as LISTED
from opweave.problems.arrays import NO_LIMIT, FloatArray, FloatMatrix, IntArray
from opweave.problems.graph_arrays import Adjacency, topological_order
from opweave.problems.placement.spec import Placement, Schedule
from opweave.problems.result import Termination
from opweave.solvers.loops import clock
from opweave.solvers.placement.baselines import RULES, carry_out, one_device
from opweave.solvers.placement.blocking.arrays import DRAWS, Units, anneal_calls, arrays_of
from opweave.solvers.placement.plans import no_plan_found
from opweave.solvers.registry import named_solver
from opweave.solvers.rounding import SUMMATION, Best
from opweave.solvers.rules import NoPlanError, register_rule
from opweave.solvers.run import Outcome, Run

LONGEST = 600
"""Most operators of a path, or of a piece of it, that are looked at together."""

SOURCE = "paths"


def prove(instance: CallInstance, run: Run) -> None:
    """Report the best bound over two heavy paths."""
    best = Best(run)
    compute = np.asarray(instance.whole.seconds.min(axis=1), dtype=np.float64)
    if not instance.operators:
        best.report(0.0, SOURCE)
        return
    give = instance.give.min(axis=1, initial=np.inf)
    carrying = compute.copy()
    np.add.at(carrying, instance.producer, np.where(np.isfinite(give), give, 0.0))
    for weights in (compute, carrying):
        path, total = heaviest(instance, weights), 0.0
        for piece in (path[i : i + LONGEST] for i in range(0, len(path), LONGEST)):
            total += float(compute[piece].sum()) if run.should_stop() else walk(instance, piece)
        if math.isfinite(total):
            best.report(total, SOURCE)


def heaviest(instance: CallInstance, weights: FloatArray) -> list[int]:
    """The path with the largest sum of weights."""
    after, graph = instance.whole.after, nx.DiGraph()
    graph.add_weighted_edges_from((-1, v, weight) for v, weight in enumerate(weights.tolist()))
    graph.add_weighted_edges_from(
        zip(after.heads().tolist(), after.items.tolist(), weights[after.items].tolist(), strict=True)
    )
    return [int(v) for v in nx.dag_longest_path(graph)[1:]]


def walk(instance: CallInstance, path: list[int]) -> float:
    """Least seconds from the begin of a path's first operator to the end of its last; each is an input of the next."""
    whole, length = instance.whole, len(path)
    order = topological_order(whole.after).tolist()
    below = _spread(path, order, whole.before.lists(), -1, max)
    above = _spread(path, order[::-1], whole.after.lists(), length, min)
    stretches = Stretches(instance, length, below, above)
    tables = [stretches.seconds(group[0]) for group in instance.classes]
    host = instance.host_seconds[path]
    most = len(instance.accelerators) * instance.most
    return cheapest(np.min(tables, axis=0), most, host) if tables else float(host.sum())


def _spread(
    path: list[int], order: list[int], near: list[list[int]], none: int, better: Callable[[Iterable[int]], int]
) -> IntArray:
    """Pass positions on the path along the edges. Shape (operators,)."""
    known = [none] * len(near)
    for position, v in enumerate(path):
        known[v] = position
    on = set(path)
    for v in order:
        if v not in on and near[v]:
            known[v] = better([known[u] for u in near[v]])
    return np.array(known, dtype=np.int64)


def cheapest(table: FloatMatrix, most: int, host: FloatArray) -> float:
    """Least sum over positions on the host and at most so many stretches, given the seconds of every stretch."""
    length, counted = len(host), int(most < len(host))
    least = np.full((most + 1 if counted else 1, length + 1), np.inf)
    least[0, 0] = 0.0
    for i in range(1, length + 1):
        least[:, i] = least[:, i - 1] + host[i - 1]
        called = (least[: len(least) - counted, :i] + table[:i, i - 1]).min(axis=1)
        least[counted:, i] = np.minimum(least[counted:, i], called)
    return float(least[:, length].min())


class Stretches:
    """What stretches of a path take. Entry [i, j] of a table is about the stretch from i to j.

    An operator is between i and j if its ``below`` is at least i and its ``above`` at most j: the last position that
    comes before it or is its own, and the first that comes behind it or is its own; -1 and the length if there is none.
    Shape (operators,).
    """

    def __init__(self, instance: CallInstance, length: int, below: IntArray, above: IntArray) -> None:
        self.instance = instance
        self.length = length
        self.below = below
        self.above = above
        self.between = (below >= 0) & (above < length)
        readers = below[instance.readers.items]
        start = instance.readers.start[:-1]
        self.last_read = np.maximum.reduceat(readers, start) if len(start) else start
        whole = instance.whole
        users = whole.parameters.reversed(len(whole.parameter_bytes))
        self.held = self._sums(whole.memory.astype(np.float64))
        for p in np.flatnonzero(whole.parameter_bytes > 0).tolist():
            self._from(self.held, self._reach(users[p]), float(whole.parameter_bytes[p]))

    def _reach(self, members: IntArray) -> IntArray:
        """For every i, the first j whose stretch has one of the operators between i and j; the length if none has."""
        first = np.full(self.length + 1, self.length, dtype=np.int64)
        there = members[self.below[members] >= 0]
        np.minimum.at(first, self.below[there], self.above[there])
        reach = np.minimum.accumulate(first[::-1])[::-1][: self.length]
        return np.where(reach < self.length, np.maximum(reach, np.arange(self.length)), self.length)

    def _from(self, table: FloatMatrix, reach: IntArray, value: float, first: int = 0) -> None:
        """Add a value to every stretch that begins at ``first`` or later and reaches far enough."""
        for i in (first + np.flatnonzero(reach[first:] < self.length)).tolist():
            table[i, reach[i] :] += value

    def _sums(self, weights: FloatArray) -> FloatMatrix:
        """The sum of weights of operators between i and j."""
        table = np.zeros((self.length, self.length))
        np.add.at(table, (self.below[self.between], self.above[self.between]), weights[self.between])
        return np.cumsum(np.cumsum(table[::-1], axis=0)[::-1], axis=1)

    def seconds(self, k: int) -> FloatMatrix:
        """Least seconds of every stretch on accelerator k; inf if it cannot run it."""
        instance, seconds = self.instance, self.instance.seconds[:, k]
        known, makers = np.isfinite(seconds), instance.producer
        table = self._sums(np.where(known, seconds, 0.0))
        bring, give = instance.bring[:, k], instance.give[:, k]
        for t in np.flatnonzero((self.above[makers] < self.last_read) & (bring > 0.0)).tolist():
            self._from(table, self._reach(instance.readers[t]), bring[t], int(self.above[makers[t]]) + 1)
        for t in np.flatnonzero(self.between[makers] & (self.above[makers] < self.last_read) & (give > 0.0)).tolist():
            table[: self.below[makers[t]] + 1, self.above[makers[t]] : self.last_read[t]] += give[t]
        capacity = int(instance.whole.capacity[instance.accelerators[k]])
        table[self._sums(np.where(known, 0.0, 1.0)) > 0.0] = np.inf
        if capacity != NO_LIMIT:
            table[self.held * (1.0 - SUMMATION) > capacity] = np.inf
        table[np.tril_indices(self.length, -1)] = np.inf
        return table


MODE = "transfers='blocking'"

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
        self.problem = problem
        self.run = run
        self.instance = lower_calls(problem)
        self.arrays = arrays_of(self.instance)
        self.best = None
        self.value = math.inf
        self.host = len(self.arrays.on)
        self.each = self.host // max(1, len(self.instance.accelerators))
        self.units = self._units(units_of(self.instance))

    best: IntArray | None

    def _units(self, unit: IntArray) -> Units:
        """The units, each at its first operator in an order that data allow."""
        count = int(unit.max(initial=-1)) + 1
        after = self.instance.whole.after
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
        run, rng = self.run, np.random.default_rng([self.run.seed, number])
        now, best = self.best.copy(), self.best.copy()
        begin = np.zeros(len(now) + self.host)
        done = 0.0
        spent = 0.0
        first = run.elapsed()
        left = run.remaining() or 0.0
        chunk = max(16, CHUNK_WORK // (40 * (len(now) + len(self.arrays.readers) + 1)))
        while done < 1.0 and not run.should_stop():
            began = clock()
            heat = max(HOT * self.value * (COLD / HOT) ** done, 1e-300)
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
    if problem.mode is None:
        carry_out(one_device, problem, run)
        return
    search = CallSearch(problem, run)
    search.in_one_place()
    if search.best is None:
        raise NoPlanError("the plan does not fit")


register_rule(  # in place of the rule without calls
    Placement,
    "one_device",
    carry_out_in_one_place,
    RULES["one_device"][1],
    supports=LISTED,
    baseline=True,
    modes=(None, MODE),
)


@named_solver(
    Placement,
    "calls",
    "blocking calls: everything in one place, annealing, and bounds over paths",
    proves="bound",
    supports=SUPPORTS,
    modes=(MODE,),
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
    number = 0
    seconds = None if run.time_limit is None else FIRST_SHARE * run.time_limit
    while search.best is not None and not run.should_stop() and (seconds is not None or number < ROUNDS):
        search.anneal(number, seconds)
        number, seconds = number + 1, None if seconds is None else LONGER * seconds
    if run.best is None:
        return Outcome(run.termination(), reason=f"{no_plan_found(problem)}, and no proof that there is none")
    return Outcome(Termination.BUDGET if seconds is None and not run.closed() else run.termination())
