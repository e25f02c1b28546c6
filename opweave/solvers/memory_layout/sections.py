"""The arrays of memory layout's hot loops: storages over sections.

A *section* is a largest set of storages that are live together. Two storages are live together exactly when a section
contains both, so sections replace time. A storage is in consecutive sections, ``first`` to before ``after``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from opweave.formulations.memory_layout.instance import LayoutInstance
from opweave.problems.arrays import BoolArray, FloatArray, IntArray, IntMatrix, distinct
from opweave.problems.graph_arrays import Adjacency

FREE = -1
"""Entry of ``fixed`` for a storage whose offset is to be chosen."""


SIZE, ALIGNMENT, FIXED, FIRST, AFTER = range(5)
"""Rows of a space's columns."""


class Space(NamedTuple):
    """Storages of one arena, all with at least one byte.

    Attributes
    ----------
    columns
        Of every storage, in the rows ``SIZE``, ``ALIGNMENT``, ``FIXED``, ``FIRST`` and ``AFTER``: its bytes, the number
        that divides its offset, its given offset or ``FREE``, and its sections, from the first to before the last.
    members_start, members
        Storages of every section.
    """

    columns: IntMatrix
    members_start: IntArray
    members: IntArray

    @property
    def size(self) -> IntArray:
        """Bytes of every storage."""
        column: IntArray = self.columns[SIZE]
        return column

    @property
    def alignment(self) -> IntArray:
        """What divides the offset of every storage."""
        column: IntArray = self.columns[ALIGNMENT]
        return column

    @property
    def fixed(self) -> IntArray:
        """The given offset of every storage, or ``FREE``."""
        column: IntArray = self.columns[FIXED]
        return column

    @property
    def first(self) -> IntArray:
        """The first section of every storage."""
        column: IntArray = self.columns[FIRST]
        return column

    @property
    def after(self) -> IntArray:
        """The section after the last of every storage."""
        column: IntArray = self.columns[AFTER]
        return column

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
    inside = members_of(first, after, count) if members else Adjacency.from_pairs(count, first[:0], after[:0])
    return Space(np.stack([size, alignment, fixed, first, after]).astype(np.int64), inside.start, inside.items)


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


def window_of(space: Space, rows: IntArray | BoolArray, low: int, high: int, *, members: bool = True) -> Space:
    """The space of some storages in the sections from ``low`` to before ``high``, and no time beyond."""
    first, after = (np.clip(each[rows], low, high) for each in (space.first, space.after))
    return space_of(first, after, space.size[rows], space.alignment[rows], space.fixed[rows], members=members)


PORTFOLIO = ("TWA", "OTW", "WTU", "ATW", "UW", "TO", "TWI", "OI", "UTW")
"""Orders by sorting keys, of which the first one decides: *T* most live bytes in one of its sections, *W* number of
sections, *A* bytes times sections, *O* number of storages that are live together with it, *U* late last section, *I*
position in the problem."""

PLAIN_TURNS = 3
"""Turns in which the portfolio is used as it is."""

NOISE = (0.005, 0.02, 0.06, 0.15)
"""Standard deviations of the positions in later orders, as shares of the number of storages."""


def choices(space: Space, seed: int) -> Iterator[FloatArray]:
    """Endless ranks of all storages, of which the least comes first: the portfolio, in some turns, then disturbed."""
    count = len(space.size)
    width = space.after - space.first
    live = live_bytes(space.size, space.first, space.after, space.sections)
    keys = {
        "T": _most(live, space),
        "W": width,
        "A": width * space.size.astype(np.float64),
        "O": _company(space),
        "U": space.after,
        "I": -np.arange(count),
    }
    plain = [np.argsort(np.lexsort([-keys[key] for key in reversed(name)])).astype(np.float64) for name in PORTFOLIO]
    for _ in range(PLAIN_TURNS):
        yield from plain
    noise = np.random.default_rng(seed)
    while True:
        for share in NOISE:
            for rank in plain:
                yield rank + share * count * noise.standard_normal(count)


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
