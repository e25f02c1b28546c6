"""The instant bound: every operator alone, for any distribution of its inputs over the devices.

By time t, device k can have computed the share u_k only if it already held the bytes that it cannot receive in time.
The devices together hold no more bytes than the operator's inputs have. So t is possible for a set of devices only if
shares that sum to 1 need no more held bytes than that. The smallest possible t, over all sets, bounds the operator's
time; the sum over the operators bounds the latency. Merging the inputs of an operator is allowed: the sum of positive
parts is at least the positive part of the sum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import BoolArray, FloatArray, IntArray
from opweave.problems.graph_arrays import Adjacency
from opweave.solvers.slicing.bounds.blocks import BlockConstants, subsets

HALVINGS = 50

TOGETHER = 32
"""Kinds of operators that are examined between two checks of the time."""

LOST = 1e-12
"""Rounding error allowed in differences, as a share of all bytes and of a whole operator."""

TINY = 1e-30
"""Seconds that count as none, because speeds would be too large to add."""


def instant(blocks: BlockConstants, should_stop: Callable[[], bool] = lambda: False) -> FloatArray:
    """A lower bound of every operator's seconds. Shape (operators,).

    Networks repeat themselves, so each kind of operator is examined once. Where this is stopped, the speeds of all
    devices bound the operators that are left.
    """
    best = by_speed(blocks)
    kinds: dict[bytes, list[int]] = {}
    for v in range(blocks.operators):
        kinds.setdefault(_kind(blocks, v), []).append(v)
    alike = list(kinds.values())
    for first in range(0, len(alike), TOGETHER):
        if should_stop():
            break
        examined = alike[first : first + TOGETHER]
        found = _least_times(blocks, np.asarray([each[0] for each in examined]))
        for each, seconds in zip(examined, found.tolist(), strict=True):
            best[each] = np.maximum(best[each], seconds)
    return best


def by_speed(blocks: BlockConstants) -> FloatArray:
    """Every operator on all devices together, without transfers and intercepts. Shape (operators,).

    It takes 1 / sum of 1 / seconds; nothing if a device takes next to no time, or if none may run it.
    """
    able = blocks.most > 0.0
    speed = np.where(able, 1.0 / np.maximum(blocks.slope, TINY), 0.0).sum(axis=1)
    at_once = ((blocks.slope <= TINY) & able).any(axis=1) | (speed <= 0.0)
    return np.asarray(np.where(at_once, 0.0, 1.0 / np.maximum(speed, TINY)), dtype=np.float64)


def _kind(blocks: BlockConstants, v: int) -> bytes:
    """What a least time depends on."""
    flows = slice(int(blocks.first_flow[v]), int(blocks.first_flow[v + 1]))
    of_flows = (blocks.size, blocks.per_share, blocks.above, blocks.below, blocks.end)
    of_operator = (blocks.intercept[v], blocks.slope[v], blocks.most[v], blocks.least[v : v + 1])
    return np.concatenate([*(each[flows] for each in of_flows), *of_operator]).tobytes()


def _needs(
    blocks: BlockConstants, rows: IntArray, members: tuple[int, ...]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Bytes of operators' inputs, and what a set of devices needs of them: per share, and each beyond its share."""
    flows = Adjacency(blocks.first_flow, np.arange(len(blocks.size)))
    row, flow = flows.entries(rows)
    columns = (blocks.size, blocks.per_share, blocks.above, blocks.below, blocks.end)
    sums = [np.bincount(row, each[flow], minlength=len(rows)).astype(np.float64) for each in columns]
    size, share, above, below, end = sums
    extra: FloatArray = np.tile((above + below)[:, None], (1, len(members)))
    extra[:, 0] -= above
    extra[:, -1] += end - below
    return size, share, extra


