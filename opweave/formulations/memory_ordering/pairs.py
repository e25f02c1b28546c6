"""Binary columns "a runs before b" for the relevant pairs of operators, and the cycles that they may close."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from opweave.formulations.memory_ordering.groups import Groups
from opweave.formulations.modeling.linear import Linear
from opweave.formulations.order_arcs import transposed
from opweave.problems.arrays import BoolArray, IntArray

Arc = tuple[int, int]


def unsettled(closed: BoolArray) -> BoolArray:
    """Entry [g, h]: precedence leaves open which of the two groups runs first."""
    apart: BoolArray = ~(closed | transposed(closed))
    np.fill_diagonal(apart, val=False)
    return apart


@dataclass(eq=False)
class Pairs:
    """The pairs of groups that have a column, and the direction of each column.

    Column k means that ``first[k]`` runs before ``second[k]``, with first < second. Pairs that precedence settles have
    no column; other pairs get one on demand.

    Attributes
    ----------
    groups
        The groups of operators that run back to back.
    closed
        Entry [g, h]: group h must run before group g.
    column
        Column of the pair [g, h], the same in both orientations; -1 for none. Shape (groups, groups).
    first, second
        Groups of every column.
    """

    groups: Groups
    closed: BoolArray
    column: NDArray[np.int32]
    first: list[int] = field(default_factory=list)
    second: list[int] = field(default_factory=list)

    @classmethod
    def around(cls, groups: Groups, closed: BoolArray, wanted: BoolArray) -> Pairs:
        """Make columns for all unsettled pairs with at least one group in ``wanted``."""
        first, second = np.nonzero(np.triu(unsettled(closed) & (wanted[:, None] | wanted[None, :])))
        column = np.full(closed.shape, -1, dtype=np.int32)
        column[first, second] = column[second, first] = np.arange(len(first), dtype=np.int32)
        return cls(groups, closed, column, first.tolist(), second.tolist())

    def __len__(self) -> int:
        return len(self.first)

    def settled(self, a: int, v: int) -> bool | None:
        """Whether operator a runs before operator v; None if precedence leaves it open."""
        g, h = int(self.groups.group[a]), int(self.groups.group[v])
        if g == h:
            return bool(self.groups.place[a] < self.groups.place[v])
        if self.closed[h, g]:
            return True
        return False if self.closed[g, h] else None

    def before(self, a: int, v: int) -> Linear:
        """1 if operator a runs before operator v, as an expression over pair numbers.

        Raises
        ------
        KeyError
            If the pair is not settled and has no column.
        """
        settled = self.settled(a, v)
        if settled is not None:
            return Linear(int(settled))
        if self.column_of(a, v) < 0:
            raise KeyError((a, v))
        return self.group_before(int(self.groups.group[a]), int(self.groups.group[v]))

    def group_before(self, g: int, h: int) -> Linear:
        """1 if group g runs before group h, as an expression over pair numbers."""
        pair = Linear.of(int(self.column[g, h]))
        return pair if g < h else 1 - pair

    def column_of(self, a: int, v: int) -> int:
        """Column of the pair of operators, -1 for none."""
        return int(self.column[self.groups.group[a], self.groups.group[v]])

    def open_column(self, a: int, v: int) -> int:
        """Make a column for the pair of operators and return its number."""
        g, h = sorted((int(self.groups.group[a]), int(self.groups.group[v])))
        self.column[g, h] = self.column[h, g] = len(self.first)
        self.first.append(g)
        self.second.append(h)
        return len(self.first) - 1

    def chosen(self, values: NDArray[np.float64]) -> BoolArray:
        """The digraph of precedence and the columns' values: entry [g, h] says that g runs before h."""
        digraph = self.closed.T.copy()
        first, second = np.asarray(self.first, dtype=np.int64), np.asarray(self.second, dtype=np.int64)
        forward = values > 0.5
        digraph[first[forward], second[forward]] = True
        digraph[second[~forward], first[~forward]] = True
        return digraph

    def order(self, values: NDArray[np.float64]) -> IntArray:
        """Groups in an order that obeys precedence, and also the columns unless they close a cycle."""
        digraph = self.chosen(values)
        waiting = digraph.sum(axis=0)
        blocked = self.closed.sum(axis=1)
        order = np.empty(len(waiting), dtype=np.int64)
        for step in range(len(waiting)):
            g = int(np.argmin(np.where(blocked == 0, waiting, len(waiting))))
            order[step] = g
            waiting -= digraph[g]
            blocked -= self.closed[:, g]
            blocked[g] = -1
        return order

    def values_of(self, order: IntArray) -> NDArray[np.float64]:
        """Values of all columns for groups in this order."""
        position = np.empty(len(order), dtype=np.int64)
        position[order] = np.arange(len(order))
        return (position[self.first] < position[self.second]).astype(np.float64)

    def cycles(self, values: NDArray[np.float64]) -> list[list[Arc]]:
        """A shortest cycle for every group on one, as its arcs (g, h) chosen by columns; empty without cycles."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components, shortest_path

        digraph = self.chosen(values)
        count, label = connected_components(csr_array(digraph), directed=True, connection="strong")
        if count == len(digraph):
            return []
        found: dict[frozenset[Arc], list[Arc]] = {}
        for component in np.flatnonzero(np.bincount(label) > 1).tolist():
            inside = np.flatnonzero(label == component)
            part = digraph[np.ix_(inside, inside)]
            steps, parent = shortest_path(csr_array(part), unweighted=True, return_predecessors=True)
            for source in range(len(inside)):
                walk = [int(np.argmin(np.where(part[:, source], steps[source], np.inf)))]  # the last before the source
                while walk[-1] != source:
                    walk.append(int(parent[source, walk[-1]]))
                cycle = inside[walk[::-1]].tolist()
                arcs = [(g, h) for g, h in pairwise([*cycle, cycle[0]]) if not self.closed[h, g]]
                found.setdefault(frozenset(arcs), arcs)
        return list(found.values())
