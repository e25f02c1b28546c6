"""What programs of placement know of times: messages, windows of operators and messages, and exact times of schedules.

A *message* is a transfer that happens or not, depending on the devices of operators. If a tensor is sent once for each
reader, a message is a flow and may go between any two devices. If it is sent once for all readers on a device, a
message is a tensor and that device. Without ports there is nothing to decide about transfers, so there are no messages.
A *window* holds the times of an operator or message in any schedule that is no longer than a known one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from opweave.formulations.modeling.model import FIT
from opweave.formulations.order_arcs import Activity, earliest_starts
from opweave.formulations.placement.instance import PlacementInstance
from opweave.problems.arrays import NO_LIMIT, BoolArray, FloatArray, IntArray
from opweave.problems.graph_arrays import Adjacency, topological_order
from opweave.problems.placement.spec import Schedule, Transfer, TransferModel
from opweave.problems.spec import FrozenDict


@dataclass(frozen=True, slots=True)
class Route:
    """From one device to another, with the seconds that the message takes."""

    source: int
    target: int
    seconds: float

    @property
    def ports(self) -> tuple[tuple[str, int], tuple[str, int]]:
        """Out of one device, and into the other."""
        return ("out", self.source), ("in", self.target)


@dataclass(frozen=True, slots=True)
class Message:
    """A transfer that happens if its producer and one of its readers run at the two ends of a route.

    Attributes
    ----------
    tensor, producer
        Positions of the tensor and of the operator that makes it.
    flows, readers
        The flows that it serves, and the operators that read it, in the same order.
    routes
        The routes that it can take; it takes at most one.
    target
        The device to which it goes, if that is settled; otherwise -1.
    """

    tensor: int
    producer: int
    flows: tuple[int, ...]
    readers: tuple[int, ...]
    routes: tuple[Route, ...]
    target: int

    def route(self, device: list[int]) -> Route | None:
        """The route for given devices of the operators; None if the message is not needed."""
        source = device[self.producer]
        for reader in self.readers:
            target = device[reader]
            if target != source and self.target in (-1, target):
                return next((way for way in self.routes if (way.source, way.target) == (source, target)), None)
        return None


def messages_of(
    instance: PlacementInstance, transfers: TransferModel, *, longest: float = np.inf
) -> tuple[Message, ...]:
    """Every message that some assignment of devices needs; flows between tied operators need none.

    Routes that take more than ``longest`` seconds are given that duration.
    """
    apart = instance.cluster[instance.source] != instance.cluster[instance.target]
    flows = np.flatnonzero(apart).tolist()
    if transfers == "delay":
        return ()
    linked = links(instance)
    if transfers == "one_port_edge":
        found = [_message(instance, linked, (flow,), -1, longest) for flow in flows]
    else:
        readers: dict[int, list[int]] = defaultdict(list)
        for flow in flows:
            readers[int(instance.tensor[flow])].append(flow)
        found = [
            _message(instance, linked, _able(instance, group, k), k, longest)
            for group in readers.values()
            for k in range(len(instance.devices))
        ]
    return tuple(message for message in found if message.routes)


def links(instance: PlacementInstance) -> BoolArray:
    """Whether each device can send to each other device. Shape (devices, devices)."""
    return np.isfinite(instance.latency)


def flow_seconds(instance: PlacementInstance, *, longest: float = np.inf) -> FloatArray:
    """Seconds of every flow between every two devices, at most ``longest``; inf if nothing can be sent."""
    return np.where(links(instance), np.minimum(instance.transfer(), longest), np.inf)


def _able(instance: PlacementInstance, flows: list[int], device: int) -> tuple[int, ...]:
    return tuple(flow for flow in flows if np.isfinite(instance.seconds[instance.target[flow], device]))


def _message(
    instance: PlacementInstance, linked: BoolArray, flows: tuple[int, ...], target: int, longest: float
) -> Message:
    if not flows:
        return Message(-1, -1, (), (), (), target)
    able = np.isfinite(instance.seconds)
    producer = int(instance.source[flows[0]])
    readers = tuple(int(instance.target[flow]) for flow in flows)
    targets = [target] if target >= 0 else np.flatnonzero(able[readers[0]]).tolist()
    size = float(instance.size[flows[0]])
    routes = tuple(
        Route(q, k, float(min(longest, instance.latency[q, k] + size * instance.seconds_per_byte[q, k])))
        for q in np.flatnonzero(able[producer]).tolist()
        for k in targets
        if q != k and linked[q, k]
    )
    return Message(int(instance.tensor[flows[0]]), producer, flows, readers, routes, target)


def retimed(
    transfers: TransferModel,
    instance: PlacementInstance,
    messages: Sequence[Message],
    device: list[int],
    start: FloatArray,
    sent: FloatArray,
    release: FloatArray | None = None,
) -> Schedule:
    """The schedule with the same devices and the same order.

    Parameters
    ----------
    transfers, instance, messages
        The kind of transfers, the problem as arrays, and the messages about which the model decides.
    device
        Device of every operator.
    start, sent
        Approximate start of every operator and message, in seconds; starts of needless messages do not matter.
    release
        Earliest start of every operator, if rows beyond the problem's own may make operators wait.
    """
    if transfers == "delay":  # a schedule shows one copy per device
        messages = messages_of(instance, "one_port_tensor")
        sent = np.zeros(len(messages))
    # Activities are numbered: operators first, then messages.
    count, names, devices = instance.operators, instance.names, instance.devices
    rank = np.argsort(topological_order(instance.after)).tolist()
    after = np.zeros(count) if release is None else release
    activities = {
        v: Activity(float(instance.seconds[v, k]), float(start[v]), rank[v], [("on", k)], float(after[v]))
        for v, k in enumerate(device)
    }
    before = {v: [(u, 0.0) for u in instance.before[v].tolist()] for v in range(count)}
    routes = {count + m: way for m, each in enumerate(messages) if (way := each.route(device)) is not None}
    for number, way in routes.items():
        message = messages[number - count]
        ports = () if transfers == "delay" else way.ports
        activities[number] = Activity(way.seconds, float(sent[number - count]), rank[message.producer], ports)
        before[number] = [(message.producer, 0.0)]
        for reader in dict.fromkeys(message.readers):
            if way.target == device[reader]:
                before[reader].append((number, 0.0))
    begin = earliest_starts(activities, before)
    return Schedule(
        device=FrozenDict({name: devices[k] for name, k in zip(names, device, strict=True)}),
        start=FrozenDict({name: begin[v] for v, name in enumerate(names)}),
        transfers=tuple(
            Transfer(
                tensor=instance.tensors[messages[number - count].tensor],
                consumer=names[messages[number - count].readers[0]] if transfers == "one_port_edge" else None,
                source=devices[way.source],
                target=devices[way.target],
                start=begin[number],
                end=begin[number] + way.seconds,
            )
            for number, way in routes.items()
        ),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Timetable:
    """The times of all activities, in seconds.

    Attributes
    ----------
    device, start, end
        Device, start and end of every operator.
    ways
        The route of every message; None if it is not needed.
    sent
        Start of every message; if it is not needed, the end of its producer.
    """

    device: list[int]
    start: FloatArray
    end: FloatArray
    ways: list[Route | None]
    sent: FloatArray


def timetable(instance: PlacementInstance, messages: Sequence[Message], solution: Schedule) -> Timetable:
    """Read a schedule that obeys the problem."""
    position = {name: k for k, name in enumerate(instance.devices)}
    device = [position[solution.device[name]] for name in instance.names]
    start = np.asarray([solution.start[name] for name in instance.names], dtype=np.float64)
    end = start + instance.seconds[np.arange(len(device)), device] if device else start
    listed = {(sent.tensor, sent.consumer, sent.source, sent.target): sent.start for sent in solution.transfers}
    ways = [message.route(device) for message in messages]
    sent = np.asarray([end[message.producer] for message in messages], dtype=np.float64)
    for number, (message, way) in enumerate(zip(messages, ways, strict=True)):
        if way is not None:
            reader = instance.names[message.readers[0]] if message.target < 0 else None
            key = (instance.tensors[message.tensor], reader, instance.devices[way.source], instance.devices[way.target])
            sent[number] = listed.get(key, sent[number])
    return Timetable(device, start, end, ways, sent)


HOPELESS = 4.0
"""Longest duration of a transfer in models, as a multiple of the horizon."""


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Windows in seconds.

    Attributes
    ----------
    head
        Earliest start of every operator on every device; inf if it cannot run there. Shape (operators, devices).
    tail
        Least time from an operator's end on a device to the end of the schedule. Shape (operators, devices).
    horizon
        No schedule of interest ends later.
    """

    instance: PlacementInstance
    head: FloatArray
    tail: FloatArray
    horizon: float

    @property
    def hopeless(self) -> float:
        """A duration in seconds that no transfer of a schedule of interest reaches; in models it replaces longer ones.

        Engines lose digits, or refuse a model, if a transfer takes 1e12 times the horizon.
        """
        return HOPELESS * (self.horizon or 1.0)

    @property
    def through(self) -> FloatArray:
        """Length of the longest path through every operator on every device. Shape (operators, devices)."""
        return self.head + self.instance.seconds + self.tail

    @property
    def fits(self) -> BoolArray:
        """Whether an operator on a device can be part of a schedule of interest. Shape (operators, devices)."""
        room: BoolArray = self.through <= self.horizon * (1 + FIT)
        return room

    @property
    def critical_path(self) -> float:
        """A lower bound of the makespan."""
        return float(self.through.min(axis=1, initial=np.inf).max(initial=0.0))

    def earliest(self) -> FloatArray:
        """Earliest start of every operator."""
        return np.asarray(self.head.min(axis=1, initial=np.inf))

    def earliest_end(self) -> FloatArray:
        """Earliest end of every operator."""
        return np.asarray((self.head + self.instance.seconds).min(axis=1, initial=np.inf))

    def latest_end(self) -> FloatArray:
        """Latest end of every operator."""
        return np.asarray(self.horizon - self.tail.min(axis=1, initial=np.inf))

    def latest_start(self) -> FloatArray:
        """Latest start of every operator."""
        return np.asarray(self.horizon - (self.tail + self.instance.seconds).min(axis=1, initial=np.inf))

    def message_due(self, message: Message) -> float:
        """Latest end of a message that is needed."""
        after = self.instance.seconds + self.tail
        ends = {route.target for route in message.routes}
        left = min(float(after[reader, k]) for reader in message.readers for k in ends)
        return self.horizon - (left if np.isfinite(left) else 0.0)


