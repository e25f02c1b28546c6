"""Time windows of operators and messages in any schedule that is no longer than a known one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opweave.formulations.placement.instance import PlacementInstance
from opweave.formulations.placement.messages import Message, flow_seconds
from opweave.problems.arrays import NO_LIMIT, BoolArray, FloatArray, IntArray
from opweave.problems.graph_arrays import Adjacency, topological_order

HOPELESS = 4.0
"""Longest duration of a transfer in models, as a multiple of the horizon."""

FIT = 1e-9
"""Relative tolerance when windows are compared, so that rounding never drops a schedule."""


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

    def message_ready(self, message: Message) -> float:
        """Earliest start of a message."""
        return float(self.earliest_end()[message.producer])

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
