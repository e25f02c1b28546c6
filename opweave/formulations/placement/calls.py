"""Placement with blocking calls as arrays over operators, accelerators and tensors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from opweave.formulations.derived import once
from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.placement.instance import PlacementInstance, lower, shortage
from opweave.problems.arrays import FloatArray, FloatMatrix, IntArray
from opweave.problems.errors import UnsupportedFeatureError
from opweave.problems.graph_arrays import Adjacency
from opweave.problems.placement.spec import Placement, Schedule
from opweave.problems.spec import FrozenDict

SUPPORTS = ("assignment",)
"""Expressions of side constraints that :func:`lower_calls` handles."""


@dataclass(frozen=True, eq=False)
class CallInstance:
    """Arrays indexed by operator v, accelerator k, or tensor t that one operator makes and others read.

    Attributes
    ----------
    whole
        The same problem as arrays over all devices.
    host, accelerators
        Positions of the devices in the cluster. Shape (accelerators,).
    producer, readers
        Of every tensor.
    tensors
        Position of every tensor in the graph. Shape (tensors,).
    bring, give
        Seconds from and to host memory; inf without a link. Shape (tensors, accelerators).
    most
        Most calls of an accelerator, at most the number of operators.
    """

    whole: PlacementInstance
    host: int
    accelerators: IntArray
    producer: IntArray
    readers: Adjacency
    tensors: IntArray
    bring: FloatMatrix
    give: FloatMatrix
    most: int

    @property
    def operators(self) -> int:
        """Number of operators."""
        return self.whole.operators

    @cached_property
    def outputs(self) -> Adjacency:
        """Tensors that every operator makes and others read."""
        return Adjacency.from_pairs(self.operators, self.producer, np.arange(len(self.producer)))

    @cached_property
    def host_seconds(self) -> FloatArray:
        """Seconds of every operator on the host; inf where it cannot run there. Shape (operators,)."""
        return np.ascontiguousarray(self.whole.seconds[:, self.host])

    @cached_property
    def seconds(self) -> FloatMatrix:
        """Seconds of every operator on every accelerator. Shape (operators, accelerators)."""
        return np.ascontiguousarray(self.whole.seconds[:, self.accelerators])

    @cached_property
    def classes(self) -> list[list[int]]:
        """Accelerators that can take each other's place, by position among the accelerators."""
        found: list[list[int]] = []
        capacity = self.whole.capacity[self.accelerators]
        for k in range(len(self.accelerators)):
            for group in found:
                first = group[0]
                same = (np.array_equal(table[:, first], table[:, k]) for table in (self.seconds, self.bring, self.give))
                if capacity[first] == capacity[k] and all(same):
                    group.append(k)
                    break
            else:
                found.append([k])
        return found

    def schedule(self, device: IntArray, start: FloatArray) -> Schedule:
        """The solution with these devices (positions in the cluster) and starts."""
        names, devices = self.whole.names, self.whole.devices
        return Schedule(
            device=FrozenDict(zip(names, [devices[k] for k in device.tolist()], strict=True)),
            start=FrozenDict(zip(names, start.tolist(), strict=True)),
        )


@once
def lower_calls(problem: Placement) -> CallInstance:
    """Write a problem as arrays, including Pin, Forbid, Colocate and MemoryCap.

    Raises
    ------
    ContradictionError
        If there is no placement, and that is easy to see.
    UnsupportedFeatureError
        If its transfers are not blocking calls.
    """
    if problem.host is None:
        raise UnsupportedFeatureError("there are calls only with transfers='blocking'")
    reason = shortage(problem)
    if reason is not None:
        raise ContradictionError(reason)
    whole, arrays = lower(problem), problem.graph.arrays
    host = problem.cluster.device_index[problem.host]
    accelerators = np.array([k for k in range(len(whole.devices)) if k != host], dtype=np.int64)
    consumed = np.diff(arrays.consumers.start) > 0
    tensors = np.flatnonzero((arrays.producer >= 0) & consumed)
    size = arrays.tensor_bytes[tensors, None].astype(np.float64)
    bring = whole.latency[host, accelerators] + size * whole.seconds_per_byte[host, accelerators]
    give = whole.latency[accelerators, host] + size * whole.seconds_per_byte[accelerators, host]
    most = whole.operators if problem.max_calls is None else min(problem.max_calls, whole.operators)
    heads, readers = arrays.consumers.entries(tensors)
    return CallInstance(
        whole=whole,
        host=host,
        accelerators=accelerators,
        producer=arrays.producer[tensors],
        readers=Adjacency.from_pairs(len(tensors), heads, readers),
        tensors=tensors,
        bring=np.ascontiguousarray(bring),
        give=np.ascontiguousarray(give),
        most=most,
    )


def calls_of(instance: CallInstance, schedule: Schedule) -> IntArray:
    """The call of every operator, numbered by accelerator and time; -1 on the host. Shape (operators,).

    Raises
    ------
    ContradictionError
        If an accelerator has more calls than it may.
    """
    names, index = instance.whole.names, {name: k for k, name in enumerate(instance.whole.devices)}
    number = {k: position for position, k in enumerate(instance.accelerators.tolist())}
    step = [(index[schedule.device[name]], schedule.start[name]) for name in names]
    found, counts = dict[tuple[int, float], int](), [0] * len(number)
    for device, start in sorted(set(step)):
        if device != instance.host:
            k = number[device]
            found[device, start] = k * instance.most + counts[k]
            counts[k] += 1
    if max(counts, default=0) > instance.most:
        raise ContradictionError(f"an accelerator has more than {instance.most} calls")
    return np.array([found.get(each, -1) for each in step], dtype=np.int64)
