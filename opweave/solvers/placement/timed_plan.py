"""Plans as jobs: the operators and the messages between devices, and the order in which every resource takes them.

Constraint programming sends transfers in orders that no list scheduler gives, so such plans are kept job by job.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.placement.arrays import DELAY, PORT_EDGE, PlacementArrays, durations

Message = tuple[int, int]
"""A flow (``one_port_edge``) or a tensor (``one_port_tensor``), and the device to which it is sent."""

Job = int | Message
Block = tuple[int, ...]
"""Operators that run on one device one after the other without a break."""


class TimedPlan(NamedTuple):
    """A plan: its length, devices, starts of operators, and starts of flows' transfers (-1: none)."""

    makespan: float
    device: IntArray
    start: FloatArray
    begins: FloatArray


class ProblemLists:
    """A problem as lists, which plain Python reads faster than arrays."""

    def __init__(self, arrays: PlacementArrays, cluster: IntArray) -> None:
        def rows(start: IntArray, items: IntArray) -> list[list[int]]:
            flat = items.tolist()
            return [flat[a:b] for a, b in pairwise(start.tolist())]

        self.arrays = arrays
        self.model = arrays.model
        self.cluster = cluster.tolist()
        self.count, self.devices = arrays.seconds.shape
        self.seconds = arrays.seconds.tolist()
        self.before = rows(arrays.before_start, arrays.before)
        self.incoming = rows(arrays.in_start, arrays.incoming)
        self.outgoing = rows(arrays.out_start, arrays.outgoing)
        self.source = arrays.source.tolist()
        self.target = arrays.target.tolist()
        self.item = list(range(len(self.source))) if self.model == PORT_EDGE else arrays.tensor.tolist()
        self.flows: dict[int, list[int]] = defaultdict(list)
        for f, item in enumerate(self.item):
            self.flows[item].append(f)
        self.lasts = np.where(np.isfinite(arrays.latency), durations(arrays), np.inf).tolist()
        self.parameters = rows(arrays.parameters_start, arrays.parameters)

    def producer(self, item: int) -> int:
        """The operator that makes what is sent."""
        return int(self.source[self.flows[item][0]])


class Timed:
    """A plan whose jobs begin as soon as they can, when all devices and ports take them in the order of wanted starts.

    Attributes
    ----------
    start, waits
        Of every job: its start, and the jobs that it waits for, with the time between.
    tail
        Seconds from the start of every job to the end of the plan, if nothing waits needlessly.
    """

    def __init__(self, net: ProblemLists, device: list[int], wanted: Mapping[Job, float]) -> None:
        self.net, self.device = net, device
        self.readers: dict[Message, list[int]] = defaultdict(list)
        if net.model != DELAY:
            for f, (u, v) in enumerate(zip(net.source, net.target, strict=True)):
                if device[u] != device[v]:
                    self.readers[net.item[f], device[v]].append(v)
        due = self._due(wanted)
        order = sorted(due, key=lambda job: (due[job], self._level[job]))
        last: dict[int, Job] = {}
        self.start: dict[Job, float] = {}
        self.waits: dict[Job, list[tuple[Job, float]]] = {}
        for job in order:
            machines = self.machines(job)
            waits = [(last[m], 0.0) for m in machines if m in last] + self.reads(job)
            last.update(dict.fromkeys(machines, job))
            self.waits[job] = waits
            self.start[job] = max((self.end(other) + lag for other, lag in waits), default=0.0)
        self.makespan = max((self.end(v) for v in range(net.count)), default=0.0)
        after = dict.fromkeys(order, 0.0)
        self.tail: dict[Job, float] = {}
        for job in reversed(order):
            self.tail[job] = after[job] + self.lasts(job)
            for other, lag in self.waits[job]:
                after[other] = max(after[other], lag + self.tail[job])

    def _due(self, wanted: Mapping[Job, float]) -> dict[Job, float]:
        """Wanted starts, none before those of what a job reads; unknown messages follow what makes them."""
        due: dict[Job, float] = {}
        self._level: dict[Job, int] = {}
        stack: list[Job] = [*range(self.net.count)]
        while stack:
            job = stack[-1]
            reads = [other for other, _ in self.reads(job)]
            missing = [other for other in reads if other not in due]
            if missing and job not in due:
                stack += missing
                continue
            stack.pop()
            due[job] = max([wanted.get(job, 0.0), *(due[other] for other in reads)])
            self._level[job] = 1 + max((self._level[other] for other in reads), default=0)
        return due

    def lasts(self, job: Job) -> float:
        """Seconds of a job."""
        if isinstance(job, int):
            return float(self.net.seconds[job][self.device[job]])
        return float(self.net.lasts[self.net.flows[job[0]][0]][self.device[self.net.producer(job[0])]][job[1]])

    def end(self, job: Job) -> float:
        """End of a job."""
        return self.start[job] + self.lasts(job)

    def machines(self, job: Job) -> tuple[int, ...]:
        """Devices, then send ports, then receive ports that a job occupies."""
        if isinstance(job, int):
            return (self.device[job],)
        return self.net.devices + self.device[self.net.producer(job[0])], 2 * self.net.devices + job[1]

    def reads(self, job: Job) -> list[tuple[Job, float]]:
        """The jobs whose results a job needs, and how long after their ends."""
        net = self.net
        if not isinstance(job, int):
            return [(net.producer(job[0]), 0.0)]
        here, found = self.device[job], [(u, 0.0) for u in net.before[job]]
        reads: list[tuple[Job, float]] = [*found]
        for f in net.incoming[job]:
            there = self.device[net.source[f]]
            if there != here:
                delay = net.model == DELAY
                reads.append((net.source[f], net.lasts[f][there][here]) if delay else ((net.item[f], here), 0.0))
        return reads

    def times(self) -> TimedPlan:
        """The plan as arrays; a message begins with its first reader."""
        begins = np.full(len(self.net.source), -1.0)
        for (item, target), readers in self.readers.items():
            first = min(readers, key=lambda v: self.start[v])
            flow = next(f for f in self.net.flows[item] if self.net.target[f] == first)
            begins[flow] = self.start[item, target]
        starts = np.asarray([self.start[v] for v in range(self.net.count)])
        return TimedPlan(self.makespan, np.asarray(self.device, dtype=np.int64), starts, begins)


def timed_from(net: ProblemLists, plan: TimedPlan) -> Timed:
    """A plan from its arrays."""
    device = plan.device.tolist()
    wanted = dict[Job, float](enumerate(plan.start.tolist()))
    for f in np.flatnonzero(plan.begins >= 0.0).tolist():
        wanted[net.item[f], device[net.target[f]]] = float(plan.begins[f])
    return Timed(net, device, wanted)


def blocks_of(plan: Timed, chain: Sequence[int]) -> list[Block]:
    """Operators of one chain that run one after the other without a break, by start."""
    rows: dict[int, list[Block]] = defaultdict(list)
    touching = 1e-12 * plan.makespan
    for v in sorted(range(plan.net.count), key=plan.start.__getitem__):
        row = rows[plan.device[v]]
        if row and chain[row[-1][-1]] == chain[v] and plan.start[v] - plan.end(row[-1][-1]) <= touching:
            row[-1] += (v,)
        else:
            row.append((v,))
    return sorted((block for row in rows.values() for block in row), key=lambda block: plan.start[block[0]])
