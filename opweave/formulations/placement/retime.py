"""Conversion of a model's times to an exact schedule.

Engines work with tolerances and whole ticks. Only the decisions are taken from them: the device of every operator, and
the order of activities on a device or port. Every activity then starts as soon as that allows, in exact seconds, so the
schedule is no longer than the engine's, up to its tolerance.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from opweave.formulations.placement.instance import PlacementInstance
from opweave.formulations.placement.messages import Message, Route, messages_of
from opweave.problems.arrays import FloatArray
from opweave.problems.graph_arrays import topological_order
from opweave.problems.placement.spec import Schedule, Transfer, TransferModel
from opweave.problems.spec import FrozenDict


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
    return _Retiming(transfers, instance, messages, device, start, sent, release).schedule()


class _Retiming:
    """Activities are numbered: operators first, then messages."""

    def __init__(
        self,
        transfers: TransferModel,
        instance: PlacementInstance,
        messages: Sequence[Message],
        device: list[int],
        start: FloatArray,
        sent: FloatArray,
        release: FloatArray | None,
    ) -> None:
        self._transfers, self._instance, self._messages, self._device = transfers, instance, messages, device
        count = instance.operators
        self._routes: dict[int, Route] = {}
        for number, message in enumerate(messages):
            way = message.route(device)
            if way is not None:
                self._routes[count + number] = way
        seconds = instance.seconds[np.arange(count), device] if count else np.zeros(0)
        # Activities on the same device or port do not overlap, so their middles give the order despite rounding.
        self._middle = (start + seconds / 2).tolist()
        self._middle += [
            float(sent[m]) + (self._routes[count + m].seconds / 2 if count + m in self._routes else 0.0)
            for m in range(len(messages))
        ]
        self._seconds = seconds.tolist()
        self._release = np.zeros(count) if release is None else np.maximum(0.0, release)
        self._begin = [0.0] * (count + len(messages))
        self._end = [0.0] * (count + len(messages))

    def schedule(self) -> Schedule:
        """Start the activities one after the other."""
        before = self._before()
        free: dict[tuple[str, int], float] = {}
        for activity in self._sequence(before):
            ready = max((self._end[earlier] for earlier in before[activity]), default=0.0)
            resources, seconds = self._needs(activity)
            if activity < self._instance.operators:
                ready = max(ready, float(self._release[activity]))
            ready = max([ready, *(free.get(resource, 0.0) for resource in resources)])
            self._begin[activity], self._end[activity] = ready, ready + seconds
            free.update(dict.fromkeys(resources, ready + seconds))
        names, devices = self._instance.names, self._instance.devices
        return Schedule(
            device=FrozenDict({name: devices[k] for name, k in zip(names, self._device, strict=True)}),
            start=FrozenDict(zip(names, self._begin, strict=False)),
            transfers=tuple(self._transfer(activity) for activity in self._routes),
        )

    def _needs(self, activity: int) -> tuple[list[tuple[str, int]], float]:
        """The devices or ports that an activity occupies, and its duration."""
        if activity < self._instance.operators:
            return [("device", self._device[activity])], float(self._seconds[activity])
        way = self._routes[activity]
        ports = [] if self._transfers == "delay" else [("send", way.source), ("receive", way.target)]
        return ports, way.seconds

    def _before(self) -> dict[int, list[int]]:
        """The activities that must end before every activity starts."""
        count = self._instance.operators
        before = {v: self._instance.before[v].tolist() for v in range(count)}
        for activity in self._routes:
            message = self._messages[activity - count]
            before[activity] = [message.producer]
            for reader in message.readers:
                if self._routes[activity].target == self._device[reader]:
                    before[reader].append(activity)
        return before

    def _sequence(self, before: dict[int, list[int]]) -> list[int]:
        """All activities in an order that respects precedence and otherwise follows their middles."""
        after: dict[int, list[int]] = {activity: [] for activity in before}
        waits = {activity: len(earlier) for activity, earlier in before.items()}
        for activity, earlier in before.items():
            for other in earlier:
                after[other].append(activity)
        rank = {v: place for place, v in enumerate(topological_order(self._instance.after).tolist())}
        rank |= {a: rank[self._messages[a - self._instance.operators].producer] for a in self._routes}
        ready = [(self._middle[a], rank[a], a) for a, count in waits.items() if count == 0]
        heapq.heapify(ready)
        sequence = []
        while ready:
            _, _, activity = heapq.heappop(ready)
            sequence.append(activity)
            for other in after[activity]:
                waits[other] -= 1
                if waits[other] == 0:
                    heapq.heappush(ready, (self._middle[other], rank[other], other))
        return sequence

    def _transfer(self, activity: int) -> Transfer:
        message, way = self._messages[activity - self._instance.operators], self._routes[activity]
        names, devices = self._instance.names, self._instance.devices
        edge = self._transfers == "one_port_edge"
        return Transfer(
            tensor=self._instance.tensors[message.tensor],
            consumer=names[message.readers[0]] if edge else None,
            source=devices[way.source],
            target=devices[way.target],
            start=self._begin[activity],
            end=self._end[activity],
        )
