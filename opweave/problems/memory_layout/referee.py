"""The rules of memory layout: storages that live together do not overlap, and each stands where it may."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from opweave.problems.arrays import BoolArray, FloatArray, IntArray
from opweave.problems.measures import bytes_held
from opweave.problems.solution import Details, Violation, broken
from opweave.problems.spec import Many, Name, Seconds, Spec
from opweave.problems.timeline import Lifetimes, Names, Recorder, Resource, Timeline
from opweave.problems.words import counted

if TYPE_CHECKING:
    from opweave.problems.memory_layout.spec import Layout, MemoryLayout, StorageBlock


class PoolUse(Spec):
    """How much of a pool a layout needs.

    Attributes
    ----------
    name
        The pool.
    bytes
        End of its highest storage, which is what has to be reserved.
    live_peak
        The most bytes that are live in it at any time; no layout of the same storages needs less.
    storages
        Number of storages in it.
    traffic_seconds
        Seconds that its storages take to be written and read there.
    """

    name: Name
    bytes: int
    live_peak: int
    storages: int
    traffic_seconds: Seconds


class LayoutDetails(Details):
    """The bytes of every pool.

    Attributes
    ----------
    arena_bytes
        Bytes of all pools together.
    live_peak
        The most bytes that are live at any time in all pools together; no layout needs less.
    traffic_seconds
        Seconds that all storages take to be written and read in their pools.
    pools
        One row for each pool.
    """

    arena_bytes: int
    live_peak: int
    traffic_seconds: Seconds
    pools: Many[PoolUse]


@dataclass(frozen=True, slots=True)
class LayoutColumns:
    """The blocks as columns, in the order of the problem.

    Attributes
    ----------
    begin, end, bytes, alignment
        Of each of them. Shape (blocks,).
    firsts
        The id of each one's first storage.
    names
        Its name.
    """

    begin: FloatArray
    end: FloatArray
    bytes: IntArray
    alignment: IntArray
    firsts: tuple[str, ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, blocks: Sequence[StorageBlock]) -> LayoutColumns:
        """The columns of some blocks."""
        return cls(
            begin=np.asarray([each.begin for each in blocks], dtype=np.float64),
            end=np.asarray([each.end for each in blocks], dtype=np.float64),
            bytes=np.asarray([each.bytes for each in blocks], dtype=np.int64),
            alignment=np.asarray([max(one.alignment for one in each.members) for each in blocks], dtype=np.int64),
            firsts=tuple(each.members[0].id for each in blocks),
            names=tuple(each.name for each in blocks),
        )

    @property
    def solid(self) -> BoolArray:
        """Which blocks take space. Shape (blocks,)."""
        return (self.bytes > 0) & (self.end > self.begin)

    @property
    def live_peak(self) -> int:
        """The most bytes that live at any time."""
        solid = self.solid
        size = self.bytes[solid]
        change = np.concatenate([size, -size])
        order = np.lexsort((change, np.concatenate([self.begin[solid], self.end[solid]])))
        return int(np.cumsum(change[order]).max(initial=0))


def unusable(problem: MemoryLayout, solution: Layout) -> Iterator[Violation]:
    """Check that every storage has an offset and a pool, and that there are no others."""
    known = problem.index.keys()
    if solution.offset.keys() == known and not solution.pool and len(problem.pools) == 1:
        return
    for name in dict.fromkeys([*solution.offset, *solution.pool]):
        if name not in known:
            yield broken("unknown", f"{name!r} is not a storage of the problem")
    for name in known:
        pool = problem.pool_of(solution, name)
        if name not in solution.offset:
            yield broken("missing", f"{name!r} has no offset")
        if pool not in problem.pool_index:
            said = "no pool" if pool is None else f"the pool {pool!r}, which the problem does not have"
            yield broken("missing", f"{name!r} has {said}")


class PlayedLayout:
    """Every block that takes space, from its begin to its end at its place."""

    def __init__(self, problem: MemoryLayout, solution: Layout) -> None:
        self._problem, self._solution, self._offsets = problem, solution, dict(solution.offset.items())
        index = problem.pool_index
        self._pool_of = {name: index[problem.pool_of(solution, name) or ""] for name in problem.index}
        columns = problem.columns
        solid = np.flatnonzero(columns.solid)
        at, where = ([column[name] for name in columns.firsts] for column in (self._offsets, self._pool_of))
        lifetimes = Lifetimes(
            storage=solid,
            resource=np.asarray(where, dtype=np.int64)[solid],
            begin=columns.begin[solid],
            end=columns.end[solid],
            bytes=columns.bytes[solid],
            offset=np.asarray(at, dtype=np.int64)[solid],
        )
        names = Names(columns.names, 0, len(columns.names))
        pools = tuple(Resource(pool.name, "device", exclusive=False) for pool in problem.pools)
        self.timeline = Timeline("seconds", pools, names, Recorder().activities(), lifetimes)
        self._details = self._measured()
        priced = sum(pool.price * use.bytes for pool, use in zip(problem.pools, self._details.pools, strict=True))
        self.objective = priced if problem.objective == "arena" else self._details.traffic_seconds

    def details(self) -> LayoutDetails:
        """The bytes of every pool."""
        return self._details

    def _measured(self) -> LayoutDetails:
        problem, lives, uses = self._problem, self.timeline.lifetimes, []
        assert lives.offset is not None
        peaks = bytes_held(self.timeline).tolist()
        tops = np.zeros(len(problem.pools), dtype=np.int64)
        np.maximum.at(tops, lives.resource, lives.offset + lives.bytes)
        where = np.asarray([*self._pool_of.values()], dtype=np.int64)
        for number, (pool, top, peak) in enumerate(zip(problem.pools, tops.tolist(), peaks, strict=True)):
            held = np.flatnonzero(where == number)
            seconds = 0.0 if pool.speed is None else math.fsum((problem.moved[held] / pool.speed).tolist())
            uses.append(PoolUse(name=pool.name, bytes=top, live_peak=peak, storages=len(held), traffic_seconds=seconds))
        return LayoutDetails(
            arena_bytes=int(tops.sum()),
            live_peak=problem.live_peak,
            traffic_seconds=math.fsum(use.traffic_seconds for use in uses),
            pools=tuple(uses),
        )

    def violations(self) -> Iterator[Violation]:
        """Storages that stand where they may not or overlap, and pools that are too small."""
        yield from self._wrong_places()
        yield from _wrong_groups(self._problem, self._solution)
        yield from overlaps(self.timeline)
        for pool, use in zip(self._problem.pools, self._details.pools, strict=True):
            if pool.bytes is not None and use.bytes > pool.bytes:
                excess = use.bytes - pool.bytes
                message = f"pool {pool.name!r} is filled up to {use.bytes:,} bytes: {excess:,} over its {pool.bytes:,}"
                yield broken("memory", message, float(excess))

    def _wrong_places(self) -> Iterator[Violation]:
        """Check alignment, fixed offsets, and whether every storage may stand in its pool."""
        problem, offsets = self._problem, self._offsets
        free = not problem.fixed and all(pool.operators is None for pool in problem.pools)
        step = max(pool.alignment for pool in problem.pools)
        for each in problem.lifetimes:
            offset = offsets[each.id]
            if free and each.pools is None and not offset % step and not offset % each.alignment:
                continue
            pool = problem.pools[self._pool_of[each.id]]
            for whose, alignment in (("its", each.alignment), (f"pool {pool.name!r}'s", pool.alignment)):
                if offset % alignment:
                    said = f"no multiple of {whose} alignment of {alignment:,} bytes"
                    yield broken("alignment", f"{each.id!r} is at {offset:,}, {said}", float(offset % alignment))
            fixed = problem.fixed.get(each.id, offset)
            if offset != fixed:
                message = f"{each.id!r} is at {offset:,}, not at its fixed offset {fixed:,}"
                yield broken("fixed", message, float(abs(offset - fixed)))
            if not problem.may_stand_in(each, pool):
                strangers = (
                    [] if pool.operators is None else [name for name in each.operators if name not in pool.operators]
                )
                why = f", which {strangers[0]!r} does not reach" if strangers else ""
                yield broken("pool", f"{each.id!r} may not be placed in pool {pool.name!r}{why}")


def _wrong_groups(problem: MemoryLayout, solution: Layout) -> Iterator[Violation]:
    """Check storages that share a place, must share a pool, or must not."""
    blocks = problem.blocks if problem.in_place else ()
    placed = [[each.id for each in block.members] for block in blocks]
    for rule, groups in (("in_place", placed), ("together", problem.together)):
        for first, name in ((group[0], name) for group in groups for name in group[1:]):
            here, there = (problem.pool_of(solution, each) for each in (first, name))
            if rule == "in_place":
                here, there = f"{solution.offset[first]:,} in {here}", f"{solution.offset[name]:,} in {there}"
            if here != there:
                yield broken(rule, f"{first!r} and {name!r} must stand {rule}, not at {here} and at {there}")
    for group in problem.apart:
        seen: dict[str | None, str] = {}
        for name in group:
            pool = problem.pool_of(solution, name)
            if pool in seen:
                yield broken("apart", f"{seen[pool]!r} and {name!r} must not share a pool, but both are in {pool!r}")
            seen.setdefault(pool, name)


def overlaps(timeline: Timeline) -> Iterator[Violation]:
    """Lifetimes of one pool that overlap in time and in space.

    Time passes; what is live stands in a list by its offset. As long as nothing overlaps in there, something new can
    only overlap what stands next to it. What overlaps is reported and left out, so at least one is found for every
    storage that overlaps an earlier one which is not at fault itself.
    """
    lives = timeline.lifetimes
    assert lives.offset is not None
    rows = np.arange(len(lives.begin))
    begins = np.repeat([1, 0], len(rows))
    events = np.lexsort((np.tile(rows, 2), begins, np.concatenate([lives.begin, lives.end])))
    resource, offset, end = lives.resource.tolist(), lives.offset.tolist(), (lives.offset + lives.bytes).tolist()
    lows: list[list[int]] = [[] for _ in timeline.resources]  # distinct, since nothing in there overlaps
    row_at: list[dict[int, int]] = [{} for _ in timeline.resources]
    for row, begun in zip((events % max(1, len(rows))).tolist(), begins[events].tolist(), strict=True):
        here, who, low, top = lows[resource[row]], row_at[resource[row]], offset[row], end[row]
        at = bisect_left(here, low)
        if not begun:
            if who.get(low) == row:
                del here[at], who[low]
            continue
        if (at == len(here) or here[at] >= top) and (not at or end[who[here[at - 1]]] <= low):
            here.insert(at, low)
            who[low] = row
            continue
        near = (who[each] for each in here[max(0, at - 1) : at + 1])
        most, other = max((min(top, end[each]) - max(low, offset[each]), each) for each in near)
        first, second = (timeline.name(int(lives.storage[each])) for each in (other, row))
        where = timeline.resources[resource[row]].name
        message = f"{first!r} and {second!r} share {counted(most, 'byte')} of {where!r} while both live"
        yield broken("overlap", message, float(most))
