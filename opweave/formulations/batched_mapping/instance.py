"""Batched mapping as arrays over operators, devices, edges and granules, for searches, bounds and models.

A *granule* is the greatest common divisor of all batch sizes. In every solution whole granules move through the devices
of an operator, though two operators may divide the batch differently. An *edge* is a pair of operators (i, j) with data
between them; of several tensors the largest determines the delay. Moving f inputs of edge e from device a to device b
takes ``latency[a, b] + size[e] * f * seconds_per_byte[a, b]`` seconds (f = 1 for ``"delay_per_input"``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from opweave.formulations.batched_mapping.shortage import shortage
from opweave.formulations.batched_mapping.unsplit import plain_constraints
from opweave.formulations.expressions import express
from opweave.formulations.on_cluster import capacity_of, flows_of, left_to_run_on, links_of, parameters_of, tied
from opweave.formulations.once import once
from opweave.formulations.order_arcs import ContradictionError, with_order_arcs
from opweave.problems.arrays import NO_LIMIT, BoolArray, FloatArray, IntArray
from opweave.problems.batched_mapping.spec import BatchedMapping
from opweave.problems.constraints import Constraint, Forbid, MemoryCap, Pin, Share, means
from opweave.problems.graph_arrays import Adjacency, topological_order

TAKEN_IN: tuple[type[Constraint], ...] = (Pin, Forbid, MemoryCap, Share)
"""Side constraints that :func:`lower` writes into the arrays, besides those with an ``"order_arcs"`` expression."""

SUPPORTS = ("batched_arrays", "order_arcs")
"""Expressions of side constraints that :func:`lower` handles."""


@dataclass(frozen=True, slots=True, eq=False)
class BatchedInstance:
    """Arrays indexed by operator i, device u, granules c, edge e.

    Attributes
    ----------
    names, devices
        Operator ids and device names.
    batch, granule, granules
        Number of inputs, inputs per granule, and granules in the whole batch (G).
    seconds
        Run time of c granules; inf if that is impossible or forbidden; 0 for c = 0. Shape (operators, devices, G + 1).
    source, target, size
        Producer, consumer and bytes (of one input) of every edge.
    incoming, outgoing
        Edges into and out of every operator.
    waits
        Operators for which side constraints make every operator wait, including all their batches.
    order
        Operators in an order in which predecessors, and operators to wait for, come first.
    latency, seconds_per_byte
        Shape (devices, devices); zero on the diagonal. The latency is inf if nothing can be sent.
    grows
        Whether the delay grows with the number of inputs that move together.
    memory
        Bytes that each input of an operator takes.
    parameters, parameter_bytes
        Parameters of every operator, counted once per device, and their sizes.
    capacity
        Bytes of every device; ``NO_LIMIT`` if it has no limit.
    """

    names: tuple[str, ...]
    devices: tuple[str, ...]
    batch: int
    granule: int
    granules: int
    seconds: FloatArray
    source: IntArray
    target: IntArray
    size: IntArray
    incoming: Adjacency
    outgoing: Adjacency
    waits: Adjacency
    order: IntArray
    latency: FloatArray
    seconds_per_byte: FloatArray
    grows: bool
    memory: IntArray
    parameters: Adjacency
    parameter_bytes: IntArray
    capacity: IntArray

    @property
    def operators(self) -> int:
        """Number of operators."""
        return len(self.names)

    @property
    def limited(self) -> bool:
        """Whether any device's memory is limited."""
        return bool((self.capacity != NO_LIMIT).any())

    def delay(self, e: int, a: int, b: int, inputs: int) -> float:
        """Seconds that ``inputs`` inputs of edge e take from device a to device b."""
        moved = int(self.size[e]) * (inputs if self.grows else 1)
        return 0.0 if a == b else float(self.latency[a, b] + moved * self.seconds_per_byte[a, b])

    def sizes(self, i: int, u: int) -> list[int]:
        """The positive numbers of granules that operator i can run on device u."""
        return [c for c in range(1, self.granules + 1) if np.isfinite(self.seconds[i, u, c])]


