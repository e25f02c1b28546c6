"""The trivial bound of slicing; see :mod:`opweave.solvers.trivial`."""

from __future__ import annotations

import numpy as np

from opweave.problems.slicing.spec import Slicing
from opweave.solvers.trivial import own_bound, safe


@own_bound(Slicing)
def _(problem: Slicing) -> float:
    """Operators run in sequence, and the parts of one take at least their shares of a device's time for the whole."""
    names, devices = problem.graph.operator_ids, [device.name for device in problem.cluster.devices]
    seconds = problem.costs.array(names, devices)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        speed = np.where(np.isfinite(seconds), 1.0 / seconds, 0.0).sum(axis=1)
        alone = np.where(speed > 0.0, 1.0 / speed, 0.0)
    return safe(float(alone.sum()))
