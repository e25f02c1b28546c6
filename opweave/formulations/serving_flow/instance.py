"""A serving flow as arrays: speeds of devices by block of layers, and links in tokens per second."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from opweave.problems.arrays import BoolMatrix, FloatArray, FloatMatrix, IntArray
from opweave.problems.serving_flow.spec import LayerBlocks, ServingFlow

HALVINGS, ROUNDING = 60, 1e-12
"""Steps of a bisection, and a relative allowance for rounding."""

NO_BLOCKS = "no blocks of layers let tokens through all layers, given memory, rates, links and side constraints"
"""What is true of a problem without a plan."""

UNUSED = (0, 0)
"""The block of a device without layers: it begins and ends at 0."""

Blocks = Sequence[tuple[int, int]]
"""First layer and end of every device, in the order of the cluster."""


@dataclass(frozen=True, eq=False)
class ServingInstance:
    """The problem as arrays.

    Attributes
    ----------
    problem
    names
        Devices, in the order of the cluster.
    layers
        Number of layers.
    rates
        Tokens per second of every device by number of layers; 0 if it cannot hold them. Shape (devices, layers + 1).
    place
        Parameter bytes of the layers before each place. Shape (layers + 1,).
    memory
        Parameter bytes that each device may hold; infinite for no limit. Shape (devices,).
    port
        Bytes per second of each device's connection; infinite for no limit. Shape (devices,).
    links
        Bytes per second from device to device; 0 without a link. Shape (devices, devices).
    sizes
        Bytes of a token at each place. Shape (layers + 1,).
    """

    problem: ServingFlow
    names: tuple[str, ...]
    layers: int
    rates: FloatMatrix
    place: FloatArray
    memory: FloatArray
    port: FloatArray
    links: FloatMatrix
    sizes: FloatArray

    def speed(self, device: int, first: int, end: int) -> float:
        """Tokens per second of a device with a block of layers; 0 if it cannot hold it."""
        if self.place[end] - self.place[first] > self.memory[device]:
            return 0.0
        most = float(self.rates[device, end - first])
        for at in (first, end):
            if 0 < at < self.layers:
                most = min(most, float(self.port[device] / self.sizes[at])) if self.sizes[at] else most
        return most

    @cached_property
    def most(self) -> FloatMatrix:
        """Tokens per second of every device by number of layers, where they are best. Shape (devices, layers + 1)."""
        found = np.zeros_like(self.rates)
        for count in range(1, self.layers + 1):
            least = float((self.place[count:] - self.place[:-count]).min())
            found[:, count] = np.where(least <= self.memory, self.rates[:, count], 0.0)
        return found

    @cached_property
    def kinds(self) -> tuple[IntArray, ...]:
        """Devices that are alike, whatever their links: those of one kind have the same speeds."""
        groups: dict[tuple[object, ...], list[int]] = {}
        for device in range(len(self.names)):
            same = (self.most[device].tobytes(), float(self.memory[device]), float(self.port[device]))
            groups.setdefault(same, []).append(device)
        return tuple(np.asarray(rows, dtype=np.int64) for rows in groups.values())

    @cached_property
    def bounded(self) -> float:
        """Tokens per second that no plan exceeds: devices with k layers do no more than k times the flow for them."""
        counts = np.arange(self.layers + 1)
        low, high = 0.0, float(self.most.max(axis=1, initial=0.0).sum())
        for _ in range(HALVINGS):
            flow = 0.5 * (low + high)
            work = float((counts * np.minimum(self.most, flow)).max(axis=1, initial=0.0).sum())
            if work < self.layers * flow * (1.0 - ROUNDING):
                high = flow
            else:
                low = flow
        return high

    def link(self, source: int, target: int, place: int) -> float:
        """Tokens per second that a link carries at a place between layers."""
        rate = float(self.links[source, target])
        return rate / float(self.sizes[place]) if self.sizes[place] and rate else (np.inf if rate else 0.0)

    def solution(self, blocks: Blocks) -> LayerBlocks:
        """The plan in the problem's words."""
        layers = self.problem.layers
        held = {self.names[k]: layers[first:end] for k, (first, end) in enumerate(blocks) if end > first}
        return LayerBlocks(operators=held)

    def blocks(self, solution: LayerBlocks) -> list[tuple[int, int]]:
        """Blocks of a valid plan."""
        index, found = self.problem.layer_index, [UNUSED] * len(self.names)
        for device, names in solution.operators.items():
            if names:
                found[self.problem.cluster.device_index[device]] = (index[names[0]], index[names[-1]] + 1)
        return found

    def ways(self) -> Iterator[tuple[int, int, int, float]]:
        """Every device with every block that it can hold, first layer and end, and its speed there."""
        for k in range(len(self.names)):
            for count in np.flatnonzero(self.most[k]).tolist():
                for first in range(self.layers - count + 1):
                    speed = self.speed(k, first, first + count)
                    if speed > 0.0:
                        yield k, first, first + count, speed

    def short(self) -> str | None:
        """Why no plan can be: no device may hold a layer, or all together too few; None if there may be one."""
        counts = np.arange(self.layers + 1)
        together = int(np.where(self.most > 0, counts, 0).max(axis=1, initial=0).sum())
        if together >= self.layers:
            return None
        return f"all devices together can hold {together:,} layers, and the model has {self.layers:,}"


def lower(problem: ServingFlow) -> ServingInstance:
    """Write a problem as arrays."""
    names, count = tuple(problem.cluster.device_index), len(problem.layers)
    rates = np.zeros((len(names), count + 1))
    for row, name in enumerate(names):
        known = np.asarray(problem.rates.get(name, ())[:count])
        rates[row, 1 : len(known) + 1] = known
    limits = (problem.memory_limits[name] for name in names)
    ports = problem.cluster.rates if len(names) > 1 else None
    return ServingInstance(
        problem=problem,
        names=names,
        layers=count,
        rates=rates,
        place=np.concatenate([[0.0], np.cumsum(np.asarray(problem.layer_bytes, dtype=np.float64))]),
        memory=np.asarray([np.inf if limit is None else float(limit) for limit in limits]),
        port=np.full(len(names), np.inf) if ports is None else np.asarray(ports, dtype=np.float64),
        links=np.asarray(problem.cluster.direct_bandwidth, dtype=np.float64),
        sizes=np.asarray(problem.crossing_bytes, dtype=np.float64),
    )


def clustered(near: BoolMatrix) -> list[IntArray]:
    """Devices in groups that links connect."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    count, label = connected_components(csr_array(near), directed=False)
    return [np.flatnonzero(label == group) for group in range(count)]
