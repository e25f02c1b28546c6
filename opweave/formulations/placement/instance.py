"""Placement as arrays over operators, devices and flows: what schedulers, bounds and formulations work on.

A *flow* is one (tensor, consumer) pair with a producer: data that has to be on the consumer's device before it starts.
Sending flow f from device a to device b takes ``latency[a, b] + size[f] * seconds_per_byte[a, b]`` seconds; within a
device it takes none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from opweave.formulations.expressions import express
from opweave.formulations.order_arcs import ContradictionError, with_order_arcs
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.constraints import Colocate, Constraint, Forbid, MemoryCap, Pin, means
from opweave.problems.graph_arrays import Adjacency
from opweave.problems.placement.shortage import shortage
from opweave.problems.placement.spec import Placement

NO_LIMIT = np.iinfo(np.int64).max
"""Capacity of a device whose memory is unlimited."""

TAKEN_IN: tuple[type[Constraint], ...] = (Pin, Forbid, Colocate, MemoryCap)
"""Side constraints that :func:`lower` writes into the arrays, beside those with an ``"order_arcs"`` expression."""


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


def lower(problem: Placement) -> PlacementInstance:
    """Write a problem as arrays; Pin, Forbid, Colocate, MemoryCap and order arcs are taken in.

    Raises
    ------
    ContradictionError
        When these leave an operator no device, or close a cycle.
    """
    graph, arrays, cluster = problem.graph, problem.graph.arrays, problem.cluster
    names = tuple(op.id for op in graph.operators)
    devices = tuple(device.name for device in cluster.devices)
    readers, read = arrays.reads.heads(), arrays.reads.items
    made = arrays.producer[read] >= 0
    target, tensor = readers[made], read[made]
    together = _clusters(problem)
    before = with_order_arcs(problem, arrays.predecessors)
    return PlacementInstance(
        names=names,
        devices=devices,
        tensors=tuple(item.id for item in graph.tensors),
        seconds=_allowed_seconds(problem, together),
        source=arrays.producer[tensor],
        target=target,
        tensor=tensor,
        size=arrays.tensor_bytes[tensor],
        incoming=_rows(target, len(names)),
        outgoing=_rows(arrays.producer[tensor], len(names)),
        before=before,
        after=before.reversed(len(names)),
        latency=np.where(np.eye(len(devices), dtype=bool), 0.0, cluster.effective_latency),
        seconds_per_byte=_seconds_per_byte(cluster.effective_bandwidth),
        memory=_own_bytes(problem),
        parameters=_parameters(problem),
        parameter_bytes=np.asarray([parameter.bytes for parameter in graph.parameters], dtype=np.int64),
        capacity=_capacity(problem),
        cluster=together,
    )


def _rows(heads: IntArray, rows: int) -> Adjacency:
    """Positions of the entries of every row, in their order."""
    start = np.zeros(rows + 1, dtype=np.int64)
    np.cumsum(np.bincount(heads, minlength=rows), out=start[1:])
    return Adjacency(start, np.argsort(heads, kind="stable").astype(np.int64))


def _seconds_per_byte(bandwidth: FloatArray) -> FloatArray:
    """0 where nothing can be sent, too: the latency says so, and infinity times no bytes would not be a number."""
    linked = (bandwidth > 0.0) & np.isfinite(bandwidth)
    return np.divide(1.0, bandwidth, out=np.zeros_like(bandwidth), where=linked)


def _clusters(problem: Placement) -> IntArray:
    """Number the groups of operators that Colocate ties together, singletons included."""
    index = problem.graph.operator_index
    tied = [each for each in problem.constraints if means(each, Colocate)]
    if not tied:
        return np.arange(len(index), dtype=np.int64)
    import networkx as nx  # a tenth of a second, which solves that need no groups do not wait for

    ties = nx.Graph()
    ties.add_nodes_from(range(len(index)))
    for constraint in tied:
        nx.add_path(ties, [index[name] for name in constraint.ops])
    cluster = np.zeros(len(index), dtype=np.int64)
    for number, members in enumerate(nx.connected_components(ties)):
        cluster[list(members)] = number
    return cluster


def _allowed_seconds(problem: Placement, cluster: IntArray) -> FloatArray:
    """Known costs, with inf where a cost is unknown or a constraint says no; tied operators share their refusals."""
    graph, devices = problem.graph, [device.name for device in problem.cluster.devices]
    seconds = np.array(problem.costs.array([op.id for op in graph.operators], devices))
    allowed = np.isfinite(seconds)
    for constraint in problem.constraints:
        if means(constraint, Pin):
            allowed[graph.operator_index[constraint.op]] &= np.arange(len(devices)) == devices.index(constraint.device)
        elif means(constraint, Forbid):
            allowed[graph.operator_index[constraint.op], devices.index(constraint.device)] = False
    shared = np.ones((int(cluster.max(initial=-1)) + 1, len(devices)), dtype=bool)
    np.logical_and.at(shared, cluster, allowed)
    allowed = shared[cluster]
    nowhere = np.flatnonzero(~allowed.any(axis=1))
    if len(nowhere):
        raise ContradictionError(f"operator {graph.operators[nowhere[0]].id!r} is left no device to run on")
    return np.where(allowed, seconds, np.inf)


def _own_bytes(problem: Placement) -> IntArray:
    """Outputs and workspace of every operator, or nothing when only parameters count."""
    graph = problem.graph
    if problem.memory == "parameters":
        return np.zeros(len(graph.operators), dtype=np.int64)
    size = {tensor.id: tensor.bytes for tensor in graph.tensors if tensor.alias_of is None}
    return np.asarray(
        [op.workspace_bytes + sum(size.get(name, 0) for name in op.outputs) for op in graph.operators], dtype=np.int64
    )


def _parameters(problem: Placement) -> Adjacency:
    index = {parameter.id: position for position, parameter in enumerate(problem.graph.parameters)}
    return Adjacency.from_lists(
        [[index[name] for name in dict.fromkeys(op.parameters)] for op in problem.graph.operators]
    )


def _capacity(problem: Placement) -> IntArray:
    limits = [[device.memory_bytes] for device in problem.cluster.devices]
    position = problem.cluster.device_index
    for constraint in problem.constraints:
        if means(constraint, MemoryCap):
            limits[position[constraint.device]].append(constraint.bytes)
    return np.asarray([_least(row) for row in limits], dtype=np.int64)


def _least(limits: Iterable[int | None]) -> int:
    return min((limit for limit in limits if limit is not None), default=NO_LIMIT)


for _kind in TAKEN_IN:

    @express(_kind, "assignment")
    def _taken_in(_problem: Placement, _constraint: Constraint) -> None:
        """Nothing to add: :func:`lower` has written the constraint into the arrays."""
