"""Fused nodes written as an ordinary memory-ordering problem, and the conversion of its orders back."""

from __future__ import annotations

from collections.abc import Sequence

from opweave.formulations.memory_ordering.nodes import Node
from opweave.formulations.reduction import Reduction
from opweave.problems.constraints import Precede
from opweave.problems.graph import Operator, OpGraph, Tensor
from opweave.problems.limits import DEFAULT_LIMITS
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering


def fused_problem(
    problem: MemoryOrdering, nodes: Sequence[Node], arcs: Sequence[tuple[str, str]]
) -> Reduction[MemoryOrdering, Ordering]:
    """Write ``nodes`` as operators; a node with one member stays the operator that it is.

    Parameters
    ----------
    problem
        The original problem.
    nodes
        A partition of its operators. Storages are numbered as in :class:`~.instance.OrderingInstance`.
    arcs
        Pairs (before, after) of operator ids that the side constraints require; none of them is in a fused node.
    """
    writer = _Writer(problem, sorted(nodes, key=lambda node: min(node.members)))
    reduced = problem.model_copy(
        update={
            "graph": writer.graph(),
            "constraints": tuple(Precede(before=before, after=after) for before, after in arcs),
        }
    )
    inner = writer.inner_orders()

    def lift(solution: Ordering) -> Ordering:
        return Ordering(order=tuple(name for fused in solution.order for name in inner[fused]))

    return Reduction(problem=reduced, lift=lift, exact=True)


class _Writer:
    """Names the operators, and keeps the tensors that are still needed.

    A view whose storage is made in the same node is replaced by the storage. Other views stay, because their readers
    have to wait for the operator that makes them.
    """

    def __init__(self, problem: MemoryOrdering, nodes: Sequence[Node]) -> None:
        self._graph = problem.graph
        self._nodes = nodes
        self._home = {self._graph.operators[v].id: k for k, node in enumerate(nodes) for v in node.members}
        self._owners = [tensor.id for tensor in self._graph.tensors if tensor.alias_of is None]
        self._roots = frozenset(self._owners)
        self._names = self._name_nodes()
        self._tensor = {tensor.id: self._kept_as(tensor.id) for tensor in self._graph.tensors}

    def inner_orders(self) -> dict[str, tuple[str, ...]]:
        """The original operators, in order, of every operator of the smaller problem."""
        operators = self._graph.operators
        return {
            name: tuple(operators[v].id for v in node.members)
            for name, node in zip(self._names, self._nodes, strict=True)
        }

    def graph(self) -> OpGraph:
        """The smaller graph."""
        operators = tuple(
            self._single(node) if len(node.members) == 1 else self._fused(node, name)
            for node, name in zip(self._nodes, self._names, strict=True)
        )
        outputs = tuple(dict.fromkeys(self._graph.storage[name] for name in self._graph.outputs))
        needed = {name for op in operators for name in (*op.inputs, *op.outputs)}
        needed.update(self._graph.inputs)
        return OpGraph(
            name=self._graph.name,
            operators=operators,
            tensors=tuple(
                tensor if tensor.alias_of is None else self._view(tensor)
                for tensor in self._graph.tensors
                if tensor.id in needed
            ),
            parameters=self._graph.parameters,
            outputs=outputs,
        )

    def _view(self, tensor: Tensor) -> Tensor:
        return tensor.model_copy(update={"alias_of": self._graph.storage[tensor.id]})

    def _home_of(self, tensor: str) -> int | None:
        maker = self._graph.producer.get(tensor)
        return None if maker is None else self._home[maker]

    def _kept_as(self, tensor: str) -> str:
        root = self._graph.storage[tensor]
        return root if self._home_of(tensor) == self._home_of(root) else tensor

    def _single(self, node: Node) -> Operator:
        op = self._graph.operators[node.members[0]]
        return op.model_copy(
            update={
                "inputs": tuple(self._tensor[name] for name in op.inputs),
                "outputs": tuple(name for name in op.outputs if self._tensor[name] == name),
            }
        )

    def _fused(self, node: Node, name: str) -> Operator:
        members = [self._graph.operators[v] for v in node.members]
        inside = {tensor for op in members for tensor in op.outputs}
        views = {self._tensor[tensor] for op in members for tensor in op.inputs} - inside - self._roots
        made_views = {tensor for tensor in inside if self._tensor[tensor] == tensor} - self._roots
        return Operator(
            id=name,
            kind="fused",
            inputs=(*(self._owners[s] for s in node.reads), *sorted(views)),
            outputs=(*(self._owners[s] for s in node.writes), *sorted(made_views)),
            workspace_bytes=node.workspace,
            parameters=tuple(dict.fromkeys(parameter for op in members for parameter in op.parameters)),
            flops=sum(op.flops for op in members),
            inplace_ok=node.inplace_ok,
        )

    def _name_nodes(self) -> list[str]:
        taken = {op.id for op in self._graph.operators}
        names: list[str] = []
        for node in self._nodes:
            first, last = (self._graph.operators[v].id for v in (node.members[0], node.members[-1]))
            name = first
            if len(node.members) > 1:
                name = f"{first}..{last}"
                if len(name) > DEFAULT_LIMITS.id_characters:
                    name = f"fused {len(names)}"
                while name in taken:
                    name = f"{name}'"
                taken.add(name)
            names.append(name)
        return names
