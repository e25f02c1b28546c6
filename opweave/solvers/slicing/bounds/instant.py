"""The instant bound: every operator alone, for any distribution of its inputs over the devices.

By time t, device k can have computed the share u_k only if it already held the bytes that it cannot receive in time.
The devices together hold no more bytes than the operator's inputs have. So t is possible for a set of devices only if
shares that sum to 1 need no more held bytes than that. The smallest possible t, over all sets, bounds the operator's
time; the sum over the operators bounds the latency. Merging the inputs of an operator is allowed: the sum of positive
parts is at least the positive part of the sum.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opweave.problems.arrays import FloatArray
from opweave.solvers.slicing.bounds.blocks import Blocks, subsets

HALVINGS = 50

LOST = 1e-12
"""Rounding error allowed in differences, as a share of all bytes and of a whole operator."""


def instant(blocks: Blocks, should_stop: Callable[[], bool] = lambda: False) -> FloatArray:
    """A lower bound of every operator's seconds, 0 for operators left over when stopped. Shape (operators,)."""
    best = np.full(blocks.operators, np.inf)
    for v in range(blocks.operators):
        if should_stop():
            break
        for members in subsets(blocks.devices):
            if all(blocks.most[v, k] > 0.0 for k in members):
                best[v] = _least_time(blocks, v, members, best[v])
    return np.where(np.isfinite(best), best, 0.0)


def _least_time(blocks: Blocks, v: int, members: tuple[int, ...], known: float) -> float:
    """Smallest possible time of a set of devices, or ``known`` if that is no more."""
    chosen = list(members)
    flows = range(int(blocks.first_flow[v]), int(blocks.first_flow[v + 1]))
    held = sum(float(blocks.size[e]) for e in flows)
    need = sum(float(blocks.per_share[e]) for e in flows)
    extra = sum((blocks.extra(e, members) for e in flows), np.zeros(len(members)))
    rate, fixed, slope = blocks.rate[chosen], blocks.intercept[v, chosen], blocks.slope[v, chosen]
    lost = LOST * (held + need + float(np.abs(extra).max(initial=0.0)))
    most, least = blocks.most[v, chosen], np.minimum(blocks.least[v], blocks.most[v, chosen])

    def possible(t: float) -> bool:
        spare = t - fixed
        top = np.where(slope > 0, np.minimum(most, spare / np.maximum(slope, 1e-300)), most)
        if (spare < 0).any() or (top < least).any() or top.sum() < 1.0 or least.sum() > 1.0 + LOST:
            return False
        steep, offset = need + rate * slope, extra - rate * spare
        budget = held + lost - float(np.maximum(0.0, steep * least + offset).sum())
        if budget < 0:
            return False
        free = np.clip(np.divide(-offset, steep, out=np.full(len(chosen), np.inf), where=steep > 0), least, top)
        left = 1.0 - float(free.sum())
        for i in np.argsort(steep).tolist():
            if left <= 0:
                return True
            grown = min(left, float(top[i] - free[i]))
            grown = grown if steep[i] <= 0 else min(grown, budget / float(steep[i]))
            left, budget = left - grown, budget - grown * max(0.0, float(steep[i]))
        return left <= LOST

    if np.isfinite(known) and not possible(known):
        return known
    high = float((fixed + slope + np.maximum(0.0, need + extra) / rate).max()) if not np.isfinite(known) else known
    if not possible(high):
        return known
    low = 0.0
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if possible(middle) else (middle, high)
    return low
