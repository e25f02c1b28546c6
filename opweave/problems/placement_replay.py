"""The referee of placement: replays operators on devices and transfers on ports, rule by rule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from opweave.problems.activity import Activity, clashes, in_time
from opweave.problems.graph_arrays import topological_order
from opweave.problems.placement_details import CriticalStep, PlacementDetails, Wait
from opweave.problems.solution import TIME_TOLERANCE, Evaluation, Violation
from opweave.problems.spec import FrozenDict

if TYPE_CHECKING:
    from opweave.problems.placement import Placement, Schedule, Transfer


def replay(problem: Placement, solution: Schedule) -> Evaluation[PlacementDetails]:
    """Judge everything but the side constraints."""
    unusable = list(_unusable(problem, solution))
    if unusable:
        return Evaluation(objective=None, violations=tuple(unusable))
    played = _Replay(problem, solution)
    return Evaluation(objective=played.makespan, violations=tuple(played.violations()), details=played.details())


def _unusable(problem: Placement, solution: Schedule) -> Iterator[Violation]:
    """Every operator on a device that can run it, with a start; no names that do not exist."""
    operators, devices, tensors = problem.known_seconds, problem.cluster.device_index, problem.graph.tensor_index
    for name in dict.fromkeys((*solution.device, *solution.start)):
        if name not in operators:
            yield Violation(rule="unknown", message=f"{name!r} is not an operator of the graph")
    for name, costs in operators.items():
        device = solution.device.get(name)
        if device is None:
            yield Violation(rule="missing", message=f"{name!r} has no device")
        elif device not in devices:
            yield Violation(rule="unknown", message=f"{name!r} runs on {device!r}, which the cluster does not have")
        elif device not in costs:
            yield Violation(rule="device", message=f"{name!r} cannot run on {device!r}: its time there is not known")
        if name not in solution.start:
            yield Violation(rule="missing", message=f"{name!r} has no start")
    for sent in solution.transfers:
        if sent.tensor not in tensors:
            yield Violation(rule="unknown", message=f"a transfer sends {sent.tensor!r}, which the graph does not have")
        if sent.consumer is not None and sent.consumer not in operators:
            yield Violation(
                rule="unknown", message=f"{sent.tensor!r} is sent for {sent.consumer!r}, which is no operator"
            )
        for device in dict.fromkeys((sent.source, sent.target)):
            if device not in devices:
                yield Violation(
                    rule="unknown",
                    message=f"a transfer of {sent.tensor!r} names device {device!r}, which the cluster does not have",
                )


class _Route(NamedTuple):
    """What tells one transfer from another."""

    tensor: str
    consumer: str | None
    source: str
    target: str

    def __str__(self) -> str:
        reader = "" if self.consumer is None else f" for {self.consumer!r}"
        return f"tensor {self.tensor!r} from {self.source!r} to {self.target!r}{reader}"


@dataclass(frozen=True, slots=True)
class _Need:
    """A transfer that the chosen devices make necessary; ``seconds`` is None where no link leads."""

    producer: str
    readers: tuple[str, ...]
    bytes: int
    seconds: float | None


_Activity = Activity[str | _Route]


def _activity(what: str | _Route, rank: int, start: float, end: float) -> _Activity:
    return Activity(what, rank, start, end)


class _Replay:
    """Lets operators and transfers happen when the schedule says, and looks whether they could."""

    def __init__(self, problem: Placement, solution: Schedule) -> None:
        self._problem = problem
        self._device = dict(solution.device)
        self._memory = problem.memory_by_device(solution)
        self._has_ports = problem.transfers != "delay"
        intervals = problem.intervals(solution)
        self._rank = _ranks(problem)
        self._operators = {name: _activity(name, self._rank[name], *when) for name, when in intervals.items()}
        self.makespan = max((activity.end for activity in self._operators.values()), default=0.0)
        self._tolerance = TIME_TOLERANCE * self.makespan
        self._needs = self._needed()
        self._listed = [(sent, self._travel(_route(sent), sent.start, sent.end)) for sent in solution.transfers]
        self._sent: dict[_Route, list[_Activity]] = {}
        for sent, activity in self._listed:
            self._sent.setdefault(_route(sent), []).append(activity)
        self._unlisted = {} if self._has_ports else dict(self._delays())

    def _travel(self, route: _Route, start: float, end: float) -> _Activity:
        producer = self._problem.graph.producer.get(route.tensor)
        return Activity(route, 0 if producer is None else self._rank[producer] + 1, start, end)

    def _delays(self) -> Iterator[tuple[_Route, _Activity]]:
        """Without ports every transfer starts the moment its tensor is there, listed or not."""
        for route, need in self._needs.items():
            if need.seconds is not None:
                made = self._operators[need.producer].end
                yield route, self._travel(route, made, made + need.seconds)

    def _needed(self) -> dict[_Route, _Need]:
        graph, cluster = self._problem.graph, self._problem.cluster
        readers: dict[_Route, list[str]] = {}
        for op in graph.operators:
            for tensor in dict.fromkeys(op.inputs):
                producer = graph.producer.get(tensor)
                if producer is not None and self._device[producer] != self._device[op.id]:
                    readers.setdefault(self._route_to(tensor, producer, op.id), []).append(op.id)
        unlinked = set(cluster.unreachable_pairs)
        needs = {}
        for route, names in readers.items():
            size = graph.tensors[graph.tensor_index[route.tensor]].bytes
            linked = (route.source, route.target) not in unlinked
            seconds = cluster.transfer_seconds(size, route.source, route.target) if linked else None
            needs[route] = _Need(graph.producer[route.tensor], tuple(names), size, seconds)
        return needs

    def _route_to(self, tensor: str, producer: str, reader: str) -> _Route:
        consumer = reader if self._problem.transfers == "one_port_edge" else None
        return _Route(tensor, consumer, self._device[producer], self._device[reader])

    def _need(self, route: _Route) -> _Need | None:
        """The need that a listed transfer meets; None for a needless one."""
        need = self._needs.get(route)
        if need is None and not self._has_ports and route.consumer is not None:
            # transfers that nobody has to list may be listed in either way: for one reader, or for all of a device
            shared = self._needs.get(_Route(route.tensor, None, route.source, route.target))
            need = shared if shared is not None and route.consumer in shared.readers else None
        return need

    def violations(self) -> Iterator[Violation]:
        """Whatever is wrong, rule by rule."""
        yield from self._wrong_transfers()
        yield from self._early_starts()
        timelines = [("overlap", f"device {name!r} runs", runs) for name, runs in self._device_timelines.items()]
        if self._has_ports:
            sends, receives = self._port_timelines
            timelines += [("port", f"device {name!r} sends", sent) for name, sent in sends.items()]
            timelines += [("port", f"device {name!r} receives", received) for name, received in receives.items()]
        for rule, who_does, activities in timelines:
            for first, second, shared in clashes(activities, self._tolerance):
                yield Violation(rule=rule, message=f"{who_does} {first} and {second} at the same time", excess=shared)
        yield from self._overfull()

    def _wrong_transfers(self) -> Iterator[Violation]:
        """Every needed transfer once, none that is needless, each as long as it takes and after its producer."""
        for route, need in self._needs.items():
            if need.seconds is None:
                yield Violation(rule="no_link", message=f"no link or chain of links can carry {route}")
            elif self._has_ports and route not in self._sent:
                yield Violation(rule="transfer", message=f"the schedule never sends {route}")
        for route, activities in self._sent.items():
            found = self._need(route)
            if found is None:
                yield Violation(rule="transfer", message=f"nobody needs {route}")
                continue
            if len(activities) > 1:
                yield Violation(rule="transfer", message=f"the schedule sends {route} {len(activities)} times")
            for activity in activities:
                yield from self._wrong_times(activity, found)

    def _wrong_times(self, activity: _Activity, need: _Need) -> Iterator[Violation]:
        early = self._operators[need.producer].end - activity.start
        if early > self._tolerance:
            message = f"{activity} starts {early:.6g} s before {need.producer!r} has made it"
            yield Violation(rule="precedence", message=message, excess=early)
        lasts = activity.end - activity.start
        if need.seconds is not None and abs(lasts - need.seconds) > self._tolerance:
            message = f"{activity} takes {need.seconds:.6g} s, not {lasts:.6g} s"
            yield Violation(rule="transfer", message=message, excess=abs(lasts - need.seconds))

    def _early_starts(self) -> Iterator[Violation]:
        """No operator before its inputs are on its device."""
        for reader, tensor, sources in self._arrivals():
            arrived = max(source.end for source in sources)
            early = arrived - self._operators[reader].start
            if early > self._tolerance:
                message = (
                    f"{reader!r} starts at {self._operators[reader].start:.6g} s, but its input {tensor!r} is on "
                    f"{self._device[reader]!r} only from {arrived:.6g} s"
                )
                yield Violation(rule="precedence", message=message, excess=early)

    def _arrivals(self) -> Iterator[tuple[str, str, list[_Activity]]]:
        """Operator, its input, and what must have ended before it may start."""
        graph = self._problem.graph
        for op in graph.operators:
            for tensor in dict.fromkeys(op.inputs):
                producer = graph.producer.get(tensor)
                if producer is None:
                    continue
                made = self._operators[producer]
                if self._device[producer] == self._device[op.id]:
                    yield op.id, tensor, [made]
                    continue
                route = self._route_to(tensor, producer, op.id)
                sent = [*self._sent.get(route, ())]
                if not self._has_ports:
                    sent += self._sent.get(_Route(tensor, op.id, route.source, route.target), ())
                    sent += [self._unlisted[route]] if route in self._unlisted else []
                yield op.id, tensor, [*sent, made]

    @cached_property
    def _device_timelines(self) -> dict[str, list[_Activity]]:
        runs: dict[str, list[_Activity]] = {device.name: [] for device in self._problem.cluster.devices}
        for name, activity in self._operators.items():
            runs[self._device[name]].append(activity)
        return {device: in_time(activities) for device, activities in runs.items()}

    @cached_property
    def _port_timelines(self) -> tuple[dict[str, list[_Activity]], dict[str, list[_Activity]]]:
        """What every device sends, and what it receives."""
        sends: dict[str, list[_Activity]] = {device.name: [] for device in self._problem.cluster.devices}
        receives: dict[str, list[_Activity]] = {device.name: [] for device in self._problem.cluster.devices}
        for sent, activity in self._listed:
            sends[sent.source].append(activity)
            receives[sent.target].append(activity)
        return (
            {device: in_time(activities) for device, activities in sends.items()},
            {device: in_time(activities) for device, activities in receives.items()},
        )

    def _overfull(self) -> Iterator[Violation]:
        used = self._memory
        for device in self._problem.cluster.devices:
            if device.memory_bytes is not None and used[device.name] > device.memory_bytes:
                excess = used[device.name] - device.memory_bytes
                message = (
                    f"device {device.name!r} holds {used[device.name]:,} bytes: {excess:,} over its memory of "
                    f"{device.memory_bytes:,}"
                )
                yield Violation(rule="memory", message=message, excess=float(excess))

    def details(self) -> PlacementDetails:
        """Everything that can be measured."""
        devices = [device.name for device in self._problem.cluster.devices]
        busy, send, receive = (dict.fromkeys(devices, 0.0) for _ in range(3))
        bytes_in, bytes_out = dict.fromkeys(devices, 0), dict.fromkeys(devices, 0)
        for name, activity in self._operators.items():
            busy[self._device[name]] += activity.end - activity.start
        for route, need in self._needs.items():
            send[route.source] += need.seconds or 0.0
            receive[route.target] += need.seconds or 0.0
            bytes_out[route.source] += need.bytes
            bytes_in[route.target] += need.bytes
        return PlacementDetails(
            makespan=self.makespan,
            ends=FrozenDict({name: activity.end for name, activity in self._operators.items()}),
            busy_seconds=FrozenDict(busy),
            idle_seconds=FrozenDict({name: max(0.0, self.makespan - seconds) for name, seconds in busy.items()}),
            send_seconds=FrozenDict(send),
            receive_seconds=FrozenDict(receive),
            bytes_in=FrozenDict(bytes_in),
            bytes_out=FrozenDict(bytes_out),
            memory_bytes=FrozenDict(self._memory),
            memory_limits=FrozenDict(self._problem.memory_limits),
            transfer_count=len(self._needs),
            critical_path=self._critical_path(),
        )

    def _critical_path(self) -> tuple[CriticalStep, ...]:
        """Walk back from the last end, always to what ended last of all that had to end before."""
        before = self._blockers()
        current: _Activity | None = max(self._operators.values(), key=lambda activity: activity.end, default=None)
        path: list[CriticalStep] = []
        seen: set[_Activity] = set()  # in a schedule that breaks the rules it could lead in a circle
        while current is not None:
            seen.add(current)
            open_ = [(wait, other) for wait, other in before.get(current, ()) if other not in seen]
            if not open_:
                path.append(self._step(current, "nothing"))
                break
            wait, previous = max(open_, key=lambda pair: pair[1].end)
            path.append(self._step(current, wait))
            current = previous
        return tuple(reversed(path))

    def _blockers(self) -> dict[_Activity, list[tuple[Wait, _Activity]]]:
        """What had to end before each activity, its data first."""
        before: dict[_Activity, list[tuple[Wait, _Activity]]] = {}
        for reader, _, sources in self._arrivals():
            before.setdefault(self._operators[reader], []).extend(("data", source) for source in sources)
        for activity in (*self._unlisted.values(), *(activity for _, activity in self._listed)):
            assert isinstance(activity.what, _Route)
            producer = self._problem.graph.producer.get(activity.what.tensor)
            before[activity] = [] if producer is None else [("data", self._operators[producer])]
        lines: list[tuple[Wait, list[_Activity]]] = [("device", runs) for runs in self._device_timelines.values()]
        if self._has_ports:
            sends, receives = self._port_timelines
            lines += [("send_port", sent) for sent in sends.values()]
            lines += [("receive_port", received) for received in receives.values()]
        for wait, line in lines:
            for earlier, later in pairwise(line):
                before.setdefault(later, []).append((wait, earlier))
        return before

    def _step(self, activity: _Activity, wait: Wait) -> CriticalStep:
        what = activity.what
        if isinstance(what, str):
            device = self._device[what]
            return CriticalStep(
                operator=what, source=device, target=device, start=activity.start, end=activity.end, waited_for=wait
            )
        return CriticalStep(
            tensor=what.tensor,
            consumer=what.consumer,
            source=what.source,
            target=what.target,
            start=activity.start,
            end=activity.end,
            waited_for=wait,
        )


def _route(sent: Transfer) -> _Route:
    return _Route(sent.tensor, sent.consumer, sent.source, sent.target)


def _ranks(problem: Placement) -> dict[str, int]:
    """Position of every operator along the data, times two: room for its transfers in between."""
    order = topological_order(problem.graph.arrays.successors).tolist()
    return {problem.graph.operators[index].id: 2 * rank for rank, index in enumerate(order)}
