"""What the referees of placement and of batched mapping do alike: runs on devices, transfers, and the critical path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypedDict

from opweave.problems.activity import Activity, clashes, in_time
from opweave.problems.cluster import Cluster
from opweave.problems.device_details import CriticalStep, Wait
from opweave.problems.graph import OpGraph
from opweave.problems.graph_arrays import topological_order
from opweave.problems.solution import Violation
from opweave.problems.spec import FrozenDict, Name, Seconds


class Work(NamedTuple):
    """An operator on a device."""

    operator: str
    device: str

    def __str__(self) -> str:
        return f"{self.operator!r} on {self.device!r}"


class Route(NamedTuple):
    """What tells one transfer from another; ``consumer`` is None where one transfer serves all readers of a device."""

    tensor: str
    consumer: str | None
    source: str
    target: str

    def __str__(self) -> str:
        reader = "" if self.consumer is None else f" for {self.consumer!r}"
        return f"tensor {self.tensor!r} from {self.source!r} to {self.target!r}{reader}"


Event = Activity[Work | Route]
"""Something that runs or is sent."""


@dataclass(frozen=True, slots=True)
class Need:
    """A transfer that a schedule makes necessary; ``seconds`` is None where no link leads."""

    producer: Work
    bytes: int
    seconds: float | None


class Arrival(NamedTuple):
    """What must have ended before a run may start, because it brings or makes one of its inputs."""

    reader: Work
    tensor: str
    sources: list[Event]


Line = tuple[Wait, list[Event]]
"""What happens one after the other, in time, and what it occupies."""


def ranks(graph: OpGraph) -> dict[str, int]:
    """Position of every operator along the data, times two: room for its transfers in between."""
    order = topological_order(graph.arrays.successors).tolist()
    return {graph.operators[index].id: 2 * place for place, index in enumerate(order)}


def sending(graph: OpGraph, rank: Mapping[str, int], route: Route, start: float, end: float) -> Event:
    """A transfer as an event, right behind what makes its tensor in the order of the data."""
    producer = graph.producer.get(route.tensor)
    return Activity(route, 0 if producer is None else rank[producer] + 1, start, end)


def unknown_ends(cluster: Cluster, tensor: str, source: str, target: str) -> Iterator[Violation]:
    """Devices of a listed transfer that do not exist."""
    for device in dict.fromkeys((source, target)):
        if device not in cluster.device_index:
            message = f"a transfer of {tensor!r} names device {device!r}, which the cluster does not have"
            yield Violation(rule="unknown", message=message)


def wrong_times(sent: Event, made: Event, lasts: float | None, tolerance: float) -> Iterator[Violation]:
    """A transfer before its tensor is made, or not as long as it takes (in seconds; None: no link leads)."""
    early = made.end - sent.start
    if early > tolerance:
        message = f"{sent} starts {early:.6g} s before {made} has made it"
        yield Violation(rule="precedence", message=message, excess=early)
    said = sent.end - sent.start
    if lasts is not None and abs(said - lasts) > tolerance:
        message = f"{sent} takes {lasts:.6g} s, not {said:.6g} s"
        yield Violation(rule="transfer", message=message, excess=abs(said - lasts))


def early_starts(arrivals: Iterable[Arrival], runs: Mapping[Work, Event], tolerance: float) -> Iterator[Violation]:
    """Runs that start before their inputs are on their device."""
    for reader, tensor, sources in arrivals:
        arrived, starts = max(source.end for source in sources), runs[reader].start
        if arrived - starts > tolerance:
            message = (
                f"{reader.operator!r} starts at {starts:.6g} s, but its input {tensor!r} is on {reader.device!r} only "
                f"from {arrived:.6g} s"
            )
            yield Violation(rule="precedence", message=message, excess=arrived - starts)


def timelines(cluster: Cluster, runs: Iterable[Event]) -> dict[str, list[Event]]:
    """Runs of every device, in time."""
    lines: dict[str, list[Event]] = {device.name: [] for device in cluster.devices}
    for event in runs:
        assert isinstance(event.what, Work)
        lines[event.what.device].append(event)
    return {device: in_time(events) for device, events in lines.items()}


def overlaps(rule: str, who_does: str, line: list[Event], tolerance: float) -> Iterator[Violation]:
    """Events of a line that happen at the same time; ``who_does`` begins the sentence."""
    for first, second, shared in clashes(line, tolerance):
        message = f"{who_does} {_named(first)} and {_named(second)} at the same time"
        yield Violation(rule=rule, message=message, excess=shared)


def _named(event: Event) -> str:
    return repr(event.what.operator) if isinstance(event.what, Work) else str(event)


def overfull(cluster: Cluster, held: Mapping[str, int]) -> Iterator[Violation]:
    """Devices that hold more bytes than they have."""
    for device in cluster.devices:
        used, limit = held[device.name], device.memory_bytes
        if limit is not None and used > limit:
            message = f"device {device.name!r} holds {used:,} bytes: {used - limit:,} over its memory of {limit:,}"
            yield Violation(rule="memory", message=message, excess=float(used - limit))


class Table(TypedDict):
    """Columns of the table of devices, as the details name them."""

    busy_seconds: FrozenDict[Name, Seconds]
    idle_seconds: FrozenDict[Name, Seconds]
    send_seconds: FrozenDict[Name, Seconds]
    receive_seconds: FrozenDict[Name, Seconds]
    bytes_in: FrozenDict[Name, int]
    bytes_out: FrozenDict[Name, int]


def table_of(cluster: Cluster, runs: Iterable[Event], needs: Mapping[Route, Need], makespan: float) -> Table:
    """What every device computes, sends and receives."""
    names = [device.name for device in cluster.devices]
    busy, send, receive = (dict.fromkeys(names, 0.0) for _ in range(3))
    bytes_in, bytes_out = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    for event in runs:
        assert isinstance(event.what, Work)
        busy[event.what.device] += event.end - event.start
    for route, need in needs.items():
        send[route.source] += need.seconds or 0.0
        receive[route.target] += need.seconds or 0.0
        bytes_out[route.source] += need.bytes
        bytes_in[route.target] += need.bytes
    return Table(
        busy_seconds=FrozenDict(busy),
        idle_seconds=FrozenDict({name: max(0.0, makespan - seconds) for name, seconds in busy.items()}),
        send_seconds=FrozenDict(send),
        receive_seconds=FrozenDict(receive),
        bytes_in=FrozenDict(bytes_in),
        bytes_out=FrozenDict(bytes_out),
    )


def critical_path(
    runs: Mapping[Work, Event], sent: Mapping[Event, Work | None], arrivals: Iterable[Arrival], lines: Iterable[Line]
) -> tuple[CriticalStep, ...]:
    """Walk back from the last end, always to what ended last of all that had to end before.

    Parameters
    ----------
    sent
        Transfers, with what makes their tensors (None for those that nobody makes).
    """
    before: dict[Event, list[tuple[Wait, Event]]] = {}
    for reader, _, sources in arrivals:
        before.setdefault(runs[reader], []).extend(("data", source) for source in sources)
    for event, producer in sent.items():
        before[event] = [] if producer is None else [("data", runs[producer])]
    for occupies, line in lines:
        for earlier, later in pairwise(line):
            before.setdefault(later, []).append((occupies, earlier))
    current: Event | None = max(runs.values(), key=lambda event: event.end, default=None)
    path: list[CriticalStep] = []
    seen: set[Event] = set()  # in a schedule that breaks the rules it could lead in a circle
    while current is not None:
        seen.add(current)
        unseen = [(wait, other) for wait, other in before.get(current, ()) if other not in seen]
        if not unseen:
            path.append(_step(current, "nothing"))
            break
        wait, previous = max(unseen, key=lambda pair: pair[1].end)
        path.append(_step(current, wait))
        current = previous
    return tuple(reversed(path))


def _step(event: Event, wait: Wait) -> CriticalStep:
    what, start, end = event.what, event.start, event.end
    if isinstance(what, Work):
        return CriticalStep(
            operator=what.operator, source=what.device, target=what.device, start=start, end=end, waited_for=wait
        )
    return CriticalStep(
        tensor=what.tensor,
        consumer=what.consumer,
        source=what.source,
        target=what.target,
        start=start,
        end=end,
        waited_for=wait,
    )
