"""Cut vertices, and the modules between them.

An operator on every path is a *cut vertex*: every other operator comes before or after it, and no arc bypasses it.
While it runs, no other operator runs and no transfer is under way. So, given the device of the cut vertex, the schedule
splits exactly there. This holds under all three transfer models, because a tensor made before the cut vertex cannot be
read after it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opweave.problems.arrays import IntArray
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.bounds.critical_path import operator_order
from opweave.solvers.placement.bounds.windows import Window, cut_window


def cut_vertices(arrays: PlacementArrays, order: IntArray) -> IntArray:
    """Operators on every path, in order, found by one sweep over the arcs.

    Proof: give every source an arc from before the first position, and every sink an arc to after the last. No arc
    crosses position i of the order exactly when no path from beginning to end avoids the operator there.

    Parameters
    ----------
    arrays
        The problem.
    order
        Operators with predecessors first.
    """
    count = len(order)
    position = np.empty(count, dtype=np.int64)
    position[order] = np.arange(count)
    before = np.diff(arrays.before_start)
    first = np.full(count, -1, dtype=np.int64)
    heads = np.repeat(np.arange(count), before)
    tails = position[arrays.before]
    first_source = np.concatenate([tails, first[before == 0]])
    last_target = np.concatenate([position[heads], position[before == 0]])
    sinks = position[np.diff(arrays.after_start) == 0]
    starts = np.concatenate([first_source, sinks])
    ends = np.concatenate([last_target, np.full(len(sinks), count)])
    # an arc from p to q covers the positions p + 1 to q - 1
    covered = np.zeros(count + 2, dtype=np.int64)
    np.add.at(covered, starts + 1, 1)
    np.add.at(covered, ends, -1)
    return np.asarray(order[np.cumsum(covered)[:count] == 0])


def windows_between(arrays: PlacementArrays, ends: Sequence[int | None], members: Sequence[IntArray]) -> list[Window]:
    """The windows between consecutive ends; None at the beginning and the end of the plan."""
    return [cut_window(arrays, row, ends[i], ends[i + 1]) for i, row in enumerate(members)]


def modules(arrays: PlacementArrays) -> tuple[IntArray, list[Window]]:
    """Cut vertices in order, and the modules before, between and after them."""
    order = operator_order(arrays)
    cuts = cut_vertices(arrays, order)
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order))
    at = position[cuts].tolist()
    members = [order[a + 1 : b] for a, b in zip([-1, *at], [*at, len(order)], strict=True)]
    return cuts, windows_between(arrays, [None, *cuts.tolist(), None], members)
