"""m-SCT: a linear program chooses every operator's favourite child, the successor that should share its device.

Source: C. Hanen, A. Munier, "An approximation algorithm for scheduling dependent tasks on m processors with small
communication delays", ETFA 1995, doi:10.1109/ETFA.1995.496793; with memory: B. Jeon et al., "Baechi: fast device
placement of machine learning graphs", SoCC 2020, doi:10.1145/3419111.3421302. The program uses mean times, because it
does not distinguish devices. If it takes too long, the favourite is the successor with the longest transfer.
"""

from __future__ import annotations

import numpy as np

from opweave.formulations.placement.instance import PlacementInstance
from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.linear import LinearProgram, SparseRows, column_alone, minimise
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.earliest import GUIDE_SECONDS, earliest_first
from opweave.solvers.placement.plans import Plan
from opweave.solvers.placement.ranks import mean_seconds, mean_transfer, upward_rank
from opweave.solvers.run import time_left

MOST_EDGES = 20_000
"""Above this size the linear program is not tried, because it takes minutes."""


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
    found = minimise(LinearProgram.of(column_alone(last, last + 1), upper, rows), time_left(GUIDE_SECONDS))
    return None if found is None else 1.0 - found.point[near]
