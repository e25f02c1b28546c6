"""Placement as arrays over operators, devices and flows, for schedulers, bounds and formulations.

A *flow* is one (tensor, consumer) pair with a producer: data that must be on the consumer's device before the consumer
starts. Sending flow f from device a to device b takes ``latency[a, b] + size[f] * seconds_per_byte[a, b]`` seconds;
within a device it takes no time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from opweave.formulations.expressions import express
from opweave.formulations.on_cluster import capacity_of, flows_of, left_to_run_on, links_of, parameters_of, tied
from opweave.formulations.once import once
from opweave.formulations.order_arcs import ContradictionError, with_order_arcs
from opweave.formulations.placement.shortage import shortage
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.constraints import Colocate, Constraint, Forbid, MemoryCap, Pin
from opweave.problems.graph_arrays import Adjacency
from opweave.problems.placement.spec import Placement

TAKEN_IN: tuple[type[Constraint], ...] = (Pin, Forbid, Colocate, MemoryCap)
"""Side constraints that :func:`lower` writes into the arrays, besides those with an ``"order_arcs"`` expression."""

EXACT = 1e-10
"""Relative distance from a multiple of a tick that counts as rounding of the input."""

SUPPORTS = ("assignment", "order_arcs")
"""Expressions of side constraints that :func:`lower` handles."""


@dataclass(frozen=True, slots=True, eq=False)
class PlacementInstance:
    """Arrays indexed by operator v, device k, flow f (sorted by consumer) or parameter.

    Attributes
    ----------
    names, devices
        Operator ids and device names.
    tensors
        Tensor id for each tensor index of a flow.
    seconds
        Run time of every operator on every device; inf if it cannot or may not run there. Shape (operators, devices).
    source, target, tensor, size
        Producer, consumer, tensor (position in ``tensors``) and bytes of every flow.
    incoming, outgoing
        Flows into and out of every operator.
    before, after
        Direct predecessors and successors, by data flow and by order arcs of side constraints.
    latency, seconds_per_byte
        Shape (devices, devices); zero on the diagonal. The latency is inf if nothing can be sent.
    memory
        Bytes that every operator takes on its device, without its parameters.
    parameters, parameter_bytes
        Parameters of every operator, counted once per device, and their sizes.
    capacity
        Bytes of every device; ``NO_LIMIT`` if it has no limit.
    cluster
        Number of every operator's group; operators of one group share a device (Colocate).
    """

    names: tuple[str, ...]
    devices: tuple[str, ...]
    tensors: tuple[str, ...]
    seconds: FloatArray
    source: IntArray
    target: IntArray
    tensor: IntArray
    size: IntArray
    incoming: Adjacency
    outgoing: Adjacency
    before: Adjacency
    after: Adjacency
    latency: FloatArray
    seconds_per_byte: FloatArray
    memory: IntArray
    parameters: Adjacency
    parameter_bytes: IntArray
    capacity: IntArray
    cluster: IntArray

    @property
    def operators(self) -> int:
        """Number of operators."""
        return len(self.names)

    def readers(self) -> list[IntArray]:
        """Operators that use each parameter."""
        users = self.parameters.reversed(len(self.parameter_bytes))
        return [users[p] for p in range(len(self.parameter_bytes))]

    def group_bytes(self) -> tuple[IntArray, list[int]]:
        """Bytes that every group of tied operators needs for itself alone, and the parameters that groups share."""
        own = np.zeros(int(self.cluster.max(initial=-1)) + 1, dtype=np.int64)
        np.add.at(own, self.cluster, self.memory)
        shared = []
        for p, users in enumerate(self.readers()):
            owners = np.unique(self.cluster[users])
            if len(owners) == 1:
                own[owners[0]] += self.parameter_bytes[p]
            elif len(owners) > 1:
                shared.append(p)
        return own, shared

    def overfull(self, device: Sequence[int]) -> list[tuple[int, list[int]]]:
        """Devices whose operators need more bytes than the device has, with these operators."""
        found = []
        for k, capacity in enumerate(self.capacity.tolist()):
            members = [v for v, place in enumerate(device) if place == k]
            used = list({p for v in members for p in self.parameters[v].tolist()})
            if sum(self.memory[members].tolist()) + sum(self.parameter_bytes[used].tolist()) > capacity:
                found.append((k, members))
        return found

    def transfer(self) -> FloatArray:
        """Seconds to send every flow between every two devices. Shape (flows, devices, devices)."""
        return self.latency + self.size[:, None, None] * self.seconds_per_byte


def common_tick(instance: PlacementInstance, horizon: float, most: float) -> float | None:
    """The largest decimal tick, in seconds, that divides all durations (0.5 for 0.5, 1.5 and 2); None if there is none.

    Parameters
    ----------
    instance
        The problem as arrays.
    horizon
        Durations above it are ignored, because no schedule of interest contains them.
    most
        Most ticks of the horizon.
    """
    with np.errstate(invalid="ignore"):  # where a link is missing
        durations = np.concatenate([instance.seconds.ravel(), instance.transfer().ravel()])
        durations = durations[durations <= horizon * (1 + EXACT)]
    for digits in range(-3, 10):
        counts = durations * 10.0**digits
        whole = np.round(counts)
        if (np.abs(counts - whole) <= EXACT * whole).all():  # relative, since errors add up along paths
            tick = math.gcd(*(int(count) for count in np.unique(whole))) / 10.0**digits
            if tick > 0 and horizon / tick <= most:
                return tick
    return None


def lower_unless_short(problem: Placement) -> PlacementInstance:
    """As :func:`lower`, after the cheap proofs that nothing fits.

    Raises
    ------
    ContradictionError
        If there is no placement; the message names the device that is short of bytes, or the contradiction.
    """
    reason = shortage(problem)
    if reason is not None:
        raise ContradictionError(reason)
    return lower(problem)


@once
def lower(problem: Placement) -> PlacementInstance:
    """Write a problem as arrays, including Pin, Forbid, Colocate, MemoryCap and order arcs.

    Raises
    ------
    ContradictionError
        If these leave an operator no device, or close a cycle.
    """
    graph, cluster = problem.graph, problem.cluster
    names = graph.operator_ids
    devices = tuple(device.name for device in cluster.devices)
    source, target, tensor = flows_of(graph)
    flows = np.arange(len(tensor))
    group = tied(graph, problem.constraints)
    before = with_order_arcs(problem, graph.arrays.predecessors)
    known = np.array(problem.costs.array(names, devices))
    allowed = left_to_run_on(graph, devices, np.isfinite(known), group, problem.constraints)
    latency, seconds_per_byte = links_of(cluster)
    parameters, parameter_bytes = parameters_of(graph)
    return PlacementInstance(
        names=names,
        devices=devices,
        tensors=graph.tensor_ids,
        seconds=np.where(allowed, known, np.inf),
        source=source,
        target=target,
        tensor=tensor,
        size=graph.arrays.tensor_bytes[tensor],
        incoming=Adjacency.from_pairs(len(names), target, flows),
        outgoing=Adjacency.from_pairs(len(names), source, flows),
        before=before,
        after=before.reversed(len(names)),
        latency=latency,
        seconds_per_byte=seconds_per_byte,
        memory=_own_bytes(problem),
        parameters=parameters,
        parameter_bytes=parameter_bytes,
        capacity=capacity_of(problem.memory_limits.values()),
        cluster=group,
    )


def _own_bytes(problem: Placement) -> IntArray:
    """Bytes of every operator's outputs and workspace; 0 if only parameters count."""
    graph = problem.graph
    if problem.memory == "parameters":
        return np.zeros(len(graph.operators), dtype=np.int64)
    return graph.sizes_made


for _kind in TAKEN_IN:

    @express(_kind, "assignment")
    def _taken_in(_problem: Placement, _constraint: Constraint) -> None:
        """Add nothing: :func:`lower` has written the constraint into the arrays."""
