"""Repeated stretches of a sequence: a network of equal layers is a chain in which a few modules repeat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

LONGEST_PERIOD = 64
"""Most modules of a period."""


class Stretch(NamedTuple):
    """Positions ``first`` to ``first + period * times - 1`` of a sequence: a period that repeats ``times`` times."""

    first: int
    period: int
    times: int


def stretches(sequence: Sequence[int], longest: int = LONGEST_PERIOD) -> list[Stretch]:
    """Split a sequence into repeated stretches and the parts between them, which get ``times`` 1.

    Each step takes the stretch that covers most positions; among equals, the one with the shortest period.

    Examples
    --------
    >>> stretches([7, 1, 2, 1, 2, 1, 2, 9, 9])
    [Stretch(first=0, period=1, times=1), Stretch(first=1, period=2, times=3), Stretch(first=7, period=1, times=2)]
    """
    values = np.asarray(sequence, dtype=np.int64)
    best = Stretch(0, max(1, len(values)), 1)
    covered = 0
    for period in range(1, min(longest, len(values) // 2) + 1):
        same = values[:-period] == values[period:]
        edges = np.flatnonzero(np.diff(np.concatenate([[False], same, [False]]).astype(np.int8)))
        for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            times = (last - first) // period + 1
            if times > 1 and times * period > covered:
                best, covered = Stretch(first, period, times), times * period
    if not covered:
        return [best] if len(values) else []
    end = best.first + covered
    before = stretches(sequence[: best.first], longest)
    after = stretches(sequence[end:], longest)
    return [*before, best, *(stretch._replace(first=stretch.first + end) for stretch in after)]
