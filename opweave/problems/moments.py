"""The order of activities that take no time and share a moment.

A plan states times, so it does not say which of two such activities on one resource comes first. The data often leave
both orders open, and then the better one explains more: what something else has held up until this moment comes first,
and what could have been done earlier follows. Critical paths are read from this order.
"""

from __future__ import annotations

from collections import defaultdict
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

from opweave.problems.arrays import BoolArray, IntArray

if TYPE_CHECKING:
    from opweave.problems.timeline import Timeline


def explained_first(timeline: Timeline, order: IntArray) -> IntArray:
    """Reorder what takes no time, moment by moment, wherever an activity seems to wait for nothing.

    If some order lets every activity of a moment wait for something that ends there, the result is such an order:
    whoever waits for something comes as soon as the data permit, and that takes this chance from nobody else.

    Parameters
    ----------
    timeline
        What happens.
    order
        All activities by resource, start and end, and at one moment along the data.

    Returns
    -------
    numpy.ndarray
        The same activities in an order that differs from ``order`` only among those of one moment.
    """
    acts = timeline.activities
    instant = (acts.start == acts.end) & (acts.start > 0.0)
    later, earlier = order[1:], order[:-1]
    shared = (
        _same_place(timeline, order) & instant[later] & instant[earlier] & (acts.start[later] == acts.start[earlier])
    )
    if not shared.any():
        return order
    held = _held_up(timeline, order, instant)
    opens = shared & ~np.concatenate(([False], shared[:-1]))  # the first of several on one resource
    doubtful = np.unique(acts.start[earlier[opens & ~held[earlier]]])
    if not len(doubtful):
        return order
    rows = np.flatnonzero(instant & np.isin(acts.start, doubtful))
    rows = rows[np.lexsort((acts.rank[rows], acts.start[rows]))]
    moments = np.split(rows, np.flatnonzero(np.diff(acts.start[rows])) + 1)
    rank = acts.rank.copy()
    for moment in moments:
        rank[moment] = _turns(timeline, moment.tolist(), held)
    return np.lexsort((rank, acts.end, acts.start, acts.resource))


def _same_place(timeline: Timeline, order: IntArray) -> BoolArray:
    """Whether each activity but the first of ``order`` has the one before it on its own exclusive resource."""
    resource = timeline.activities.resource[order]
    same: BoolArray = (resource[1:] == resource[:-1]) & timeline.exclusive[resource[1:]]
    return same


def _held_up(timeline: Timeline, order: IntArray, instant: BoolArray) -> BoolArray:
    """Which activities start when something that took time ends: a cause, or what had one of their resources before."""
    acts = timeline.activities
    held = np.zeros(len(acts), dtype=bool)
    effects, causes = acts.causes.heads(), acts.causes.items
    held[effects[(acts.end[causes] == acts.start[effects]) & ~instant[causes]]] = True
    later, earlier = order[1:], order[:-1]
    ends_here = _same_place(timeline, order) & (acts.end[earlier] == acts.start[later]) & ~instant[earlier]
    held[later[ends_here]] = True
    sent = np.flatnonzero(acts.twin >= 0)
    held[sent] |= held[acts.twin[sent]]
    return held


def _turns(timeline: Timeline, rows: list[int], held: BoolArray) -> list[int]:
    """The turn of each activity of one moment, given along the data; both ends of a transfer share theirs."""
    acts, exclusive = timeline.activities, timeline.exclusive
    here = set(rows)
    unit = {row: min(row, other) if (other := int(acts.twin[row])) in here else row for row in rows}
    places: defaultdict[int, set[int]] = defaultdict(set)
    waits: defaultdict[int, set[int]] = defaultdict(set)
    after: defaultdict[int, list[int]] = defaultdict(list)
    for row, each in unit.items():
        if exclusive[acts.resource[row]]:
            places[each].add(int(acts.resource[row]))
        waits[each].update(unit[cause] for cause in acts.causes[row].tolist() if cause in here)
    for each, causes in waits.items():
        for cause in causes:
            after[cause].append(each)
    line = _Line(places, {each for row, each in unit.items() if held[row]})
    for each, causes in waits.items():
        if not causes:
            line.join(each)
    turn: dict[int, int] = {}
    for each in line:
        turn[each] = len(turn)
        for effect in after[each]:
            waits[effect].discard(each)
            if each in line.explained:
                line.explained.add(effect)
            if not waits[effect]:
                line.join(effect)
    return [turn[unit[row]] for row in rows]


class _Line:
    """Those whose causes have had their turn: who waits for something comes first, and within that who joined first.

    Whoever waits for something holds up the others on its resources.
    """

    def __init__(self, places: dict[int, set[int]], explained: set[int]) -> None:
        self.explained = explained
        self._places = places
        self._occupied: set[int] = set()
        self._others: defaultdict[int, list[int]] = defaultdict(list)
        self._first: list[tuple[int, int]] = []
        self._rest: list[tuple[int, int]] = []
        self._joined: dict[int, int] = {}

    def join(self, each: int) -> None:
        """Stand in line."""
        self._joined[each] = len(self._joined)
        if each in self.explained or not self._occupied.isdisjoint(self._places[each]):
            self._explain(each)
            return
        heappush(self._rest, (self._joined[each], each))
        for place in self._places[each]:
            self._others[place].append(each)

    def __iter__(self) -> _Line:
        return self

    def __next__(self) -> int:
        while self._first or self._rest:
            number, each = heappop(self._first or self._rest)
            if self._joined.get(each) != number:
                continue  # it has had its turn
            self._joined[each] = -1
            if each in self.explained:
                for place in self._places[each] - self._occupied:
                    self._occupied.add(place)
                    for other in self._others.pop(place, ()):
                        self._explain(other)
            return each
        raise StopIteration

    def _explain(self, each: int) -> None:
        if self._joined[each] >= 0:
            self.explained.add(each)
            heappush(self._first, (self._joined[each], each))
