"""Greedy orders from both ends, with a heap: O((operators + reads) log operators)."""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from opweave.problems.arrays import IntArray
from opweave.solvers.loops import helper, loop
from opweave.solvers.memory_ordering.arrays import (
    BACKWARD,
    FORWARD,
    OrderingArrays,
    initial_bytes,
    initial_left,
    pass_over,
    step,
)

LEAST_PEAK = 0
SHRINK_LOW = 1
SHRINK_HIGH = 2
SHRINK_RECENT = 3

PORTFOLIO: tuple[tuple[int, int], ...] = (
    (FORWARD, LEAST_PEAK),
    (FORWARD, SHRINK_LOW),
    (FORWARD, SHRINK_HIGH),
    (FORWARD, SHRINK_RECENT),
    (BACKWARD, LEAST_PEAK),
    (BACKWARD, SHRINK_LOW),
    (BACKWARD, SHRINK_HIGH),
    (BACKWARD, SHRINK_RECENT),
)
"""(direction, rule) pairs worth trying; no single rule is best on all families of graphs."""


def greedy(arrays: OrderingArrays, sign: int, rule: int) -> IntArray:
    """The order that a rule builds from one end; the first operator comes first."""
    order = heap_order(arrays, sign, rule)
    return order if sign == FORWARD else order[::-1].copy()


@helper
def _key(rule: int, cost: int, live: int, far: int, v: int, stamp: int) -> tuple[int, int, int]:
    """Sort key, least first. ``LEAST_PEAK``: footprint; other rules: memory freed, then position or recency."""
    delta = far - live
    if rule == 0:
        return cost - live, delta, v
    first = 1
    tie = v
    if delta <= 0:
        first = 0
    else:
        delta = 0
    if rule == 2:
        tie = -v
    if rule == 3:
        tie = -stamp
    return first, delta, tie


@loop
def heap_order(arrays: OrderingArrays, sign: int, rule: int) -> IntArray:
    """Repeatedly take the ready operator with the smallest key, in the given direction. Shape (operators,).

    A ready operator's key changes only when it becomes the one operator that decides whether a storage that it reads
    stays live. Keys only fall, so the operator is pushed again and stale entries are skipped.
    """
    start, script = arrays.start, arrays.script
    count = len(arrays.made)
    enters_start, enters = (arrays.after_start, arrays.after) if sign == 1 else (arrays.before_start, arrays.before)
    waits_start = arrays.before_start if sign == 1 else arrays.after_start
    waiting = np.zeros(count, dtype=np.int64)
    done = np.zeros(count, dtype=np.bool_)
    order = np.zeros(count, dtype=np.int64)
    left = initial_left(arrays, sign)
    live = initial_bytes(arrays, sign)
    stamp = 0
    heap = [((0, 0, 0), -1)]
    heap.clear()
    for v in range(count):
        waiting[v] = waits_start[v + 1] - waits_start[v]
        if waiting[v] == 0:
            cost, far = step(start, script, v, live, left, sign)
            heappush(heap, (_key(rule, cost, live, far, v, 0), v))
    placed = 0
    while placed < count:
        v = heappop(heap)[1]
        if done[v]:
            continue
        done[v] = True
        order[placed] = v
        placed += 1
        stamp += 1
        _, live = step(start, script, v, live, left, sign)
        pass_over(start, script, v, left, sign)
        for k in range(enters_start[v], enters_start[v + 1]):
            w = enters[k]
            waiting[w] -= 1
            if waiting[w] == 0:
                cost, far = step(start, script, w, live, left, sign)
                heappush(heap, (_key(rule, cost, live, far, w, stamp), w))
        for k in range(arrays.reads_start[v], arrays.reads_start[v + 1]):
            s = arrays.reads[k]
            if left[s] == 1 and not arrays.kept[s]:
                for r in range(arrays.readers_start[s], arrays.readers_start[s + 1]):
                    w = arrays.readers[r]
                    if waiting[w] == 0 and not done[w]:
                        cost, far = step(start, script, w, live, left, sign)
                        heappush(heap, (_key(rule, cost, live, far, w, stamp), w))
    return order
