"""The trivial bound of memory layout; see :mod:`opweave.solvers.trivial`."""

from __future__ import annotations

import math

from opweave.problems.memory_layout.spec import MemoryLayout
from opweave.solvers.trivial import own_bound, safe


@own_bound(MemoryLayout)
def _(problem: MemoryLayout) -> int | float:
    """The most live bytes in the cheapest pool; for traffic, every storage in the fastest pool that takes it."""
    if problem.objective == "arena":
        return problem.live_peak * min(pool.price for pool in problem.pools)
    if all(pool.operators is None for pool in problem.pools) and all(each.pools is None for each in problem.lifetimes):
        fastest = max((pool.speed or math.inf for pool in problem.pools), default=math.inf)
        return safe(float((problem.moved / fastest).sum()))
    least = 0.0
    for each in problem.lifetimes:
        there = (pool for pool in problem.pools if problem.may_stand_in(each, pool))
        least += min((pool.seconds(each.moved) for pool in there), default=0.0)
    return safe(least)
