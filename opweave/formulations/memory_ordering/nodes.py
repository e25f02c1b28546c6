"""The graph during fusion: nodes that stand for one or more operators, and which groups of them become one node.

Let f(D) be the live bytes after a down-set D of operators; f is submodular, and every storage contributes to it
separately. Take a group U and a state A in which everything that U waits for has run, and nothing of U. Let g(I) =
f(A + I) - f(A) for the down-sets I of U. There are three sufficient conditions. Each covers EVERY down-set I except the
empty one and U. The down-sets of a single schedule are not enough, since they may hide a lower valley.

isolated (Theorem IV.2 of Zhong et al., strong form)
        All that U waits for precedes all of U, all that waits for U follows all of U, and no storage is shared with
        operators that may run in between. Then g is the same wherever U runs. If g(I) >= max(0, g(U)), moving all of U
        to the state with the fewest other live bytes makes no step worse; the group runs there in its own best order.
falling (Theorem IV.1, decreasing, for any U with one source)
        If g(I) >= g(U) and no step needs more than the source's, the rest of U runs right after the source. A later
        state D becomes D + U, and f(D + U) - f(D) <= f(A + U) - f(A + (D & U)) <= 0 by submodularity.
rising (Theorem IV.1, increasing, for any U with one sink)
        If g(I) >= 0 and no step needs more than the sink's, the rest of U waits for the sink, by symmetry.

A storage that is read by U and by operators that may run before or after U is *uncertain*: it dies inside U only in
some orders.

Sources: Zhong et al., "Memory-aware Scheduling for Complex Wired Networks with Iterative Graph Optimization", section
IV-B; for chains the segments of J. W. H. Liu, "An application of generalized tree pebbling to sparse matrix
factorization", 1987, https://doi.org/10.1137/0608031.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from opweave.formulations.derived import fused_names
from opweave.formulations.memory_ordering.instance import OrderingInstance
from opweave.problems.arrays import BoolArray
from opweave.problems.constraints import Precede
from opweave.problems.graph import Operator, OpGraph, Tensor
from opweave.problems.graph_arrays import Adjacency, topological_order
from opweave.problems.limits import MAX_BYTES
from opweave.problems.memory_ordering.spec import InPlace, MemoryOrdering

MOST_REACHABILITY_NODES = 20_000
"""Most nodes for which all ancestors are stored (bitsets of nodes**2 / 4 bytes); beyond, only direct predecessors."""


@dataclass(frozen=True, slots=True)
class FusedNode:
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


def single_nodes(problem: MemoryOrdering, instance: OrderingInstance) -> list[FusedNode]:
    """A node for every operator."""
    return [
        FusedNode(
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

    def __init__(self, nodes: Sequence[FusedNode], instance: OrderingInstance, in_place: InPlace) -> None:
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

    def candidates(self, node: FusedNode) -> tuple[int, ...]:
        """Storages that a node may overwrite when they die in its step."""
        if self.in_place == "none" or not node.inplace_ok:
            return ()
        sizes = {self.size[s] for s in node.writes}
        allowed = node.reads[:1] if self.in_place == "first" else node.reads
        return tuple(s for s in allowed if not self.kept[s] and self.size[s] > 0 and self.size[s] in sizes)


def problem_of(
    problem: MemoryOrdering, instance: OrderingInstance, nodes: Sequence[FusedNode], kept: BoolArray
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
    ids = graph.operator_ids
    names = fused_names([[ids[v] for v in node.members] for node in nodes], graph.operator_index)
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


def fuse_group(graph: NodeGraph, nodes: Sequence[int], most_states: int) -> FusedNode | None:
    """One node that replaces several without changing the least peak; None if that is not proved.

    Not fused: groups with more than ``most_states`` inner states, groups in which an in-place result may overwrite an
    uncertain storage, and groups whose inner peak an operator cannot express.

    Parameters
    ----------
    graph
        The nodes.
    nodes
        The group, in topological order.
    most_states
        Number of inner states that may be visited.
    """
    inside = set(nodes)
    waits_for = {k: [j for j in graph.before[k] if j not in inside] for k in nodes}
    feeds = {k: [j for j in graph.after[k] if j not in inside] for k in nodes}
    sources = [k for k in nodes if len(waits_for[k]) == len(graph.before[k])]
    sinks = [k for k in nodes if len(feeds[k]) == len(graph.after[k])]
    entered = all(graph.precedes(j, k) for late in nodes for j in waits_for[late] for k in sources if k != late)
    left = all(graph.precedes(k, j) for early in nodes for j in feeds[early] for k in sinks if k != early)
    isolated = entered and left
    falling, rising = entered and len(sources) == 1, left and len(sinks) == 1
    if not (falling or rising or isolated):
        return None
    dies = _deaths(graph, nodes, sources)
    uncertain = {s for s, death in dies.items() if death is None}
    if uncertain and any(not uncertain.isdisjoint(graph.candidates(graph.nodes[k])) for k in nodes):
        return None
    # Uncertain storages count as staying, which is the worst case for falling groups: if they die, later operators need
    # less. The sink of a rising group must read them, so that none of them can die before it.
    inner = _Inner(graph, nodes, {s for s, death in dies.items() if death})
    isolated, rising = isolated and not uncertain, rising and uncertain.issubset(graph.nodes[sinks[0]].reads)
    allowed = ((isolated, max(0, inner.end)), (falling, inner.end), (rising, 0))
    found = inner.best_order(min((floor for there, floor in allowed if there), default=0), most_states)
    if found is None:
        return None
    order, peak, lowest = found
    isolated, falling, rising = (there and lowest >= floor for there, floor in allowed)
    falling = falling and peak == inner.step(0, 0, order[0])[0]
    rising = rising and peak == inner.last_cost(order[-1])
    return _as_node(graph, [nodes[v] for v in order], peak) if isolated or falling or rising else None


def _deaths(graph: NodeGraph, nodes: Sequence[int], sources: Sequence[int]) -> dict[int, bool | None]:
    """For every storage that the group reads, whether it dies inside the group; None if only in some orders."""
    inside = set(nodes)
    dies: dict[int, bool | None] = {}
    for s in {s for k in nodes for s in graph.nodes[k].reads}:
        others = [j for j in graph.readers[s] if j not in inside]
        if graph.kept[s] or any(graph.precedes(k, j) for j in others for k in nodes):
            dies[s] = False
        else:
            dies[s] = True if all(graph.precedes(j, k) for j in others for k in sources) else None
    return dies


class _Inner:
    """Down-sets of a group as bitsets of its operators; bytes are relative to those live before the group runs.

    Attributes
    ----------
    end
        Bytes live after the group.
    """

    def __init__(self, graph: NodeGraph, nodes: Sequence[int], dying: Collection[int]) -> None:
        local = {k: index for index, k in enumerate(nodes)}
        readers = dict.fromkeys(dying, 0)
        for k, index in local.items():
            for s in readers.keys() & graph.nodes[k].reads:
                readers[s] |= 1 << index
        each = [graph.nodes[k] for k in nodes]
        size, self._all = graph.size, (1 << len(nodes)) - 1
        self._before = [sum(1 << local[j] for j in graph.before[k] if j in local) for k in nodes]
        self._made = [sum(size[s] for s in node.writes if graph.kept[s] or graph.readers[s]) for node in each]
        self._stay = [node.workspace + sum(size[s] for s in node.writes) for node in each]
        self._reads = [[(size[s], readers[s]) for s in node.reads if s in readers] for node in each]
        self._over = [[(size[s], readers[s]) for s in graph.candidates(node) if s in readers] for node in each]
        self._results = [Counter(size[s] for s in node.writes) for node in each]
        self.end = sum(self._made) - sum(size[s] for s in readers)

    def step(self, state: int, live: int, v: int) -> tuple[int, int]:
        """Bytes needed while operator ``v`` runs after ``state``, and bytes that are live afterwards."""
        waiting = ~(state | 1 << v)
        dying = sum(size for size, readers in self._reads[v] if not readers & waiting)
        over = Counter(size for size, readers in self._over[v] if not readers & waiting) & self._results[v]
        saved = sum(size * count for size, count in over.items())
        return live + self._stay[v] - saved, live + self._made[v] - dying

    def last_cost(self, v: int) -> int:
        """Bytes needed while ``v`` runs last."""
        live = self.end - self._made[v] + sum(size for size, _ in self._reads[v])
        return self.step(self._all & ~(1 << v), live, v)[0]

    def best_order(self, floor: int, most_states: int) -> tuple[tuple[int, ...], int, float] | None:
        """An order with the least peak, that peak, and the fewest bytes of any state between the first and the last.

        None if some such state holds less than ``floor`` bytes, or there are too many.
        """
        lowest, visited = float("inf"), 0
        states: dict[int, tuple[int, int, tuple[int, ...]]] = {0: (0, 0, ())}
        for _ in self._before:
            following: dict[int, tuple[int, int, tuple[int, ...]]] = {}
            for state, (peak, live, order) in states.items():
                for v, before in enumerate(self._before):
                    if state >> v & 1 or before & ~state:
                        continue
                    (cost, after), child = self.step(state, live, v), state | 1 << v
                    if child != self._all:
                        lowest = min(lowest, after)
                    if child not in following or max(peak, cost) < following[child][0]:
                        following[child] = max(peak, cost), after, (*order, v)
            visited += len(following)
            if lowest < floor or visited > most_states + 1:
                return None
            states = following
        peak, _, order = states[self._all]
        return order, peak, lowest


def _as_node(graph: NodeGraph, order: Sequence[int], peak: int) -> FusedNode | None:
    """The group as one operator whose step needs ``peak`` bytes beyond those live before it; None if impossible."""
    inner, inside = [graph.nodes[k] for k in order], set(order)
    made = {s: None for node in inner for s in node.writes}
    writes = tuple(s for s in made if graph.kept[s] or any(reader not in inside for reader in graph.readers[s]))
    node = FusedNode(
        members=tuple(v for each in inner for v in each.members),
        reads=tuple(dict.fromkeys(s for each in inner for s in each.reads if s not in made)),
        writes=writes,
        workspace=peak - sum(graph.size[s] for s in writes),
        inplace_ok=False,
    )
    return node if 0 <= node.workspace <= MAX_BYTES else None
