"""A schedule as arrays, from which models take their start values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from opweave.formulations.placement.instance import PlacementInstance
from opweave.formulations.placement.messages import Message, Route
from opweave.problems.arrays import FloatArray
from opweave.problems.placement.spec import Schedule


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

    def operator_middles(self) -> list[float]:
        """Middle of every operator's run."""
        return [float(middle) for middle in (self.start + self.end) / 2]

    def message_middles(self) -> list[float]:
        """Middle of every message."""
        return [
            float(begin) + (0.0 if way is None else way.seconds / 2)
            for begin, way in zip(self.sent, self.ways, strict=True)
        ]

    def ports(self) -> list[set[int]]:
        """The ports that every message occupies: device k sends through port 2 k and receives through port 2 k + 1."""
        return [set() if way is None else {2 * way.source, 2 * way.target + 1} for way in self.ways]


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
