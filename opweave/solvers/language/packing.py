"""What fits into one memory, as rows: facets of the hull of all whole numbers of pieces that fit together.

A memory takes whole numbers of pieces of a few sizes: attention with a long cache and with a short one, experts, the
head. The row of bytes alone lets a linear program cut the last piece into two. All largest ways to fill the memory are
listed instead, and the row that a point breaks most is found by a small linear program over them. Weights are whole
numbers and their limit is the largest sum over the list, in integers, so that no rounding makes a row false. Sizes that
would make the list too long are left out; a row without them is a row all the same.

Source: separation over all integer points of a small knapsack (Avella, Boccia and Vasilyev, "A computational study of
exact knapsack separation for the generalized assignment problem", Computational Optimization and Applications 45,
2010).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray, IntMatrix
from opweave.solvers.linear import LinearProgram, SparseRows, minimise

MOST_WAYS = 20_000
"""Most ways to fill a memory that are listed."""

FINE = 2**16
"""Weights are multiples of one part in this number."""

BROKEN = 1e-4
"""Relative amount by which a point must break a row."""


class Facet(NamedTuple):
    """Whole weights of pieces, and the most that all pieces of a memory weigh."""

    weights: IntArray
    most: int


def broken_facet(sizes: IntArray, most: IntArray, room: int, point: FloatArray) -> Facet | None:
    """The row on numbers of pieces that a point breaks most; None if it breaks none.

    Parameters
    ----------
    sizes, most
        Bytes of each kind of piece, above 0, and how many of it there are.
    room
        Bytes of the memory.
    point
        How many of each kind the memory holds, in parts too.

    Examples
    --------
    Two pieces of 4 bytes fill a memory of 10, and one of 3 does not fit beside them:

    >>> facet = broken_facet(np.array([4, 3]), np.array([5, 1]), 10, np.array([1.75, 1.0]))
    >>> (facet.weights / facet.most).tolist(), broken_facet(np.array([4, 3]), np.array([5, 1]), 10, np.ones(2))
    ([0.5, 0.5], None)
    """
    chosen = _listed(sizes, np.minimum(most, room // sizes))
    if not len(chosen):
        return None
    ways = _fullest(sizes[chosen], np.minimum(most, room // sizes)[chosen], room)
    rows = SparseRows()
    rows.put(rows.open(np.ones(len(ways)))[:, None], np.arange(len(chosen)), ways.astype(np.float64))
    found = minimise(LinearProgram.of(-point[chosen], np.ones(len(chosen)), rows), None)
    if found is None:
        return None
    weights = np.zeros(len(sizes), dtype=np.int64)
    weights[chosen] = np.round(np.maximum(found.point, 0.0) * FINE)
    limit = int((ways @ weights[chosen]).max())
    return Facet(weights, limit) if limit and weights @ point > limit * (1.0 + BROKEN) else None


def _listed(sizes: IntArray, most: IntArray) -> IntArray:
    """Kinds that fit, the largest first, of which the number of combinations is small; the last one needs no list."""
    order = np.argsort(-sizes, kind="stable")
    order = order[most[order] > 0]
    combinations = np.cumprod(np.concatenate([[1.0], most[order] + 1.0]))[: len(order)]
    return order[combinations <= MOST_WAYS]


def _fullest(sizes: IntArray, most: IntArray, room: int) -> IntMatrix:
    """All numbers of pieces to which no piece can be added. Shape (ways, kinds)."""
    shape = tuple((most[:-1] + 1).tolist())
    grid = np.indices(shape).reshape(len(shape), math.prod(shape)).T
    left = room - grid @ sizes[:-1]
    grid, left = grid[left >= 0], left[left >= 0]
    last = np.minimum(most[-1], left // sizes[-1])
    ways = np.column_stack([grid, last])
    left = left - last * sizes[-1]
    return np.asarray(ways[((ways == most) | (sizes > left[:, None])).all(axis=1)])
