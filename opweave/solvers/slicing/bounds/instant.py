"""The instant bound: every operator alone, for any distribution of its inputs over the devices.

By time t, device k can have computed the share u_k only if it already held the bytes that it cannot receive in time.
The devices together hold no more bytes than the operator's inputs have. So t is possible for a set of devices only if
shares that sum to 1 need no more held bytes than that. The smallest possible t, over all sets, bounds the operator's
time; the sum over the operators bounds the latency. Merging the inputs of an operator is allowed: the sum of positive
parts is at least the positive part of the sum.

Rows are whole. With few rows on different devices, some device gets too many: 7 rows on devices of speeds 12, 8, 5 and
3 take a third longer than the shares 12/28, 8/28, ... would. Each composition of the rows has a least time, at which
all parts are computed and the bytes that must be held already are no more than there are. In the linear program the
shares of a set of devices are a mixture of compositions, and its time is at least the same mixture of their times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from opweave.problems.arrays import FloatArray
from opweave.solvers.slicing.bounds.blocks import Blocks, subsets

HALVINGS = 50

MOST_COMPOSITIONS = 5_000
"""Most ways to distribute an operator's rows; others keep their shares, because rounding costs them little."""

KEPT = 150
"""Number of an operator's fastest compositions that are kept apart; all others get the time of the next one."""

LOST = 1e-12
"""Rounding error allowed in differences, as a share of all bytes and of a whole operator."""

TINY = 1e-30
"""Seconds that count as none, because speeds would be too large to add."""


def instant(blocks: Blocks, should_stop: Callable[[], bool] = lambda: False) -> FloatArray:
    """A lower bound of every operator's seconds. Shape (operators,).

    Networks repeat themselves, so each kind of operator is examined once. Where this is stopped, the speeds of all
    devices bound the operators that are left.
    """
    best = by_speed(blocks)
    known: dict[bytes, float] = {}
    for v in range(blocks.operators):
        kind = _kind(blocks, v)
        if kind not in known:
            if should_stop():
                break
            known[kind] = np.inf
            for members in subsets(blocks.devices):
                if all(blocks.most[v, k] > 0.0 for k in members):
                    known[kind] = _least_time(blocks, v, members, known[kind])
        best[v] = max(best[v], known[kind] if np.isfinite(known[kind]) else 0.0)
    return best


def by_speed(blocks: Blocks) -> FloatArray:
    """Every operator on all devices together, without transfers and intercepts. Shape (operators,).

    It takes 1 / sum of 1 / seconds; nothing if a device takes next to no time, or if none may run it.
    """
    able = blocks.most > 0.0
    speed = np.where(able, 1.0 / np.maximum(blocks.slope, TINY), 0.0).sum(axis=1)
    at_once = ((blocks.slope <= TINY) & able).any(axis=1) | (speed <= 0.0)
    return np.asarray(np.where(at_once, 0.0, 1.0 / np.maximum(speed, TINY)), dtype=np.float64)


def _kind(blocks: Blocks, v: int) -> bytes:
    """What :func:`_least_time` depends on."""
    flows = slice(int(blocks.first_flow[v]), int(blocks.first_flow[v + 1]))
    of_flows = (blocks.size, blocks.per_share, blocks.above, blocks.below, blocks.end)
    of_operator = (blocks.intercept[v], blocks.slope[v], blocks.most[v], blocks.least[v : v + 1])
    return np.concatenate([*(each[flows] for each in of_flows), *of_operator]).tobytes()


def _needs(blocks: Blocks, v: int, members: tuple[int, ...]) -> tuple[float, float, FloatArray]:
    """Bytes of an operator's inputs, and what a set of devices needs of them: per share, and each beyond its share."""
    flows = range(int(blocks.first_flow[v]), int(blocks.first_flow[v + 1]))
    held, per_share = (sum(float(size[e]) for e in flows) for size in (blocks.size, blocks.per_share))
    return held, per_share, sum((blocks.extra(e, members) for e in flows), np.zeros(len(members)))


