"""A model graph as NumPy index arrays, which algorithms use instead of dicts of objects."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np

from opweave.problems.arrays import BoolArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Adjacency:
    """Lists of indices in compressed sparse rows: row ``i`` is ``items[start[i]:start[i + 1]]``.

    Attributes
    ----------
    start
        Shape (rows + 1,).
    items
        Shape (entries,).
    """

    start: IntArray
    items: IntArray

    @classmethod
    def from_lists(cls, rows: Sequence[Sequence[int]]) -> Adjacency:
        """Compress a list of lists."""
        start = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in rows], out=start[1:])
        return cls(start, np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=int(start[-1])))

    @classmethod
    def from_pairs(cls, rows: int, heads: IntArray, tails: IntArray) -> Adjacency:
        """Row ``heads[k]`` receives ``tails[k]``. Repeated pairs are kept once, and rows are sorted."""
        if heads.size == 0:
            return cls(np.zeros(rows + 1, dtype=np.int64), np.zeros(0, dtype=np.int64))
        width = int(tails.max()) + 1
        pairs = np.sort(heads * width + tails, kind="stable")  # as one number each; most come in order already
        pairs = pairs[np.concatenate(([True], pairs[1:] != pairs[:-1]))]
        start = np.zeros(rows + 1, dtype=np.int64)
        np.cumsum(np.bincount(pairs // width, minlength=rows), out=start[1:])
        return cls(start, pairs % width)

    def __len__(self) -> int:
        return len(self.start) - 1

    def __getitem__(self, row: int) -> IntArray:
        return self.items[self.start[row] : self.start[row + 1]]

    def lists(self) -> list[list[int]]:
        """All rows as lists."""
        items = self.items.tolist()
        return [items[first:end] for first, end in pairwise(self.start.tolist())]

    def heads(self) -> IntArray:
        """Row of every entry, shape (entries,)."""
        return np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.start))

    def entries(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """Everything that some rows list: which of ``rows``, by position, lists which item. Both of shape (entries,).

        Examples
        --------
        >>> lists = Adjacency.from_lists([[7, 8], [9]])
        >>> [column.tolist() for column in lists.entries(np.array([1, 0, 1]))]
        [[0, 1, 1, 2], [9, 7, 8, 9]]
        """
        length = np.diff(self.start)[rows]
        listing = np.repeat(np.arange(len(rows)), length)
        place = np.arange(len(listing)) - np.repeat(np.cumsum(length) - length, length)
        return listing, self.items[self.start[rows][listing] + place]

    def only(self, chosen: BoolArray) -> Adjacency:
        """The chosen entries. ``chosen`` has shape (entries,).

        Examples
        --------
        >>> Adjacency.from_lists([[7, 8], [9]]).only(np.array([True, False, True])).lists()
        [[7], [9]]
        """
        before = np.concatenate(([0], np.cumsum(chosen)))
        return Adjacency(before[self.start].astype(np.int64), self.items[chosen])

    def reversed(self, rows: int) -> Adjacency:
        """Entry ``j`` of row ``i`` becomes entry ``i`` of row ``j``."""
        return Adjacency.from_pairs(rows, self.items, self.heads())


@dataclass(frozen=True, slots=True, eq=False)
class GraphArrays:
    """Operators and tensors by position in the graph's tuples.

    Attributes
    ----------
    tensor_bytes
        Shape (tensors,).
    storage
        Position of the tensor that owns each tensor's bytes, shape (tensors,).
    reads, writes
        Tensors of every operator, in the operator's own order, without repetitions.
    producer
        Position of the operator that writes each tensor; -1 for graph inputs. Shape (tensors,).
    consumers
        Operators that read each tensor.
    predecessors, successors
        Operators directly before and after each operator.
    """

    tensor_bytes: IntArray
    storage: IntArray
    reads: Adjacency
    writes: Adjacency
    producer: IntArray
    consumers: Adjacency
    predecessors: Adjacency
    successors: Adjacency


def topological_order(successors: Adjacency) -> IntArray:
    """Operators before their successors, in listed order among those that are ready (Kahn); shorter if cyclic."""
    import heapq

    start, items = successors.start.tolist(), successors.items.tolist()
    waiting = np.bincount(successors.items, minlength=len(successors)).tolist()
    ready = [index for index, count in enumerate(waiting) if count == 0]
    order: list[int] = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for after in items[start[index] : start[index + 1]]:
            waiting[after] -= 1
            if waiting[after] == 0:
                heapq.heappush(ready, after)
    return np.asarray(order, dtype=np.int64)


def find_cycle(successors: Adjacency) -> list[int] | None:
    """Positions of one cycle in order, or None when the graph is acyclic."""
    if len(topological_order(successors)) == len(successors):
        return None
    import networkx as nx  # few graphs have cycles

    arcs = nx.DiGraph(zip(successors.heads().tolist(), successors.items.tolist(), strict=True))
    return [tail for tail, _ in nx.find_cycle(arcs)]


def in_order(names: tuple[str, ...], order: IntArray) -> tuple[str, ...]:
    """Names in the order of their positions; the same tuple if they are in it already, which is soon compared."""
    listed = len(order) == len(names) and bool((order[1:] > order[:-1]).all())
    return names if listed else tuple(map(names.__getitem__, order.tolist()))


def united(index: Mapping[str, int], groups: Collection[Iterable[str]]) -> list[list[int]]:
    """Join groups that share a member; everything in no group is alone. In the order of the first members.

    Examples
    --------
    >>> united({"a": 0, "b": 1, "c": 2, "d": 3}, [["d", "b"], ["b", "a"]])
    [[0, 1, 3], [2]]
    """
    if not groups:
        return [[row] for row in index.values()]
    import networkx as nx  # takes a tenth of a second, and most problems have no groups

    ties = nx.Graph()
    ties.add_nodes_from(index.values())
    for group in groups:
        nx.add_path(ties, [index[name] for name in group])
    return sorted(map(sorted, nx.connected_components(ties)))
