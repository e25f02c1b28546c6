"""The transfers of a placement about which models decide.

A *message* is a transfer that happens or not, depending on the devices of operators. If a tensor is sent once for each
reader, a message is a flow and may go between any two devices. If it is sent once for all readers on a device, a
message is a tensor and that device. Without ports there is nothing to decide about transfers, so there are no messages.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from opweave.formulations.placement.instance import PlacementInstance
from opweave.problems.arrays import BoolArray, FloatArray
from opweave.problems.placement.spec import TransferModel


@dataclass(frozen=True, slots=True)
class Route:
    """From one device to another, with the seconds that the message takes."""

    source: int
    target: int
    seconds: float


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
    return np.isfinite(instance.latency) & np.isfinite(instance.seconds_per_byte)


def flow_seconds(instance: PlacementInstance, *, longest: float = np.inf) -> FloatArray:
    """Seconds of every flow between every two devices, at most ``longest``; inf if nothing can be sent."""
    size = instance.size[:, None, None]
    sent = instance.latency + size * _finite(instance.seconds_per_byte)
    return np.where(links(instance), np.minimum(sent, longest), np.inf)


def _finite(values: FloatArray) -> FloatArray:
    return np.where(np.isfinite(values), values, 0.0)


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
