"""Groups of operators that may run back to back without losing the optimum, and the operator that a group becomes.

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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from opweave.formulations.memory_ordering.inner_states import InnerStates, InnerStorage
from opweave.formulations.memory_ordering.nodes import Node, NodeGraph
from opweave.problems.limits import MAX_BYTES


class Death(Enum):
    """Whether a storage read by a group dies inside it."""

    SURE = "in every order"
    UNCERTAIN = "in some orders"
    NEVER = "in none"


@dataclass(frozen=True, slots=True)
class _Group:
    """Nodes that might be fused, and what the three conditions need to know about their surroundings.

    Attributes
    ----------
    nodes
        The nodes in topological order.
    sources, sinks
        Nodes without a predecessor, and nodes without a successor, in the group.
    falling, rising, isolated
        Whether precedences allow that kind of fusion.
    """

    nodes: tuple[int, ...]
    sources: tuple[int, ...]
    sinks: tuple[int, ...]
    falling: bool
    rising: bool
    isolated: bool


def fuse_group(graph: NodeGraph, nodes: Sequence[int], most_states: int) -> Node | None:
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
        Number of inner states that each check may visit.
    """
    group = _surroundings(graph, nodes)
    if not (group.falling or group.rising or group.isolated):
        return None
    deaths = _deaths(graph, group)
    uncertain = {s for s, death in deaths.items() if death is Death.UNCERTAIN}
    if uncertain and _may_overwrite(graph, group, uncertain):
        return None
    inner = _inner_states(graph, group, deaths, most_states)
    best = _best_order(graph, group, inner, uncertain)
    return None if best is None else _as_node(graph, group, deaths, *best)


def _best_order(
    graph: NodeGraph, group: _Group, inner: InnerStates, uncertain: set[int]
) -> tuple[list[int], int] | None:
    """The best inner order and its peak, if one of the three conditions holds."""
    isolated = group.isolated and not uncertain and inner.holds_at_least(max(0, inner.end))
    # Uncertain storages count as staying, which is the worst case: if they die, later operators need less.
    falling = not isolated and group.falling and inner.holds_at_least(inner.end)
    # Uncertain storages are read by the sink, so none of them can die before it.
    rising = group.rising and uncertain.issubset(graph.nodes[group.sinks[0]].reads)
    rising = rising and not isolated and inner.holds_at_least(0)
    best = inner.best_order() if isolated or falling or rising else None
    if best is None or isolated:
        return best
    order, peak = best
    fits = (falling and peak == inner.first_cost(order[0])) or (rising and peak == inner.last_cost(order[-1]))
    return best if fits else None


def _surroundings(graph: NodeGraph, nodes: Sequence[int]) -> _Group:
    inside = set(nodes)
    waits_for = {k: [j for j in graph.before[k] if j not in inside] for k in nodes}
    feeds = {k: [j for j in graph.after[k] if j not in inside] for k in nodes}
    sources = tuple(k for k in nodes if len(waits_for[k]) == len(graph.before[k]))
    sinks = tuple(k for k in nodes if len(feeds[k]) == len(graph.after[k]))
    entered = _all_precede(graph, [(j, k) for late in nodes for j in waits_for[late] for k in sources if k != late])
    left = _all_precede(graph, [(k, j) for early in nodes for j in feeds[early] for k in sinks if k != early])
    return _Group(
        nodes=tuple(nodes),
        sources=sources,
        sinks=sinks,
        falling=len(sources) == 1 and entered,
        rising=len(sinks) == 1 and left,
        isolated=entered and left,
    )


def _all_precede(graph: NodeGraph, pairs: Sequence[tuple[int, int]]) -> bool:
    return all(graph.precedes(first, second) for first, second in pairs)


