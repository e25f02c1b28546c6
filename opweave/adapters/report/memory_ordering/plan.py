"""An order as a plan for people and programs: every step with its bytes."""

from __future__ import annotations

from opweave.problems.graph_arrays import topological_order
from opweave.problems.memory_ordering.spec import MemoryOrdering, MemoryProfile, Ordering


def given_order(problem: MemoryOrdering) -> Ordering:
    """Return the order in which the model lists its operators, mended where that breaks a dependence.

    Examples
    --------
    >>> from opweave.problems.graph import OpGraph, Operator
    >>> given_order(MemoryOrdering(graph=OpGraph(operators=[Operator(id="a"), Operator(id="b")], tensors=[]))).order
    ('a', 'b')
    """
    graph = problem.graph
    return Ordering(order=tuple(graph.operators[index].id for index in topological_order(graph.arrays.successors)))


def plan_json(problem: MemoryOrdering, ordering: Ordering, profile: MemoryProfile) -> dict[str, object]:
    """Write an order with the bytes of every step as plain data; ``profile`` is the order's.

    Returns
    -------
    dict
        ``order`` (operator ids), ``peak_bytes``, ``total_bytes``, ``peak_operator``, ``peak_tensors`` and ``steps``:
        one object for each step with ``operator``, ``kind``, ``stable_bytes`` (live while it runs) and
        ``transient_bytes`` (live after it).
    """
    kinds = {op.id: op.kind for op in problem.graph.operators}
    return {
        "model": problem.graph.name,
        "assumptions": problem.assumptions(),
        "peak_bytes": profile.peak_bytes,
        "peak_operator": profile.peak_operator,
        "peak_tensors": list(profile.peak_tensors),
        "total_bytes": profile.total_bytes,
        "order": list(ordering.order),
        "steps": [
            {"operator": name, "kind": kinds[name], "stable_bytes": stable, "transient_bytes": transient}
            for name, stable, transient in zip(ordering.order, profile.stable, profile.transient, strict=True)
        ],
    }
