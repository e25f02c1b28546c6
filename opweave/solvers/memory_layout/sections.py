"""The arrays of memory layout's hot loops: storages over sections.

A *section* is a largest set of storages that are live together. Two storages are live together exactly when a section
contains both, so sections replace time. A storage is in consecutive sections, ``first`` to before ``after``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.formulations.memory_layout.instance import LayoutInstance
from opweave.problems.arrays import BoolArray, FloatArray, IntArray, IntMatrix, distinct
from opweave.problems.graph_arrays import Adjacency

FREE = -1
"""Entry of ``fixed`` for a storage whose offset is to be chosen."""


class Space(NamedTuple):
    """Storages of one arena, all with at least one byte.

    Attributes
    ----------
    size, alignment
        Bytes, and the number that divides the offset. Shape (storages,).
    fixed
        The given offset, or ``FREE``. Shape (storages,).
    first, after
        Sections of every storage: from ``first`` to before ``after``. Shape (storages,).
    members_start, members
        Storages of every section.
    kin_start, kin
        For every storage, the others with the same sections and alignment, without fixed offsets.
    """

    size: IntArray
    alignment: IntArray
    fixed: IntArray
    first: IntArray
    after: IntArray
    members_start: IntArray
    members: IntArray
    kin_start: IntArray
    kin: IntArray

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
) -> Space:
    """The space of storages that have bytes and are live for some time. Each array has shape (storages,)."""
    first, after, count = sections_of(begin, end)
    members = members_of(first, after, count)
    kin = _kin(np.stack([first, after, alignment, np.where(fixed < 0, FREE, np.arange(len(first)))]))
    return Space(size, alignment, fixed, first, after, members.start, members.items, kin.start, kin.items)


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


def part_of(space: Space, chosen: BoolArray) -> Space:
    """The space of some of its storages."""
    return space_of(
        space.first[chosen],
        space.after[chosen],
        space.size[chosen],
        space.alignment[chosen],
        space.fixed[chosen],
    )


def window_of(space: Space, rows: IntArray, low: int, high: int) -> Space:
    """The space of the storages of some sections: those from ``low`` to before ``high``, and no time beyond."""
    return space_of(
        np.clip(space.first[rows], low, high),
        np.clip(space.after[rows], low, high),
        space.size[rows],
        space.alignment[rows],
        space.fixed[rows],
    )


def outline_of(space: Space, rows: IntArray, low: int, high: int) -> Space:
    """The space of :func:`window_of` without members and kin, which local search does not need."""
    first, after, count = sections_of(np.clip(space.first[rows], low, high), np.clip(space.after[rows], low, high))
    none, size = np.zeros(0, dtype=np.int64), space.size[rows]
    starts, kin = np.zeros(count + 1, dtype=np.int64), np.zeros(len(rows) + 1, dtype=np.int64)
    return Space(size, space.alignment[rows], space.fixed[rows], first, after, starts, none, kin, none)
