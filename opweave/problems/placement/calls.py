"""Placement with blocking calls: what a schedule does, and the rules that judge it.

An accelerator works in calls: tensors in, operators one after the other, tensors out. The host runs any number of
operators at the same time, or as many as it has cores.

Source: Tarnawski et al., "Efficient Algorithms for Device Placement of DNN Graph Operators" (NeurIPS 2020), the model
for latency.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import isnan
from typing import TYPE_CHECKING

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.constraints import Precede, means
from opweave.problems.device_play import device_details, overfull, transfer_times
from opweave.problems.graph_arrays import Adjacency, topological_order
from opweave.problems.on_cluster import lifetimes_held
from opweave.problems.placement.referee import PlacementDetails, unusable
from opweave.problems.solution import TIME_TOLERANCE, Evaluation, Violation, broken
from opweave.problems.timeline import ActivityKind, Names, Recorder, Timeline, devices_and_ports
from opweave.problems.words import counted, refuse_unknown

if TYPE_CHECKING:
    from opweave.problems.placement.spec import Placement, Schedule


def check_calls(problem: Placement) -> None:
    """Refuse readings that blocking calls do not know, and settings that only they know.

    Raises
    ------
    ValueError
        With a sentence that says which.
    """
    host, cores = problem.host, problem.host_cores
    if problem.transfers != "blocking":
        given = {"host": host is not None, "max_calls": problem.max_calls != 1, "host_cores": cores is not None}
        for field in (field for field, there in given.items() if there):
            raise ValueError(f"{field} is for transfers='blocking', and transfers is {problem.transfers!r}")
        return
    if host is None:
        raise ValueError(
            "transfers='blocking' needs host=..., the device whose memory all tensors pass through; it runs any number "
            "of operators at the same time"
        )
    refuse_unknown("host names", "device", [host], problem.cluster.device_index, "cluster")
    if any(means(each, Precede) for each in problem.constraints):
        raise ValueError(
            "transfers='blocking' knows no Precede, because the operators of a call have one start and one end; "
            "leave it out or use another reading of transfers"
        )


@dataclass(frozen=True, eq=False)
class Calls:
    """A schedule as steps: every call is one, and so is every operator on the host.

    Attributes
    ----------
    device, start
        Of every operator. Shape (operators,).
    step
        The step of every operator. Shape (operators,).
    """

    problem: Placement
    device: IntArray
    start: FloatArray
    step: IntArray

    @classmethod
    def of(cls, problem: Placement, solution: Schedule) -> Calls:
        """Operators that start together on an accelerator are one call."""
        index, names = problem.cluster.device_index, problem.graph.operator_ids
        device = np.array([index[solution.device[name]] for name in names], dtype=np.int64)
        start = np.array([solution.start[name] for name in names], dtype=np.float64)
        found: dict[tuple[int, float, int], int] = {}
        host = index[str(problem.host)]
        rows = enumerate(zip(device.tolist(), start.tolist(), strict=True))
        keys = [(k, begin, v if k == host else -1) for v, (k, begin) in rows]
        step = np.array([found.setdefault(key, len(found)) for key in keys], dtype=np.int64)
        return cls(problem, device, start, step)

    @cached_property
    def members(self) -> Adjacency:
        """Operators of every step, in an order that their data allow."""
        order = self.problem.graph.listed_order
        rows: list[list[int]] = [[] for _ in range(int(self.step.max(initial=-1)) + 1)]
        for v in order.tolist():
            rows[self.step[v]].append(v)
        return Adjacency.from_lists(rows)

    @cached_property
    def first(self) -> IntArray:
        """An operator of every step. Shape (steps,)."""
        return self.members.items[self.members.start[:-1]]

    @cached_property
    def is_call(self) -> list[bool]:
        """Whether each step is a call."""
        host = self.problem.cluster.device_index[str(self.problem.host)]
        return [bool(k != host) for k in self.device[self.first]]

    @cached_property
    def crossing(self) -> tuple[IntArray, IntArray, IntArray]:
        """Tensors read in another step than they are made in: tensor, making step and reading step, each once."""
        arrays = self.problem.graph.arrays
        tensor, reader = arrays.reads.items, arrays.reads.heads()
        maker = arrays.producer[tensor]
        inner = maker >= 0
        tensor, made, read = tensor[inner], self.step[maker[inner]], self.step[reader[inner]]
        rows = np.unique(np.stack([tensor, made, read])[:, made != read], axis=1)
        return rows[0], rows[1], rows[2]

    @cached_property
    def moved(self) -> tuple[Adjacency, Adjacency]:
        """Tensors that every call brings in, and those that it returns; nothing for the host's steps."""
        tensor, made, read = self.crossing
        called, steps = np.asarray(self.is_call, dtype=bool), len(self.first)
        into, out = called[read], called[made]
        return (
            Adjacency.from_pairs(steps, read[into], tensor[into]),
            Adjacency.from_pairs(steps, made[out], tensor[out]),
        )

    @cached_property
    def brought(self) -> tuple[list[list[int]], list[list[int]]]:
        """:attr:`moved` as lists."""
        return self.moved[0].lists(), self.moved[1].lists()

    def _carrying(self, tensors: Adjacency, *, inward: bool) -> list[list[float]]:
        """Seconds of each transfer between the accelerator of a step and the host; NaN without a link."""
        ends = np.full((2, len(tensors.items)), self.problem.cluster.device_index[str(self.problem.host)])
        ends[1 if inward else 0] = self.device[self.first][tensors.heads()]
        size = self.problem.graph.arrays.tensor_bytes[tensors.items].astype(np.float64)
        return _rows(tensors.start, transfer_times(self.problem.cluster, ends[0], ends[1], size))

    @cached_property
    def parts(self) -> list[tuple[list[float], list[float], list[float]]]:
        """Seconds of what every step brings in, runs and returns, one by one."""
        names = self.problem.graph.operator_ids
        table = self.problem.costs.array(names, self.problem.cluster.device_index)
        seconds, (inward, outward) = table[np.arange(len(names)), self.device], self.moved
        fetching, returning = self._carrying(inward, inward=True), self._carrying(outward, inward=False)
        running = _rows(self.members.start, seconds[self.members.items])
        return list(zip(fetching, running, returning, strict=True))

    @cached_property
    def ends(self) -> FloatArray:
        """When every step ends. Shape (steps,)."""
        lasts = [sum(seconds for part in parts for seconds in part if not isnan(seconds)) for parts in self.parts]
        return np.asarray(self.start[self.first] + np.array(lasts), dtype=np.float64)

    def intervals(self) -> dict[str, tuple[float, float]]:
        """Start and end of every operator's step."""
        spans = zip(self.start.tolist(), self.ends[self.step].tolist(), strict=True)
        return dict(zip(self.problem.graph.operator_ids, spans, strict=True))

    @cached_property
    def order(self) -> IntArray:
        """Steps in an order that their data allow; shorter if there is none."""
        _, made, read = self.crossing
        return topological_order(Adjacency.from_pairs(len(self.first), made, read))

    def timeline(self) -> Timeline:
        """Everything that happens."""
        problem, graph = self.problem, self.problem.graph
        kinds = devices_and_ports(problem.cluster, ("send_port", "receive_port"), exclusive=False)
        host = problem.cluster.device_index[str(problem.host)]
        resources = tuple(replace(each, exclusive=False) if k == host else each for k, each in enumerate(kinds))
        book = _Book(self, Names.of(graph), host)
        missing = set(range(len(self.first))) - set(self.order.tolist())
        for step in (*self.order.tolist(), *sorted(missing)):
            book.write(step)
        runs = np.arange(len(self.step))
        lives = lifetimes_held(graph, runs, self.device, np.ones_like(runs), problem.memory)
        return Timeline("seconds", resources, book.names, book.recorder.activities(), lives)


