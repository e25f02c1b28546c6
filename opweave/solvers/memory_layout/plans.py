"""Layouts as offsets and pools of blocks: what they are worth, and how they are reported."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opweave.formulations.memory_layout.instance import LayoutInstance
from opweave.problems.arrays import IntArray
from opweave.problems.memory_layout.spec import MemoryLayout
from opweave.solvers.run import Run

NOWHERE = -1
"""Entry of a list of pools after its last pool, and the pool of a block that is not placed."""


@dataclass(frozen=True, slots=True)
class Places:
    """Offsets and pools of all blocks; the pool is ``NOWHERE`` for a block without a place. Both of shape (blocks,)."""

    offset: IntArray
    pool: IntArray


def arena_of(instance: LayoutInstance, places: Places) -> int:
    """Bytes that have to be reserved, each at the price of its pool."""
    top = np.where((instance.bytes > 0) & (instance.end > instance.begin), places.offset + instance.bytes, 0)
    highest = np.zeros(len(instance.capacity), dtype=np.int64)
    np.maximum.at(highest, places.pool, top)
    return int(highest @ instance.price)


def seconds_of(instance: LayoutInstance, places: Places) -> float:
    """Seconds in which all storages are written and read."""
    return float(instance.seconds[np.arange(len(instance)), places.pool].sum())


def worth_of(problem: MemoryLayout, instance: LayoutInstance, places: Places) -> int | float:
    """The problem's objective."""
    return seconds_of(instance, places) if problem.objective == "traffic" else arena_of(instance, places)


def report(problem: MemoryLayout, instance: LayoutInstance, places: Places, run: Run) -> bool:
    """Report a layout if it is whole and obeys the side constraints; return whether it is the best so far."""
    if (places.pool < 0).any():
        return False
    value = worth_of(problem, instance, places)
    if run.objective is not None and value >= run.objective:
        return False
    layout = instance.layout(places.offset, places.pool)
    if problem.constraints:
        judged = problem.evaluate(layout)
        if not judged.feasible or judged.objective is None:
            return False
        value = judged.objective
    return run.found(layout, value)


def contradiction(instance: LayoutInstance) -> str | None:
    """Why no layout is possible, whatever its height, as far as one or two storages tell; None if there may be one."""
    if instance.impossible is not None:
        return instance.impossible
    alone = len(instance.capacity) == 1
    for one, other in instance.apart.tolist():
        if alone or instance.team[one] == instance.team[other]:
            return f"{instance.name(one)!r} and {instance.name(other)!r} must not share a pool, but have to"
    given = np.flatnonzero(instance.solid & (instance.fixed >= 0))
    begin, end, low, size = (each[given] for each in (instance.begin, instance.end, instance.fixed, instance.bytes))
    for n in range(len(given) if alone else 0):
        meets = (begin[n + 1 :] < end[n]) & (begin[n] < end[n + 1 :])
        meets &= (low[n + 1 :] < low[n] + size[n]) & (low[n] < (low + size)[n + 1 :])
        if meets.any():
            first, second = instance.name(int(given[n])), instance.name(int(given[n + 1 + int(meets.argmax())]))
            return f"the fixed offsets of {first!r} and {second!r} overlap while both live"
    return None