def _least_time(blocks: Blocks, v: int, members: tuple[int, ...], known: float) -> float:
    """Smallest possible time of a set of devices, or ``known`` if that is no more."""
    chosen = list(members)
    held, need, extra = _needs(blocks, v, members)
    rate, fixed, slope = blocks.rate[chosen], blocks.intercept[v, chosen], blocks.slope[v, chosen]
    lost = LOST * (held + need + float(np.abs(extra).max(initial=0.0)))
    most, least = blocks.most[v, chosen], np.minimum(blocks.least[v], blocks.most[v, chosen])

    def possible(t: float) -> bool:
        spare = t - fixed
        with np.errstate(over="ignore"):  # the least numbers of all
            room = np.divide(spare, slope, out=np.full(len(chosen), np.inf), where=slope > 0)
        top = np.minimum(most, room)
        if (spare < 0).any() or (top < least).any() or top.sum() < 1.0 or least.sum() > 1.0 + LOST:
            return False
        steep, offset = need + rate * slope, extra - rate * spare
        budget = held + lost - float(np.maximum(0.0, steep * least + offset).sum())
        if budget < 0:
            return False
        with np.errstate(over="ignore"):
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


@dataclass(frozen=True, slots=True, eq=False)
class Compositions:
    """The fastest ways to distribute rows over one set of devices.

    Attributes
    ----------
    shares
        Shape (compositions, members).
    seconds
        Least time of each.
    others
        Least time of all other compositions; None if there are none.
    """

    shares: FloatArray
    seconds: FloatArray
    others: float | None


def countable(blocks: Blocks, v: int) -> bool:
    """Whether an operator's compositions are few enough."""
    rows = int(blocks.rows[v])
    return rows > 0 and comb(rows + blocks.devices - 1, blocks.devices - 1) <= MOST_COMPOSITIONS


def compositions(blocks: Blocks, v: int, sets: list[tuple[int, ...]]) -> dict[tuple[int, ...], Compositions]:
    """The compositions of an operator's rows by the set of devices that take part."""
    found = {members: _timed(blocks, v, members) for members in sets if len(members) <= blocks.rows[v]}
    together = np.sort(np.concatenate([seconds for _, seconds in found.values()])) if found else np.zeros(0)
    limit = float(together[KEPT]) if len(together) > KEPT else np.inf
    kept = {}
    for members, (shares, seconds) in found.items():
        chosen = seconds < limit
        others = None if chosen.all() else float(seconds[~chosen].min())
        kept[members] = Compositions(shares[chosen], seconds[chosen], others)
    return kept


def _timed(blocks: Blocks, v: int, members: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
    """All compositions with a row for every member, and the least time of each."""
    rows, chosen = int(blocks.rows[v]), list(members)
    ways = list(combinations(range(1, rows), len(members) - 1))
    inner = np.asarray(ways, dtype=np.float64).reshape(len(ways), len(members) - 1)
    ends = np.concatenate([np.zeros((len(inner), 1)), inner, np.full((len(inner), 1), float(rows))], axis=1)
    shares: FloatArray = np.diff(ends, axis=1) / rows
    held, per_share, extra = _needs(blocks, v, members)
    need = per_share * shares + extra
    done = blocks.intercept[v, chosen] + blocks.slope[v, chosen] * shares
    low = done.max(axis=1)
    high = (done + np.maximum(0.0, need) / blocks.rate[chosen]).max(axis=1)

    # over a slow link, the rounding error of a difference of many bytes may take long to send
    enough_held = held + LOST * (held + float(np.abs(need).max(initial=0.0)))

    def lacking(t: FloatArray) -> FloatArray:
        return np.asarray(np.maximum(0.0, need - blocks.rate[chosen] * (t[:, None] - done)).sum(axis=1))

    high = np.where(lacking(low) <= enough_held, low, high)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        enough = lacking(middle) <= enough_held
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return shares, low
