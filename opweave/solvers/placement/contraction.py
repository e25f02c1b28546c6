"""Contracted networks: chains, or trees of light operators, become single operators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.graph_arrays import Adjacency
from opweave.solvers.placement.arrays import PlacementArrays, with_arcs
from opweave.solvers.placement.ranks import order_of_graph


@dataclass(frozen=True, slots=True, eq=False)
class Contraction:
    """A problem whose chains, or trees of light operators, are single operators.

    An operator with one successor and that successor, if it has no other predecessor, seldom profit from two devices.
    As one operator they share a device and run one after the other. The same holds where there are other predecessors,
    but the operator takes less time than sending its result. Networks shrink by half to five sixths, and a search over
    orders and devices makes as many moves in as much less time.

    Attributes
    ----------
    arrays, cluster
        Its arrays, and the group of every chain: chains of one group share a device (Colocate).
    chain
        The chain or tree of every operator of the whole. Shape (operators,).
    members
        The operators of each, first to last.
    """

    arrays: PlacementArrays
    cluster: IntArray
    chain: IntArray
    members: Adjacency

    def expanded(self, order: IntArray, device: IntArray) -> tuple[IntArray, IntArray]:
        """Order and devices of the whole for those of the chains."""
        return self.members.items[_rows(self.members, order)], device[self.chain]

    def contracted(self, order: IntArray, device: IntArray) -> tuple[IntArray, IntArray]:
        """Order and devices of the chains for those of the whole: each where and when its last operator runs."""
        last = self.members.items[self.members.start[1:] - 1]
        position = np.empty(len(order), dtype=np.int64)
        position[order] = np.arange(len(order))
        return np.argsort(position[last], kind="stable").astype(np.int64), device[last]


def _rows(members: Adjacency, order: IntArray) -> IntArray:
    """Positions of the items of some rows, row by row."""
    length = np.diff(members.start)[order]
    first = np.repeat(members.start[order] - np.cumsum(length) + length, length)
    return np.asarray(first + np.arange(int(length.sum())), dtype=np.int64)


def contraction_of(arrays: PlacementArrays, cluster: IntArray, light: float = 0.0) -> Contraction:
    """Join every operator with its only successor if it is the only predecessor of that, or light.

    Parameters
    ----------
    light
        An operator is light if it takes, with all that is joined to it, less than this share of the time that its
        largest result takes on the fastest link.
    """
    count = len(arrays.seconds)
    before = np.diff(arrays.before_start)
    order = order_of_graph(arrays)
    chain, number = _trees(arrays, order, light * _least_sending(arrays))
    rank = np.empty(count, dtype=np.int64)
    rank[order] = np.arange(count)
    items = np.lexsort((rank, chain)).astype(np.int64)
    start = np.concatenate([[0], np.cumsum(np.bincount(chain, minlength=number))]).astype(np.int64)
    members = Adjacency(start, items)
    seconds = np.zeros((number, arrays.seconds.shape[1]))
    np.add.at(seconds, chain, arrays.seconds)
    memory = np.zeros(number, dtype=np.int64)
    np.add.at(memory, chain, arrays.memory)
    heads = np.repeat(np.arange(count), before)
    arcs = chain[heads] != chain[arrays.before]
    pairs = np.unique(chain[heads[arcs]] * number + chain[arrays.before[arcs]])
    small = with_arcs(arrays, Adjacency.from_pairs(number, pairs // number, pairs % number))
    users = np.repeat(chain, np.diff(arrays.parameters_start))
    held = Adjacency.from_pairs(number, users, arrays.parameters)
    flows = np.flatnonzero(chain[arrays.source] != chain[arrays.target])
    flows = flows[np.argsort(rank[arrays.target[flows]], kind="stable")]  # a tree's inputs are sent as they are read
    source, target, each = chain[arrays.source[flows]], chain[arrays.target[flows]], np.arange(len(flows))
    incoming, outgoing = Adjacency.from_pairs(number, target, each), Adjacency.from_pairs(number, source, each)
    smaller = small._replace(
        seconds=seconds,
        source=source,
        target=target,
        tensor=arrays.tensor[flows],
        size=arrays.size[flows],
        in_start=incoming.start,
        incoming=incoming.items,
        out_start=outgoing.start,
        outgoing=outgoing.items,
        memory=memory,
        parameters_start=held.start,
        parameters=held.items,
    )
    return Contraction(smaller, _joined(cluster, chain, number), chain, members)


def _trees(arrays: PlacementArrays, order: IntArray, most: FloatArray) -> tuple[IntArray, int]:
    """The tree of every operator, and their number; an operator that takes less than ``most`` joins its successor."""
    before, after = np.diff(arrays.before_start), np.diff(arrays.after_start)
    work, joins = arrays.seconds.min(axis=1), np.zeros(len(order), dtype=bool)
    for u in order.tolist():
        if after[u] == 1:
            v = arrays.after[arrays.after_start[u]]
            joins[u] = before[v] == 1 or work[u] < most[u]
            work[v] += work[u] if joins[u] else 0.0
    tree, number = np.full(len(order), -1, dtype=np.int64), 0
    for u in order[::-1].tolist():
        if joins[u]:
            tree[u] = tree[arrays.after[arrays.after_start[u]]]
        else:
            tree[u], number = number, number + 1
    return tree, number


def _least_sending(arrays: PlacementArrays) -> FloatArray:
    """Seconds that the largest result of every operator takes on the fastest link; 0 without links."""
    links = np.isfinite(arrays.latency) & ~np.eye(len(arrays.latency), dtype=bool)
    size = np.zeros(len(arrays.seconds))
    np.maximum.at(size, arrays.source, arrays.size)
    if not links.any():
        return size * 0.0
    return np.asarray(arrays.latency[links].min() + size * arrays.per_byte[links].min())


def _joined(cluster: IntArray, chain: IntArray, number: int) -> IntArray:
    """Groups of chains: those that hold operators of one group, directly or through others."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    groups = int(cluster.max(initial=-1)) + 1
    pairs = csr_matrix((np.ones(len(chain)), (chain, cluster)), shape=(number, groups))
    return np.asarray(connected_components(pairs @ pairs.T, directed=False)[1], dtype=np.int64)
