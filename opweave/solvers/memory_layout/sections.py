"""The arrays of memory layout's hot loops: storages over sections.

A *section* is a largest set of storages that are live together. Two storages are live together exactly when a section
contains both, so sections replace time. A storage is in consecutive sections, ``first`` to before ``after``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import numpy as np

from opweave.formulations.memory_layout.instance import LayoutInstance
from opweave.problems.arrays import BoolArray, FloatArray, IntArray, IntMatrix, distinct
from opweave.problems.graph_arrays import Adjacency

FREE = -1
"""Entry of ``fixed`` for a storage whose offset is to be chosen."""


SIZE, ALIGNMENT, FIXED, FIRST, AFTER = range(5)
"""Rows of a space's columns."""


class _Row:
    """A row of a space's columns."""

    def __init__(self, row: int) -> None:
        self.row = row

    def __get__(self, space: Any, _: object = None) -> IntArray:
        return cast("IntArray", space.columns[self.row])


class _Space(NamedTuple):
    """Storages of one arena, all with at least one byte.

    Attributes
    ----------
    columns
        Of every storage, in the rows ``SIZE``, ``ALIGNMENT``, ``FIXED``, ``FIRST`` and ``AFTER``: its bytes, the number
        that divides its offset, its given offset or ``FREE``, and its sections, from the first to before the last.
    members_start, members
        Storages of every section.
    kin_start, kin
        For every storage, the others with the same sections and alignment, without fixed offsets.
    """

    columns: IntMatrix
    members_start: IntArray
    members: IntArray
    kin_start: IntArray
    kin: IntArray


class Space(_Space):
    """The same with names for the rows of the columns."""

    size = _Row(SIZE)
    alignment = _Row(ALIGNMENT)
    fixed = _Row(FIXED)
    first = _Row(FIRST)
    after = _Row(AFTER)

    @property
    def sections(self) -> int:
        """Number of sections."""
        return len(self.members_start) - 1


def sections_of(begin: FloatArray | IntArray, end: FloatArray | IntArray) -> tuple[IntArray, IntArray, int]:
    """First section of every storage, the section after its last, and the number of sections.

    Parameters
    ----------
    begin, end
        A storage is live from ``begin`` to before ``end``, which is later. Shape (storages,).

    Examples
    --------
    >>> first, after, count = sections_of(np.asarray([0, 0, 2, 3]), np.asarray([4, 2, 4, 5]))
    >>> first.tolist(), after.tolist(), count
    ([0, 0, 1, 1], [2, 1, 2, 2], 2)
    """
    starts, ends = distinct(begin), np.sort(end)
    ended = np.searchsorted(ends, starts, side="right")  # storages that ended at or before each start
    full = starts[np.append(np.diff(ended) > 0, True)] if len(starts) else starts
    first = np.searchsorted(full, begin, side="left")
    after = np.searchsorted(full, end, side="left")
    return first.astype(np.int64), after.astype(np.int64), len(full)


def members_of(first: IntArray, after: IntArray, sections: int) -> Adjacency:
    """The storages of every section."""
    spans = after - first
    heads = np.repeat(np.arange(len(first)), spans)
    begun = np.repeat(np.cumsum(spans) - spans, spans)
    section = np.repeat(first, spans) + (np.arange(len(heads)) - begun)
    return Adjacency.from_pairs(sections, section, heads)


def live_bytes(size: IntArray, first: IntArray, after: IntArray, sections: int) -> IntArray:
    """Live bytes of every section. Shape (sections,)."""
    change = np.zeros(sections + 1, dtype=np.int64)
    np.add.at(change, first, size)
    np.subtract.at(change, after, size)
    return np.cumsum(change)[:-1]


def space_of(
    begin: FloatArray | IntArray,
    end: FloatArray | IntArray,
    size: IntArray,
    alignment: IntArray,
    fixed: IntArray,
    *,
    members: bool = True,
) -> Space:
    """The space of storages that have bytes and are live for some time, without ``members`` if nothing asks for them.

    Each array has shape (storages,).
    """
    first, after, count = sections_of(begin, end)
    columns = np.stack([size, alignment, fixed, first, after]).astype(np.int64)
    inside, kin = (
        Adjacency.from_pairs(count, first[:0], first[:0]),
        Adjacency.from_pairs(len(size), first[:0], first[:0]),
    )
    if members:
        inside = members_of(first, after, count)
        kin = _kin(np.stack([first, after, alignment, np.where(fixed < 0, FREE, np.arange(len(first)))]))
    return Space(columns, inside.start, inside.items, kin.start, kin.items)


