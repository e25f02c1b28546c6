"""Small helpers for loops, most of which compile to less code than NumPy's functions for the same purpose."""

from __future__ import annotations

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.compiled import inlined
from opweave.solvers.run import Run

RUN = 16
"""Up to this many items are sorted by insertion, which is faster than merging for short lists."""


@inlined
def lengths_of(start: IntArray) -> IntArray:
    """Number of items in every row of an adjacency, given where its rows start."""
    lengths = np.empty(len(start) - 1, dtype=np.int64)
    for i in range(len(lengths)):
        lengths[i] = start[i + 1] - start[i]
    return lengths


@inlined
def exceeds(used: IntArray, capacity: IntArray) -> bool:
    """Whether any number exceeds its limit."""
    over = False
    for i in range(len(used)):
        over = over or used[i] > capacity[i]
    return over


@inlined
def sort_rising(key: FloatArray, items: IntArray, spare: IntArray) -> None:
    """Sort items by ``key[item]``; items with equal keys keep their order. ``spare`` needs space for all items."""
    count = len(items)
    for low in range(0, count, RUN):
        for i in range(low + 1, min(low + RUN, count)):
            item, value = items[i], key[items[i]]
            j = i
            while j > low and key[items[j - 1]] > value:
                items[j] = items[j - 1]
                j -= 1
            items[j] = item
    width = RUN
    while width < count:
        for low in range(0, count - width, 2 * width):
            middle, high = low + width, min(low + 2 * width, count)
            if key[items[middle - 1]] > key[items[middle]]:
                _merge(key, items, spare, low, middle, high)
        width *= 2


@inlined
def _merge(key: FloatArray, items: IntArray, spare: IntArray, low: int, middle: int, high: int) -> None:
    """Merge two adjacent sorted parts of the items."""
    for i in range(low, middle):
        spare[i] = items[i]
    i, j, at = low, middle, low
    while i < middle:
        if j < high and key[items[j]] < key[spare[i]]:
            items[at] = items[j]
            j += 1
        else:
            items[at] = spare[i]
            i += 1
        at += 1


PACE = 1.5e-8
"""Assumed seconds to judge one operator or flow, before the first chunk is measured."""


def chunks_within(run: Run, chunks: int, seconds: float) -> int:
    """How many chunks of an annealing round to run, if a chunk takes ``seconds``.

    Fewer fit when time is short, because a round must still cool down.
    """
    left = run.remaining()
    return chunks if left is None else max(1, min(chunks, int(left / max(seconds, 1e-6))))
