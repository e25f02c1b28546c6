"""Batched mapping as arrays over operators, devices, edges and granules, for searches, bounds and models.

A *granule* is the greatest common divisor of all batch sizes. In every solution whole granules move through the devices
of an operator, though two operators may divide the batch differently. An *edge* is a pair of operators (i, j) with data
between them; of several tensors the largest determines the delay. Moving f inputs of edge e from device a to device b
takes ``latency[a, b] + size[e] * f * seconds_per_byte[a, b]`` seconds (f = 1 for ``"delay_per_input"``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np

from opweave.formulations.derived import once
from opweave.formulations.expressions import taken_in
from opweave.formulations.on_cluster import (
    BLUR,
    OnCluster,
    flows_of,
    left_to_run_on,
    on_cluster,
    tied,
    too_large,
    unless_short,
)
from opweave.formulations.order_arcs import ContradictionError, with_order_arcs
from opweave.problems.arrays import NO_LIMIT, BoolArray, FloatArray, IntArray
from opweave.problems.batched_mapping.spec import Batch, BatchedMapping, BatchedSchedule
from opweave.problems.constraints import Constraint, Forbid, MemoryCap, Pin, Share, means
from opweave.problems.costs import Costs
from opweave.problems.graph import OpGraph
from opweave.problems.graph_arrays import Adjacency, topological_order
from opweave.problems.limits import MAX_BYTES
from opweave.problems.placement.spec import Placement, Schedule
from opweave.problems.spec import FrozenDict
from opweave.problems.words import counted


def placement_with(problem: BatchedMapping, graph: OpGraph, seconds: FloatArray) -> Placement:
    """A placement on the same cluster under the same constraints; NaN if an operator cannot run on a device."""
    table = tuple(tuple(None if np.isnan(s) else float(s) for s in row) for row in seconds.tolist())
    costs = Costs(operators=graph.operator_ids, devices=tuple(problem.cluster.device_index), table=table)
    return Placement(
        graph=graph,
        cluster=problem.cluster,
        costs=costs,
        constraints=tuple(plain_constraints(problem)),
        transfers="delay",
        memory="parameters" if problem.memory == "parameters" else "additive",
    )


def plain_constraints(problem: BatchedMapping) -> Iterator[Constraint]:
    """The side constraints as constraints of placement, which has none for partial shares or other meanings."""
    for constraint in problem.constraints:
        if not isinstance(constraint, Share):
            yield constraint
        elif means(constraint, Share):
            if constraint.inputs == 0:
                yield Forbid(op=constraint.op, device=constraint.device)
            elif constraint.inputs == problem.batch:
                yield Pin(op=constraint.op, device=constraint.device)


def unsplit(problem: BatchedMapping) -> Placement | None:
    """The placement that runs every operator with the whole batch on one device.

    Returns
    -------
    Placement or None
        Tensors and workspaces are those of the whole batch. None if an operator has no device for the whole batch, or
        if sizes would exceed the range of bytes.
    """
    shares = [each for each in problem.constraints if isinstance(each, Share)]
    if not all(means(each, Share) for each in shares):  # a share with another meaning has no equivalent in placement
        return None
    if problem.batch not in problem.sizes:
        return None
    seconds = problem.times[:, :, problem.sizes.index(problem.batch)]
    if np.isnan(seconds).all(axis=1).any() or any(0 < each.inputs < problem.batch for each in shares):
        return None
    graph, batch = problem.graph, problem.batch
    moved = batch if problem.transfers == "delay" else 1
    sizes_per_input = zip(graph.operator_ids, problem.sizes_per_input.tolist(), strict=True)
    held = {name: batch * size for name, size in sizes_per_input}
    sizes = {tensor.id: moved * tensor.bytes for tensor in graph.tensors}
    if max([*sizes.values(), *held.values()], default=0) > MAX_BYTES:
        return None
    owned = {tensor.id: sizes[tensor.id] for tensor in graph.tensors if tensor.alias_of is None}
    scaled = OpGraph(
        name=graph.name,
        tensors=tuple(tensor.model_copy(update={"bytes": sizes[tensor.id]}) for tensor in graph.tensors),
        operators=tuple(
            op.model_copy(
                update={"workspace_bytes": max(0, held[op.id] - sum(owned.get(name, 0) for name in op.outputs))}
            )
            for op in graph.operators
        ),
        parameters=graph.parameters,
        outputs=graph.outputs,
    )
    return placement_with(problem, scaled, seconds)


def one_input(problem: BatchedMapping, seconds: FloatArray) -> Placement:
    """The work of a single input: a relaxation, whose optimum is a lower bound for the whole batch.

    Each input passes every operator in some batch, on one device, and its data travel between them. No two of these
    batches overlap on a device. Memory and side constraints are left out.

    Parameters
    ----------
    seconds
        Least time of any batch; NaN if an operator cannot run. Shape (operators, devices).
    """
    devices = tuple(device.model_copy(update={"memory_bytes": None}) for device in problem.cluster.devices)
    cluster = problem.cluster.model_copy(update={"devices": devices})
    free = problem.model_copy(update={"cluster": cluster, "constraints": ()})
    return placement_with(free, problem.graph, seconds)


def whole(problem: BatchedMapping, schedule: Schedule) -> BatchedSchedule:
    """Convert a schedule of the unsplit problem to batched mapping."""
    inputs = tuple(range(problem.batch))
    batches = []
    for op in problem.graph.operators:
        device, start = schedule.device[op.id], schedule.start[op.id]
        lasts = problem.known_seconds[op.id][device][problem.batch]
        batches.append(Batch(operator=op.id, device=device, inputs=inputs, start=start, end=start + lasts))
    return BatchedSchedule(batches=tuple(batches))


def single(problem: BatchedMapping, solution: BatchedSchedule) -> Schedule | None:
    """Convert a schedule of batched mapping back; None if some operator's batch is split."""
    if any(len(batch.inputs) != problem.batch for batch in solution.batches):
        return None
    return Schedule(
        device=FrozenDict({batch.operator: batch.device for batch in solution.batches}),
        start=FrozenDict({batch.operator: batch.start for batch in solution.batches}),
    )


