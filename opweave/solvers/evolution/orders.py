"""Orders from keys: whatever the keys, predecessors come first, and every topological order has keys."""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.loops import helper


@helper
def order_by_keys(
    before_start: IntArray, after_start: IntArray, after: IntArray, key: FloatArray, order: IntArray
) -> None:
    """Fill ``order``: of the operators whose predecessors have run, the one with the smallest key is always next."""
    count = len(order)
    waiting = np.zeros(count, dtype=np.int64)
    heap = [(0.0, 0)]
    heap.clear()
    for v in range(count):
        waiting[v] = before_start[v + 1] - before_start[v]
        if waiting[v] == 0:
            heappush(heap, (key[v], v))
    for place in range(count):
        v = heappop(heap)[1]
        order[place] = v
        for k in range(after_start[v], after_start[v + 1]):
            w = after[k]
            waiting[w] -= 1
            if waiting[w] == 0:
                heappush(heap, (key[w], w))
