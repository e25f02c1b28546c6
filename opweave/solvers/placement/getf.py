"""GETF: a linear program sends every operator to a group of devices of similar speed, then earliest start first.

Source: Y. Su, X. Ren, S. Vardi, A. Wierman, "Communication-aware scheduling of precedence-constrained tasks on related
machines", 2020, doi:10.48550/arXiv.2004.14639. Added here: run times without a common ratio (the speed of a device is
taken over the whole graph), ports and memory. A full group passes its operators on to the other groups. If the program
takes too long, every operator prefers the group that is fastest in total.
"""

from __future__ import annotations

import numpy as np

from opweave.formulations.placement.instance import PlacementInstance
from opweave.problems.arrays import BoolArray, FloatArray
from opweave.solvers.linear import LinearProgram, SparseRows, column_alone, minimise
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.earliest import GUIDE_SECONDS, earliest_first
from opweave.solvers.placement.plans import Plan
from opweave.solvers.placement.ranks import mean_seconds, upward_rank
from opweave.solvers.run import time_left

MOST_COLUMNS = 20_000
"""Above this size the linear program is not tried, because it takes minutes."""


def getf(instance: PlacementInstance, arrays: PlacementArrays) -> Plan:
    """Earliest start first, within the group that the program chose for each operator."""
    return earliest_first(instance, arrays, upward_rank(arrays), allowed=chosen_groups(arrays))


def chosen_groups(arrays: PlacementArrays) -> BoolArray:
    """Devices of the group of every operator. Shape (operators, devices)."""
    speed = device_speeds(arrays)
    group = np.floor(np.log2(speed / speed.min()) + 1e-9).astype(np.int64)
    if not len(arrays.seconds) or group.max() == 0:
        return np.ones(arrays.seconds.shape, dtype=bool)
    groups = int(group.max()) + 1
    total = np.bincount(group, weights=speed, minlength=groups)
    share = _shares(arrays) if arrays.seconds.size <= MOST_COLUMNS else None
    slowest = np.zeros(len(arrays.seconds), dtype=np.int64)
    if share is not None:
        for g in range(1, groups):  # the fastest group that, together with all faster ones, does half of the work
            slowest[share[:, group >= g].sum(axis=1) >= 0.5] = g
    best = np.asarray([g + int(total[g:].argmax()) for g in range(groups)], dtype=np.int64)
    own: BoolArray = group[None, :] == best[slowest][:, None]
    return own


def device_speeds(arrays: PlacementArrays) -> FloatArray:
    """Mean seconds of the operators that a device may run over its own seconds. Shape (devices,)."""
    allowed = np.isfinite(arrays.seconds)
    own = np.where(allowed, arrays.seconds, 0.0).sum(axis=0)
    mean = np.where(allowed, mean_seconds(arrays)[:, None], 0.0).sum(axis=0)
    speed: FloatArray = np.divide(mean, own, out=np.ones_like(own), where=(own > 0.0) & (mean > 0.0))
    return speed


def _shares(arrays: PlacementArrays) -> FloatArray | None:
    """Shares of operators on devices in the relaxed optimum without transfers. Shape (operators, devices).

    Minimise T subject to: shares add up to 1, an operator ends its own time after each predecessor, and neither the
    work of a device nor the end of an operator exceeds T.
    """
    count, devices = arrays.seconds.shape
    may = np.isfinite(arrays.seconds)
    scale = max(float(arrays.seconds[may].max()), 1e-300)
    seconds = np.where(may, arrays.seconds, 0.0) / scale
    heads, tails = arrays.before, np.repeat(np.arange(count), np.diff(arrays.before_start))
    column = np.arange(count * devices).reshape(count, devices)
    ends, last = count * devices + np.arange(count), count * (devices + 1)
    length = np.asarray([last])
    rows = SparseRows()
    rows.put(rows.open(-np.ones(count))[:, None], column, -1.0)
    own = rows.open(np.zeros(count))
    rows.put(own[:, None], column, seconds)
    rows.put(own, ends, -1.0)
    over = rows.open(np.zeros(count))
    rows.put(over, ends, 1.0)
    rows.put(over, length, -1.0)
    busy = rows.open(np.zeros(devices))
    rows.put(busy[None, :], column, seconds)
    rows.put(busy, length, -1.0)
    after = rows.open(np.zeros(len(heads)))  # end of head + time of tail - end of tail <= 0
    rows.put(after, ends[heads], 1.0)
    rows.put(after, ends[tails], -1.0)
    rows.put(after[:, None], column[tails], seconds[tails])
    upper = np.full(last + 1, np.inf)
    upper[: count * devices] = may.ravel()
    found = minimise(LinearProgram.of(column_alone(last, last + 1), upper, rows), time_left(GUIDE_SECONDS))
    return None if found is None else found.point[: count * devices].reshape(count, devices)
