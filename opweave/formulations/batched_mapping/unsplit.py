"""Placements within batched mapping: the whole batch on one device per operator, and the path of one input.

All methods for placement apply to both. For a batch of one input, the first is the problem itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from opweave.problems.arrays import FloatArray
from opweave.problems.batched_mapping.spec import Batch, BatchedMapping, BatchedSchedule
from opweave.problems.constraints import Constraint, Forbid, Pin, Share, means
from opweave.problems.costs import Costs
from opweave.problems.graph import OpGraph
from opweave.problems.limits import MAX_BYTES
from opweave.problems.placement.spec import Placement, Schedule
from opweave.problems.spec import FrozenDict


def placement_with(problem: BatchedMapping, graph: OpGraph, seconds: FloatArray) -> Placement:
    """A placement on the same cluster under the same constraints; NaN if an operator cannot run on a device."""
    table = tuple(tuple(None if np.isnan(s) else float(s) for s in row) for row in seconds.tolist())
    costs = Costs(
        operators=graph.operator_ids,
        devices=tuple(device.name for device in problem.cluster.devices),
        table=table,
    )
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
    held = {name: batch * size for name, size in problem.bytes_per_input.items()}
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
    free = problem.model_copy(
        update={"cluster": problem.cluster.model_copy(update={"devices": devices}), "constraints": ()}
    )
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
