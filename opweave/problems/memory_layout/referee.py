"""The rules of memory layout: storages that live together do not overlap, and each stands where it may."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from opweave.problems.arrays import BoolArray, FloatArray, IntArray
from opweave.problems.measures import bytes_held
from opweave.problems.solution import Details, Evaluation, Violation, broken
from opweave.problems.spec import Many, Name, Seconds, Spec
from opweave.problems.timeline import Lifetimes, Names, Recorder, Resource, Timeline
from opweave.problems.words import counted

if TYPE_CHECKING:
    from opweave.problems.memory_layout.spec import Layout, MemoryLayout


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
class Columns:
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
    def of(cls, rows: Iterable[tuple[Any, ...]]) -> Columns:
        """From rows of names, begins, ends, bytes, alignments, and ids of first storages."""
        names, begin, end, size, alignment, firsts = tuple(zip(*rows, strict=True)) or ((),) * 6
        return cls(
            begin=np.asarray(begin, dtype=np.float64),
            end=np.asarray(end, dtype=np.float64),
            bytes=np.asarray(size, dtype=np.int64),
            alignment=np.asarray(alignment, dtype=np.int64),
            firsts=firsts,
            names=names,
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


def play(problem: MemoryLayout, solution: Layout, pools_of: Mapping[str, int | None] | None = None) -> Timeline | None:
    """Record the lifetime of every block that takes space; None if a storage has no offset or no known pool.

    ``pools_of`` has the pool of every storage, if it is known already.
    """
    pools_of = problem.pools_of(solution) if pools_of is None else pools_of
    offsets, columns = dict(solution.offset.items()), problem.columns
    if None in pools_of.values() or not pools_of.keys() <= offsets.keys():
        return None
    solid = np.flatnonzero(columns.solid)
    at = [offsets[name] for name in columns.firsts]
    where = [pools_of[name] or 0 for name in columns.firsts] if len(problem.pools) > 1 else [0] * len(at)
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
    return Timeline("seconds", pools, names, Recorder().activities(), lifetimes)


def judge(problem: MemoryLayout, solution: Layout) -> Evaluation[LayoutDetails]:
    """Judge a solution against all rules except the side constraints."""
    pools = problem.pools_of(solution)
    unknown = list(_membership(problem, solution, pools))
    timeline = play(problem, solution, pools)
    if timeline is None:
        return Evaluation(objective=None, violations=tuple(unknown))
    details = _measured(problem, pools, timeline)
    found = [*unknown, *_places(problem, solution, pools), *_groups(problem, solution), *overlaps(timeline)]
    for pool, use in zip(problem.pools, details.pools, strict=True):
        if pool.bytes is not None and use.bytes > pool.bytes:
            excess = use.bytes - pool.bytes
            message = f"pool {pool.name!r} is filled up to {use.bytes:,} bytes: {excess:,} over its {pool.bytes:,}"
            found.append(broken("memory", message, float(excess)))
    objective = details.arena_bytes if problem.objective == "arena" else details.traffic_seconds
    judged = Evaluation(objective=objective, violations=tuple(found), details=details)
    return judged.with_timeline(timeline)


def _membership(problem: MemoryLayout, solution: Layout, pools: Mapping[str, int | None]) -> Iterator[Violation]:
    """Check that every storage has an offset and a pool, and that nothing else has."""
    known = problem.index.keys()
    if solution.offset.keys() == known and not solution.pool and len(problem.pools) == 1:
        return
    for name in dict.fromkeys([*solution.offset, *solution.pool]):
        if name not in known:
            yield broken("unknown", f"{name!r} is not a storage of the problem")
    for name, number in pools.items():
        if name not in solution.offset:
            yield broken("missing", f"{name!r} has no offset")
        if number is None:
            pool = problem.pool_of(solution, name)
            said = "no pool" if pool is None else f"the pool {pool!r}, which the problem does not have"
            yield broken("missing", f"{name!r} has {said}")


def _measured(problem: MemoryLayout, pools: Mapping[str, int | None], timeline: Timeline) -> LayoutDetails:
    """Everything that can be measured."""
    lives, uses = timeline.lifetimes, []
    assert lives.offset is not None
    peaks = bytes_held(timeline).tolist()
    tops = np.zeros(len(problem.pools), dtype=np.int64)
    np.maximum.at(tops, lives.resource, lives.offset + lives.bytes)
    where = np.asarray([number or 0 for number in pools.values()], dtype=np.int64)
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


def _places(problem: MemoryLayout, solution: Layout, pools_of: Mapping[str, int | None]) -> Iterator[Violation]:
    """Check alignment, fixed offsets, and whether every storage may stand in its pool."""
    offsets = dict(solution.offset.items())
    free = not problem.fixed and all(pool.operators is None for pool in problem.pools)
    step = max(pool.alignment for pool in problem.pools)
    for each in problem.lifetimes:
        offset = offsets[each.id]
        if free and each.pools is None and not offset % step and not offset % each.alignment:
            continue
        pool = problem.pools[pools_of[each.id] or 0]
        for whose, alignment in (("its", each.alignment), (f"pool {pool.name!r}'s", pool.alignment)):
            if offset % alignment:
                message = f"{each.id!r} stands at {offset:,}, no multiple of {whose} alignment of {alignment:,} bytes"
                yield broken("alignment", message, float(offset % alignment))
        fixed = problem.fixed.get(each.id, offset)
        if offset != fixed:
            message = f"{each.id!r} stands at {offset:,}, not at its fixed offset {fixed:,}"
            yield broken("fixed", message, float(abs(offset - fixed)))
        if not problem.may_stand_in(each, pool):
            strangers = (
                [] if pool.operators is None else [name for name in each.operators if name not in pool.operators]
            )
            why = f", which {strangers[0]!r} does not reach" if strangers else ""
            yield broken("pool", f"{each.id!r} may not stand in pool {pool.name!r}{why}")


def _groups(problem: MemoryLayout, solution: Layout) -> Iterator[Violation]:
    """Check storages that share a place, must share a pool, or must not."""
    blocks = problem.blocks if problem.in_place else ()
    for block in (each for each in blocks if len(each.members) > 1):
        first, *others = (each.id for each in block.members)
        for name in others:
            here, there = ((problem.pool_of(solution, each), solution.offset[each]) for each in (first, name))
            if here != there:
                message = f"{first!r} and {name!r} must stand at one place, not at {_said(here)} and {_said(there)}"
                yield broken("in_place", message)
    for group in problem.together:
        first, *others = group or ("",)
        for name in others:
            pools = [problem.pool_of(solution, each) for each in (first, name)]
            if pools[0] != pools[1]:
                message = f"{first!r} and {name!r} must share a pool, but are in {pools[0]!r} and {pools[1]!r}"
                yield broken("together", message)
    for group in problem.apart:
        seen: dict[str | None, str] = {}
        for name in group:
            pool = problem.pool_of(solution, name)
            if pool in seen:
                yield broken("apart", f"{seen[pool]!r} and {name!r} must not share a pool, but both are in {pool!r}")
            seen.setdefault(pool, name)


def _said(place: tuple[str | None, int]) -> str:
    return f"{place[1]:,} in {place[0]!r}"


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
