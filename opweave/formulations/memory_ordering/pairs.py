"""Binary columns "a runs before b" for the relevant pairs of operators, and the cycles that they may close."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from opweave.formulations.modeling.linear import Linear
from opweave.formulations.precedence import reduced_arcs, transposed
from opweave.problems.arrays import BoolArray, BoolMatrix, FloatArray, IntArray
from opweave.problems.graph_arrays import Adjacency

Arc = tuple[int, int]


def unsettled(closed: BoolArray) -> BoolMatrix:
    """Entry [a, b]: precedence leaves open which of the two operators runs first."""
    apart: BoolMatrix = ~(closed | transposed(closed))
    np.fill_diagonal(apart, val=False)
    return apart


@dataclass(eq=False)
class Pairs:
    """The pairs of operators that have a column, and the direction of each column.

    Column k means that ``first[k]`` runs before ``second[k]``, with first < second. Pairs that precedence settles have
    no column; other pairs get one on demand.

    Attributes
    ----------
    closed
        Entry [a, b]: operator b must run before operator a.
    column
        Column of the pair [a, b], the same in both orientations; -1 for none. Shape (operators, operators).
    first, second
        Operators of every column.
    """

    closed: BoolArray
    column: NDArray[np.int32]
    first: list[int] = field(default_factory=list)
    second: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, closed: BoolArray, wanted: BoolMatrix) -> Pairs:
        """Make columns for the pairs of a symmetric matrix."""
        first, second = np.nonzero(np.triu(wanted))
        column = np.full(closed.shape, -1, dtype=np.int32)
        column[first, second] = column[second, first] = np.arange(len(first), dtype=np.int32)
        return cls(closed, column, first.tolist(), second.tolist())

    def __len__(self) -> int:
        return len(self.first)

    def settled(self, a: int, b: int) -> bool | None:
        """Whether operator a runs before operator b; None if precedence leaves it open."""
        return True if self.closed[b, a] else False if self.closed[a, b] or a == b else None

    def before(self, a: int, b: int) -> Linear:
        """1 if operator a runs before operator b, as an expression over pair numbers.

        Raises
        ------
        KeyError
            If the pair is not settled and has no column.
        """
        settled = self.settled(a, b)
        if settled is not None:
            return Linear(int(settled))
        if self.column[a, b] < 0:
            raise KeyError((a, b))
        pair = Linear.of(int(self.column[a, b]))
        return pair if a < b else 1 - pair

    def open_column(self, a: int, b: int) -> int:
        """Make a column for a pair and return its number."""
        self.column[a, b] = self.column[b, a] = len(self.first)
        self.first.append(min(a, b))
        self.second.append(max(a, b))
        return len(self.first) - 1

    def arcs(self, before: Adjacency, around: BoolArray) -> Iterator[tuple[int, IntArray, IntArray]]:
        """Every operator of ``around``, with the arcs p -> q of operators whose order relative to it is open."""
        heads, tails = reduced_arcs(before, self.closed)
        for v in np.flatnonzero(around).tolist():
            beside = (self.column[v][heads] >= 0) & (self.column[v][tails] >= 0)
            yield v, heads[beside], tails[beside]

    def chosen(self, values: FloatArray) -> BoolMatrix:
        """The digraph of precedence and the columns' values: entry [a, b] says that a runs before b."""
        digraph: BoolMatrix = self.closed.T.copy()
        first, second = np.asarray(self.first, dtype=np.int64), np.asarray(self.second, dtype=np.int64)
        forward = values > 0.5
        digraph[first[forward], second[forward]] = True
        digraph[second[~forward], first[~forward]] = True
        return digraph

    def order(self, values: FloatArray) -> IntArray:
        """Operators in an order that obeys precedence, and also the columns unless they close a cycle."""
        digraph = self.chosen(values)
        waiting = digraph.sum(axis=0)
        blocked = self.closed.sum(axis=1)
        order = np.empty(len(waiting), dtype=np.int64)
        for step in range(len(waiting)):
            v = int(np.argmin(np.where(blocked == 0, waiting, len(waiting))))
            order[step] = v
            waiting -= digraph[v]
            blocked -= self.closed[:, v]
            blocked[v] = -1
        return order

    def values_of(self, position: FloatArray | IntArray) -> FloatArray:
        """Values of all columns for operators at these positions."""
        return (position[self.first] < position[self.second]).astype(np.float64)

    def cycles(self, values: FloatArray) -> list[list[Arc]]:
        """A shortest cycle for every operator on one, as its arcs (a, b) chosen by columns; empty without cycles."""
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
                arcs = [(a, b) for a, b in pairwise([*cycle, cycle[0]]) if not self.closed[b, a]]
                found.setdefault(frozenset(arcs), arcs)
        return list(found.values())
