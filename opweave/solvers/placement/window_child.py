"""Windows of a plan that constraint programming decides anew, in a child process.

A plan is kept as jobs (:mod:`.timed_plan`). Some operators that start at about the same
time get new devices and times, with all of their messages. Jobs that do not wait for them keep their times; jobs that
do keep their device and their distance to the end of the plan. Every solution is timed again job by job, so it is a
plan whatever the program rounds or leaves out, and counts only if it is shorter.

Source: Shaw, "Using constraint programming and local search methods to solve vehicle routing problems", 1998 (large
neighbourhoods).
"""

from __future__ import annotations

import math
import random
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from opweave.problems.arrays import NO_LIMIT, IntArray
from opweave.solvers.engines.child import Send, without_pandas
from opweave.solvers.placement.arrays import DELAY, PlacementArrays
from opweave.solvers.placement.timed_plan import (
    Block,
    Job,
    Message,
    ProblemLists,
    Timed,
    TimedPlan,
    blocks_of,
    timed_from,
)

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

WORK = 0.03
"""Work that a window may take, in CP-SAT's measure: about half a second."""

FIRST_SIZE, LEAST_SIZE = 20.0, 4.0
"""Blocks of the first window, and fewest of any."""

LARGER, SMALLER, EARLY = 1.1, 0.85, 0.3
"""What the size is multiplied by after a window that took less than the share ``EARLY`` of its work, and after one that
was not decided."""

TICKS, LEAST_GAIN = 2**24, 1e-5
"""Ticks of the plan at hand, and the least relative gain of a better one."""

DRAWS = 4
"""Windows that are drawn each time; the one that is farthest from the last ones is taken."""

MOST_REPEATS = 200
"""Windows in a row without a better plan after which the child ends, where there are few blocks."""


class WindowTask(NamedTuple):
    """What the child is asked to do: a problem, its groups (Colocate), chains, a plan, a seed, and when to end."""

    arrays: PlacementArrays
    cluster: IntArray
    chain: IntArray
    plan: TimedPlan
    seed: int
    windows: int
    until: float


