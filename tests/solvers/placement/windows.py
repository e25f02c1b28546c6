"""The cheapest of all plans of a window whose bytes have a price, by the list scheduler."""

from __future__ import annotations

import math
from itertools import permutations, product

import numpy as np

from opweave.problems.arrays import FloatArray
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.plans import plan_of


def cheapest(arrays: PlacementArrays, cost: FloatArray) -> float:
    """The least length plus price of all plans that start everything as early as some order allows."""
    count = len(arrays.seconds)
    before = [arrays.before[arrays.before_start[v] : arrays.before_start[v + 1]].tolist() for v in range(count)]
    orders = [
        np.asarray(order)
        for order in permutations(range(count))
        if all(order.index(u) < order.index(v) for v in range(count) for u in before[v])
    ]
    best = math.inf
    usable = [np.flatnonzero(np.isfinite(row)).tolist() for row in arrays.seconds]
    for chosen in product(*usable):
        device = np.asarray(chosen)
        price = float(cost[np.arange(count), device].sum())
        best = min(best, *(plan_of(arrays, order, device).makespan + price for order in orders))
    return best
