"""Placement as arrays over operators, devices and flows: what schedulers, bounds and formulations work on.

A *flow* is one (tensor, consumer) pair with a producer: data that has to be on the consumer's device before it starts.
Sending flow f from device a to device b takes ``latency[a, b] + size[f] * seconds_per_byte[a, b]`` seconds; within a
device it takes none.
"""

from __future__ import annotations

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
"""Side constraints that :func:`lower` writes into the arrays, beside those with an ``"order_arcs"`` expression."""

SUPPORTS = ("assignment", "order_arcs")
"""Expressions of side constraints that :func:`lower` takes in."""


@dataclass(frozen=True, slots=True, eq=False)
class PlacementInstance:
    """Arrays indexed by operator v, device k, flow f (sorted by consumer) or parameter.

    Attributes
    ----------
    names, devices
        Operator ids and device names.
    tensors
        Tensor id of every flow's tensor index.
    seconds
        Run time of every operator on every device, inf where it cannot or may not run. Shape (operators, devices).
    source, target, tensor, size
        Producer, consumer, tensor (position in ``tensors``) and bytes of every flow.
    incoming, outgoing
        Flows into and out of every operator.
    before, after
        Direct predecessors and successors: data flow and order arcs of side constraints.
    latency, seconds_per_byte
        Shape (devices, devices); zero on the diagonal. The latency is inf where nothing can be sent.
    memory
        Bytes that every operator takes on its device beside its parameters.
    parameters, parameter_bytes
        Parameters of every operator, counted once per device; their sizes.
    capacity
        Bytes of every device, ``NO_LIMIT`` where there is none.
    cluster
        Operators with the same number share a device (Colocate).
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

    def transfer(self) -> FloatArray:
        """Seconds to send every flow between every two devices. Shape (flows, devices, devices)."""
        return self.latency + self.size[:, None, None] * self.seconds_per_byte


def lower_unless_short(problem: Placement) -> PlacementInstance:
    """As :func:`lower`, after the cheap proofs that nothing fits.

    Raises
    ------
    ContradictionError
        When there is no placement; the message says which device is short of how many bytes, or what contradicts what.
    """
    reason = shortage(problem)
    if reason is not None:
        raise ContradictionError(reason)
    return lower(problem)


@once
def lower(problem: Placement) -> PlacementInstance:
    """Write a problem as arrays; Pin, Forbid, Colocate, MemoryCap and order arcs are taken in.

    Raises
    ------
    ContradictionError
        When these leave an operator no device, or close a cycle.
    """
    graph, cluster = problem.graph, problem.cluster
    names = tuple(op.id for op in graph.operators)
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
        tensors=tuple(item.id for item in graph.tensors),
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
    """Outputs and workspace of every operator, or nothing when only parameters count."""
    graph = problem.graph
    if problem.memory == "parameters":
        return np.zeros(len(graph.operators), dtype=np.int64)
    size = {tensor.id: tensor.bytes for tensor in graph.tensors if tensor.alias_of is None}
    return np.asarray(
        [op.workspace_bytes + sum(size.get(name, 0) for name in op.outputs) for op in graph.operators], dtype=np.int64
    )


for _kind in TAKEN_IN:

    @express(_kind, "assignment")
    def _taken_in(_problem: Placement, _constraint: Constraint) -> None:
        """Nothing to add: :func:`lower` has written the constraint into the arrays."""
