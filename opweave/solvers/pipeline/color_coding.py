"""Paths with a given number of vertices by colour coding.

Source: Alon, Yuster and Zwick, "Color-Coding", Journal of the ACM 42(4), 1995, doi:10.1145/210332.210337. Every vertex
gets one of k random colours. A path whose colours all differ repeats no vertex; dynamic programming over sets of
colours finds it. A path on k vertices has different colours with probability k!/k^k, so about e^k trials find it almost
surely. There are 2^k sets of colours, so for long paths a trial keeps only as many partial paths as its share of the
work allows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice

import numpy as np
from numpy.random import Generator

from opweave.problems.arrays import BoolArray

MOST_TRIALS = 400

MOST_STEPS = 500_000
"""Arcs that one trial examines, and about the arcs that all trials after the first examine together."""


def find_path(
    joined: BoolArray, length: int, begin: int | None, end: int | None, random: Generator
) -> tuple[int, ...] | None:
    """A path on ``length`` vertices with the given ends; None when no trial finds one.

    Parameters
    ----------
    joined
        Whether an arc leads from row to column. Shape (vertices, vertices).
    length
        Number of vertices.
    begin, end
        Vertices, or None for any.
    random
        Source of the random colours.

    Examples
    --------
    >>> joined = np.array([[False, True, False], [True, False, True], [False, True, False]])
    >>> find_path(joined, 3, 0, None, np.random.default_rng(0))
    (0, 1, 2)
    """
    if length == 1:
        return None if begin is not None and end is not None and begin != end else (begin or end or 0,)
    following = [np.flatnonzero(row).tolist() for row in joined]
    arcs = sum(map(len, following))
    room = max(len(joined), MOST_STEPS * len(joined) // max(1, length * arcs))
    trials, left = min(MOST_TRIALS, math.ceil(3 * math.exp(min(length, 10)))), MOST_STEPS
    while trials > 0 and left > 0:
        trials -= 1
        colour = random.integers(0, length, size=len(joined))
        # the ends are on every path, so they get different colours
        if begin is not None:
            colour[begin] = 0
        if end is not None:
            colour[end] = length - 1
        if len(np.unique(colour)) < length:
            continue  # no path has all colours
        path, steps = _colourful(following, length, begin, end, colour.tolist(), room)
        if path is not None:
            return path
        left -= steps
    return None


def _colourful(
    following: Sequence[Sequence[int]],
    length: int,
    begin: int | None,
    end: int | None,
    colour: Sequence[int],
    room: int,
) -> tuple[tuple[int, ...] | None, int]:
    """Grow sets of colours by one vertex at a time; keep one way to reach each set and vertex.

    At most ``room`` sets and vertices of each layer are grown. Returns the path and the number of arcs examined.
    """
    starts = range(len(following)) if begin is None else (begin,)
    first = {(1 << colour[v], v): -1 for v in starts}
    layers = [first]
    steps = 0
    for _ in range(length - 1):
        grown: dict[tuple[int, int], int] = {}
        for colours, v in islice(layers[-1], room):
            steps += len(following[v]) + 1
            for w in following[v]:
                if not colours >> colour[w] & 1:
                    grown.setdefault((colours | 1 << colour[w], w), v)
        if not grown:
            return None, steps
        layers.append(grown)
    for colours, v in layers[-1]:
        if end is None or v == end:
            return _trace(layers, colours, v, colour), steps
    return None, steps


def _trace(
    layers: Sequence[dict[tuple[int, int], int]], colours: int, v: int, colour: Sequence[int]
) -> tuple[int, ...]:
    path = [v]
    for layer in reversed(layers[1:]):
        before = layer[colours, v]
        colours &= ~(1 << colour[v])
        v = before
        path.append(v)
    return tuple(reversed(path))
