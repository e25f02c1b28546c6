"""Lower bounds of the footprint of single steps, of the peak and of the total.

In every order, the state in which v runs contains v's ancestors and none of its descendants. L1 counts the bytes that
every such state holds. L2 is the least number of bytes that any such state holds, found by one minimum cut; it is never
below L1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opweave.problems.arrays import IntArray
from opweave.problems.graph_arrays import Adjacency, topological_order
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


def peak_bound(arrays: OrderingArrays, order: IntArray) -> int:
    """The largest L2 of all operators, or the bytes live before the first step; most are never evaluated.

    The footprints of any order bound every operator's L2 from above. So operators are taken by decreasing footprint,
    and the rest are skipped once the largest L2 found is at least as high.

    Parameters
    ----------
    arrays
        The problem.
    order
        Any order; the better it is, the fewer cuts are needed.
    """
    best, keys = arrays.start_bytes, upper_keys(arrays, [order])
    for v in np.argsort(-keys, kind="stable").tolist():
        if keys[v] <= best:
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


def reachability(successors: Adjacency) -> NDArray[np.uint8]:
    """Descendants of every operator as packed bits. Shape (operators, ceil(operators / 8))."""
    count = len(successors)
    bits = np.zeros((count, (count + 7) // 8), dtype=np.uint8)
    for v in topological_order(successors)[::-1].tolist():
        for w in successors[v].tolist():
            bits[v] |= bits[w]
            bits[v, w >> 3] |= 128 >> (w & 7)
    return bits


def forced_footprints(arrays: OrderingArrays) -> IntArray:
    """L1 of every operator: bytes that its step holds in every order. Shape (operators,).

    A storage is held at v when its producer comes before v and it is kept, or v or an operator after v reads it.
    Takes operators^2 / 4 bytes of memory.
    """
    count = len(arrays.made)
    after = reachability(Adjacency(arrays.after_start, arrays.after))
    before = reachability(Adjacency(arrays.before_start, arrays.before))
    own = np.zeros(before.shape, dtype=np.uint8)
    index = np.arange(count)
    own[index, index >> 3] = 128 >> (index & 7)
    until = before | own
    held = np.zeros(count, dtype=np.int64)
    for s in np.flatnonzero(arrays.counts & (arrays.size > 0)).tolist():
        producer = arrays.producer[s]
        here = np.full(before.shape[1], 255, dtype=np.uint8) if producer < 0 else after[producer].copy()
        if not arrays.kept[s]:
            here &= np.bitwise_or.reduce(
                until[arrays.readers[arrays.readers_start[s] : arrays.readers_start[s + 1]]], axis=0
            )
        held += np.unpackbits(here, count=count) * arrays.size[s]
    for v in range(count):
        side = np.zeros(count, dtype=np.int8)
        if arrays.over_start[v] < arrays.over_start[v + 1]:
            side[np.unpackbits(after[v], count=count).astype(bool)] = OUTSIDE
        held[v] += least_increase(arrays, v, side)
    return held
