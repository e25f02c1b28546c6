"""The trivial bounds of memory layout, also with its order; see :mod:`opweave.solvers.trivial`."""

from __future__ import annotations

import math

from opweave.problems.memory_layout.spec import MemoryLayout
from opweave.problems.ordered_layout import OrderedLayout
from opweave.solvers.trivial import own_bound, safe, trivial_bound


@own_bound(MemoryLayout)
def _(problem: MemoryLayout) -> int | float:
    """The most bytes that are live at any time; for traffic, every storage in the fastest pool that takes it."""
    if problem.objective == "arena":
        return problem.live_peak
    if all(pool.operators is None for pool in problem.pools) and all(each.pools is None for each in problem.lifetimes):
        fastest = max((pool.speed or math.inf for pool in problem.pools), default=math.inf)
        return safe(float((problem.moved / fastest).sum()))
    least = 0.0
    for each in problem.lifetimes:
        there = (pool for pool in problem.pools if problem.may_stand_in(each, pool))
        least += min((pool.seconds(each.moved) for pool in there), default=0.0)
    return safe(least)


@own_bound(OrderedLayout)
def _(problem: OrderedLayout) -> int | float | None:
    """No order keeps less in memory at once than its most demanding operator."""
    return trivial_bound(problem.ordering)
