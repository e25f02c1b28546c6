"""Paths with a given number of vertices by colour coding.

Source: Alon, Yuster and Zwick, "Color-Coding", Journal of the ACM 42(4), 1995, doi:10.1145/210332.210337. Every vertex
gets one of k random colours; a path whose colours all differ is found by dynamic programming over sets of colours, and
repeats no vertex. A path on k vertices is colourful with a chance of k!/k^k, so some e^k trials find it almost surely.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

from opweave.formulations.pipeline.instance import BoolArray

MOST_TRIALS = 400


def find_path(
    joined: BoolArray, length: int, begin: int | None, end: int | None, random: Generator
) -> tuple[int, ...] | None:
    """A path on ``length`` vertices that begins and ends where asked; None when no trial finds one.

    Parameters
    ----------
    joined
        Whether an arc leads from row to column. Shape (vertices, vertices).
    length
        Number of vertices.
    begin, end
        Vertices, or None for any.
    random
        Where colours come from.

    Examples
    --------
    >>> joined = np.array([[False, True, False], [True, False, True], [False, True, False]])
    >>> find_path(joined, 3, 0, None, np.random.default_rng(0))
    (0, 1, 2)
    """
    if length == 1:
        return None if begin is not None and end is not None and begin != end else (begin or end or 0,)
    trials = min(MOST_TRIALS, math.ceil(3 * math.exp(length)))
    for _ in range(trials):
        colour = random.integers(0, length, size=len(joined))
        # the ends are on the path anyway: let them not clash
        if begin is not None:
            colour[begin] = 0
        if end is not None:
            colour[end] = length - 1
        path = _colourful(joined, length, begin, end, colour.tolist())
        if path is not None:
            return path
    return None


def _colourful(
    joined: BoolArray, length: int, begin: int | None, end: int | None, colour: Sequence[int]
) -> tuple[int, ...] | None:
    """Grow sets of colours by one vertex at a time; keep one way to reach each set and vertex."""
    starts = range(len(joined)) if begin is None else (begin,)
    layers: list[dict[tuple[int, int], int]] = [{(1 << colour[v], v): -1 for v in starts}]
    following = [np.flatnonzero(row).tolist() for row in joined]
    for _ in range(length - 1):
        grown: dict[tuple[int, int], int] = {}
        for colours, v in layers[-1]:
            for w in following[v]:
                if not colours >> colour[w] & 1:
                    grown.setdefault((colours | 1 << colour[w], w), v)
        if not grown:
            return None
        layers.append(grown)
    for colours, v in layers[-1]:
        if end is None or v == end:
            return _trace(layers, colours, v, colour)
    return None


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
