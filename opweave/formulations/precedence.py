"""Which operator must run before which: the transitive closure of data flow and order arcs."""

from __future__ import annotations

import numpy as np

from opweave.problems.arrays import BoolArray, IntArray
from opweave.problems.errors import LimitExceededError
from opweave.problems.graph_arrays import Adjacency, topological_order
from opweave.problems.limits import Limits

ENTRIES_PER_ROW = 64
"""Most entries (bytes) of a closure per row that a model may have."""

TILE = 512
"""Rows and columns of a closure that fit into the processor's cache."""


def ancestors(after: Adjacency) -> BoolArray:
    """Shape (n, n): entry [v, u] says that u must run before v. ``after`` lists direct successors.

    Examples
    --------
    >>> chain = Adjacency.from_lists([[1], [2], []])
    >>> ancestors(chain).astype(int).tolist()
    [[0, 0, 0], [1, 0, 0], [1, 1, 0]]
    """
    count = len(after)
    before = after.reversed(count)
    closed = np.zeros((count, count), dtype=bool)
    for v in topological_order(after).tolist():
        direct = before[v]
        if direct.size:
            np.logical_or.reduce(closed[direct], axis=0, out=closed[v])
            closed[v, direct] = True
    return closed


def transposed(closed: BoolArray) -> BoolArray:
    """The transpose, with rows in one piece, tile by tile: whole rows would miss the cache at every entry."""
    turned, starts = np.empty_like(closed), range(0, len(closed), TILE)
    for row in starts:
        for column in starts:
            rows, columns = slice(row, row + TILE), slice(column, column + TILE)
            turned[columns, rows] = closed[rows, columns].T
    return turned


def reduced_arcs(before: Adjacency, closed: BoolArray) -> tuple[IntArray, IntArray]:
    """Arcs (u, v) of the transitive reduction, as two arrays."""
    heads: list[int] = []
    tails: list[int] = []
    for v in range(len(before)):
        direct = before[v]
        if direct.size > 1:
            direct = direct[~closed[np.ix_(direct, direct)].any(axis=0)]
        heads.extend(direct.tolist())
        tails.extend([v] * len(direct))
    return np.asarray(heads, dtype=np.int64), np.asarray(tails, dtype=np.int64)


def check_closure(count: int, formulation: str, limits: Limits) -> None:
    """Refuse graphs whose closure alone would fill the memory.

    Raises
    ------
    LimitExceededError
        If the square of ``count`` operators is out of proportion to ``limits.model_rows``.
    """
    if count * count > ENTRIES_PER_ROW * limits.model_rows:
        raise LimitExceededError(
            f"formulation {formulation!r} compares all pairs of {count:,} operators, which is too many for "
            f"{limits.model_rows:,} rows (Limits.model_rows); use another solver or a smaller graph"
        )
