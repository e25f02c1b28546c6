"""The order in which a pipeline runs the operators, and the tensors that cross each possible cut of that order."""

from __future__ import annotations

from typing import Literal, NamedTuple

from opweave.problems.graph import OpGraph
from opweave.problems.graph_arrays import topological_order

Cuts = Literal["dominators", "prefix"]
Entrance = Literal["first", "everywhere"]


def running_order(graph: OpGraph) -> tuple[str, ...]:
    """Order operators by data, in listed order among those that are ready; an operator that waits for none runs late.

    It runs right before its first reader. This keeps constants and second inputs from crossing cuts unnecessarily.

    Examples
    --------
    >>> from opweave.problems.graph import Operator, Tensor
    >>> graph = OpGraph(
    ...     tensors=[Tensor(id=name, bytes=1) for name in "xabcd"],
    ...     operators=[
    ...         Operator(id="one", outputs=["a"]),
    ...         Operator(id="first", inputs=["x"], outputs=["b"]),
    ...         Operator(id="then", inputs=["b"], outputs=["c"]),
    ...         Operator(id="add", inputs=["a", "c"], outputs=["d"]),
    ...     ],
    ... )
    >>> running_order(graph)
    ('first', 'then', 'one', 'add')
    """
    before, after = graph.arrays.predecessors, graph.arrays.successors
    by_data = topological_order(after).tolist()
    place = {v: position for position, v in enumerate(by_data)}
    late: dict[int, list[int]] = {}
    for v in by_data:
        if len(before[v]) == 0 and len(after[v]) > 0:
            late.setdefault(min(after[v].tolist(), key=place.__getitem__), []).append(v)
    moved = {v for group in late.values() for v in group}
    order = [v for reader in by_data if reader not in moved for v in (*late.get(reader, ()), reader)]
    return tuple(graph.operators[v].id for v in order)


class CutPoint(NamedTuple):
    """A place between two operators of the order.

    Attributes
    ----------
    position
        Number of operators that run before it.
    tensors
        Tensors that exist by then and are read later, in the order in which they were made; graph inputs come first.
    bytes
        Total bytes of these tensors.
    dominates
        Whether every path from a source of the graph to a result passes through the operator before it.
    """

    position: int
    tensors: tuple[str, ...]
    bytes: int
    dominates: bool


def cut_points(graph: OpGraph, order: tuple[str, ...], inputs: Entrance) -> tuple[CutPoint, ...]:
    """All places between two operators of an order.

    An operator is a source when it reads a graph input (which arrives at the first stage), or when it waits for no
    other operator and reads something; a constant is not a source. An operator is a result when it writes a graph
    output or something that no operator reads.
    """
    place = {name: position for position, name in enumerate(order)}
    size = {tensor.id: tensor.bytes for tensor in graph.tensors}
    made: list[tuple[str, ...]] = [()] * len(order)
    last_read: dict[str, int] = {}
    for op in graph.operators:
        at = place[op.id]
        made[at] = op.outputs
        for tensor in op.inputs:
            if last_read.get(tensor, -1) < at:
                last_read[tensor] = at
    last_source, first_result = _ends(graph, place, inputs, last_read)
    live = [name for name in graph.inputs if name in last_read] if inputs == "first" else []
    points = []
    for position in range(1, len(order)):
        done = position - 1
        own = made[done]
        live = [name for name in (*live, *own) if last_read.get(name, -1) > done]
        passes = last_source <= done <= first_result
        dominates = passes and bool(live) and all(name in own for name in live)
        points.append(CutPoint(position, tuple(live), sum([size[name] for name in live]), dominates))
    return tuple(points)


def _ends(graph: OpGraph, place: dict[str, int], inputs: Entrance, last_read: dict[str, int]) -> tuple[int, int]:
    """Positions of the last source and of the first result."""
    results, outside = set(graph.outputs), set(graph.inputs)
    last_source, first_result = -1, len(place)
    for op in graph.operators:
        at = place[op.id]
        fed = not outside.isdisjoint(op.inputs)
        if fed and (inputs == "first" or outside.issuperset(op.inputs)):
            last_source = max(last_source, at)
        if at < first_result and (not results.isdisjoint(op.outputs) or not any(t in last_read for t in op.outputs)):
            first_result = at
    return last_source, first_result
