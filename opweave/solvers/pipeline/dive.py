"""Dives: plans built stage by stage along the completions of a table, with some randomness."""

from __future__ import annotations

import numpy as np

from opweave.problems.arrays import IntArray
from opweave.solvers.compiled import kernel
from opweave.solvers.pipeline.arrays import PipelineArrays, Window
from opweave.solvers.pipeline.priced_walks import Table

LUCK = 0.9
"""Largest random addition to the cost of a completion, in prices of one visit."""


@kernel
def dive(
    arrays: PipelineArrays, window: Window, table: Table, tries: int, seed: int, stages: IntArray, ends: IntArray
) -> int:
    """From every stage, go to the unused device with the cheapest completion plus noise; return the stages, or 0."""
    devices, points = arrays.reach.shape
    layered = len(arrays.neighbour) > 1
    used = np.zeros(devices, dtype=np.bool_)
    luck = seed % 2147483646 + 1
    for attempt in range(tries):
        if arrays.halt[0] != 0:
            return 0
        used[:] = False
        b, v, count = 0, -1, 0
        best = np.inf
        for w in range(devices):
            luck = luck * 16807 % 2147483647
            value = table.cost[0, 0, w] + (LUCK * (luck / 2147483647.0) if attempt > 0 else 0.0)
            if value < best:
                best, v = value, w
        while v >= 0 and arrays.halt[0] == 0:
            used[v] = True
            stages[count] = v
            count += 1
            if window.end[v, b] == points - 1 and arrays.least <= count <= arrays.most:
                ends[count - 1] = points - 1
                return count
            if count >= arrays.most:
                break
            best, following, end = np.inf, -1, 0
            for e in range(window.end[v, b], b, -1):
                if e == points - 1:
                    continue
                for j in range(window.links[e, v]):
                    w = arrays.neighbour[e if layered else 0, v, j]
                    if used[w] or table.cost[0, e, w] >= best:
                        continue
                    rest = table.cost[0, e, w] if table.device[0, e, w] != v else table.cost[1, e, w]
                    luck = luck * 16807 % 2147483647
                    value = rest + (LUCK * (luck / 2147483647.0) if attempt > 0 else 0.0)
                    if value < best:
                        best, following, end = value, w, e
            ends[count - 1] = end
            v, b = following, end
    return 0
