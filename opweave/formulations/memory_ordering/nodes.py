"""The graph during fusion: nodes that stand for one or more operators, and the storages of the instance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from opweave.formulations.memory_ordering.instance import OrderingInstance
from opweave.problems.arrays import BoolArray
from opweave.problems.constraints import Precede
from opweave.problems.graph import Operator, OpGraph, Tensor
from opweave.problems.graph_arrays import Adjacency, topological_order
from opweave.problems.limits import DEFAULT_LIMITS
from opweave.problems.memory_ordering.spec import InPlace, MemoryOrdering

MOST_REACHABILITY_NODES = 20_000
"""Most nodes for which all ancestors are stored (bitsets of nodes**2 / 4 bytes); beyond, only direct predecessors."""


@dataclass(frozen=True, slots=True)
class Node:
    """One operator, or several that run back to back as one.

    Attributes
    ----------
    members
        Operator positions in running order.
    reads, writes
        Storages that it needs from outside, and storages that it leaves behind or that have no reader.
    workspace
        Bytes that its busiest step needs beyond the live bytes before it and ``writes``, minus the bytes that it
        overwrites.
    inplace_ok
        Whether the problem's in-place rule applies to it.
    """

    members: tuple[int, ...]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    workspace: int
    inplace_ok: bool


def single_nodes(problem: MemoryOrdering, instance: OrderingInstance) -> list[Node]:
    """A node for every operator."""
    return [
        Node(
            members=(v,),
            reads=tuple(instance.reads[v].tolist()),
            writes=tuple(instance.writes[v].tolist()),
            workspace=int(instance.workspace[v]),
            inplace_ok=op.inplace_ok,
        )
        for v, op in enumerate(problem.graph.operators)
    ]


class NodeGraph:
    """Nodes with their precedences and storages; it is rebuilt after every round of fusion.

    Attributes
    ----------
    nodes
        The nodes.
    size, kept
        Per storage: the bytes that count, and whether it stays to the end.
    producer
        Node that makes each storage; -1 for graph inputs and for storages inside a node.
    readers
        Nodes that read each storage.
    before, after
        Direct predecessors and successors of every node.
    order, position
        One topological order of the nodes, and the position of every node in it.
    """

    def __init__(self, nodes: Sequence[Node], instance: OrderingInstance, in_place: InPlace) -> None:
        self.nodes = tuple(nodes)
        self.in_place = in_place
        self.size: list[int] = instance.size.tolist()
        self.kept: list[bool] = instance.kept.tolist()
        self.producer = [-1] * len(self.size)
        self.readers: list[list[int]] = [[] for _ in self.size]
        home = [0] * instance.operators
        for k, node in enumerate(self.nodes):
            for v in node.members:
                home[v] = k
            for s in node.writes:
                self.producer[s] = k
            for s in node.reads:
                self.readers[s].append(k)
        where = np.asarray(home, dtype=np.int64)
        late, early = where[instance.before.heads()], where[instance.before.items]
        before = Adjacency.from_pairs(len(nodes), late[late != early], early[late != early])
        after = before.reversed(len(nodes))
        self.before, self.after = before.lists(), after.lists()
        self.order = topological_order(after).tolist()
        self.position = [0] * len(self.order)
        for index, k in enumerate(self.order):
            self.position[k] = index
        self._ancestors: list[int] | None = None  # as bitsets
        if len(self.nodes) <= MOST_REACHABILITY_NODES:
            self._ancestors = [0] * len(self.nodes)
            for k in self.order:
                for j in self.before[k]:
                    self._ancestors[k] |= self._ancestors[j] | (1 << j)

    def precedes(self, first: int, second: int) -> bool:
        """Whether ``first`` is known to run before ``second`` in every order."""
        if self._ancestors is None:
            return first in self.before[second]
        return bool(self._ancestors[second] >> first & 1)

    def between(self, firsts: Sequence[int], last: int) -> list[int]:
        """Nodes on paths from any of ``firsts`` to ``last``, ends included, in topological order."""
        assert self._ancestors is not None
        starts = sum(1 << k for k in set(firsts))
        found, work = {last}, [last]
        while work:
            for j in self.before[work.pop()]:
                if j not in found and (starts >> j & 1 or self._ancestors[j] & starts):
                    found.add(j)
                    work.append(j)
        return sorted(found, key=self.position.__getitem__)

    def candidates(self, node: Node) -> tuple[int, ...]:
        """Storages that a node may overwrite when they die in its step."""
        if self.in_place == "none" or not node.inplace_ok:
            return ()
        sizes = {self.size[s] for s in node.writes}
        allowed = node.reads[:1] if self.in_place == "first" else node.reads
        return tuple(s for s in allowed if not self.kept[s] and self.size[s] > 0 and self.size[s] in sizes)


def problem_of(
    problem: MemoryOrdering, instance: OrderingInstance, nodes: Sequence[Node], kept: BoolArray
) -> MemoryOrdering:
    """Some nodes as an ordering problem of their own; an operator stands for each of them, in this order.

    Every storage is one tensor. One that other nodes make is a graph input. Nodes that follow each other without data
    (views, order constraints) do so by a constraint.

    Parameters
    ----------
    problem, instance
        The whole problem and its arrays.
    nodes
        Disjoint groups of operators.
    kept
        Storages that stay to the end. Shape (storages,).
    """
    graph = problem.graph
    owners = [tensor.id for tensor in graph.tensors if tensor.alias_of is None]
    names = _names(graph, nodes)
    home = {v: k for k, node in enumerate(nodes) for v in node.members}
    maker = {s: k for k, node in enumerate(nodes) for s in node.writes}
    arcs = []
    for k, node in enumerate(nodes):
        waits = {home[u] for v in node.members for u in instance.before[v].tolist() if u in home}
        arcs += [(j, k) for j in sorted(waits - {k} - {maker.get(s) for s in node.reads})]
    ends = np.flatnonzero(kept).tolist()
    touched = sorted({*ends, *(s for node in nodes for s in (*node.reads, *node.writes))})
    operators = tuple(
        Operator(
            id=name,
            kind="fused" if len(node.members) > 1 else graph.operators[node.members[0]].kind,
            inputs=tuple(owners[s] for s in node.reads),
            outputs=tuple(owners[s] for s in node.writes),
            workspace_bytes=node.workspace,
            inplace_ok=node.inplace_ok,
        )
        for name, node in zip(names, nodes, strict=True)
    )
    return MemoryOrdering(
        graph=OpGraph(
            name=graph.name,
            operators=operators,
            tensors=tuple(Tensor(id=owners[s], bytes=int(instance.size[s])) for s in touched),
            outputs=tuple(owners[s] for s in ends),
        ),
        constraints=tuple(Precede(before=names[j], after=names[k]) for j, k in arcs),
        in_place=problem.in_place,
        limit_bytes=problem.limit_bytes,
    )


def _names(graph: OpGraph, nodes: Sequence[Node]) -> list[str]:
    """The operator's name for a single one, otherwise a new one."""
    taken = {op.id for op in graph.operators}
    names: list[str] = []
    for node in nodes:
        first, last = (graph.operators[v].id for v in (node.members[0], node.members[-1]))
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
