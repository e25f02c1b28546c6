"""The trivial bound of batched mapping; see :mod:`opweave.solvers.trivial`."""

from __future__ import annotations

import numpy as np

from opweave.problems.batched_mapping.spec import BatchedMapping
from opweave.solvers.trivial import least_seconds, longest_path, own_bound, safe


@own_bound(BatchedMapping)
def _(problem: BatchedMapping) -> float:
    """The path of one input with every batch at its fastest, and all work at its fastest rate divided among devices."""
    seconds = problem.times
    if not seconds.size:
        return 0.0
    count, devices, _ = seconds.shape
    least = least_seconds(seconds.reshape(count, -1))
    rate = least_seconds((seconds / np.asarray(problem.sizes)).reshape(count, -1))
    return safe(max(longest_path(problem.graph, least), problem.batch * float(rate.sum()) / devices))
