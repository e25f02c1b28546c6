"""Which limits of memory a plan of slicing can break."""

from __future__ import annotations

from opweave.problems.slicing.spec import Slicing


def binding_limits(problem: Slicing) -> tuple[int | None, ...]:
    """Bytes that every device may hold; None also for devices that could hold everything at once.

    Without limits, no memory has to be counted, and the order of the operators does not matter.
    """
    graph, size = problem.graph, problem.tensor_bytes
    held = sum(graph.parameter_bytes.values()) + sum(size.values())
    gathered = sum(size[name] for name in graph.outputs)
    needs = (op.workspace_bytes + sum(size[name] for name in op.inputs) for op in graph.operators)
    most = held + max(gathered, max(needs, default=0))
    return tuple(None if limit is None or limit >= most else limit for limit in problem.memory_limits.values())


def rules_by_memory(problem: Slicing) -> bool:
    """Whether the paper's rule compares memory, which depends on the order even where everything fits."""
    return problem.dimension == "rule" and None not in problem.memory_limits.values()
