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
    if not problem.constraints and not any(limit is not None for limit in problem.memory_limits.values()):
        return None
    return next(_reasons(problem), None)


def rules_in_the_way(problem: Slicing, *, rows_added: bool = False) -> str:
    """Name the rules of the problem that may exclude all cuts; ``rows_added``: whether the user added rows."""
    own = {"the most parts by the rule": rules_by_memory(problem)}
    return shared.rules_in_the_way(problem, own=own, rows_added=rows_added)


def _reasons(problem: Slicing) -> Iterator[str]:
    allowed = _allowed(problem)
    for name, devices in allowed.items():
        if not devices:
            yield f"operator {name!r} has no device left that may run it, after pins and forbids"
            return
    yield from _too_large_alone(problem, allowed)
    yield from _too_large_together(problem)


def _allowed(problem: Slicing) -> dict[str, frozenset[str]]:
    """Devices that may compute a part of every operator."""
    asked = asked_of(problem.known_seconds, problem.constraints)
    return {name: asked[name].allowed(known) for name, known in problem.known_seconds.items()}


def _too_large_alone(problem: Slicing, allowed: dict[str, frozenset[str]]) -> Iterator[str]:
    """Operators that one device must hold, because they stay whole or only one device may run them."""
    for op in problem.graph.operators:
        devices, limits = allowed[op.id], problem.memory_limits
        known = [limit for device in devices if (limit := limits[device]) is not None]
        whole = not problem.cuttings[op.id].lengths
        if len(known) < len(devices) or not (whole or len(devices) == 1):
            continue
        needed = _bytes_at(problem, op.id)
        if needed > max(known):
            why = f"stays whole ({problem.cuttings[op.id].why_whole})" if whole else "may run on one device only"
            yield (
                f"operator {op.id!r} {why} and needs {needed:,} bytes; no device that may run it holds more than "
                f"{max(known):,}: {counted(needed - max(known), 'byte')} short"
            )


def _too_large_together(problem: Slicing) -> Iterator[str]:
    """Whatever the cuts, weights and the running operator's tensors are stored at least once."""
    room = room_of(problem.memory_limits.values())
    if room is None:
        return
    resident = sum(problem.weight_bytes(op.id) for op in problem.graph.operators)
    for op in problem.graph.operators:
        inner = [name for name in op.inputs if name in problem.graph.producer]
        tensors = sum(problem.tensor_bytes[name] for name in {*inner, *op.outputs})
        weights = resident if problem.weights == "resident" else problem.weight_bytes(op.id)
        needed = tensors + weights
        if needed > room:
            yield (
                f"while operator {op.id!r} runs, weights and tensors take at least {needed:,} bytes however they are "
                f"cut; all devices together hold {room:,}: {counted(needed - room, 'byte')} short"
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