def improve(work: WindowTask, send: Send) -> None:
    """Send None once the engine is there, and then every shorter plan."""
    with without_pandas():
        from ortools.sat.python import cp_model  # noqa: F401

    send(None)
    net = ProblemLists(work.arrays, work.cluster)
    draw = random.Random(work.seed)
    chain = work.chain.tolist()
    plan = timed_from(net, work.plan)
    size = FIRST_SIZE
    fruitless = 0
    last = list[float]()
    blocks = blocks_of(plan, chain)
    for number in range(work.windows):
        if time.time() >= work.until or plan.makespan <= 0.0 or fruitless > MOST_REPEATS + 10 * len(blocks):
            return
        count = min(max(round(size), 1), len(blocks))
        drawn = [draw.randint(0, len(blocks) - count) for _ in range(DRAWS)]
        first = max(drawn, key=lambda each: min((abs(each / len(blocks) - spot) for spot in last), default=1.0))
        last = [*last, first / len(blocks)][-2 * len(blocks) // count :]
        found, settled, share = decide(plan, blocks[first : first + count], number, work.until - time.time())
        if not settled:
            size = max(LEAST_SIZE, size * SMALLER)
        elif share < EARLY:
            size = min(size * LARGER, LARGER * len(blocks))
        fruitless += 1
        if found is not None:
            plan, fruitless = found, 0
            blocks = blocks_of(plan, chain)
            send(plan.times())


def decide(plan: Timed, blocks: Sequence[Block], seed: int, seconds: float) -> tuple[Timed | None, bool, float]:
    """A shorter plan or None, whether nothing better is left in a window, and its share of the work."""
    with without_pandas():
        from ortools.sat.python import cp_model

    program = WindowModel(plan, blocks, cp_model.CpModel())
    solver = brief_solver(WORK, seconds, seed)
    status = solver.solve(program.model)
    found = program.plan_of(solver) if status in (cp_model.OPTIMAL, cp_model.FEASIBLE) else None
    if found is not None and found.makespan >= plan.makespan * (1.0 - 1e-9):
        found = None
    settled = status in (cp_model.OPTIMAL, cp_model.INFEASIBLE)
    return found, settled, solver.response_proto.deterministic_time / WORK


def brief_solver(work: float, seconds: float, seed: int = 0) -> cp_model.CpSolver:
    """CP-SAT for small programs of one process, within some work in its measure, and some seconds."""
    with without_pandas():
        from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed
    solver.parameters.max_deterministic_time = work
    solver.parameters.max_time_in_seconds = max(seconds, 0.0)
    solver.parameters.linearization_level = 0
    solver.parameters.cp_model_probing_level = 0
    solver.parameters.symmetry_level = 0
    return solver


class WindowModel:
    """The program of one window: blocks choose devices and starts, and messages with an end in them are sent anew."""

    def __init__(self, plan: Timed, blocks: Sequence[Block], model: cp_model.CpModel) -> None:
        self.plan, self.net, self.model = plan, plan.net, model
        self.tick = plan.makespan / TICKS
        self.one = model.new_bool_var("")
        model.add_bool_or(self.one)
        self.intervals: dict[int, list[Any]] = defaultdict(list)
        self.places: dict[int, dict[int, Any]] = {}
        self.begins: dict[Job, Any] = {}
        self.sent: dict[Message, list[tuple[int, Any]]] = {}
        self._divide({v for block in blocks for v in block})
        self.end = model.new_int_var(self._least(), TICKS, "")
        model.add(self.end <= TICKS - max(1, round(LEAST_GAIN * TICKS)))
        for block in blocks:
            self._block(block)
        for job in self.middle:
            self._stay(job)
        self._colocate()
        self._arcs()
        if self.net.model == DELAY:
            self._delays()
        else:
            self._messages()
        self._take_turns()
        self._memory()
        model.minimize(self.end)

    def ticks(self, seconds: float) -> int:
        """Whole ticks, or more than there is room for."""
        return int(min(seconds / self.tick * (1.0 + 1e-13), 2 * TICKS))

    def _divide(self, inside: set[int]) -> None:
        """What waits for the window is late, what it waits for, too, lies between, and all else keeps its time."""
        plan = self.plan
        reached: set[Job] = set(inside)
        reached.update(job for job in plan.start if not isinstance(job, int) and self._touches(job, inside))
        touched = reached - inside
        for job, waits in plan.waits.items():
            if any(other in reached for other, _ in waits):
                reached.add(job)
        reaching: set[Job] = set(inside)
        for job in reversed(plan.waits):
            if job in reaching:
                reaching.update(other for other, _ in plan.waits[job])
        self.late = {job for job in reached - inside - touched if job not in reaching}
        self.middle = [job for job in plan.start if job in reached - inside - touched and job in reaching]
        self.moving = inside | {job for job in self.middle if isinstance(job, int)}
        self.early = plan.start.keys() - reached
        self.span = min(plan.start[v] for v in inside), max(plan.end(v) for v in inside)

    def _least(self) -> int:
        """The length that early and late jobs require, whatever the window decides."""
        plan = self.plan
        least = max((self.ticks(self.plan.end(job)) for job in self.early), default=0)
        for job in self.late:
            for other, lag in plan.waits[job]:
                if other in self.early:
                    least = max(least, self.ticks(plan.end(other) + lag) + self.ticks(plan.tail[job]))
        return min(least, TICKS)

    def _touches(self, message: Message, inside: set[int]) -> bool:
        """Whether a message is sent anew: an end is in the window, and nobody before it reads the message."""
        readers = self.plan.readers[message]
        if self.net.producer(message[0]) in inside:
            return True
        first = min(self.plan.start[v] for v in inside)
        return any(v in inside for v in readers) and all(v in inside or self.plan.start[v] >= first for v in readers)

    def begin(self, job: Job) -> Any:
        """Start of a job: a column, a number, or a distance to the end."""
        if job in self.begins:
            return self.begins[job]
        return self.end - self.ticks(self.plan.tail[job]) if job in self.late else self.ticks(self.plan.start[job])

    def finish(self, job: Job) -> Any:
        """End of a job that is not a message sent anew."""
        if isinstance(job, int) and job in self.places:
            parts = [self.ticks(self.net.seconds[job][k]) * here for k, here in self.places[job].items()]
            return self.begin(job) + sum(parts)
        return self.begin(job) + self.ticks(self.plan.lasts(job))

    def _block(self, block: Block) -> None:
        """Devices and start of a block."""
        seconds, now = self.net.seconds, self.plan.device[block[0]]
        able = [k for k in range(self.net.devices) if all(math.isfinite(seconds[v][k]) for v in block)]
        outside = {self.net.cluster[v] for v in range(self.net.count) if v not in self.moving}
        if any(self.net.cluster[v] in outside for v in block) or len(able) == 1:
            places = {now: self.one}
        else:
            places = {k: self.model.new_bool_var("") for k in able}
            self.model.add_exactly_one(places.values())
            for k, column in places.items():
                self.model.add_hint(column, int(k == now))
        start = self.model.new_int_var(0, TICKS, "")
        self.model.add_hint(start, self.ticks(self.plan.start[block[0]]))
        offset: Any = 0
        passed = dict.fromkeys(places, 0)
        for v in block:
            self.places[v], self.begins[v] = places, start + offset
            passed = {k: passed[k] + self.ticks(seconds[v][k]) for k in places}
            offset = sum(passed[k] * here for k, here in places.items())
        for k, here in places.items():
            self._occupy((k,), start, passed[k], here)
        self.model.add(start + offset <= self.end)

    def _stay(self, job: Job) -> None:
        """A job between that keeps its device."""
        start = self.model.new_int_var(0, TICKS, "")
        self.model.add_hint(start, self.ticks(self.plan.start[job]))
        self.begins[job] = start
        if isinstance(job, int):
            self.places[job] = {self.plan.device[job]: self.one}
        else:
            self.model.add(self.finish(self.net.producer(job[0])) <= start)
            for v in self.plan.readers[job]:
                self.model.add(self.finish(job) <= self.begin(v))
        self._occupy(self.plan.machines(job), start, self.ticks(self.plan.lasts(job)), self.one)

    def _occupy(self, machines: Iterable[int], start: Any, lasts: int, here: Any) -> None:
        for m in machines:
            self.intervals[m].append(self.model.new_optional_fixed_size_interval_var(start, lasts, here, ""))

    def _colocate(self) -> None:
        """Operators of one group share a device."""
        first: dict[int, dict[int, Any]] = {}
        for v, places in self.places.items():
            other = first.setdefault(self.net.cluster[v], places)
            if other is not places:
                for k in places.keys() | other.keys():
                    self.model.add(places.get(k, 0) == other.get(k, 0))

    def of(self, v: int) -> dict[int, Any]:
        """The devices of an operator."""
        return self.places.get(v) or {self.plan.device[v]: self.one}

    def _apart(self, u: int, v: int) -> bool:
        """Whether two operators are not of one block, and one of them moves."""
        return (u in self.moving or v in self.moving) and self.places.get(u) is not self.places.get(v)

    def _arcs(self) -> None:
        for v in range(self.net.count):
            for u in self.net.before[v]:
                if self._apart(u, v):
                    self.model.add(self.finish(u) <= self.begin(v))

    def _flows(self) -> list[int]:
        found = {f for v in self.moving for f in (*self.net.incoming[v], *self.net.outgoing[v])}
        return sorted(f for f in found if self._apart(self.net.source[f], self.net.target[f]))

    def _delays(self) -> None:
        """Without ports, data arrive some time after they are made."""
        for f in self._flows():
            u, v = self.net.source[f], self.net.target[f]
            for a, there in self.of(u).items():
                for b, here in self.of(v).items():
                    if a != b:
                        self._after(self.finish(u) + self._lasts(f, a, b), self.begin(v), there, here)

    def _lasts(self, f: int, a: int, b: int) -> int:
        return self.ticks(self.net.lasts[f][a][b])

    def _after(self, early: Any, late: Any, *holds: Any) -> None:
        self.model.add(early <= late).only_enforce_if(*holds)

    def _messages(self) -> None:
        net, plan = self.net, self.plan
        keys = {(net.item[f], b) for f in self._flows() for b in self.of(net.target[f])}
        for message in sorted(keys):
            item, b = message
            u, now = net.producer(item), plan.start.get(message)
            readers = [v for v in dict.fromkeys(net.target[f] for f in net.flows[item]) if b in self.of(v)]
            if now is not None and (message in self.early or message in self.late or message in self.begins):
                for v in readers:  # it is sent for others, too
                    if v in self.moving:
                        self._after(self.finish(message), self.begin(v), self.of(v)[b])
                continue
            start = self.model.new_int_var(0, TICKS, "")
            self.model.add_hint(start, 0 if now is None else self.ticks(now))
            self.sent[message], f = [], net.flows[item][0]
            for a, there in self.of(u).items():
                if a == b:
                    continue
                taken = self._taken(there, [self.of(v)[b] for v in readers])
                lasts = self._lasts(f, a, b)
                self.sent[message].append((a, taken))
                self._occupy((net.devices + a, 2 * net.devices + b), start, lasts, taken)
                self._after(self.finish(u), start, taken)
                for v in readers:
                    self._after(start + lasts, self.begin(v), there, self.of(v)[b])
            self.begins[message] = start

    def _taken(self, there: Any, readers: list[Any]) -> Any:
        """A column that is 1 if the producer is there, and some reader on the target."""
        if any(reader is self.one for reader in readers):
            return there
        if there is self.one and len(readers) == 1:
            return readers[0]
        taken = self.model.new_bool_var("")
        self.model.add_implication(taken, there)
        self.model.add_bool_or(~taken, *readers)
        for reader in readers:
            self.model.add_bool_or(taken, ~there, ~reader)
        return taken

    def _take_turns(self) -> None:
        """One job at a time on a machine; the gaps between jobs that keep their times are used near the window."""
        first, last = self.span
        near = 2.0 * first - last, 2.0 * last - first
        bounds: dict[int, tuple[int, int]] = {}
        for job in self.plan.start:
            if job not in self.early and job not in self.late:
                continue
            for m in self.plan.machines(job):
                if m not in self.intervals:
                    continue
                before, after = bounds.get(m, (0, 0))
                if job in self.early and self.plan.end(job) <= near[0]:
                    bounds[m] = max(before, self.ticks(self.plan.end(job))), after
                elif job in self.late and self.plan.makespan - self.plan.tail[job] >= near[1]:
                    bounds[m] = before, max(after, self.ticks(self.plan.tail[job]))
                else:
                    lasts = self.ticks(self.plan.lasts(job))
                    self.intervals[m].append(self.model.new_fixed_size_interval_var(self.begin(job), lasts, ""))
        for m, intervals in self.intervals.items():
            before, after = bounds.get(m, (0, 0))
            if before:
                intervals.append(self.model.new_fixed_size_interval_var(0, before, ""))
            if after:
                intervals.append(self.model.new_interval_var(self.end - after, after, self.end, ""))
            self.model.add_no_overlap(intervals)

    def _memory(self) -> None:
        """Devices hold their operators and the parameters of these, each once."""
        arrays = self.net.arrays
        for k in np.flatnonzero(arrays.capacity != NO_LIMIT).tolist():
            rest = [v for v, device in enumerate(self.plan.device) if device == k and v not in self.places]
            held = {p for v in rest for p in self.net.parameters[v]}
            room = int(arrays.capacity[k]) - sum(int(arrays.memory[v]) for v in rest)
            room -= sum(int(arrays.parameter_bytes[p]) for p in held)
            users: dict[int, list[Any]] = defaultdict(list)
            taken: list[Any] = []
            for v, places in self.places.items():
                if k in places:
                    taken.append(int(arrays.memory[v]) * places[k])
                    for p in set(self.net.parameters[v]) - held:
                        users[p].append(places[k])
            for p, each in users.items():
                some = self.model.new_bool_var("")
                for here in each:
                    self.model.add_implication(here, some)
                taken.append(int(arrays.parameter_bytes[p]) * some)
            self.model.add(sum(taken) <= room)

    def plan_of(self, solver: cp_model.CpSolver) -> Timed:
        """The plan of a solution, in which every job begins as soon as it can."""
        device = list(self.plan.device)
        for v, places in self.places.items():
            device[v] = next(k for k, here in places.items() if solver.value(here))
        wanted: dict[Job, float] = {job: float(solver.value(self.begin(job))) for job in (*self.plan.start, *self.sent)}
        return Timed(self.net, device, wanted)
