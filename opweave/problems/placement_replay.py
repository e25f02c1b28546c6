"""The referee of placement: replays operators on devices and transfers on ports, rule by rule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from opweave.problems.activity import Activity, in_time
from opweave.problems.costs import MAX_SECONDS
from opweave.problems.device_replay import (
    Arrival,
    Event,
    Line,
    Need,
    Route,
    Work,
    critical_path,
    early_starts,
    overfull,
    overlaps,
    ranks,
    sending,
    table_of,
    timelines,
    unknown_ends,
    wrong_times,
)
from opweave.problems.placement_details import PlacementDetails
from opweave.problems.solution import TIME_TOLERANCE, Evaluation, Violation
from opweave.problems.spec import FrozenDict

if TYPE_CHECKING:
    from opweave.problems.constraints import Precede
    from opweave.problems.placement import Placement, Schedule, Transfer


def replay(problem: Placement, solution: Schedule) -> Evaluation[PlacementDetails]:
    """Judge everything but the side constraints."""
    unusable = list(_unusable(problem, solution))
    if unusable:
        return Evaluation(objective=None, violations=tuple(unusable))
    played = _Replay(problem, solution)
    return Evaluation(objective=played.makespan, violations=tuple(played.violations()), details=played.details())


def opposite_demanded(asked: Precede) -> str:
    """Say that nothing can obey a rule."""
    return (
        f"operator {asked.before!r} shall end before {asked.after!r} begins, but data or other such rules demand the "
        "opposite"
    )


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
        elif device in costs and solution.start[name] + costs[device] > MAX_SECONDS:
            yield Violation(
                rule="unknown", message=f"{name!r} ends after {MAX_SECONDS:.0e} s, which is too late to count"
            )
    for sent in solution.transfers:
        if sent.tensor not in tensors:
            yield Violation(rule="unknown", message=f"a transfer sends {sent.tensor!r}, which the graph does not have")
        if sent.consumer is not None and sent.consumer not in operators:
            yield Violation(
                rule="unknown", message=f"{sent.tensor!r} is sent for {sent.consumer!r}, which is no operator"
            )
        yield from unknown_ends(problem.cluster, sent.tensor, sent.source, sent.target)


@dataclass(frozen=True, slots=True)
class _Need(Need):
    """With the operators that read on the target device."""

    readers: tuple[str, ...]


class _Replay:
    """Lets operators and transfers happen when the schedule says, and looks whether they could."""

    def __init__(self, problem: Placement, solution: Schedule) -> None:
        self._problem = problem
        self._device = dict(solution.device)
        self._memory = problem.memory_by_device(solution)
        self._has_ports = problem.transfers != "delay"
        self._rank = ranks(problem.graph)
        self._work = {name: Work(name, device) for name, device in self._device.items()}
        self._runs: dict[Work, Event] = {
            self._work[name]: Activity(self._work[name], self._rank[name], *when)
            for name, when in problem.intervals(solution).items()
        }
        self.makespan = max((event.end for event in self._runs.values()), default=0.0)
        self._tolerance = TIME_TOLERANCE * self.makespan
        self._needs = self._needed()
        self._listed = [(sent, self._sending(_route(sent), sent.start, sent.end)) for sent in solution.transfers]
        self._sent: dict[Route, list[Event]] = {}
        for sent, event in self._listed:
            self._sent.setdefault(_route(sent), []).append(event)
        self._unlisted = {} if self._has_ports else dict(self._delays())

    def _sending(self, route: Route, start: float, end: float) -> Event:
        return sending(self._problem.graph, self._rank, route, start, end)

    def _delays(self) -> Iterator[tuple[Route, Event]]:
        """Without ports every transfer starts the moment its tensor is there, listed or not."""
        for route, need in self._needs.items():
            if need.seconds is not None:
                made = self._runs[need.producer].end
                yield route, self._sending(route, made, made + need.seconds)

    def _needed(self) -> dict[Route, _Need]:
        graph, cluster = self._problem.graph, self._problem.cluster
        readers: dict[Route, list[str]] = {}
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
            needs[route] = _Need(self._work[graph.producer[route.tensor]], size, seconds, tuple(names))
        return needs

    def _route_to(self, tensor: str, producer: str, reader: str) -> Route:
        consumer = reader if self._problem.transfers == "one_port_edge" else None
        return Route(tensor, consumer, self._device[producer], self._device[reader])

    def _need(self, route: Route) -> _Need | None:
        """The need that a listed transfer meets; None for a needless one."""
        need = self._needs.get(route)
        if need is None and not self._has_ports and route.consumer is not None:
            # transfers that nobody has to list may be listed in either way: for one reader, or for all of a device
            shared = self._needs.get(Route(route.tensor, None, route.source, route.target))
            need = shared if shared is not None and route.consumer in shared.readers else None
        return need

    def violations(self) -> Iterator[Violation]:
        """Whatever is wrong, rule by rule."""
        yield from self._wrong_transfers()
        yield from early_starts(self._arrivals(), self._runs, self._tolerance)
        for device, runs in self._timelines.items():
            yield from overlaps("overlap", f"device {device!r} runs", runs, self._tolerance)
        if self._has_ports:
            sends, receives = self._port_timelines
            for device, line in sends.items():
                yield from overlaps("port", f"device {device!r} sends", line, self._tolerance)
            for device, line in receives.items():
                yield from overlaps("port", f"device {device!r} receives", line, self._tolerance)
        yield from overfull(self._problem.cluster, self._memory)
        if self._problem.turned_round is not None:
            yield Violation(rule="precedence", message=opposite_demanded(self._problem.turned_round))

    def _wrong_transfers(self) -> Iterator[Violation]:
        """Every needed transfer once, none that is needless, each as long as it takes and after its producer."""
        for route, need in self._needs.items():
            if need.seconds is None:
                yield Violation(rule="no_link", message=f"no link or chain of links can carry {route}")
            elif self._has_ports and route not in self._sent:
                yield Violation(rule="transfer", message=f"the schedule never sends {route}")
        for route, events in self._sent.items():
            found = self._need(route)
            if found is None:
                yield Violation(rule="transfer", message=f"nobody needs {route}")
                continue
            if len(events) > 1:
                yield Violation(rule="transfer", message=f"the schedule sends {route} {len(events)} times")
            for event in events:
                yield from wrong_times(event, self._runs[found.producer], found.seconds, self._tolerance)

    def _arrivals(self) -> Iterator[Arrival]:
        """Operator, its input, and what must have ended before it may start."""
        graph = self._problem.graph
        for op in graph.operators:
            for tensor in dict.fromkeys(op.inputs):
                producer = graph.producer.get(tensor)
                if producer is None:
                    continue
                made = self._runs[self._work[producer]]
                if self._device[producer] == self._device[op.id]:
                    yield Arrival(self._work[op.id], tensor, [made])
                    continue
                route = self._route_to(tensor, producer, op.id)
                sent = [*self._sent.get(route, ())]
                if not self._has_ports:
                    sent += self._sent.get(Route(tensor, op.id, route.source, route.target), ())
                    sent += [self._unlisted[route]] if route in self._unlisted else []
                yield Arrival(self._work[op.id], tensor, [*sent, made])

    @cached_property
    def _timelines(self) -> dict[str, list[Event]]:
        return timelines(self._problem.cluster, self._runs.values())

    @cached_property
    def _port_timelines(self) -> tuple[dict[str, list[Event]], dict[str, list[Event]]]:
        """What every device sends, and what it receives."""
        sends: dict[str, list[Event]] = {device.name: [] for device in self._problem.cluster.devices}
        receives: dict[str, list[Event]] = {device.name: [] for device in self._problem.cluster.devices}
        for sent, activity in self._listed:
            sends[sent.source].append(activity)
            receives[sent.target].append(activity)
        return (
            {device: in_time(activities) for device, activities in sends.items()},
            {device: in_time(activities) for device, activities in receives.items()},
        )

    def details(self) -> PlacementDetails:
        """Everything that can be measured."""
        return PlacementDetails(
            makespan=self.makespan,
            ends=FrozenDict({work.operator: event.end for work, event in self._runs.items()}),
            **table_of(self._problem.cluster, self._runs.values(), self._needs, self.makespan),
            memory_bytes=FrozenDict(self._memory),
            memory_limits=FrozenDict(self._problem.memory_limits),
            transfer_count=len(self._needs),
            critical_path=critical_path(self._runs, dict(self._travelling()), self._arrivals(), self._lines()),
        )

    def _travelling(self) -> Iterator[tuple[Event, Work | None]]:
        """All transfers, with the operators that make their tensors."""
        listed = [(_route(sent), event) for sent, event in self._listed]
        for route, event in (*self._unlisted.items(), *listed):
            producer = self._problem.graph.producer.get(route.tensor)
            yield event, None if producer is None else self._work[producer]

    def _lines(self) -> Iterator[Line]:
        for runs in self._timelines.values():
            yield "device", runs
        if self._has_ports:
            sends, receives = self._port_timelines
            for line in sends.values():
                yield "send_port", line
            for line in receives.values():
                yield "receive_port", line


def _route(sent: Transfer) -> Route:
    return Route(sent.tensor, sent.consumer, sent.source, sent.target)
