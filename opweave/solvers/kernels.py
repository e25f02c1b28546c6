"""What the searches of several problems share: loops in pieces, limits, and the free time of devices and ports.

In a :class:`IdleGaps`, resource r < devices is device r; ``devices + k`` is the send port and ``2 * devices + k`` the
receive port of device k. Work can fill gaps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, FloatMatrix, IntArray
from opweave.solvers.loops import clock, helper

PIECE = 0.03
"""Seconds of a piece of a long loop: between two of them a solver rests, or ends."""

FIRST_STEPS = 256
"""Steps of the first piece."""

MOST_GAPS = 256
"""Gaps remembered for every resource. The earliest are dropped first, which bounds the work per operator."""


def in_pieces(work: Callable[[int], bool], steps: int, should_stop: Callable[[], bool]) -> bool:
    """Call ``work`` with a rising number of steps until it has done; what it does must not depend on the pieces.

    Parameters
    ----------
    work
        Goes on until this many steps have been made in all; returns whether nothing is left to do.
    steps
        Most steps in all.
    should_stop
        Asked after every piece; how many steps a piece has follows from how long the one before took.

    Returns
    -------
    bool
        Whether nothing was left to do.
    """
    done, piece = 0, FIRST_STEPS
    while done < steps:
        began = clock()
        piece = max(1, min(piece, steps - done))
        if work(done + piece):
            return True
        done += piece
        piece = int(piece * min(2.0, PIECE / max(clock() - began, 1e-9)))
        if should_stop():
            return False
    return False


@helper
def exceeds(used: IntArray, capacity: IntArray) -> bool:
    """Whether any number exceeds its limit."""
    over = False
    for i in range(len(used)):
        over = over or used[i] > capacity[i]
    return over


class IdleGaps(NamedTuple):
    """Gaps in ascending order; the last one of every resource never ends.

    Attributes
    ----------
    opens, closes
        Shape (resources, most gaps).
    gaps
        How many of them are in use. Shape (resources,).
    """

    opens: FloatMatrix
    closes: FloatMatrix
    gaps: IntArray


@helper
def new_timeline(resources: int, operations: int) -> IdleGaps:
    """Everything is free from time zero on."""
    most = min(MOST_GAPS, operations + 2)
    opens = np.zeros((resources, most))
    closes = np.full((resources, most), np.inf)
    return IdleGaps(opens, closes, np.ones(resources, dtype=np.int64))


@helper
def first_fit(timeline: IdleGaps, r: int, ready: float, lasts: float) -> float:
    """Earliest time, not before ``ready``, at which resource r is free for ``lasts`` seconds."""
    low, high = 0, timeline.gaps[r] - 1
    while low < high:  # gaps that close too early come first
        middle = (low + high) // 2
        if timeline.closes[r, middle] < ready + lasts:
            low = middle + 1
        else:
            high = middle
    while True:
        start = max(ready, timeline.opens[r, low])
        if start + lasts <= timeline.closes[r, low]:
            return float(start)
        low += 1


@helper
def common_fit(timeline: IdleGaps, r: int, s: int, ready: float, lasts: float) -> float:
    """Earliest time, not before ``ready``, at which both resources are free for ``lasts`` seconds."""
    start = first_fit(timeline, r, ready, lasts)
    while True:
        later = first_fit(timeline, s, start, lasts)
        if later == start:
            return start
        start = first_fit(timeline, r, later, lasts)


@helper
def occupy(timeline: IdleGaps, r: int, start: float, end: float) -> None:
    """Occupy resource r from ``start`` to ``end``, a time that :func:`first_fit` returned."""
    opens, closes, gaps = timeline.opens[r], timeline.closes[r], timeline.gaps
    i = gaps[r] - 1
    while opens[i] > start:
        i -= 1
    before, after = start > opens[i], end < closes[i]
    if before and after:
        if gaps[r] == len(opens):
            if i == 0:  # the part before would be forgotten at once
                opens[0] = end
                return
            _forget_first(opens, closes)
            gaps[r] -= 1
            i -= 1
        for j in range(gaps[r], i + 1, -1):
            opens[j] = opens[j - 1]
            closes[j] = closes[j - 1]
        gaps[r] += 1
        closes[i + 1] = closes[i]
        opens[i + 1] = end
        closes[i] = start
    elif before:
        closes[i] = start
    elif after:
        opens[i] = end
    else:
        for j in range(i, gaps[r] - 1):
            opens[j] = opens[j + 1]
            closes[j] = closes[j + 1]
        gaps[r] -= 1


@helper
def _forget_first(opens: FloatArray, closes: FloatArray) -> None:
    for j in range(len(opens) - 1):
        opens[j] = opens[j + 1]
        closes[j] = closes[j + 1]
