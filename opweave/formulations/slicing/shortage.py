"""Simple proofs that a slicing problem has no solution, in the user's words, and the limits that plans can break."""

from __future__ import annotations

from collections.abc import Iterator

from opweave.formulations import on_cluster as shared
from opweave.formulations.on_cluster import asked_of, room_of
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
    "operator 'p' stays whole (its geometry is not known) and needs 9 bytes; no device that may run it holds more \
than 5: 4 bytes short"
    """
    limited = any(limit is not None for limit in problem.memory_limits.values())
    return next(_reasons(problem), None) if limited or problem.constraints else None


def rules_in_the_way(problem: Slicing, *, rows_added: bool = False) -> str:
    """Name the rules of the problem that may exclude all cuts; ``rows_added``: whether the user added rows."""
    own = {"the most parts by the rule": rules_by_memory(problem)}
    return shared.rules_in_the_way(problem, own=own, rows_added=rows_added)


def _reasons(problem: Slicing) -> Iterator[str]:
    asked, limits, cuttings = (
        asked_of(problem.known_seconds, problem.constraints),
        problem.memory_limits,
        problem.cuttings,
    )
    allowed = {name: asked[name].allowed(known) for name, known in problem.known_seconds.items()}
    for name, devices in allowed.items():
        if not devices:
            yield f"operator {name!r} has no device left that may run it, after pins and forbids"
    for op in problem.graph.operators:  # one device must hold those that stay whole, or that only one device may run
        room = [limit for device in allowed[op.id] if (limit := limits[device]) is not None]
        whole, needed = not cuttings[op.id].lengths, _bytes_at(problem, op.id)
        if len(room) == len(allowed[op.id]) and (whole or len(room) == 1) and needed > max(room):
            why = f"stays whole ({cuttings[op.id].why_whole})" if whole else "may run on one device only"
            yield (
                f"operator {op.id!r} {why} and needs {needed:,} bytes; no device that may run it holds more than "
                f"{max(room):,}: {counted(needed - max(room), 'byte')} short"
            )
    together = room_of(limits.values())
    if together is None:
        return
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


def _bytes_at(problem: Slicing, name: str) -> int:
    """Fewest bytes on the device of a whole operator while it runs."""
    op = problem.graph.operators[problem.graph.operator_index[name]]
    made = sum(problem.tensor_bytes[tensor] for tensor in op.outputs)
    tensors = made + sum(_bytes_read(problem, name, tensor) for tensor in set(op.inputs))
    return tensors + problem.weight_bytes(name) + op.workspace_bytes


def _bytes_read(problem: Slicing, name: str, tensor: str) -> int:
    """Bytes of an input that all rows of an operator read; strides may skip the first or last of it."""
    cutting, extent = problem.cuttings[name], problem.extents[tensor]
    if cutting.geometry is None or "rows" not in cutting.lengths or extent.rows == 1:
        return problem.tensor_bytes[tensor]
    first, end = cutting.geometry.window(0, cutting.lengths["rows"], rows=extent.rows)
    return (end - first) * extent.channels * extent.cell_bytes


def binding_limits(problem: Slicing) -> tuple[int | None, ...]:
    """Bytes that every device may hold; None also for devices that could hold everything at once.

    Without limits, no memory has to be counted, and the order of the operators does not matter.
    """
    if not any(limit is not None for limit in problem.memory_limits.values()):
        return tuple(problem.memory_limits.values())
    graph, size = problem.graph, problem.tensor_bytes
    held = sum(graph.parameter_bytes.values()) + sum(size.values())
    gathered = sum(size[name] for name in graph.outputs)
    needs = (op.workspace_bytes + sum(size[name] for name in op.inputs) for op in graph.operators)
    most = held + max(gathered, max(needs, default=0))
    return tuple(None if limit is None or limit >= most else limit for limit in problem.memory_limits.values())


def rules_by_memory(problem: Slicing) -> bool:
    """Whether the paper's rule compares memory, which depends on the order even where everything fits."""
    return problem.dimension == "rule" and None not in problem.memory_limits.values()
