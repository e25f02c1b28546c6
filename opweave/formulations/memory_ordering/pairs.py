"""Binary columns "a runs before b" for the relevant pairs of operators, and the bytes that they leave live in a step.

For operator v, ``before(a, v)`` is 1 if a runs before v. A storage s with producer p and readers C is live during v's
step if and only if ``before(p, v) - before(c, v) = 1`` for some c in C. Precedence alone settles most of this; the rest
becomes the terms of a linear row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from opweave.formulations.memory_ordering.instance import OrderingInstance
from opweave.formulations.modeling.linear import Linear, total
from opweave.formulations.order_arcs import reduced_arcs, transposed
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


@dataclass(frozen=True, slots=True)
class Excess:
    """A column that equals the maximum of 0 and all of ``over`` in an optimum; it is at most ``upper``."""

    column: int
    upper: int
    over: tuple[Linear, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Footprints:
    """What precedence alone says about the step of every operator.

    Attributes
    ----------
    closed, followed
        Entry [v, u] of ``closed``: u must run before v. ``followed`` is its transpose, with rows in one piece.
    sure
        Bytes that are live during every operator's step in every order, as if it overwrote nothing.
    lower, upper
        Fewest and most bytes that are live during every operator's step.
    """

    instance: OrderingInstance
    closed: BoolArray
    followed: BoolArray
    sure: IntArray
    lower: IntArray
    upper: IntArray

    @classmethod
    def of(cls, instance: OrderingInstance, closed: BoolArray) -> Footprints:
        """Compute the footprints; ``closed[v, u]`` says that u must run before v."""
        sure = instance.stay()
        lower, upper = np.zeros((2, instance.operators), dtype=np.int64)
        view = cls(instance, closed, transposed(closed), sure, lower, upper)
        for s in np.flatnonzero(instance.size).tolist():
            always, sometimes = view.live(s)
            size = instance.size[s]
            sure += always * size
            upper += sometimes * size
        lower += sure
        upper += sure
        for v in range(instance.operators):
            most, least = view.savings(v)
            lower[v] -= most
            upper[v] -= least
        return view

    def live(self, s: int) -> tuple[BoolArray, BoolArray]:
        """Operators, without its producer, in whose steps s is live: in every order, and in some but not all orders."""
        instance, closed, followed = self.instance, self.closed, self.followed
        producer, readers = int(instance.producer[s]), instance.readers[s]
        made, never_made = np.ones(len(closed), dtype=bool), np.zeros(len(closed), dtype=bool)
        if producer >= 0:
            made = followed[producer]
            never_made = closed[producer].copy()
            never_made[producer] = True
        if instance.kept[s]:
            return made, ~(made | never_made)
        wanted = np.logical_or.reduce(closed[readers], axis=0)
        wanted[readers] = True
        finished = np.logical_and.reduce(followed[readers], axis=0)
        sure = made & wanted
        return sure, ~(sure | never_made | finished)

    def unsettled(self) -> Adjacency:
        """For every operator, the storages that are live during its step in some orders but not in all."""
        rows: list[list[int]] = [[] for _ in range(self.instance.operators)]
        for s in np.flatnonzero(self.instance.size).tolist():
            for v in np.flatnonzero(self.live(s)[1]).tolist():
                rows[v].append(s)
        return Adjacency.from_lists(rows)

    def savings(self, v: int) -> tuple[int, int]:
        """Most and fewest bytes that v can write over inputs that die in its step."""
        most = least = 0
        for size, slots, candidates in self.instance.overwriting(v):
            states = [self.dying(s, v) for s in candidates]
            most += size * min(slots, sum(state is not False for state in states))
            least += size * min(slots, sum(state is True for state in states))
        return most, least

    def dying(self, s: int, v: int) -> bool | None:
        """Whether v is the last reader of s: always, never, or (None) depending on the order."""
        others = self.instance.readers[s]
        others = others[others != v]
        if self.closed[others, v].any():
            return False
        return True if self.closed[v, others].all() else None


class Loads:
    """Writes footprints of operators as linear expressions of pair columns and new excess columns.

    Parameters
    ----------
    footprints
        What precedence settles.
    before
        ``before(a, v)`` is 1 if a runs before v, otherwise 0.
    first_column
        Number of the first excess column.
    """

    def __init__(self, footprints: Footprints, before: Callable[[int, int], Linear], first_column: int) -> None:
        self._view = footprints
        self._instance = footprints.instance
        self._before = before
        self._first = first_column
        self._shared: dict[object, Excess] = {}
        self._last = _last_readers(footprints)
        self._unsettled = footprints.unsettled()

    @property
    def excesses(self) -> list[Excess]:
        """The excess columns made so far, in the order of their columns."""
        return list(self._shared.values())

    def of(self, v: int) -> Linear:
        """Bytes that are live during the step of v."""
        instance = self._instance
        parts = [Linear(int(self._view.sure[v]))]
        parts += [self._alive(s, v) * int(instance.size[s]) for s in self._unsettled[v].tolist()]
        for size, slots, candidates in instance.overwriting(v):
            parts.append(self._overwritten(slots, candidates, v) * -size)
        return total(parts)

    def _alive(self, s: int, v: int) -> Linear:
        """1 if s is live during the step of v."""
        closed = self._view.closed
        producer = int(self._instance.producer[s])
        made = Linear(1) if producer < 0 else self._before(producer, v)
        readers = [c for c in self._last[s] if not closed[v, c]]
        if self._instance.kept[s] or any(c == v or closed[c, v] for c in readers):
            return made
        alive = [made - self._before(c, v) for c in readers]
        return alive[0] if len(alive) == 1 else self._excess(alive, 1)

    def _overwritten(self, slots: int, candidates: list[int], v: int) -> Linear:
        """Number of outputs, out of ``slots``, that overwrite a dying candidate."""
        dying = 0
        undecided: list[Linear] = []
        for s in candidates:
            state = self._view.dying(s, v)
            if state is None:
                undecided.append(self._outlives(s, v))
            dying += state is True
        surely = min(dying, slots)
        left = min(slots - surely, len(undecided))
        if left == 0:
            return Linear(surely)
        # The number of undecided inputs that die: min(left, sum(1 - outlives)) = left - max(0, left - sum(1 -
        # outlives)).
        missed = total([Linear(left - len(undecided)), *undecided])
        return surely + left - (missed if left == len(undecided) else self._excess([missed], left))

    def _outlives(self, s: int, v: int) -> Linear:
        """1 if another reader of s runs after v, which reads s too."""
        closed = self._view.closed
        later = [1 - self._before(c, v) for c in self._last[s] if c != v and not closed[v, c]]
        return later[0] if len(later) == 1 else self._excess(later, 1)

    def _excess(self, over: list[Linear], upper: int) -> Linear:
        """The column that equals the maximum of 0 and all of ``over``; equal expressions share a column."""
        key = (upper, frozenset((a.constant, frozenset(a.terms.items())) for a in over))
        if key not in self._shared:
            self._shared[key] = Excess(self._first + len(self._shared), upper, tuple(over))
        return Linear.of(self._shared[key].column)


def _last_readers(view: Footprints) -> list[list[int]]:
    """Readers of every storage that precede no other reader of it; only they decide how long it lives."""
    rows = []
    for s in range(view.instance.storages):
        readers = view.instance.readers[s]
        if len(readers) > 1:
            readers = readers[~view.closed[np.ix_(readers, readers)].any(axis=0)]
        rows.append(readers.tolist())
    return rows
