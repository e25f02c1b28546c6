"""The paper's partition graph: its shortest path cuts a model so that the transfers are the smallest in sum.

Source: Parthasarathy and Krishnamachari (2022), Algorithm 1. Every run of candidate points that fits is a vertex, and
consecutive runs are joined by an arc with the size of the transfer. The shortest path in that graph equals one through
the cut points, which are joined when the run between them fits; it is found backwards, point by point. As in the paper,
every device counts with the smallest memory.
"""

from __future__ import annotations

import numpy as np

from opweave.formulations.pipeline.instance import PipelineInstance


def smallest_reach(instance: PipelineInstance) -> list[int]:
    """Last point where a stage may end on every device, by first point."""
    return instance.reach.min(axis=0).astype(int).tolist() if instance.devices else []


def smallest_sum_cuts(instance: PipelineInstance) -> tuple[int, ...] | None:
    """Inner cut points of the partitions with the smallest sum of transfers, with the fewest stages among these.

    None when a piece is larger than the smallest memory.
    """
    reach, last = smallest_reach(instance), instance.last
    hair = 1e-9 * max(1.0, float(instance.sent.max(initial=0.0))) / (last + 1)
    costs = np.full(last + 1, np.inf)  # bytes that are sent at a point and after it
    costs[last] = 0.0
    following = [last] * (last + 1)
    for begin in range(last - 1, -1, -1):
        window = costs[begin + 1 : reach[begin] + 1]
        if window.size:
            following[begin] = begin + 1 + int(np.argmin(window))
            costs[begin] = window.min() + instance.sent[begin] + hair
    if costs[0] == np.inf:
        return None
    path = [0]
    while path[-1] < last:
        path.append(following[path[-1]])
    return tuple(path[1:-1])
