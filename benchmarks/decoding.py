"""The loop that measures how many plans of batched mapping the decoder evaluates per second."""

from __future__ import annotations

import numpy as np

from opweave.problems.arrays import IntArray
from opweave.solvers.batched_mapping.arrays import BatchArrays, Strings, count_all, move_granule, play
from opweave.solvers.loops import loop


@loop
def decode_many(arrays: BatchArrays, strings: Strings, order: IntArray, times: int) -> float:
    """Decode one plan ``times`` times, each time with one granule moved and moved back, to measure the search speed."""
    count_all(arrays, strings)
    operators, devices = strings.number.shape
    end = np.empty((operators, devices))
    free = np.empty(devices)
    tail = np.zeros((operators, devices))
    total = 0.0
    for step in range(times):
        i, g = step % operators, step % strings.where.shape[1]
        before = strings.where[i, g]
        move_granule(arrays, strings, i, g, (before + 1) % devices)
        move_granule(arrays, strings, i, g, before)
        end[:] = -1.0
        free[:] = 0.0
        total += float(play(arrays, strings, order, 0, free, end, tail, np.inf))
    return total / times
