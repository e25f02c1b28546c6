"""The rules of memory layout: storages that live together do not overlap, and each stands where it may."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from opweave.problems.measures import bytes_held
from opweave.problems.memory_layout.details import LayoutDetails, PoolUse
from opweave.problems.memory_layout.parts import Lifetime, Pool
from opweave.problems.memory_layout.play import play
from opweave.problems.solution import Evaluation, Violation
from opweave.problems.timeline import Timeline
from opweave.problems.words import counted

if TYPE_CHECKING:
    from opweave.problems.memory_layout.spec import Layout, MemoryLayout


def judge(problem: MemoryLayout, solution: Layout) -> Evaluation[LayoutDetails]:
    """Judge a solution against all rules except the side constraints."""
    unknown = list(_membership(problem, solution))
    timeline = play(problem, solution)
    if timeline is None:
        return Evaluation(objective=None, violations=tuple(unknown))
    details = _measured(problem, problem.pools_of(solution), timeline)
    broken = [*unknown, *_places(problem, solution), *_groups(problem, solution), *overlaps(timeline)]
    broken += _capacities(problem, details)
    objective = details.arena_bytes if problem.objective == "arena" else details.traffic_seconds
    judged = Evaluation(objective=objective, violations=tuple(broken), details=details)
    return judged.with_timeline(timeline)


def _membership(problem: MemoryLayout, solution: Layout) -> Iterator[Violation]:
    """Check that every storage has an offset and a pool, and that nothing else has."""
    known = {each.id for each in problem.lifetimes}
    for name in dict.fromkeys([*solution.offset, *solution.pool]):
        if name not in known:
            yield Violation(rule="unknown", message=f"{name!r} is not a storage of the problem")
    for name, number in problem.pools_of(solution).items():
        if name not in solution.offset:
            yield Violation(rule="missing", message=f"{name!r} has no offset")
        if number is None:
            pool = problem.pool_of(solution, name)
            said = "no pool" if pool is None else f"the pool {pool!r}, which the problem does not have"
            yield Violation(rule="missing", message=f"{name!r} has {said}")


def _measured(problem: MemoryLayout, pools: Mapping[str, int | None], timeline: Timeline) -> LayoutDetails:
    """Everything that can be measured."""
    lives, uses = timeline.lifetimes, []
    assert lives.offset is not None
    peaks = bytes_held(timeline).tolist()
    tops = [0] * len(problem.pools)
    for pool, top in zip(lives.resource.tolist(), (lives.offset + lives.bytes).tolist(), strict=True):
        tops[pool] = max(tops[pool], top)
    inside: list[list[Lifetime]] = [[] for _ in problem.pools]
    for each in problem.lifetimes:
        inside[pools[each.id] or 0].append(each)
    for pool, top, peak, held in zip(problem.pools, tops, peaks, inside, strict=True):
        seconds = math.fsum(pool.seconds(each.moved) for each in held)
        uses.append(PoolUse(name=pool.name, bytes=top, live_peak=peak, storages=len(held), traffic_seconds=seconds))
    return LayoutDetails(
        arena_bytes=sum(tops),
        live_peak=problem.live_peak,
        traffic_seconds=math.fsum(use.traffic_seconds for use in uses),
        pools=tuple(uses),
    )


def _places(problem: MemoryLayout, solution: Layout) -> Iterator[Violation]:
    """Check alignment, fixed offsets, and whether every storage may stand in its pool."""
    pools_of, offsets = problem.pools_of(solution), dict(solution.offset)
    for each in problem.lifetimes:
        pool, offset = problem.pools[pools_of[each.id] or 0], offsets[each.id]
        for whose, alignment in (("its", each.alignment), (f"pool {pool.name!r}'s", pool.alignment)):
            if offset % alignment:
                message = f"{each.id!r} stands at {offset:,}, no multiple of {whose} alignment of {alignment:,} bytes"
                yield Violation(rule="alignment", message=message, excess=float(offset % alignment))
        fixed = problem.fixed.get(each.id, offset)
        if offset != fixed:
            message = f"{each.id!r} stands at {offset:,}, not at its fixed offset {fixed:,}"
            yield Violation(rule="fixed", message=message, excess=float(abs(offset - fixed)))
        if not problem.may_stand_in(each, pool):
            yield Violation(rule="pool", message=f"{each.id!r} may not stand in pool {pool.name!r}{_why(each, pool)}")


def _why(storage: Lifetime, pool: Pool) -> str:
    """Who does not reach the pool, if that is the reason."""
    strangers = [name for name in storage.operators if pool.operators is not None and name not in pool.operators]
    return f", which {strangers[0]!r} does not reach" if strangers else ""


def _groups(problem: MemoryLayout, solution: Layout) -> Iterator[Violation]:
    """Check storages that share a place, must share a pool, or must not."""
    for block in (each for each in problem.blocks if len(each.members) > 1):
        first, *others = (each.id for each in block.members)
        for name in others:
            here, there = ((problem.pool_of(solution, each), solution.offset[each]) for each in (first, name))
            if here != there:
                message = f"{first!r} and {name!r} must stand at one place, not at {_said(here)} and {_said(there)}"
                yield Violation(rule="in_place", message=message)
    for group in problem.together:
        first, *others = group or ("",)
        for name in others:
            pools = [problem.pool_of(solution, each) for each in (first, name)]
            if pools[0] != pools[1]:
                message = f"{first!r} and {name!r} must share a pool, but are in {pools[0]!r} and {pools[1]!r}"
                yield Violation(rule="together", message=message)
    for group in problem.apart:
        seen: dict[str | None, str] = {}
        for name in group:
            pool = problem.pool_of(solution, name)
            if pool in seen:
                message = f"{seen[pool]!r} and {name!r} must not share a pool, but both are in {pool!r}"
                yield Violation(rule="apart", message=message)
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
    columns = (lives.begin, lives.end, lives.resource, lives.offset, lives.bytes)
    begin, end, resource, offset, size = (column.tolist() for column in columns)
    events = [(moment, 1, row) for row, moment in enumerate(begin)]
    events += [(moment, 0, row) for row, moment in enumerate(end)]
    standing: list[list[tuple[int, int]]] = [[] for _ in timeline.resources]
    for _, begins, row in sorted(events):
        here, mine = standing[resource[row]], (offset[row], row)
        at = bisect_left(here, mine)
        if not begins:
            if at < len(here) and here[at] == mine:
                del here[at]
            continue
        most, other, top = 0, row, offset[row] + size[row]
        for low, near in here[max(0, at - 1) : at + 1]:
            shared = min(top, low + size[near]) - max(low, offset[row])
            most, other = max((most, other), (shared, near))
        if most <= 0:
            here.insert(at, mine)
            continue
        first, second = (timeline.name(int(lives.storage[each])) for each in (other, row))
        where = timeline.resources[resource[row]].name
        message = f"{first!r} and {second!r} share {counted(most, 'byte')} of {where!r} while both live"
        yield Violation(rule="overlap", message=message, excess=float(most))


def _capacities(problem: MemoryLayout, details: LayoutDetails) -> Iterator[Violation]:
    """Check that no pool holds more than its bytes."""
    for pool, use in zip(problem.pools, details.pools, strict=True):
        if pool.bytes is not None and use.bytes > pool.bytes:
            excess = use.bytes - pool.bytes
            message = f"pool {pool.name!r} is filled up to {use.bytes:,} bytes: {excess:,} over its {pool.bytes:,}"
            yield Violation(rule="memory", message=message, excess=float(excess))
