"""Rows are whole: the least time of an operator for every way to distribute its rows.

With few rows on different devices, some device gets too many: 7 rows on devices of speeds 12, 8, 5 and 3 take a third
longer than the shares 12/28, 8/28, ... would. Each composition of the rows has a least time, at which all parts are
computed and the bytes that must be held already are no more than there are (:mod:`.instant`). In the linear program the
shares of a set of devices are a mixture of compositions, and its time is at least the same mixture of their times.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from opweave.problems.arrays import FloatArray
from opweave.solvers.slicing.bounds.blocks import Blocks

MOST_COMPOSITIONS = 5_000
"""Most ways to distribute an operator's rows; others keep their shares, because rounding costs them little."""

KEPT = 150
"""Number of an operator's fastest compositions that are kept apart; all others get the time of the next one."""

HALVINGS = 40

LOST = 1e-12
"""Rounding error allowed in differences of bytes, as a share of all bytes."""


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
    flows = range(int(blocks.first_flow[v]), int(blocks.first_flow[v + 1]))
    held = sum(float(blocks.size[e]) for e in flows)
    need = sum(float(blocks.per_share[e]) for e in flows) * shares
    need = need + sum((blocks.extra(e, members) for e in flows), np.zeros(len(members)))
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
