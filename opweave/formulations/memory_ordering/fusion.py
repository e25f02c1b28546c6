"""Fusion that keeps the optimum: groups of operators become one (sections IV-B1 and IV-B2 of Zhong et al.).

Two kinds of rounds alternate until nothing more can be fused. One fuses neighbouring pairs, which builds up chains. The
other fuses whole sub-graphs between an operator and one that every path from it passes (its post-dominators; Algorithm
1 of the paper grows its candidates from each tensor). The conditions for fusing are in :mod:`.nodes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile

from opweave.formulations.derived import Reduction, identity
from opweave.formulations.memory_ordering.instance import OrderingInstance, lower
from opweave.formulations.memory_ordering.nodes import (
    MOST_REACHABILITY_NODES,
    FusedNode,
    NodeGraph,
    fuse_group,
    problem_of,
    single_nodes,
)
from opweave.formulations.order_arcs import ContradictionError, only_order_arcs, order_arcs
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering

MOST_GROUP_NODES = 40
"""Largest sub-graph that is tried (M in Algorithm 1 of the paper), in nodes, which may themselves be fused."""

MOST_INNER_STATES = 500
"""Most states of a sub-graph that are searched; one with more is not fused."""

END = -1
"""A node after all others."""

MOST_HOPS = 8
"""Number of post-dominators of an operator that are tried as the end of a sub-graph."""


def fuse(
    problem: MemoryOrdering, should_stop: Callable[[], bool] = lambda: False
) -> Reduction[MemoryOrdering, Ordering]:
    """Fuse operators that may run back to back without changing the least peak.

    Every fused operator of the smaller problem is an ordinary one. Its ``workspace_bytes`` hold the inner peak of the
    best inner order, and ``lift`` replaces it by that order. A tensor of the smaller problem is a storage, with the
    bytes that count. The reduction is exact: both problems have the same optimum, also under ``limit_bytes``.

    Handled exactly: several outputs, aliases, kept outputs, workspaces, graph inputs and all in-place rules. Not
    fused: operators that side constraints name, and groups that :func:`~.nodes.fuse_group` cannot prove or express.
    The problem is returned unchanged for objective ``"total"``, for contradictory constraints, and for constraints
    without an ``"order_arcs"`` expression, about which nothing is known.

    Parameters
    ----------
    problem
        Any ordering problem.
    should_stop
        Called now and then; the fusions made until then are exact too.

    Examples
    --------
    >>> from opweave.problems.graph import OpGraph, Operator, Tensor
    >>> graph = OpGraph(
    ...     tensors=[Tensor(id=name, bytes=size) for name, size in (("x", 4), ("a", 8), ("b", 8), ("y", 2))],
    ...     operators=[
    ...         Operator(id="conv", inputs=["x"], outputs=["a"]),
    ...         Operator(id="relu", inputs=["a"], outputs=["b"]),
    ...         Operator(id="pool", inputs=["b"], outputs=["y"]),
    ...     ],
    ...     outputs=["y"],
    ... )
    >>> reduction = fuse(MemoryOrdering(graph=graph))
    >>> [(op.inputs, op.outputs, op.workspace_bytes) for op in reduction.problem.graph.operators]
    [(('x',), ('y',), 10)]
    >>> reduction.lift(Ordering(order=[op.id for op in reduction.problem.graph.operators])).order
    ('conv', 'relu', 'pool')
    """
    if problem.objective != "peak" or not only_order_arcs(problem):
        return identity(problem)
    try:
        instance = lower(problem)
    except ContradictionError:
        return identity(problem)
    index = problem.graph.operator_index
    nodes = _fused(problem, instance, {index[name] for arc in order_arcs(problem) for name in arc}, should_stop)
    if len(nodes) == instance.operators:
        return identity(problem)
    nodes = sorted(nodes, key=lambda node: min(node.members))
    small = problem_of(problem, instance, nodes, instance.kept)
    inner = {op.id: node.members for op, node in zip(small.graph.operators, nodes, strict=True)}

    def lift(solution: Ordering) -> Ordering:
        return Ordering(order=tuple(instance.names[v] for name in solution.order for v in inner[name]))

    return Reduction(problem=small, lift=lift, exact=True)


def _fused(
    problem: MemoryOrdering, instance: OrderingInstance, named: set[int], should_stop: Callable[[], bool]
) -> list[FusedNode]:
    nodes = single_nodes(problem, instance)
    refused: set[tuple[FusedNode, ...]] = set()

    def going_on(_: object) -> bool:
        return not should_stop()

    while not should_stop():
        graph = NodeGraph(nodes, instance, problem.in_place)
        frozen = {k for k, node in enumerate(nodes) if not named.isdisjoint(node.members)}
        fused = _fuse_disjoint(graph, takewhile(going_on, _pairs(graph)), frozen, refused)
        if not fused:
            fused = _fuse_disjoint(graph, takewhile(going_on, _regions(graph)), frozen, refused)
        if not fused:
            break
        gone = {k for group, _ in fused for k in group}
        nodes = [node for k, node in enumerate(nodes) if k not in gone] + [node for _, node in fused]
    return nodes


def _fuse_disjoint(
    graph: NodeGraph, groups: Iterable[Sequence[int]], frozen: set[int], refused: set[tuple[FusedNode, ...]]
) -> list[tuple[tuple[int, ...], FusedNode]]:
    """Fuse disjoint groups; what is proved for one stays true when another is fused.

    ``refused`` remembers groups that failed, because fusing their surroundings seldom changes the answer.
    """
    taken = set(frozen)
    fused: list[tuple[tuple[int, ...], FusedNode]] = []
    for group in groups:
        if not taken.isdisjoint(group):
            continue
        key = tuple(graph.nodes[k] for k in group)
        if key in refused:
            continue
        node = fuse_group(graph, group, MOST_INNER_STATES)
        if node is None:
            refused.add(key)
        else:
            taken.update(group)
            fused.append((tuple(group), node))
    return fused


def _pairs(graph: NodeGraph) -> Iterator[tuple[int, int]]:
    """Every operator paired with each of its direct successors."""
    for k in graph.order:
        for j in graph.after[k]:
            if len(graph.after[k]) == 1 or len(graph.before[j]) == 1 or j == graph.after[k][0]:
                yield k, j


def _regions(graph: NodeGraph) -> Iterator[list[int]]:
    """Sub-graphs from an operator, or from all readers of a storage, to an operator that every path passes.

    Each is tried with and without that last operator.
    """
    import networkx as nx

    count = len(graph.nodes)
    if not 0 < count <= MOST_REACHABILITY_NODES:
        return
    starts = {k: [k] for k in reversed(graph.order)}
    starts |= {count + s: readers for s, readers in enumerate(graph.readers) if len(readers) > 1}
    backwards = nx.DiGraph((j, k) for k, after in enumerate(graph.after) for j in after or [END])
    backwards.add_edges_from((j, number) for number, readers in starts.items() if number >= count for j in readers)
    meets = nx.immediate_dominators(backwards, END)  # of backward paths: every path passes them
    for number, firsts in starts.items():
        last = number
        for _ in range(MOST_HOPS):
            last = meets[last]
            region = [] if last == END else graph.between(firsts, last)
            if last == END or len(region) > MOST_GROUP_NODES:
                break
            for group in (region, region[:-1]):
                if len(group) > 1:
                    yield group
