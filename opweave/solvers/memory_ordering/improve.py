"""Min-cut local search: rebuild an order around the emptiest state in which its busiest operator can run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opweave.problems.arrays import IntArray
from opweave.solvers.memory_ordering.arrays import OrderingArrays, footprints
from opweave.solvers.memory_ordering.bounds.best import least_increase
from opweave.solvers.memory_ordering.closure import INSIDE, OUTSIDE, least_live, sides_around

RESTARTS = 3


def improve(arrays: OrderingArrays, order: IntArray, rounds: int, should_stop: Callable[[], bool]) -> IntArray:
    """An order with a peak no higher than the given one's.

    The busiest operator v runs in some state between two fixed states. The emptiest such state becomes fixed, too: its
    operators run first, then v, then the rest, each in the old order. When v cannot do better between its fixed states,
    these are dropped. When an order recurs, all fixed states are dropped; this happens a few times at most.

    Parameters
    ----------
    arrays
        The problem.
    order
        The order to start from. Shape (operators,).
    rounds
        Most minimum cuts to compute.
    should_stop
        Asked before each of them.
    """
    count = len(order)
    best, current = order, order
    cost = footprints(arrays, current)
    best_peak = int(cost.max(initial=0))
    fixed = [0, count]
    seen: set[bytes] = set()
    restarts = 0
    for turn in range(rounds):
        if should_stop():
            break
        at = int(cost.argmax())
        v = int(current[at])
        low = max(c for c in fixed if c <= at)
        high = min(c for c in fixed if c > at)
        side = sides_around(arrays, v)
        side[current[:low]] = INSIDE
        side[current[high:]] = OUTSIDE
        live, smallest, largest = least_live(arrays, side)
        if live + least_increase(arrays, v, side) >= cost[at]:
            if (low, high) == (0, count):
                break
            fixed = [c for c in fixed if c in (0, count) or c not in (low, high)]
            continue
        inside = (smallest if turn % 2 == 0 else largest).astype(bool)
        segment = current[low:high]
        chosen = inside[segment]
        later = segment[~chosen]
        current = np.concatenate([current[:low], segment[chosen], [v], later[later != v], current[high:]])
        fixed = sorted({*fixed, low + int(chosen.sum())})
        cost = footprints(arrays, current)
        peak = int(cost.max())
        if peak < best_peak:
            best, best_peak = current, peak
        mark = current.tobytes()
        if mark in seen:
            if restarts == RESTARTS:
                break
            restarts += 1
            fixed = [0, count]
            seen.clear()
        seen.add(mark)
    return best