def windows_of(instance: PlacementInstance, ceiling: float | None) -> Windows:
    """Compute heads and tails by longest paths, with devices and transfers but without contention.

    Parameters
    ----------
    instance
        The problem as arrays.
    ceiling
        Length of a known schedule; if None, a length that semi-active schedules never exceed.
    """
    transfer, order = flow_seconds(instance), topological_order(instance.after).tolist()
    head = _longest(instance, order, instance.before, (instance.incoming, instance.source), transfer)
    back = transfer.transpose(0, 2, 1)
    tail = _longest(instance, order[::-1], instance.after, (instance.outgoing, instance.target), back)
    able = np.isfinite(instance.seconds)
    horizon = serial_length(instance) if ceiling is None else ceiling
    return Windows(instance, np.where(able, head, np.inf), np.where(able, tail, np.inf), horizon)


def _longest(
    instance: PlacementInstance,
    order: list[int],
    before: Adjacency,
    flows: tuple[Adjacency, IntArray],
    transfer: FloatArray,
) -> FloatArray:
    """The longest path to every operator on every device, given its predecessors, and its flows with their ends."""
    longest, (into, ends) = np.zeros_like(instance.seconds), flows
    for v in order:
        for u in before[v].tolist():
            np.maximum(longest[v], (longest[u] + instance.seconds[u]).min(), out=longest[v])
        for f in into[v].tolist():
            u = int(ends[f])
            arrival = (longest[u] + instance.seconds[u])[:, None] + transfer[f]
            if instance.cluster[u] == instance.cluster[v]:
                arrival = np.diagonal(arrival)[None, :]
            np.maximum(longest[v], arrival.min(axis=0), out=longest[v])
    return longest


def serial_length(instance: PlacementInstance) -> float:
    """Upper bound of schedules without needless waiting: all activities one after the other, at their slowest."""
    able = np.where(np.isfinite(instance.seconds), instance.seconds, 0.0)
    sent = flow_seconds(instance)
    sent = np.where(np.isfinite(sent), sent, 0.0)
    return float(able.max(axis=1, initial=0.0).sum() + sent.max(axis=(1, 2), initial=0.0).sum())


def single_device_length(instance: PlacementInstance) -> float | None:
    """The shortest schedule on one device that can run and hold everything; None if there is no such device."""
    used = {int(p) for p in instance.parameters.items}
    needed = int(instance.memory.sum()) + sum(int(instance.parameter_bytes[p]) for p in used)
    able = np.isfinite(instance.seconds).all(axis=0) & ((instance.capacity == NO_LIMIT) | (instance.capacity >= needed))
    total = instance.seconds.sum(axis=0)
    return float(total[able].min()) if able.any() else None