class _Team(NamedTuple):
    """Operators on one set of devices: which times are possible.

    Attributes
    ----------
    held
        Bytes of the inputs. Shape (operators,).
    steep
        Bytes that must be held already, for each share above those for which none must. Shape (operators, members).
    extra, fixed, slope, least, most
        Bytes beyond the share, and the times and limits of shares. Shape (operators, members).
    rate
        Shape (members,).
    """

    held: FloatArray
    steep: FloatArray
    extra: FloatArray
    fixed: FloatArray
    slope: FloatArray
    least: FloatArray
    most: FloatArray
    rate: FloatArray

    def of(self, rows: BoolArray) -> _Team:
        """Some of the operators."""
        return self._replace(**{name: getattr(self, name)[rows] for name in self._fields if name != "rate"})

    def possible(self, t: FloatArray) -> BoolArray:
        """Whether every operator may end by its time."""
        spare = t[:, None] - self.fixed
        with np.errstate(over="ignore"):  # the least numbers of all
            room = np.divide(spare, self.slope, out=np.full(spare.shape, np.inf), where=self.slope > 0)
            top = np.minimum(self.most, room)
            offset = self.extra - self.rate * spare
            free = np.divide(-offset, self.steep, out=np.full(spare.shape, np.inf), where=self.steep > 0)
        free = np.minimum(np.maximum(free, self.least), top)
        budget = self.held - np.maximum(0.0, self.steep * self.least + offset).sum(axis=1)
        able = (spare >= 0).all(axis=1) & (top >= self.least).all(axis=1) & (top.sum(axis=1) >= 1.0)
        able &= (self.least.sum(axis=1) <= 1.0 + LOST) & (budget >= 0)
        left = 1.0 - free.sum(axis=1)
        for i in np.argsort(self.steep, axis=1).T:
            steep = np.take_along_axis(self.steep, i[:, None], axis=1)[:, 0]
            room = np.take_along_axis(top - free, i[:, None], axis=1)[:, 0]
            grown = np.maximum(np.minimum(left, room), 0.0)
            with np.errstate(over="ignore"):
                paid = np.divide(budget, steep, out=np.full(len(steep), np.inf), where=steep > 0)
            grown = np.minimum(grown, paid)
            left = left - grown
            budget = budget - grown * np.maximum(0.0, steep)
        return np.asarray(able & (left <= LOST))


def _least_times(blocks: BlockConstants, rows: IntArray) -> FloatArray:
    """Smallest possible time of every operator in ``rows`` over all sets of devices; 0 if no set may run it."""
    known = np.full(len(rows), np.inf)
    for members in subsets(blocks.devices):
        chosen = list(members)
        able = np.flatnonzero((blocks.most[rows][:, chosen] > 0.0).all(axis=1))
        if len(able) == 0:
            continue
        team, longest = _team(blocks, rows[able], members)
        high = np.where(np.isfinite(known[able]), known[able], longest)
        better = team.possible(high)
        if better.any():
            known[able[better]] = _halved(team.of(better), high[better])
    return np.where(np.isfinite(known), known, 0.0)


def _team(blocks: BlockConstants, rows: IntArray, members: tuple[int, ...]) -> tuple[_Team, FloatArray]:
    """Operators on a set of devices, and a time in which each ends if any time is possible."""
    chosen = list(members)
    held, share, extra = _needs(blocks, rows, members)
    rate = blocks.rate[chosen]
    fixed = blocks.intercept[rows][:, chosen]
    slope = blocks.slope[rows][:, chosen]
    lost = LOST * (held + share + np.abs(extra).max(axis=1))
    most = blocks.most[rows][:, chosen]
    need = share[:, None]
    team = _Team(
        held=held + lost,
        steep=need + rate * slope,
        extra=extra,
        fixed=fixed,
        slope=slope,
        least=np.minimum(blocks.least[rows][:, None], most),
        most=most,
        rate=rate,
    )
    return team, (fixed + slope + np.maximum(0.0, need + extra) / rate).max(axis=1)


def _halved(team: _Team, high: FloatArray) -> FloatArray:
    """The smallest possible times, rounded down, given possible ones."""
    low = np.zeros(len(high))
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        possible = team.possible(middle)
        low = np.where(possible, low, middle)
        high = np.where(possible, middle, high)
    return low
