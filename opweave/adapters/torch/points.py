"""Split points for ``torch.distributed.pipelining``, as names of modules."""

from __future__ import annotations

from collections.abc import Sequence

from opweave.adapters.runtimes.groups import Group
from opweave.problems.errors import InvalidInputError
from opweave.problems.graph import OpGraph


def split_points(graph: OpGraph, groups: Sequence[Group]) -> tuple[str, ...]:
    """Name the modules at which new stages begin, for ``pipeline(module, ..., split_spec=...)``.

    Write ``{name: SplitPoint.BEGINNING for name in split_points(graph, groups)}``. PyTorch cuts where the model enters
    a module, in the order in which the model runs. Every group must therefore be a consecutive part of that order that
    begins with a module.

    Parameters
    ----------
    graph
        The model, with the modules of its operators.
    groups
        In pipeline order.

    Raises
    ------
    InvalidInputError
        When a group is not such a part; the message names the operator that prevents it.

    Examples
    --------
    >>> from opweave.problems.graph import Operator
    >>> operators = [Operator(id="q", module="h.0.attn"), Operator(id="up", module="h.0.mlp"),
    ...              Operator(id="q1", module="h.1.attn"), Operator(id="up1", module="h.1.mlp")]
    >>> graph = OpGraph(tensors=[], operators=operators)
    >>> split_points(graph, [Group("a", ("q", "up")), Group("b", ("q1", "up1"))])
    ('h.1',)
    """
    where = {name: index for index, group in enumerate(groups) for name in group.operators}
    stage = []
    for op in graph.operators:
        if op.id not in where:
            raise InvalidInputError(f"no group has operator {op.id!r}; plan this model again")
        stage.append(where[op.id])
    points = []
    for position in range(1, len(stage)):
        if stage[position] == stage[position - 1]:
            continue
        op = graph.operators[position]
        if stage[position] != stage[position - 1] + 1:
            raise InvalidInputError(
                f"operator {op.id!r} runs in stage {stage[position]}, right after one of stage {stage[position - 1]}: "
                "the stages are not consecutive parts of the model's own order, so pipelining cannot split it there"
            )
        points.append(_beginning(graph, position))
    return tuple(points)


def _beginning(graph: OpGraph, position: int) -> str:
    """The outermost module whose first operator is at this position."""
    op = graph.operators[position]
    parts = op.module.split(".") if op.module else []
    for depth in range(1, len(parts) + 1):
        prefix = ".".join(parts[:depth])
        before = graph.operators[:position]
        if not any(other.module == prefix or other.module.startswith(f"{prefix}.") for other in before):
            return prefix
    place = f"in the middle of module {op.module!r}" if op.module else "in no known module"
    raise InvalidInputError(
        f"a stage begins with operator {op.id!r}, {place}; pipelining splits where a module begins: plan with coarser "
        "operators, or move that part into a module of its own"
    )
