"""Earliest start first, guided by a linear program: m-SCT and GETF.

m-SCT: the program chooses every operator's favourite child, the successor that should share its device. It uses mean
times, because it does not distinguish devices. If it takes too long, the favourite is the successor with the longest
transfer.

GETF: the program sends every operator to a group of devices of similar speed. Added here: run times without a common
ratio (the speed of a device is taken over the whole graph), ports and memory. A full group passes its operators on to
the other groups. If the program takes too long, every operator prefers the group that is fastest in total.

Sources: SCT: C. Hanen, A. Munier, "An approximation algorithm for scheduling dependent tasks on m processors with small
communication delays", ETFA 1995, doi:10.1109/ETFA.1995.496793; with memory: B. Jeon et al., "Baechi: fast device
placement of machine learning graphs", SoCC 2020, doi:10.1145/3419111.3421302. GETF: Y. Su, X. Ren, S. Vardi, A.
Wierman, "Communication-aware scheduling of precedence-constrained tasks on related machines", 2020,
doi:10.48550/arXiv.2004.14639.
"""

from __future__ import annotations

import numpy as np

from opweave.formulations.placement.instance import PlacementInstance
from opweave.problems.arrays import BoolArray, FloatArray, IntArray
from opweave.solvers.linear import LinearProgram, SparseRows, column_alone, minimise
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.earliest import earliest_first
from opweave.solvers.placement.plans import Plan
from opweave.solvers.placement.ranks import mean_seconds, mean_transfer, upward_rank
from opweave.solvers.run import time_left

GUIDE_SECONDS = 20.0
"""Most seconds of a linear program that guides a list scheduler. After that a simple rule replaces it, because list
schedulers have to be quick."""

MOST_EDGES, MOST_COLUMNS = 20_000, 20_000
"""Sizes of the graph (m-SCT) and of the program (GETF) above which no program is tried, because it takes minutes."""


def msct(instance: PlacementInstance, arrays: PlacementArrays) -> Plan:
    """Earliest start first, but every device waits for the favourite child of its last operator."""
    return earliest_first(instance, arrays, upward_rank(arrays), favourite=favourites(arrays))


def favourites(arrays: PlacementArrays) -> IntArray:
    """Favourite child of every operator, -1 for none; no operator is the favourite of two. Shape (operators,)."""
    count = len(arrays.seconds)
    pairs, edge = np.unique(arrays.source * count + arrays.target, return_inverse=True)
    head, tail = pairs // max(1, count), pairs % max(1, count)
    transfer = np.zeros(len(pairs))
    np.add.at(transfer, edge, mean_transfer(arrays))
    far = _far_edges(mean_seconds(arrays), head, tail, transfer) if 0 < len(pairs) <= MOST_EDGES else None
    favourite = np.full(count, -1, dtype=np.int64)
    if far is not None:
        near = far < 0.5  # the rows of the program allow each operator one child and one parent at most
        favourite[head[near]] = tail[near]
        return favourite
    taken = np.zeros(count, dtype=bool)
    for e in np.argsort(-transfer, kind="stable").tolist():
        if favourite[head[e]] < 0 and not taken[tail[e]]:
            favourite[head[e]] = tail[e]
            taken[tail[e]] = True
    return favourite


def _far_edges(seconds: FloatArray, head: IntArray, tail: IntArray, transfer: FloatArray) -> FloatArray | None:
    """Distance (0 to 1) of the ends of every edge in the optimum of the relaxation with any number of equal devices.

    Minimise w subject to s_j >= s_i + p_i + c_ij x_ij, s_i + p_i <= w, and at most one child and one parent of every
    operator near: the sum of 1 - x over either is at most 1.
    """
    count, edges = len(seconds), len(head)
    scale = max(float(seconds.max()), float(transfer.max()), 1e-300)
    seconds, transfer = seconds / scale, transfer / scale
    ops, arcs = np.arange(count), np.arange(edges)
    near, last = count + arcs, count + edges  # columns: starts, nearness 1 - x, w
    rows = SparseRows()
    later = rows.open(-seconds[head] - transfer)
    rows.put(later, head, 1.0)
    rows.put(later, tail, -1.0)
    rows.put(later, near, -transfer)
    ends = rows.open(-seconds)
    rows.put(ends, ops, 1.0)
    rows.put(ends, np.asarray([last]), -1.0)
    for parted in (head, tail):
        rows.put(rows.open(np.ones(count))[parted], near, 1.0)
    upper = np.full(last + 1, np.inf)
    upper[near] = 1.0
    point = _point_of(rows, upper)
    return None if point is None else 1.0 - point[near]


def getf(instance: PlacementInstance, arrays: PlacementArrays) -> Plan:
    """Earliest start first, within the group that the program chose for each operator."""
    return earliest_first(instance, arrays, upward_rank(arrays), allowed=chosen_groups(arrays))


def chosen_groups(arrays: PlacementArrays) -> BoolArray:
    """Devices of the group of every operator. Shape (operators, devices)."""
    speed = device_speeds(arrays)
    level = np.log2(speed)  # quotients of speeds may be too large for a number
    group = np.floor(level - level.min() + 1e-9).astype(np.int64)
    if not len(arrays.seconds) or group.max() == 0:
        return np.ones(arrays.seconds.shape, dtype=bool)
    groups = int(group.max()) + 1
    total = np.bincount(group, weights=speed, minlength=groups)
    share = shares_of(arrays) if arrays.seconds.size <= MOST_COLUMNS else None
    slowest = np.zeros(len(arrays.seconds), dtype=np.int64)
    if share is not None:
        for g in range(1, groups):  # the fastest group that, together with all faster ones, does half of the work
            slowest[share[:, group >= g].sum(axis=1) >= 0.5] = g
    best = np.asarray([g + int(total[g:].argmax()) for g in range(groups)], dtype=np.int64)
    own: BoolArray = group[None, :] == best[slowest][:, None]
    return own


def device_speeds(arrays: PlacementArrays) -> FloatArray:
    """Mean seconds of the operators that a device may run over its own seconds, as far as that can be a number.

    Shape (devices,).
    """
    allowed = np.isfinite(arrays.seconds)
    own = np.where(allowed, arrays.seconds, 0.0).sum(axis=0)
    mean = np.where(allowed, mean_seconds(arrays)[:, None], 0.0).sum(axis=0)
    with np.errstate(over="ignore", under="ignore"):
        speed: FloatArray = np.divide(mean, own, out=np.ones_like(own), where=(own > 0.0) & (mean > 0.0))
    limits = np.finfo(np.float64)
    return np.clip(speed, limits.tiny, limits.max / (1 + len(speed)))  # so that those of a group can be added


def shares_of(arrays: PlacementArrays) -> FloatArray | None:
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
    point = _point_of(rows, upper)
    return None if point is None else point[: count * devices].reshape(count, devices)


def _point_of(rows: SparseRows, upper: FloatArray) -> FloatArray | None:
    """The point with the least last column; None if the program takes too long."""
    cost = column_alone(len(upper) - 1, len(upper))
    found = minimise(LinearProgram.of(cost, upper, rows), time_left(GUIDE_SECONDS))
    return None if found is None else found.point
