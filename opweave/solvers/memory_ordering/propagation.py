"""Precedences that every order within a target peak must obey, found by minimum cuts.

If all states before v that contain w hold too much for v's step, then w runs after v. If all states that omit w do, w
runs before v. Such arcs hold only for peaks up to the target, so a proof of infeasibility that uses them shows only
that the peak exceeds the target.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opweave.problems.arrays import IntArray
from opweave.problems.graph_arrays import Adjacency, topological_order
from opweave.solvers.memory_ordering.arrays import OrderingArrays, with_arcs
from opweave.solvers.memory_ordering.bounds.best import least_increase
from opweave.solvers.memory_ordering.closure import INSIDE, OUTSIDE, sides_around, unavoidable

BUSIEST = 60
"""Operators whose steps are examined, by decreasing upper bound of their L2."""


def propagate(
    arrays: OrderingArrays, target: int, keys: IntArray, cuts: int, should_stop: Callable[[], bool]
) -> OrderingArrays | None:
    """Add every forced precedence that the busiest operators reveal, until there is nothing new.

    Returns None when no order stays within the target.

    Parameters
    ----------
    arrays
        The problem.
    target
        Bytes; arcs hold for orders whose peak is at most this.
    keys
        Upper bounds of every operator's L2, to rank the operators. Shape (operators,).
    cuts
        Most minimum cuts to compute, roughly; stopping early only loses arcs.
    should_stop
        Asked between operators.
    """
    left = cuts
    busy = np.argsort(-keys, kind="stable")[:BUSIEST].tolist()
    rank = np.empty(len(keys), dtype=np.int64)
    rank[topological_order(Adjacency(arrays.after_start, arrays.after))] = np.arange(len(keys))
    found = True
    while found:
        found = False
        for v in busy:
            if left <= 0 or should_stop():
                return arrays
            side = sides_around(arrays, v)
            room = target - least_increase(arrays, v, side)
            verdict = np.zeros(len(keys), dtype=np.int8)
            used = unavoidable(arrays, side, room, rank, left, verdict)
            if used < 0:
                return None
            left -= used
            before, after = np.flatnonzero(verdict == INSIDE), np.flatnonzero(verdict == OUTSIDE)
            if len(before) + len(after):
                early = np.concatenate([before, np.full(len(after), v)])
                late = np.concatenate([np.full(len(before), v), after])
                arrays = with_arcs(arrays, early, late)
                found = True
    return arrays
