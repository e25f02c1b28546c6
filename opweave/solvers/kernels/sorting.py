"""Small helpers of loops: sorting, sizes of rows, and limits."""

from __future__ import annotations

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.loops import helper

RUN = 16
"""Up to this many items are sorted by insertion, which is faster than merging for short lists."""


@helper
def lengths_of(start: IntArray) -> IntArray:
    """Number of items in every row of an adjacency, given where its rows start."""
    lengths = np.empty(len(start) - 1, dtype=np.int64)
    for i in range(len(lengths)):
        lengths[i] = start[i + 1] - start[i]
    return lengths


@helper
def exceeds(used: IntArray, capacity: IntArray) -> bool:
    """Whether any number exceeds its limit."""
    over = False
    for i in range(len(used)):
        over = over or used[i] > capacity[i]
    return over


@helper
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


@helper
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
