"""The bytes that are live while an operator runs, expressed by which operator runs before which.

For operator v, ``before(a, v)`` is 1 if a runs before v. A storage s with producer p and readers C is live during v's
step if and only if ``before(p, v) - before(c, v) = 1`` for some c in C. Precedence alone settles most of this; the rest
becomes the terms of a linear row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from opweave.formulations.memory_ordering.instance import OrderingInstance
from opweave.formulations.modeling.linear import Linear, total
from opweave.problems.arrays import BoolArray, IntArray


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
    lower, upper
        Fewest and most bytes that are live during every operator's step.
    """

    instance: OrderingInstance
    closed: BoolArray
    lower: IntArray
    upper: IntArray

    @classmethod
    def of(cls, instance: OrderingInstance, closed: BoolArray) -> Footprints:
        """Compute the footprints; ``closed[v, u]`` says that u must run before v."""
        lower = np.zeros(instance.operators, dtype=np.int64)
        upper = np.zeros(instance.operators, dtype=np.int64)
        view = cls(instance, closed, lower, upper)
        for v in range(instance.operators):
            live, open_ = view.live(v)
            own = int(instance.size[instance.writes[v]].sum() + instance.workspace[v])
            lower[v] = upper[v] = own + int(instance.size[live].sum())
            upper[v] += int(instance.size[open_].sum())
            most, least = view.savings(v)
            lower[v] -= most
            upper[v] -= least
        return view

    def live(self, v: int) -> tuple[BoolArray, BoolArray]:
        """Storages not made by v that are live during its step: in every order, and in some but not all orders."""
        instance = self.instance
        earlier, later = self.closed[v], self.closed[:, v]
        late_or_v = later.copy()
        late_or_v[v] = True
        producer = instance.producer
        made = (producer < 0) | earlier[producer]
        never_made = (producer >= 0) & late_or_v[producer]
        wanted = instance.kept | (_count(instance, late_or_v) > 0)
        finished = ~instance.kept & (_count(instance, earlier) == np.diff(instance.readers.start))
        sure = made & wanted
        return sure, ~(sure | never_made | finished)

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


def _count(instance: OrderingInstance, mask: BoolArray) -> IntArray:
    """Number of readers of every storage that are in ``mask``."""
    running = np.zeros(len(instance.readers.items) + 1, dtype=np.int64)
    np.cumsum(mask[instance.readers.items], out=running[1:])
    return running[instance.readers.start[1:]] - running[instance.readers.start[:-1]]


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

    @property
    def excesses(self) -> list[Excess]:
        """The excess columns made so far, in the order of their columns."""
        return list(self._shared.values())

    def of(self, v: int) -> Linear:
        """Bytes that are live during the step of v."""
        instance = self._instance
        sure, open_ = self._view.live(v)
        own = int(instance.size[sure].sum() + instance.size[instance.writes[v]].sum() + instance.workspace[v])
        parts = [Linear(own)]
        parts += [self._alive(s, v) * int(instance.size[s]) for s in np.flatnonzero(open_).tolist() if instance.size[s]]
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