TAKEN_IN: tuple[type[Constraint], ...] = (Pin, Forbid, MemoryCap, Share)
"""Side constraints that :func:`lower` writes into the arrays, besides those with an ``"order_arcs"`` expression."""

SUPPORTS = ("batched_arrays", "order_arcs")
"""Expressions of side constraints that :func:`lower` handles."""


@dataclass(frozen=True, slots=True, eq=False)
class BatchedInstance(OnCluster):
    """Arrays indexed by operator i, device u, granules c, edge e.

    Attributes
    ----------
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
    grows
        Whether the delay grows with the number of inputs that move together.
    memory
        Bytes that each input of an operator takes.
    """

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
    grows: bool
    memory: IntArray

    def delay(self, e: int, a: int, b: int, inputs: int) -> float:
        """Seconds that ``inputs`` inputs of edge e take from device a to device b."""
        moved = int(self.size[e]) * (inputs if self.grows else 1)
        return 0.0 if a == b else float(self.latency[a, b] + moved * self.seconds_per_byte[a, b])

    def sizes(self, i: int, u: int) -> list[int]:
        """The positive numbers of granules that operator i can run on device u."""
        return [c for c in range(1, self.granules + 1) if np.isfinite(self.seconds[i, u, c])]


@once
def lower(problem: BatchedMapping) -> BatchedInstance:
    """Write a problem as arrays, including Pin, Forbid, MemoryCap, Share and order arcs.

    Raises
    ------
    ContradictionError
        If these leave an operator no device, or close a cycle.
    """
    shared = on_cluster(problem)
    graph, plain = problem.graph, tuple(plain_constraints(problem))
    count = len(graph.operators)
    group = tied(graph, plain)
    before = with_order_arcs(problem, graph.arrays.predecessors)
    known: BoolArray = np.isfinite(problem.times)
    somewhere: BoolArray = np.asarray(known.any(axis=2))
    allowed = left_to_run_on(graph, shared["devices"], somewhere, group, plain)
    source, target, tensor = flows_of(graph)
    sizes = [size for size, there in zip(problem.sizes, np.moveaxis(known, 2, 0), strict=True) if there.any()]
    granule = math.gcd(problem.batch, *sizes)
    edges, edge_of = np.unique(source * count + target, return_inverse=True)
    first, second = np.divmod(edges, max(1, count))
    size = np.zeros(len(edges), dtype=np.int64)
    np.maximum.at(size, edge_of, graph.arrays.tensor_bytes[tensor])
    return BatchedInstance(
        **shared,
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
        grows=problem.transfers == "delay",
        memory=problem.sizes_per_input,
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
            row[np.arange(len(row)) * granule != share.inputs] = np.inf
    return seconds


@once
def shortage(problem: BatchedMapping) -> str | None:
    """Say why the batch cannot run, if that is easy to see.

    The function looks for operators whose batch sizes, as far as side constraints and memory allow them, cannot add up
    to the batch, and for too little memory in total.

    Returns
    -------
    str or None
        The reason, with the operator, and the missing bytes or the largest batch that it can run; None if none was
        found, which proves nothing.

    Examples
    --------
    >>> from opweave.problems.cluster import Cluster, Device
    >>> from opweave.problems.costs import Costs
    >>> from opweave.problems.graph import OpGraph, Operator, Tensor
    >>> graph = OpGraph(tensors=[Tensor(id="y", bytes=4)], operators=[Operator(id="p", outputs=["y"])])
    >>> cluster = Cluster(devices=[Device(name="a", memory_bytes=5)])
    >>> costs = Costs.from_table({"p": {"a": {1: 1.0, 2: 1.5}}})
    >>> shortage(BatchedMapping(graph=graph, cluster=cluster, costs=costs, batch=2))
    "operator 'p' cannot run 2 inputs: the memory of its devices allows 1 at most"
    """
    try:
        return next(_reasons(problem, lower(problem)), None)
    except ContradictionError as error:
        return str(error)


def _reasons(problem: BatchedMapping, instance: BatchedInstance) -> Iterator[str]:
    """Operators that cannot run the batch, for lack of batch sizes or of memory, and too little memory in total."""
    able = np.isfinite(instance.seconds)
    for i, most in _unable(able):
        yield _cannot_run(problem, instance.names[i], "its times and side constraints allow", most * instance.granule)
    if not instance.limited:
        return
    inputs = np.arange(instance.granules + 1.0) * instance.granule
    weights = np.bincount(
        instance.parameters.heads(), instance.parameter_bytes[instance.parameters.items], instance.operators
    )
    needed = np.where(inputs > 0, weights[:, None] + instance.memory[:, None] * inputs, 0.0) * (1.0 - BLUR)
    fits = able & (needed[:, None] <= instance.capacity[:, None])
    for i, most in _unable(fits):
        small = able[i, :, 1:].any(axis=1) & ~fits[i, :, 1:].any(axis=1)  # devices on which no batch of i fits
        lost = small & ~able[i, :, 0]
        alone = np.asarray(lost if lost.any() else small & ~fits[i, :, 1:].any())
        for u in np.flatnonzero(alone).tolist():
            least = problem.memory_of({instance.names[i]: int(able[i, u, 1:].argmax() + 1) * instance.granule})
            what = f"operator {instance.names[i]!r} needs {least:,} bytes for its smallest batch"
            here = np.arange(len(alone)) == u
            yield too_large(what, least, here, instance.capacity, instance.devices) or what
        yield _cannot_run(problem, instance.names[i], "the memory of its devices allows", most * instance.granule)
    if (instance.capacity == NO_LIMIT).any():
        return
    stored = instance.parameter_bytes[np.unique(instance.parameters.items)].tolist()
    total, room = sum(stored) + problem.batch * sum(instance.memory.tolist()), sum(instance.capacity.tolist())
    if total > room:
        yield (
            f"the batch needs {counted(total, 'byte')} on all devices together, which hold {room:,}: "
            f"{counted(total - room, 'byte')} short"
        )


def _cannot_run(problem: BatchedMapping, name: str, why: str, most: int) -> str:
    left = f"{most:,} at most" if most else "none"
    return f"operator {name!r} cannot run {counted(problem.batch, 'input')}: {why} {left}"


def _unable(able: BoolArray) -> Iterator[tuple[int, int]]:
    """Operators whose batches cannot add up to all granules, with the largest smaller sum.

    Parameters
    ----------
    able
        Whether an operator may run so many granules on a device. Shape (operators, devices, granules + 1).
    """
    kinds, which = np.unique(able.reshape(len(able), able.shape[1] * able.shape[2]), axis=0, return_inverse=True)
    sums = []
    for kind in kinds.reshape(-1, *able.shape[1:]):
        reached = 1  # bit c: c granules can be made up on the devices so far
        for sizes in kind:
            reached = reduce(or_, (reached << int(c) for c in np.flatnonzero(sizes)), 0)
        sums.append(reached & ((1 << able.shape[2]) - 1))
    for i, kind in enumerate(which.ravel().tolist()):
        if sums[kind].bit_length() < able.shape[2]:
            yield i, max(0, sums[kind].bit_length() - 1)


lower_unless_short = unless_short(lower, shortage)
"""As :func:`lower`, after the cheap proofs that nothing fits."""

taken_in("batched_arrays", TAKEN_IN)
