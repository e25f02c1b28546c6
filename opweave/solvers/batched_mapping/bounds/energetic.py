"""Energetic bound: operators with late heads and long tails share the time left between heads and tails.

Proof: let S be the operators whose least head is >= h and least tail >= t, and h[u], t[u] the least head and tail of
operators of S on device u. If device u runs some of S, that work lies between h[u] and C - t[u]; if it runs none, C >=
lower_bound, any known bound. In both cases C >= min(h[u] + t[u], lower_bound) + work on u. These are the rows of the
area bound with these idle times.

Source: Fernandez and Bussell, "Bounds on the number of processors and time for multiprocessor optimal schedules";
Baptiste, Le Pape and Nuijten, "Constraint-Based Scheduling", chapter 4.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opweave.formulations.batched_mapping.instance import BatchedInstance
from opweave.problems.arrays import FloatArray, FloatCube
from opweave.solvers.batched_mapping.bounds.area import FINE, area
from opweave.solvers.batched_mapping.bounds.reach import Reach
from opweave.solvers.compiled import kernel

THRESHOLDS = 60
"""Number of heads, and of tails, that are tried as thresholds."""

REFINED = 6
"""Most promising pairs of thresholds whose areas are computed."""


def energetic(
    instance: BatchedInstance, reach: Reach, price: FloatArray, lower_bound: float, keep_going: Callable[[], bool]
) -> float:
    """The largest energetic bound that a search over thresholds finds.

    Parameters
    ----------
    price
        Prices of the devices' time at which pairs of thresholds are compared.
    lower_bound
        Any lower bound of the makespan.
    """
    if not instance.operators:
        return lower_bound
    able = np.isfinite(reach.seconds[:, :, 1])
    heads = np.where(able, reach.heads[:, :, 1], np.inf)
    tails = np.where(able, reach.tails[:, :, 1], np.inf)
    early, late = heads.min(axis=1), tails.min(axis=1)
    work = _least_work(instance, price)
    found = []
    for h in _spread(early):
        for t in _spread(late):
            inside = (early >= h) & (late >= t)
            if inside.any():
                found.append((h + t + float(work[inside].sum()), h, t))
    best = lower_bound
    for _, h, t in sorted(found, reverse=True)[:REFINED]:
        if not keep_going():
            break
        inside = (early >= h) & (late >= t)
        ends = heads[inside].min(axis=0) + tails[inside].min(axis=0)
        idle = np.minimum(ends, best)
        best = max(best, area(np.ascontiguousarray(instance.seconds[inside]), idle, instance.granules).value)
    return best


def _spread(values: FloatArray) -> list[float]:
    unique = np.unique(values[np.isfinite(values)])
    return [float(v) for v in unique[np.unique(np.linspace(0, len(unique) - 1, THRESHOLDS).astype(np.int64))]]


def _least_work(instance: BatchedInstance, price: FloatArray) -> FloatArray:
    """Priced seconds of every operator's cheapest cut. Shape (operators,)."""
    if instance.granules > FINE:
        able = np.isfinite(instance.seconds[:, :, 1:])
        each = np.where(able, instance.seconds[:, :, 1:], 0.0) / np.arange(1, instance.granules + 1)
        return np.asarray(instance.granules * np.where(able, price[:, None] * each, np.inf).min(axis=(1, 2)))
    return priced.sized(instance.seconds.size * (instance.granules + 1))(instance.seconds, price)


@kernel
def priced(seconds: FloatCube, price: FloatArray) -> FloatArray:
    """See :func:`_least_work`."""
    operators, devices, columns = seconds.shape
    total = np.zeros(operators)
    for i in range(operators):
        cost = np.full(columns, np.inf)
        cost[0] = 0.0
        for u in range(devices):
            after = np.full(columns, np.inf)
            for made in range(columns):
                for c in range(made + 1):
                    if seconds[i, u, c] < np.inf:
                        after[made] = min(after[made], cost[made - c] + price[u] * seconds[i, u, c])
            cost = after
        total[i] = cost[columns - 1]
    return total
