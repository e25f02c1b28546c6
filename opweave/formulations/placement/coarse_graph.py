"""The smaller graph that coarsening makes, in which every chain of operators is one operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from opweave.problems.graph import Operator, OpGraph, Tensor
from opweave.problems.limits import DEFAULT_LIMITS

Chain = tuple[int, ...]
Intermediates = Literal["kept", "dropped"]


class CoarseGraph:
    """Names and writes the operators of the smaller graph.

    Parameters
    ----------
    graph, chains
        The original graph, and for every operator of the smaller graph the positions of its members, in order. Chains
        are in a topological order.
    intermediates
        ``"dropped"``: results inside a chain take no memory (the paper). ``"kept"``: they count as workspace, so that a
        device that holds a fused operator can also hold its members.
    """

    def __init__(self, graph: OpGraph, chains: Sequence[Chain], intermediates: Intermediates) -> None:
        self._graph, self._chains, self._intermediates = graph, chains, intermediates
        self.names = self._named()
        self._made = {tensor.id: tensor for tensor in graph.tensors}
        self._inner = {name for chain in chains for v in chain[:-1] for name in graph.operators[v].outputs}
        self._storage: dict[str, str] = {}
        self._kept: dict[str, Tensor] = {}

    def build(self) -> OpGraph:
        """The smaller graph; tensors, parameters and unfused operators keep their ids."""
        for name in self._graph.inputs:
            self._keep(name, self._graph.storage[name])
        operators = [self._operator(chain, name) for chain, name in zip(self._chains, self.names, strict=True)]
        return OpGraph(
            name=self._graph.name,
            operators=tuple(operators),
            tensors=tuple(self._kept[tensor.id] for tensor in self._graph.tensors if tensor.id in self._kept),
            parameters=self._graph.parameters,
            outputs=self._graph.outputs,
        )

    def _keep(self, name: str, storage: str) -> None:
        self._storage[name] = storage
        alias = None if storage == name else storage
        self._kept[name] = self._made[name].model_copy(update={"alias_of": alias})

    def _operator(self, chain: Chain, name: str) -> Operator:
        members = [self._graph.operators[v] for v in chain]
        inside = {tensor for op in members[:-1] for tensor in op.outputs}
        inputs = tuple(dict.fromkeys(tensor for op in members for tensor in op.inputs if tensor not in inside))
        read = {self._storage[tensor] for tensor in inputs}
        for tensor in members[-1].outputs:
            self._keep(tensor, self._storage_of(tensor, read))
        if len(members) == 1:
            return members[0]
        return Operator(
            id=name,
            kind="+".join(op.kind for op in members),
            inputs=inputs,
            outputs=members[-1].outputs,
            workspace_bytes=self._workspace(members),
            parameters=tuple(dict.fromkeys(parameter for op in members for parameter in op.parameters)),
            flops=sum(op.flops for op in members),
        )

    def _storage_of(self, tensor: str, read: set[str]) -> str:
        """The tensor whose storage a result shares; a view of a result inside a chain owns its bytes now."""
        above = self._made[tensor].alias_of
        while above is not None and above in self._inner:
            above = self._made[above].alias_of
        storage = tensor if above is None else self._storage.get(above, tensor)
        return storage if storage in read else tensor

    def _workspace(self, members: Sequence[Operator]) -> int:
        if self._intermediates == "dropped":
            return max(op.workspace_bytes for op in members)
        owned = [self._made[name].bytes for op in members for name in op.outputs if self._made[name].alias_of is None]
        written = [self._kept[name] for name in members[-1].outputs]
        own_now = sum(tensor.bytes for tensor in written if tensor.alias_of is None)
        return max(0, sum(owned) + sum(op.workspace_bytes for op in members) - own_now)

    def _named(self) -> list[str]:
        taken = {op.id for op in self._graph.operators}
        names = []
        for number, chain in enumerate(self._chains):
            first, last = (self._graph.operators[v].id for v in (chain[0], chain[-1]))
            name = first
            if len(chain) > 1:
                name = f"{first}..{last}"
                if len(name) > DEFAULT_LIMITS.id_characters - 8:
                    name = f"fused {number}"
                while name in taken:
                    name = f"{name}'"
                taken.add(name)
            names.append(name)
        return names