def _rows(start: IntArray, values: FloatArray) -> list[list[float]]:
    """The values from each start to the next."""
    every = values.tolist()
    return [every[begin:end] for begin, end in pairwise(start.tolist())]


class _Book:
    """Writes steps into a timeline."""

    def __init__(self, calls: Calls, names: Names, host: int) -> None:
        self.calls, self.names, self.host, self.recorder = calls, names, host, Recorder()
        self._there: dict[int, int] = {}  # row of the activity that puts a tensor into host memory

    def write(self, step: int) -> None:
        calls, graph = self.calls, self.calls.problem.graph
        device, now = int(calls.device[calls.first[step]]), float(calls.start[calls.first[step]])
        fetching, running, returning = calls.parts[step]
        inward, outward = (side[step] for side in calls.brought)
        last: list[tuple[int, int]] = []
        for tensor, seconds in zip(inward, fetching, strict=True):
            made = [(self._there[tensor], self._name(tensor))] if tensor in self._there else []
            last, now = self._carry(tensor, self.host, device, now, seconds, made + last)
        for v, seconds in zip(calls.members[step].tolist(), running, strict=True):
            reads = graph.arrays.reads[v].tolist() if device == self.host else []
            made = [(self._there[tensor], self._name(tensor)) for tensor in reads if tensor in self._there]
            row = self.recorder.activity(ActivityKind.RUN, device, v, now, now + seconds, after=made + last)
            last, now = [(row, -1)], now + seconds
            if device == self.host:
                self._there |= dict.fromkeys(graph.arrays.writes[v].tolist(), row)
        for tensor, seconds in zip(outward, returning, strict=True):
            last, now = self._carry(tensor, device, self.host, now, seconds, last)
            self._there[tensor] = last[0][0]

    def _name(self, tensor: int) -> int:
        return tensor + self.names.operators

    def _carry(
        self, tensor: int, source: int, target: int, now: float, seconds: float, after: list[tuple[int, int]]
    ) -> tuple[list[tuple[int, int]], float]:
        """Write both ends of a transfer; return the receiving one, as a cause, and when it ends."""
        devices, row = len(self.calls.problem.cluster.devices), self.recorder.rows
        size, end = int(self.calls.problem.graph.arrays.tensor_bytes[tensor]), now + (seconds if seconds > 0.0 else 0.0)
        ends = (
            (ActivityKind.SEND, devices + source, row + 1),
            (ActivityKind.RECEIVE, 2 * devices + target, row),
        )
        for kind, resource, twin in ends:
            self.recorder.activity(kind, resource, self._name(tensor), now, end, size=size, twin=twin, after=after)
        return [(row + 1, self._name(tensor))], end