def lower_unless_short(problem: BatchedMapping) -> BatchedInstance:
    """As :func:`lower`, after the cheap proofs that nothing fits.

    Raises
    ------
    ContradictionError
        If there is no mapping; the message says why, and gives an upper bound of the batch size.
    """
    reason = shortage(problem)
    if reason is not None:
        raise ContradictionError(reason)
    return lower(problem)


@once
def lower(problem: BatchedMapping) -> BatchedInstance:
    """Write a problem as arrays, including Pin, Forbid, MemoryCap, Share and order arcs.

    Raises
    ------
    ContradictionError
        If these leave an operator no device, or close a cycle.
    """
    devices = [device.name for device in problem.cluster.devices]
    graph, plain = problem.graph, tuple(plain_constraints(problem))
    count = len(graph.operators)
    group = tied(graph, plain)
    before = with_order_arcs(problem, graph.arrays.predecessors)
    known: BoolArray = np.isfinite(problem.times)
    somewhere: BoolArray = np.asarray(known.any(axis=2))
    allowed = left_to_run_on(graph, devices, somewhere, group, plain)
    source, target, tensor = flows_of(graph)
    latency, seconds_per_byte = links_of(problem.cluster)
    parameters, parameter_bytes = parameters_of(graph)
    sizes = [size for size, there in zip(problem.sizes, np.moveaxis(known, 2, 0), strict=True) if there.any()]
    granule = math.gcd(problem.batch, *sizes)
    edges, edge_of = np.unique(source * count + target, return_inverse=True)
    first, second = np.divmod(edges, max(1, count))
    size = np.zeros(len(edges), dtype=np.int64)
    np.maximum.at(size, edge_of, graph.arrays.tensor_bytes[tensor])
    return BatchedInstance(
        names=graph.operator_ids,
        devices=tuple(devices),
        batch=problem.batch,
        granule=granule,
        granules=problem.batch // granule,
        seconds=_seconds(problem, allowed, granule),
        source=first,
        target=second,
        size=size,
        incoming=Adjacency.from_pairs(count, second, np.arange(len(edges))),
        outgoing=Adjacency.from_pairs(count, first, np.arange(len(edges))),
        waits=with_order_arcs(problem, Adjacency.from_lists([[]] * count)),
        order=graph.listed_order if before is graph.arrays.predecessors else topological_order(before.reversed(count)),
        latency=latency,
        seconds_per_byte=seconds_per_byte,
        grows=problem.transfers == "delay",
        memory=problem.sizes_per_input,
        parameters=parameters,
        parameter_bytes=parameter_bytes,
        capacity=capacity_of(problem.memory_limits.values()),
    )


def _seconds(problem: BatchedMapping, allowed: BoolArray, granule: int) -> FloatArray:
    """Run times by granules on the devices that Pin, Forbid and Share allow."""
    graph, devices = problem.graph, [device.name for device in problem.cluster.devices]
    seconds = np.full((len(graph.operators), len(devices), problem.batch // granule + 1), np.inf)
    seconds[:, :, 0] = 0.0
    times = np.where(allowed[:, :, None] & ~np.isnan(problem.times), problem.times, np.inf)
    for number, size in enumerate(problem.sizes):
        if np.isfinite(times[:, :, number]).any():  # others are no multiples of the granule
            seconds[:, :, size // granule] = times[:, :, number]
    for share in problem.constraints:
        if means(share, Share):
            row = seconds[graph.operator_index[share.op], devices.index(share.device)]
            kept = row[share.inputs // granule] if share.inputs % granule == 0 else np.inf
            row[:] = np.inf
            if share.inputs % granule == 0:
                row[share.inputs // granule] = kept
    return seconds


for _kind in TAKEN_IN:

    @express(_kind, "batched_arrays")
    def _taken_in(_problem: BatchedMapping, _constraint: Constraint) -> None:
        """Add nothing: :func:`lower` has written the constraint into the arrays."""
