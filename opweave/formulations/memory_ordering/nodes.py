"""The graph during fusion: nodes that stand for one or more operators, and the storages of the instance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from opweave.formulations.memory_ordering.instance import OrderingInstance
from opweave.problems.graph_arrays import Adjacency, topological_order
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
        self.before, self.after = self._adjacent(instance.before, home)
        self.order = topological_order(Adjacency.from_lists(self.after)).tolist()
        self.position = [0] * len(self.order)
        for index, k in enumerate(self.order):
            self.position[k] = index
        self._ancestors = self._reach()

    def _adjacent(self, before: Adjacency, home: Sequence[int]) -> tuple[list[list[int]], list[list[int]]]:
        into: list[list[int]] = [[] for _ in self.nodes]
        out: list[list[int]] = [[] for _ in self.nodes]
        start, items = before.start.tolist(), before.items.tolist()
        for k, node in enumerate(self.nodes):
            found = {home[u] for v in node.members for u in items[start[v] : start[v + 1]]}
            into[k] = sorted(found - {k})
            for j in into[k]:
                out[j].append(k)
        return into, out

    def _reach(self) -> list[int] | None:
        """Ancestors of every node as bitsets; None if there are too many nodes."""
        if len(self.nodes) > MOST_REACHABILITY_NODES:
            return None
        masks = [0] * len(self.nodes)
        for k in self.order:
            mask = 0
            for j in self.before[k]:
                mask |= masks[j] | (1 << j)
            masks[k] = mask
        return masks

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

    def candidates(self, reads: Sequence[int], writes: Iterable[int]) -> tuple[int, ...]:
        """Storages that a node with ``inplace_ok`` may overwrite when they die in its step."""
        if self.in_place == "none":
            return ()
        sizes = {self.size[s] for s in writes}
        allowed = reads[:1] if self.in_place == "first" else reads
        return tuple(s for s in allowed if not self.kept[s] and self.size[s] > 0 and self.size[s] in sizes)

    def overwritten(self, dying: Iterable[int], writes: Iterable[int]) -> int:
        """Bytes of ``writes`` that replace ``dying`` storages of the same size."""
        shared = Counter(self.size[s] for s in dying) & Counter(self.size[s] for s in writes)
        return sum(size * count for size, count in shared.items())
