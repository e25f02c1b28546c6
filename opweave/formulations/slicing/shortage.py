"""Simple proofs that a slicing problem has no solution, in the user's words, and the limits that plans can break."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from opweave.formulations.on_cluster import capacity_of, nowhere_to_run, permitted, too_large
from opweave.problems.arrays import NO_LIMIT
from opweave.problems.graph import Operator
from opweave.problems.slicing.spec import Slicing
from opweave.problems.words import counted


def shortage(problem: Slicing) -> str | None:
    """Say why nothing can fit, if that is easy to see.

    The function looks for operators that no device may run, whole operators that no device holds, and operators that
    all devices together cannot hold however they are cut.

    Returns
    -------
    str or None
        The reason, with operators, devices and the missing bytes; None if none was found, which proves nothing.

    Examples
    --------
    >>> from opweave.problems.cluster import Cluster, Device
    >>> from opweave.problems.costs import Costs
    >>> from opweave.problems.graph import OpGraph, Operator, Parameter
    >>> graph = OpGraph(
    ...     tensors=[], parameters=[Parameter(id="w", bytes=9)], operators=[Operator(id="p", parameters=["w"])]
    ... )
    >>> cluster = Cluster(devices=[Device(name="a", memory_bytes=5)])
    >>> shortage(Slicing(graph=graph, cluster=cluster, costs=Costs.from_table({"p": {"a": 1.0}})))
    "operator 'p' stays whole (its geometry is not known) and needs 9 bytes; 'a', the largest device that may run it, \
holds 5: 4 bytes short"
    """
    limited = any(limit is not None for limit in problem.memory_limits.values())
    return next(_reasons(problem), None) if limited or problem.constraints else None


def _reasons(problem: Slicing) -> Iterator[str]:
    names, devices = problem.graph.operator_ids, [device.name for device in problem.cluster.devices]
    capacity, known = capacity_of(problem.memory_limits.values()), ~np.isnan(problem.columns.seconds)
    able = known & permitted(problem.graph.operator_index, devices, problem.constraints)
    for v in np.flatnonzero(~able.any(axis=1)).tolist():
        yield nowhere_to_run([names[v]], devices, known[v], problem.constraints)
    for v, op in enumerate(problem.graph.operators):  # one device must hold it if it stays whole, or has only one
        cutting = problem.cuttings[op.id]
        if not cutting.lengths or able[v].sum() == 1:
            why = "may run on one device only" if cutting.lengths else f"stays whole ({cutting.why_whole})"
            needed = _bytes_at(problem, op)
            what = f"operator {op.id!r} {why} and needs {needed:,} bytes"
            yield from filter(None, [too_large(what, needed, able[v], capacity, devices)])
    if (capacity == NO_LIMIT).any():
        return
    together = sum(capacity.tolist())
    resident = sum(problem.weight_bytes(op.id) for op in problem.graph.operators)
    for op in problem.graph.operators:  # whatever the cuts, weights and its tensors are stored at least once
        inner = {name for name in op.inputs if name in problem.graph.producer}
        weights = resident if problem.weights == "resident" else problem.weight_bytes(op.id)
        needed = sum(problem.tensor_bytes[name] for name in inner.union(op.outputs)) + weights
        if needed > together:
            yield (
                f"while operator {op.id!r} runs, weights and tensors take at least {needed:,} bytes however they are "
                f"cut; all devices together hold {together:,}: {counted(needed - together, 'byte')} short"
            )


def _bytes_at(problem: Slicing, op: Operator) -> int:
    """Fewest bytes on the device of a whole operator while it runs; strides may skip rows of what it reads."""
    read = () if problem.cuttings[op.id].lengths else {*op.inputs}
    tensors = sum(problem.tensor_bytes[name] for name in (*op.outputs, *read))
    return tensors + problem.weight_bytes(op.id) + op.workspace_bytes


def binding_limits(problem: Slicing) -> tuple[int | None, ...]:
    """Bytes that every device may hold; None also for devices that could hold everything at once.

    Without limits, no memory has to be counted, and the order of the operators does not matter.
    """
    if not any(limit is not None for limit in problem.memory_limits.values()):
        return tuple(problem.memory_limits.values())
    graph, size = problem.graph, problem.tensor_bytes
    held = sum(graph.parameter_bytes.values()) + sum(size.values())
    needs = (op.workspace_bytes + sum(size[name] for name in op.inputs) for op in graph.operators)
    most = held + max(needs, default=0)
    return tuple(None if limit is None or limit >= most else limit for limit in problem.memory_limits.values())


def rules_by_memory(problem: Slicing) -> bool:
    """Whether the paper's rule compares memory, which depends on the order even where everything fits."""
    return problem.dimension == "rule" and None not in problem.memory_limits.values()