def _deaths(graph: NodeGraph, group: _Group) -> dict[int, Death]:
    """For every storage that the group reads, whether it dies inside the group."""
    inside = set(group.nodes)
    deaths: dict[int, Death] = {}
    for s in {s for k in group.nodes for s in graph.nodes[k].reads}:
        others = [j for j in graph.readers[s] if j not in inside]
        if graph.kept[s] or any(graph.precedes(k, j) for j in others for k in group.nodes):
            deaths[s] = Death.NEVER
        elif all(graph.precedes(j, k) for j in others for k in group.sources):
            deaths[s] = Death.SURE
        else:
            deaths[s] = Death.UNCERTAIN
    return deaths


def _may_overwrite(graph: NodeGraph, group: _Group, storages: set[int]) -> bool:
    nodes = (graph.nodes[k] for k in group.nodes)
    return any(not storages.isdisjoint(graph.candidates(node.reads, node.writes)) for node in nodes if node.inplace_ok)


def _inner_states(graph: NodeGraph, group: _Group, deaths: dict[int, Death], most_states: int) -> InnerStates:
    local = {k: index for index, k in enumerate(group.nodes)}
    read_by: dict[int, int] = {}
    for k, index in local.items():
        for s in graph.nodes[k].reads:
            read_by[s] = read_by.get(s, 0) | 1 << index
    storages = {
        s: InnerStorage(size=graph.size[s], maker=local.get(graph.producer[s], -1), readers=readers)
        for s, readers in read_by.items()
        if deaths[s] is Death.SURE
    }
    made, stay, reads, overwrites = [], [], [], []
    for k in group.nodes:
        node = graph.nodes[k]
        lasting = sum(graph.size[s] for s in node.writes if graph.kept[s] or graph.readers[s])
        made.append(lasting)
        stay.append(node.workspace + sum(graph.size[s] for s in node.writes))
        reads.append(tuple(storages[s] for s in node.reads if s in storages))
        allowed = graph.candidates(node.reads, node.writes) if node.inplace_ok else ()
        sure = tuple(storages[s] for s in allowed if s in storages)
        overwrites.append((sure, tuple(graph.size[s] for s in node.writes)))
    return InnerStates(
        before=tuple(sum(1 << local[j] for j in graph.before[k] if j in local) for k in group.nodes),
        made=tuple(made),
        stay=tuple(stay),
        reads=tuple(reads),
        overwrites=tuple(overwrites),
        most_states=most_states,
    )


def _as_node(graph: NodeGraph, group: _Group, deaths: dict[int, Death], order: Sequence[int], peak: int) -> Node | None:
    """The group as one operator whose step needs ``peak`` bytes beyond those live before it; None if impossible."""
    inner = [graph.nodes[group.nodes[index]] for index in order]
    inside = set(group.nodes)
    made = {s for node in inner for s in node.writes}
    writes = tuple(
        s
        for node in inner
        for s in node.writes
        if graph.kept[s] or any(reader not in inside for reader in graph.readers[s])
    )
    node = Node(
        members=tuple(v for each in inner for v in each.members),
        reads=tuple(dict.fromkeys(s for each in inner for s in each.reads if s not in made)),
        writes=writes,
        workspace=peak - sum(graph.size[s] for s in writes),
        inplace_ok=False,
    )
    if node.workspace > MAX_BYTES:
        return None
    return node if node.workspace >= 0 else _overwriting(graph, node, deaths)


def _overwriting(graph: NodeGraph, node: Node, deaths: dict[int, Death]) -> Node | None:
    """The same node, overwriting inputs because its peak leaves no room for both; None if it cannot."""
    firsts = [s for s in node.reads if deaths[s] is Death.SURE] if graph.in_place == "first" else node.reads[:1]
    for first in firsts:
        reads = (first, *(s for s in node.reads if s != first))
        candidates = graph.candidates(reads, node.writes)
        workspace = node.workspace + graph.overwritten(candidates, node.writes)
        if workspace >= 0 and all(deaths[s] is Death.SURE for s in candidates):
            return replace(node, reads=reads, workspace=workspace, inplace_ok=True)
    return None
