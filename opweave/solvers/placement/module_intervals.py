"""Exact placement of a small instance by constraint programming: CP-SAT in a child process on optional intervals.

The model is that of :mod:`opweave.formulations.placement.cp`, written from arrays: an operator has an interval on each
device, a message one on each of its routes; what shares a device or a port does not overlap. Durations are rounded down
to ticks, which keeps a lower bound one; a solution is timed again in seconds, its orders kept.

It proves windows of up to about a hundred operators in seconds where most of the work lies along a path, and does
little for windows of 80 operators in many parallel branches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from importlib.util import find_spec

import numpy as np

from opweave.formulations.modeling.intervals import IntervalModel
from opweave.formulations.modeling.linear import Linear
from opweave.formulations.modeling.whole import Interval
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.errors import EngineError
from opweave.solvers.engines.answers import Answer
from opweave.solvers.engines.child import ChildLimits, run_in_child
from opweave.solvers.engines.interval_child import IntervalWork
from opweave.solvers.placement.arrays import DELAY, PORT_TENSOR, PlacementArrays
from opweave.solvers.placement.bounds.critical_path import operator_order, reach_of, sending
from opweave.solvers.placement.module_search import Found
from opweave.solvers.placement.plans import plan_of
from opweave.solvers.run import patience

TICKS = 2**26
"""Ticks of the longest plan of interest. Not more: with 2**34, CP-SAT called plans optimal that brute force beats."""

CLOSE_ENOUGH = 2e-7
"""Relative gap at which the search ends: less than seconds lose by rounding."""

ALMOST = 1e-9
"""Relative allowance for sums in floating point, on the side that loses no plan."""

Route = tuple[int, int]
"""Device that sends, device that receives."""


@dataclass(eq=False)
class Message:
    """A transfer that may be needed: its producer, readers, flows, and the column of each route."""

    producer: int
    readers: list[int]
    flows: list[int]
    start: int
    routes: dict[Route, int] = field(default_factory=dict)


class NetIntervals:
    """The model of one instance and the way back from its columns.

    Parameters
    ----------
    arrays
        The problem; memory is not seen.
    upper
        No plan longer than this is of interest; finite.
    floor
        Any lower bound.
    """

    def __init__(self, arrays: PlacementArrays, upper: float, floor: float) -> None:
        self.arrays, self.model = arrays, IntervalModel()
        self.tick = upper / TICKS
        self.order = operator_order(arrays)
        self.reach = reach_of(arrays, self.order)
        through = self.reach.heads + arrays.seconds + self.reach.tails
        self.able = [np.flatnonzero(row <= upper * (1.0 + ALMOST)).tolist() for row in through]
        self.impossible = not all(self.able)
        self.x: dict[tuple[int, int], int] = {}
        self.starts: list[int] = []
        self.messages: list[Message] = []
        devices = arrays.seconds.shape[1]
        self.machines: list[list[Interval]] = [[] for _ in range(3 * devices)]
        low = self.ticks(floor * (1.0 - ALMOST))
        self.makespan = self.model.whole(min(low, TICKS), TICKS + 1, "makespan")
        self.model.minimise(Linear.of(self.makespan), self.tick)
        if not self.impossible:
            self._operators()
            self._messages()
            self._machines()

    def ticks(self, seconds: float) -> int:
        """Whole ticks in a duration, rounded down; what floating point may have added goes with it."""
        return max(0, math.floor(float(seconds) / self.tick - ALMOST * TICKS / 1e4))

    def _operators(self) -> None:
        """Each runs on one device, after its predecessors, between head and tail."""
        arrays, model, (heads, tails) = self.arrays, self.model, self.reach
        for v, able in enumerate(self.able):
            low = self.ticks(heads[v, able].min())
            late = TICKS - self.ticks((arrays.seconds[v] + tails[v])[able].min())
            start = model.whole(low, max(low, late + 1))
            self.starts.append(start)
            for k in able:
                self.x[v, k] = model.binary()
                self._occupy(k, start, arrays.seconds[v, k], self.x[v, k])
            model.row({self.x[v, k]: 1 for k in able}, 1, 1)
            model.row({start: 1} | {self.x[v, k]: -self.ticks(heads[v, k]) for k in able}, 0, None)
            left = {self.x[v, k]: -self.ticks(arrays.seconds[v, k] + tails[v, k]) for k in able}
            model.row({self.makespan: 1, start: -1} | left, 0, None)
        for v in range(len(self.able)):
            for u in arrays.before[arrays.before_start[v] : arrays.before_start[v + 1]].tolist():
                model.row({self.starts[v]: 1} | self._end(u), 0, None)

    def _end(self, u: int) -> dict[int, int]:
        """Minus the end of an operator."""
        lasts = {self.x[u, k]: -self.ticks(self.arrays.seconds[u, k]) for k in self.able[u]}
        return {self.starts[u]: -1} | lasts

    def _occupy(self, machine: int, start: int, seconds: float, present: int) -> None:
        size = self.ticks(seconds)
        if size:
            self.machines[machine].append(Interval(start, size, present))

    def _messages(self) -> None:
        """A message takes a route if its producer and a reader run at the two ends; readers wait for it."""
        arrays = self.arrays
        groups: dict[tuple[int, int], list[int]] = {}
        for f, (tensor, v) in enumerate(zip(arrays.tensor.tolist(), arrays.target.tolist(), strict=True)):
            for k in self.able[v] if arrays.model == PORT_TENSOR else [-1]:
                groups.setdefault((tensor, k) if k >= 0 else (f, -1), []).append(f)
        for (_, k), flows in groups.items():
            u, readers = int(arrays.source[flows[0]]), arrays.target[flows].tolist()
            targets = [k] if k >= 0 else self.able[readers[0]]
            if any(q != target for q in self.able[u] for target in targets):
                self._message(u, readers, flows, targets)

    def _message(self, u: int, readers: list[int], flows: list[int], targets: list[int]) -> None:
        arrays, model, devices = self.arrays, self.model, self.arrays.seconds.shape[1]
        ready = self.ticks((self.reach.heads[u] + arrays.seconds[u])[self.able[u]].min())
        message = Message(u, readers, flows, model.whole(min(ready, TICKS), TICKS + 1))
        model.row({message.start: 1} | self._end(u), 0, None)
        lasts: dict[int, int] = {}
        for q in self.able[u]:
            for k in targets:
                if q == k:
                    continue
                ends = [self.x[r, k] for r in readers]
                seconds = sending(arrays, flows[0], q, k)
                if seconds == np.inf:
                    for end in ends:
                        model.row({self.x[u, q]: 1, end: 1}, None, 1)
                    continue
                y = message.routes[q, k] = model.binary()
                lasts[y] = -self.ticks(seconds)
                model.row({y: 1, self.x[u, q]: -1}, None, 0)
                model.row({y: 1} | dict.fromkeys(ends, -1), None, 0)
                for end in ends:
                    model.row({y: -1, self.x[u, q]: 1, end: 1}, None, 1)
                if arrays.model != DELAY:
                    self._occupy(devices + q, message.start, seconds, y)
                    self._occupy(2 * devices + k, message.start, seconds, y)
        for r in readers:
            only_if = (self.x[r, targets[0]],) if arrays.model == PORT_TENSOR else ()
            model.row({self.starts[r]: 1, message.start: -1} | lasts, 0, None, only_if)
        self.messages.append(message)

    def _machines(self) -> None:
        """What shares a device or a port does not overlap, and fits between the least head and tail there."""
        model, devices = self.model, self.arrays.seconds.shape[1]
        for m, group in enumerate(self.machines):
            if not group:
                continue
            if len(group) > 1:
                model.apart.append(group)
            work = {each.present: -each.size for each in group if each.present is not None}
            if m < devices:
                works = [v for v in range(len(self.able)) if (v, m) in self.x and self.arrays.seconds[v, m] > 0.0]
                used = model.binary()
                for v in works:
                    model.row({self.x[v, m]: 1, used: -1}, None, 0)
                head, tail = self.reach.heads[works, m].min(), self.reach.tails[works, m].min()
                work[used] = -self.ticks(head) - self.ticks(tail)
            model.row({self.makespan: 1} | work, 0, None)

    def plan(self, values: list[int]) -> tuple[float, IntArray, FloatArray, FloatArray]:
        """Makespan, devices, starts and starts of transfers (-1: none): the orders of a solution, timed in seconds."""
        arrays, count, devices = self.arrays, len(self.able), self.arrays.seconds.shape[1]
        device = np.asarray([next(k for k in self.able[v] if values[self.x[v, k]]) for v in range(count)])
        place = np.empty(count, dtype=np.int64)
        place[self.order] = np.arange(count)
        taken: list[tuple[int, bool, int, int, Route | None]] = []
        for v in range(count):
            lasts = self.ticks(arrays.seconds[v, device[v]])
            taken.append((values[self.starts[v]], lasts > 0, 2 * int(place[v]), v, None))
        for number, message in enumerate(self.messages):
            for route, y in message.routes.items():
                if values[y]:
                    lasts = self.ticks(sending(arrays, message.flows[0], *route))
                    rank = 2 * int(place[message.producer]) + 1
                    taken.append((values[message.start], lasts > 0, rank, number, route))
        ready, free = np.zeros(count), np.zeros(3 * devices)
        start, end, begins = np.zeros(count), np.zeros(count), np.full(len(arrays.source), -1.0)
        # jobs without a tick come first at their time, so that they do not wait for those that begin there
        for _, _, _, v, way in sorted(taken, key=lambda job: job[:4]):
            if way is None:
                k = int(device[v])
                start[v] = max(ready[v], free[k])
                end[v] = free[k] = start[v] + arrays.seconds[v, k]
                for w in arrays.after[arrays.after_start[v] : arrays.after_start[v + 1]].tolist():
                    ready[w] = max(ready[w], end[v])
                continue
            message, ports = self.messages[v], [devices + way[0], 2 * devices + way[1]]
            begin = float(end[message.producer]) if arrays.model == DELAY else max(end[message.producer], *free[ports])
            free[ports] = begin + sending(arrays, message.flows[0], *way)
            served = [i for i, r in enumerate(message.readers) if device[r] == way[1]]
            begins[message.flows[served[0]]] = begin
            for i in served:
                ready[message.readers[i]] = max(ready[message.readers[i]], free[ports[0]])
        return float(end.max(initial=0.0)), device, start, begins


def shortest_alone(arrays: PlacementArrays) -> float:
    """Length of the shortest plan in which all operators that can share a device do; inf where that is none."""
    order, best = operator_order(arrays), np.inf
    for k in range(arrays.seconds.shape[1]):
        # an end that is bound to another device stays there
        device = np.where(np.isfinite(arrays.seconds[:, k]), k, arrays.seconds.argmin(axis=1)).astype(np.int64)
        best = min(best, plan_of(arrays, order, device).makespan)
    return best


def available() -> bool:
    """Whether CP-SAT is installed."""
    return find_spec("ortools") is not None


def solve_intervals(arrays: PlacementArrays, upper: float, floor: float, seconds: float, *, threads: int = 1) -> Found:
    """The shortest plan of a small instance that CP-SAT finds, and what it proves, within the time.

    Parameters
    ----------
    arrays
        The problem; memory and side constraints beyond run times and arcs are not seen.
    upper
        Length of a known plan; longer ones are not looked for.
    floor
        Any lower bound.
    seconds
        Time limit; starting the child takes most of one second of it.
    threads
        Of the engine.
    """
    count = len(arrays.seconds)
    if not (available() and 0.0 < upper < np.inf):
        return Found(upper, False, np.full(count, -1, dtype=np.int64), np.zeros(count), np.zeros(0), floor)
    nothing = Found(upper, False, np.full(count, -1, dtype=np.int64), np.zeros(count), np.zeros(0), floor)
    written = NetIntervals(arrays, upper, floor)
    if written.impossible:
        return nothing._replace(proved=True, bound=upper)
    work = IntervalWork(written.model.program(), seconds, CLOSE_ENOUGH, seed=0, threads=threads, workers=1)
    limits = ChildLimits(seconds + patience())
    try:
        answer: Answer | None = run_in_child("cp-sat", "opweave.solvers.engines.interval_child:solve", work, limits)
    except EngineError:
        return nothing
    if answer is None or answer.verdict == "failed":
        return nothing
    if answer.verdict == "infeasible":
        return nothing._replace(proved=True, bound=upper)
    bound = floor
    if answer.bound is not None and np.isfinite(answer.bound):
        bound = max(floor, min(upper, math.ceil(answer.bound - 1e-6) * written.tick * (1.0 - ALMOST)))
    if answer.values is None or written.model.broken([int(value) for value in answer.values]) is not None:
        return nothing._replace(bound=bound)
    makespan, device, start, begins = written.plan([int(value) for value in answer.values])
    if makespan >= upper:
        return nothing._replace(bound=bound)
    return Found(makespan, False, device.astype(np.int64), start, begins, bound)
