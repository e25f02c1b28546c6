"""The referee of placement: operators run on devices, and transfers use ports, at the times of the schedule.

With blocking calls, an accelerator works in calls: tensors in, operators one after the other, tensors out. The host
runs any number of operators at the same time, or as many as it has cores. Source: Tarnawski et al., "Efficient
Algorithms for Device Placement of DNN Graph Operators" (NeurIPS 2020), the model for latency.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import inf, isnan
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from opweave.problems.constraints import Precede, means
from opweave.problems.costs import MAX_SECONDS
from opweave.problems.device_play import DevicePlay, PlayedRuns, Runs, wrong_names
from opweave.problems.graph_arrays import Adjacency, topological_order
from opweave.problems.on_cluster import held
from opweave.problems.solution import TIME_TOLERANCE, Violation, broken
from opweave.problems.timeline import ActivityKind, Names, Recorder, Timeline, devices_and_ports
from opweave.problems.words import counted, refuse_unknown

if TYPE_CHECKING:
    from opweave.problems.placement.spec import Placement, Schedule


class PlayedSchedule(PlayedRuns):
    """Operators and transfers at the times of the schedule."""

    problem: Placement

    def __init__(self, problem: Placement, solution: Schedule) -> None:
        names, index = problem.graph.operator_ids, problem.cluster.device_index
        device = np.asarray([index[solution.device[name]] for name in names], dtype=np.int64)
        start = np.asarray([solution.start[name] for name in names], dtype=np.float64)
        operator = np.arange(len(names))
        end = start + problem.costs.array(names, index)[operator, device]
        runs = Runs(operator, device, start, end, np.ones_like(device))
        ports, for_all = problem.transfers != "delay", problem.transfers != "one_port_edge"
        super().__init__(problem, solution, runs, operator[:, None], ports=ports, for_all=for_all)

    def violations(self) -> Iterator[Violation]:
        """Necessary transfers that are never sent, needless ones, wrong times, too much memory."""
        if self.problem.transfers != "delay":
            unmet = ~np.isnan(self.needs.seconds)
            unmet[self.sent.need[self.sent.need >= 0]] = False
            for row in np.flatnonzero(unmet).tolist():
                yield broken("transfer", f"the schedule never sends {self.route(self.needs, row)}")
        yield from super().violations()
        if self.problem.turned_round is not None:
            yield broken("precedence", opposite_demanded(self.problem.turned_round))


def opposite_demanded(asked: Precede) -> str:
    """Say that a precedence constraint cannot be satisfied because its opposite is required."""
    return (
        f"operator {asked.before!r} shall end before {asked.after!r} begins, but data or other such rules demand the "
        "opposite"
    )


def unusable(problem: Placement, solution: Schedule) -> Iterator[Violation]:
    """Check that every operator has a start and a device that can run it, and that all names exist."""
    operators, devices = problem.known_seconds, problem.cluster.device_index
    for name in dict.fromkeys((*solution.device, *solution.start)):
        if name not in operators:
            yield broken("unknown", f"{name!r} is not an operator of the graph")
    where, when = dict(solution.device.items()), dict(solution.start.items())
    for name, costs in operators.items():
        device = where.get(name)
        if device is None:
            yield broken("missing", f"{name!r} has no device")
        elif device not in devices:
            yield broken("unknown", f"{name!r} runs on {device!r}, which the cluster does not have")
        elif device not in costs:
            yield broken("device", f"{name!r} cannot run on {device!r}: its time there is not known")
        if name not in when:
            yield broken("missing", f"{name!r} has no start")
        elif device in costs and when[name] + costs[device] > MAX_SECONDS:
            yield broken("unknown", f"{name!r} ends after {MAX_SECONDS:.0e} s, which is beyond the range of times")
    yield from wrong_names(problem.graph, problem.cluster, solution.transfers)


def check_calls(problem: Placement) -> None:
    """Refuse modes that blocking calls do not know, and settings that only they know.

    Raises
    ------
    ValueError
        With a sentence that says which.
    """
    host = problem.host
    if problem.transfers != "blocking":
        given = {"host": host is not None, "max_calls": problem.max_calls != 1}
        for field in (field for field, there in given.items() if there):
            raise ValueError(f"{field} is for transfers='blocking', and transfers is {problem.transfers!r}")
        return
    if host is None:
        raise ValueError(
            "transfers='blocking' needs host=..., the device whose memory all tensors pass through; it runs any number "
            "of operators at the same time"
        )
    if problem.objective == "memory":
        raise ValueError("objective='memory' leaves times aside; use transfers other than 'blocking'")
    refuse_unknown("host names", "device", [host], problem.cluster.device_index, "cluster")
    if any(means(each, Precede) for each in problem.constraints):
        raise ValueError(
            "Precede cannot be combined with transfers='blocking', because the operators of a call have one start and "
            "one end; leave it out, or use other transfers"
        )


class CallStep(NamedTuple):
    """A call, or one operator on the host.

    Attributes
    ----------
    device, start
        The device by position, and seconds.
    operators, running
        Its operators in an order that their data allow, and their seconds.
    fetched, returned
        Seconds by tensor that a call brings in and returns, NaN without a link; nothing for the host's steps.
    """

    device: int
    start: float
    operators: list[int]
    fetched: dict[int, float]
    running: list[float]
    returned: dict[int, float]

    @property
    def end(self) -> float:
        """Seconds."""
        lasts = (*self.fetched.values(), *self.running, *self.returned.values())
        return self.start + sum(seconds for seconds in lasts if not isnan(seconds))


class Calls(DevicePlay):
    """A schedule as steps.

    Attributes
    ----------
    steps
        Every call, and every operator on the host.
    crossing
        Tensors read in another step than they are made in: tensor, making step and reading step, each once.
    order
        Steps in an order that their data allow; shorter if there is none.
    """

    def __init__(self, problem: Placement, solution: Schedule) -> None:
        super().__init__(problem, solution)
        graph, index = problem.graph, problem.cluster.device_index
        self._host, self._listed = index[str(problem.host)], len(solution.transfers)
        members: dict[tuple[int, float, int], list[int]] = {}
        for v in graph.listed_order.tolist():  # operators that start together on an accelerator are one call
            k, start = index[solution.device[graph.operator_ids[v]]], solution.start[graph.operator_ids[v]]
            members.setdefault((k, start, v if k == self._host else -1), []).append(v)
        self._step_of = {v: number for number, those in enumerate(members.values()) for v in those}
        arrays = graph.arrays
        reads = zip(arrays.reads.items.tolist(), arrays.reads.heads().tolist(), strict=True)
        makers = arrays.producer.tolist()
        made = ((t, self._step_of[makers[t]], self._step_of[reader]) for t, reader in reads if makers[t] >= 0)
        self.crossing = sorted({row for row in made if row[1] != row[2]})
        pairs = np.asarray([row[1:] for row in self.crossing], dtype=np.int64).reshape(-1, 2).T
        self.order = topological_order(Adjacency.from_pairs(len(members), pairs[0], pairs[1])).tolist()
        fetched, returned = defaultdict[int, set[int]](set), defaultdict[int, set[int]](set)
        for tensor, maker, reader in self.crossing:
            fetched[reader].add(tensor)
            returned[maker].add(tensor)
        seconds = problem.costs.array(graph.operator_ids, index)
        self.steps = [
            CallStep(
                device=k,
                start=start,
                operators=those,
                fetched=self._carried(self._host, k, fetched[number]),
                running=seconds[those, k].tolist(),
                returned=self._carried(k, self._host, returned[number]),
            )
            for number, ((k, start, _), those) in enumerate(members.items())
        ]
        self.timeline = self._made_timeline()

    def is_call(self, step: CallStep) -> bool:
        """Whether a step is a call."""
        return step.device != self._host

    def _carried(self, source: int, target: int, tensors: set[int]) -> dict[int, float]:
        """Seconds of each transfer between an accelerator and the host."""
        moved = sorted(tensors) if source != target else []
        size = self.problem.graph.arrays.tensor_bytes[moved]
        return dict(zip(moved, self.problem.cluster.link_seconds(source, target, size).tolist(), strict=True))

    def intervals(self) -> dict[str, tuple[float, float]]:
        """Start and end of every operator's step."""
        spans = [(step.start, step.end) for step in self.steps]
        return {name: spans[self._step_of[v]] for v, name in enumerate(self.problem.graph.operator_ids)}

    def _made_timeline(self) -> Timeline:
        problem, graph = self.problem, self.problem.graph
        kinds = devices_and_ports(problem.cluster, ("send_port", "receive_port"), exclusive=False)
        resources = tuple(replace(each, exclusive=False) if k == self._host else each for k, each in enumerate(kinds))
        recorder, there = Recorder(), dict[int, int]()  # row of the activity that puts a tensor into host memory
        for number in (*self.order, *sorted(set(range(len(self.steps))) - set(self.order))):
            self._record(self.steps[number], recorder, there)
        operator = np.asarray([v for step in self.steps for v in step.operators], dtype=np.int64)
        device = np.asarray([step.device for step in self.steps for _ in step.operators], dtype=np.int64)
        lives = held(graph, operator, device, np.ones_like(operator), problem.memory).lifetimes()
        return Timeline("seconds", resources, Names.of(graph), recorder.activities(), lives)

    def _record(self, step: CallStep, recorder: Recorder, there: dict[int, int]) -> None:
        """Write a step; every activity waits for the one before it, and for what puts its tensor into host memory."""
        arrays, shift, now = self.problem.graph.arrays, len(self.problem.graph.operators), step.start
        last: list[tuple[int, int]] = []

        def made(tensors: Iterable[int]) -> list[tuple[int, int]]:
            return [(there[tensor], tensor + shift) for tensor in tensors if tensor in there]

        def carry(tensor: int, source: int, target: int, seconds: float) -> None:
            nonlocal now, last
            devices, what, end = len(self.problem.cluster.devices), tensor + shift, now + max(0.0, seconds)
            after = last if target == self._host else made([tensor]) + last
            ports, size = (devices + source, 2 * devices + target), int(arrays.tensor_bytes[tensor])
            row = recorder.transfer(ports, what, now, end, size=size, after=after)
            now, last = end, [(row, what)]

        for tensor, seconds in step.fetched.items():
            carry(tensor, self._host, step.device, seconds)
        for v, seconds in zip(step.operators, step.running, strict=True):
            after = last if self.is_call(step) else made(arrays.reads[v].tolist()) + last
            row = recorder.activity(ActivityKind.RUN, step.device, v, now, now + seconds, after=after)
            now, last = now + seconds, [(row, -1)]
            if not self.is_call(step):
                there |= dict.fromkeys(arrays.writes[v].tolist(), row)
        for tensor, seconds in step.returned.items():
            carry(tensor, step.device, self._host, seconds)
            there[tensor] = last[0][0]

    def violations(self) -> Iterator[Violation]:
        """What is wrong with the calls and their times."""
        tolerance, steps = TIME_TOLERANCE * self.timeline.end, self.steps
        tensors, places = self.problem.graph.tensor_ids, [device.name for device in self.problem.cluster.devices]
        if self._listed:
            message = f"the schedule lists {counted(self._listed, 'transfer')}; those of calls follow from them"
            yield broken("transfer", message)
        for step in steps:
            for tensor in (t for t, seconds in (*step.fetched.items(), *step.returned.items()) if isnan(seconds)):
                what = f"no link carries {tensors[tensor]!r} between {places[step.device]!r} and the host"
                yield broken("no_link", what)
        caught = [steps[number] for number in sorted(set(range(len(steps))) - set(self.order))]
        if caught:
            which = next(filter(self.is_call, caught), caught[0])
            first = self.problem.graph.operator_ids[which.operators[0]]
            yield broken("contiguous", f"data leave {self._named(which)}, which has {first!r}, and come back into it")
        for tensor, made, read in self.crossing:
            early, what = steps[made].end - steps[read].start, self._named(steps[read])
            if early > tolerance:
                message = f"{what} starts {early:.6g} s before its input {tensors[tensor]!r} is in host memory"
                yield broken("precedence", message, early)
        for place in places:
            yield from self._wrong_calls(place, tolerance)
        yield from self.overfull()

    def _named(self, step: CallStep) -> str:
        names, devices = self.problem.graph.operator_ids, self.problem.cluster.devices
        called = f"the call of {devices[step.device].name!r}"
        return called if self.is_call(step) else repr(names[step.operators[0]])

    def _wrong_calls(self, place: str, tolerance: float) -> Iterator[Violation]:
        """Check that an accelerator does not have too many calls, and that none begins during another."""
        number, most = self.problem.cluster.device_index[place], self.problem.max_calls
        calls = [step for step in self.steps if self.is_call(step) and step.device == number]
        if most is not None and len(calls) > most:
            message = f"{place!r} has {len(calls)} calls: more than max_calls={most}"
            yield broken("calls", message, float(len(calls) - most))
        latest = -inf
        for step in sorted(calls, key=lambda step: (step.start, step.end)):
            if latest - step.start > tolerance:
                message = f"{place!r} begins a call at {step.start:.6g} s, during another"
                yield broken("overlap", message, latest - step.start)
            latest = max(latest, step.end)