def space_in(instance: LayoutInstance, rows: IntArray, pool: int) -> Space:
    """The space of some storages in a pool, with bytes in units of the sizes' common divisor."""
    grain, fixed = instance.grain, instance.fixed[rows]
    step = np.maximum(instance.alignment[rows], instance.pool_alignment[pool])
    return space_of(
        instance.begin[rows],
        instance.end[rows],
        instance.bytes[rows] // grain,
        np.maximum(step // grain, 1),
        np.where(fixed >= 0, fixed // grain, fixed),
    )


def _kin(keys: IntMatrix) -> Adjacency:
    """For every column, the other columns that are equal."""
    count = keys.shape[1]
    order = np.lexsort(keys)
    new = np.append(True, (np.diff(keys[:, order]) != 0).any(axis=0))[:count]
    group = np.empty(count, dtype=np.int64)
    group[order] = np.cumsum(new) - 1
    groups = Adjacency.from_pairs(int(group.max(initial=-1)) + 1, group, np.arange(count))
    column, other = groups.entries(group)
    apart = column != other
    return Adjacency.from_pairs(count, column[apart], other[apart])


def window_of(space: Space, rows: IntArray | BoolArray, low: int, high: int, *, members: bool = True) -> Space:
    """The space of some storages in the sections from ``low`` to before ``high``, and no time beyond."""
    first, after = (np.clip(each[rows], low, high) for each in (space.first, space.after))
    return space_of(first, after, space.size[rows], space.alignment[rows], space.fixed[rows], members=members)


BY_SECTION, BY_STORAGE = 0, 1
"""What the search branches on: which storage lies lowest in a section, or whether a storage lies on the ground."""

PORTFOLIO = (
    (BY_STORAGE, "TWA"),
    (BY_STORAGE, "OTW"),
    (BY_SECTION, "WTU"),
    (BY_STORAGE, "ATW"),
    (BY_STORAGE, "UW"),
    (BY_SECTION, "TO"),
    (BY_SECTION, "TWI"),
    (BY_STORAGE, "WTU"),
    (BY_SECTION, "UW"),
    (BY_SECTION, "OI"),
    (BY_SECTION, "TWA"),
    (BY_STORAGE, "UTW"),
)
"""Branching and sorting keys, of which the first one decides: *T* most live bytes in one of its sections, *W* number of
sections, *A* bytes times sections, *O* number of storages that are live together with it, *L* early first section, *U*
late last section, *I* position in the problem."""

PLAIN_TURNS = 3
"""Turns in which the portfolio is used as it is."""

NOISE = (0.005, 0.02, 0.06, 0.15)
"""Standard deviations of the positions in later orders, as shares of the number of storages."""


class Choice(NamedTuple):
    """How a search chooses.

    Attributes
    ----------
    branching
        What it branches on.
    rank
        Storages of the least rank come first. Shape (storages,).
    blame
        How often every section has refuted a state; such sections come first. Choices of the portfolio have their own,
        and disturbed ones share theirs, so that they learn from each other. Shape (sections,).
    """

    branching: int
    rank: FloatArray
    blame: FloatArray


def choices(space: Space, seed: int) -> Iterator[Choice]:
    """Endless choices: those of the portfolio, in some turns, then disturbed ones."""
    count = len(space.size)
    width = space.after - space.first
    live = live_bytes(space.size, space.first, space.after, space.sections)
    keys = {
        "T": _most(live, space),
        "W": width,
        "A": width * space.size.astype(np.float64),
        "O": _company(space),
        "L": -space.first,
        "U": space.after,
        "I": -np.arange(count),
    }
    plain = []
    for branching, name in PORTFOLIO:
        rank = np.empty(count)
        rank[np.lexsort([-keys[key] for key in reversed(name)])] = np.arange(count)
        plain.append((branching, rank))
    for _ in range(PLAIN_TURNS):
        for branching, rank in plain:
            yield Choice(branching, rank, np.ones(space.sections))
    noise, blame = np.random.default_rng(seed), np.ones(space.sections)
    while True:
        for share in NOISE:
            for branching, rank in plain:
                yield Choice(branching, rank + share * count * noise.standard_normal(count), blame)


def _most(live: IntArray, space: Space) -> IntArray:
    """The most live bytes in one of the sections of every storage, by a sparse table of maxima."""
    table = [live]
    while 2 ** len(table) <= len(live):
        half = 2 ** (len(table) - 1)
        table.append(np.maximum(table[-1][:-half], table[-1][half:]))
    level = np.frexp((space.after - space.first).astype(np.float64))[1] - 1
    found = np.zeros(len(space.size), dtype=np.int64)
    for number, maxima in enumerate(table):
        rows = np.flatnonzero(level == number)
        found[rows] = np.maximum(maxima[space.first[rows]], maxima[space.after[rows] - 2**number])
    return found


def _company(space: Space) -> IntArray:
    """Number of storages that are ever live together with each."""
    begun = np.searchsorted(np.sort(space.first), space.after, side="left").astype(np.int64)
    ended = np.searchsorted(np.sort(space.after), space.first, side="right").astype(np.int64)
    return begun - ended