def call_intervals(problem: Placement, solution: Schedule) -> Mapping[str, tuple[float, float]]:
    """Start and end of every operator's step; nothing if the schedule cannot be carried out."""
    if any(unusable(problem, solution)):
        return {}
    return Calls.of(problem, solution).intervals()


def judge_calls(problem: Placement, solution: Schedule) -> Evaluation[PlacementDetails]:
    """Judge a solution against all rules except the side constraints."""
    wrong = tuple(unusable(problem, solution))
    if wrong:
        return Evaluation(objective=None, violations=wrong)
    calls, held = Calls.of(problem, solution), problem.memory_by_device(solution)
    timeline = calls.timeline()
    ends = {name: end for name, (_, end) in calls.intervals().items()}
    sent = sum(len(row) for side in calls.brought for row in side)
    details = PlacementDetails(**device_details(timeline, ends, held, problem.memory_limits, sent))
    found = [*_violations(calls, TIME_TOLERANCE * timeline.end), *overfull(problem.cluster, held)]
    if solution.transfers:
        message = f"the schedule lists {counted(len(solution.transfers), 'transfer')}; those of calls follow from them"
        found.insert(0, broken("transfer", message))
    return Evaluation(objective=timeline.end, violations=tuple(found), details=details).with_timeline(timeline)


def _violations(calls: Calls, tolerance: float) -> Iterator[Violation]:
    """What is wrong with the calls and their times."""
    names, tensors = calls.problem.graph.operator_ids, calls.problem.graph.tensor_ids
    places = [calls.problem.cluster.devices[k].name for k in calls.device[calls.first].tolist()]
    start, ends = calls.start[calls.first].tolist(), calls.ends.tolist()

    def named(step: int) -> str:
        return f"the call of {places[step]!r}" if calls.is_call[step] else repr(names[calls.first[step]])

    for step, (fetching, _, returning) in enumerate(calls.parts):
        moved = zip((*calls.brought[0][step], *calls.brought[1][step]), (*fetching, *returning), strict=True)
        for tensor, seconds in moved:
            if isnan(seconds):
                yield broken("no_link", f"no link carries {tensors[tensor]!r} between {places[step]!r} and the host")
    caught = sorted(set(range(len(start))) - set(calls.order.tolist()))
    if caught:
        which = next((step for step in caught if calls.is_call[step]), caught[0])
        message = f"data leave {named(which)}, which has {names[calls.first[which]]!r}, and come back into it"
        yield broken("contiguous", message)
    for tensor, made, read in zip(*(column.tolist() for column in calls.crossing), strict=True):
        early = ends[made] - start[read]
        if early > tolerance:
            what = f"{named(read)} starts {early:.6g} s before its input {tensors[tensor]!r} is in host memory"
            yield broken("precedence", what, early)
    yield from _of_one_accelerator(calls, tolerance)
    yield from _of_the_host(calls, tolerance)


def _of_one_accelerator(calls: Calls, tolerance: float) -> Iterator[Violation]:
    """Calls of an accelerator that are too many, or meet."""
    problem, start, ends = calls.problem, calls.start[calls.first], calls.ends
    for k, place in enumerate(problem.cluster.devices):
        steps = [step for step, there in enumerate(calls.is_call) if there and calls.device[calls.first[step]] == k]
        if problem.max_calls is not None and len(steps) > problem.max_calls:
            message = f"{place.name!r} has {len(steps)} calls: more than max_calls={problem.max_calls}"
            yield broken("calls", message, float(len(steps) - problem.max_calls))
        steps.sort(key=lambda step: (start[step], ends[step]))
        latest = -np.inf
        for step in steps:
            if latest - start[step] > tolerance:
                message = f"{place.name!r} begins a call at {start[step]:.6g} s, during another"
                yield broken("overlap", message, float(latest - start[step]))
            latest = max(latest, float(ends[step]))


def _of_the_host(calls: Calls, tolerance: float) -> Iterator[Violation]:
    """Moments at which the host runs more operators than it has cores; those of 0 seconds may be at ends of others."""
    cores = calls.problem.host_cores
    steps = [step for step, there in enumerate(calls.is_call) if not there]
    if cores is None or len(steps) <= cores:
        return
    start, ends = calls.start[calls.first], calls.ends
    running: list[float] = []  # when those that run at the moment end
    for step in sorted(steps, key=lambda step: (start[step], ends[step])):
        now = float(start[step])
        running = [end for end in running if end - now > tolerance]
        if len(running) >= cores:
            name, later = calls.problem.graph.operators[calls.first[step]].id, min(running) - now
            message = f"{name!r} starts at {now:.6g} s, while the host runs {len(running)}: host_cores={cores}"
            yield broken("cores", message, later)
        running.append(float(ends[step]))
