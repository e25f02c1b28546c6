"""Lower bounds of the footprint of single steps, of the peak and of the total.

In every order, the state in which v runs contains v's ancestors and none of its descendants. L2 is the least number of
bytes that any such state holds, found by one minimum cut.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opweave.formulations.memory_ordering.instance import OrderingInstance, summed
from opweave.problems.arrays import IntArray
from opweave.solvers.memory_ordering.arrays import OrderingArrays, footprints
from opweave.solvers.memory_ordering.closure import OUTSIDE, SideArray, least_live, sides_around


def least_increase(arrays: OrderingArrays, v: int, side: SideArray) -> int:
    """Least bytes that v's step holds beyond the live bytes before it; ``side`` as from ``sides_around``.

    An input can be overwritten only when no other reader is a descendant of v.
    """
    saved = 0
    used: dict[int, int] = {}
    for k in range(arrays.over_start[v], arrays.over_start[v + 1]):
        s = arrays.over[k]
        readers = arrays.readers[arrays.readers_start[s] : arrays.readers_start[s + 1]]
        size = int(arrays.size[s])
        if used.get(size, 0) < arrays.slots[k] and not (side[readers[readers != v]] == OUTSIDE).any():
            used[size] = used.get(size, 0) + 1
            saved += size
    return int(arrays.stay[v]) - saved


def step_bound(arrays: OrderingArrays, v: int) -> int:
    """L2 of operator v: the least footprint that its step can have in any order."""
    side = sides_around(arrays, v)
    return least_live(arrays, side)[0] + least_increase(arrays, v, side)


def peak_bound(arrays: OrderingArrays, order: IntArray, should_stop: Callable[[], bool] = lambda: False) -> int:
    """The largest L2 of all operators, or the bytes live before the first step; most are never evaluated.

    The footprints of any order bound every operator's L2 from above. So operators are taken by decreasing footprint,
    and the rest are skipped once the largest L2 found is at least as high.

    Parameters
    ----------
    arrays
        The problem.
    order
        Any order; the better it is, the fewer cuts are needed.
    should_stop
        Asked before every cut; what was found until then is a bound.
    """
    best, keys = arrays.start_bytes, upper_keys(arrays, [order])
    for v in np.argsort(-keys, kind="stable").tolist():
        if keys[v] <= best or should_stop():
            break
        best = max(best, step_bound(arrays, v))
    return best


def upper_keys(arrays: OrderingArrays, orders: list[IntArray]) -> IntArray:
    """Upper bounds of every operator's L2: its least footprint in any of the orders. Shape (operators,)."""
    keys = np.full(len(arrays.made), np.iinfo(np.int64).max, dtype=np.int64)
    for order in orders:
        cost = footprints(arrays, order)
        keys[order] = np.minimum(keys[order], cost)
    return keys


def own_footprints(instance: OrderingInstance) -> IntArray:
    """What every step needs by itself: what its operator reads and makes, and its workspace. Shape (operators,)."""
    made = summed(instance.writes, instance.size)
    saved = np.minimum(made, summed(instance.overwrite, instance.size))
    return np.asarray(summed(instance.reads, instance.size) + instance.stay() - saved)
