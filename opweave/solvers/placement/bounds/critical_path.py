"""Critical paths that know devices and transfers: earliest starts (heads) and least remaining times (tails).

Proof: an operator on device k starts only after each predecessor has ended on *some* device and, if that is another
one, its data has arrived. Choosing the best device for every arc separately can only shorten the path. Waiting for
ports and sharing of transfers are ignored: under all three transfer models a transfer needs its own duration.

Source: Topcuoglu et al., "Performance-effective and low-complexity task scheduling for heterogeneous computing"
(ranks); Arabnejad and Barbosa, "List scheduling algorithm for heterogeneous systems by an optimistic cost table" (the
minimum over devices inside the recursion).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import BoolArray, FloatArray, IntArray
from opweave.solvers.placement.arrays import PlacementArrays, reversed_net
from opweave.solvers.placement.bounds.clustered import Front, raise_marked
from opweave.solvers.placement.ranks import order_of_graph


class Reach(NamedTuple):
    """Heads and tails of operators by device, inf where an operator cannot run. Shapes (operators, devices).

    ``heads`` are least times from the beginning to the start, ``tails`` from the operator's end to that of the plan.
    """

    heads: FloatArray
    tails: FloatArray


def longest(arrays: PlacementArrays, reach: Reach) -> float:
    """The critical path: the largest, over operators, of head + run time + tail on the best device."""
    if not len(arrays.seconds):
        return 0.0
    return float((reach.heads + arrays.seconds + reach.tails).min(axis=1).max())


LARGEST, SMALLEST_CLUSTER = 100, 12
"""Most operators of a cluster, on small and on large problems."""

LARGE = 4_000
"""Operators above which clusters stay small."""


def reach_of(arrays: PlacementArrays, order: IntArray | None = None, known: Reach | None = None) -> Reach:
    """Heads and tails of every operator on every device.

    Parameters
    ----------
    arrays
        The problem.
    order
        Operators with predecessors first.
    known
        Valid heads and tails to begin with.
    """
    first = order_of_graph(arrays) if order is None else order
    none = np.zeros(arrays.seconds.shape)
    heads, tails = (none, none) if known is None else known
    return Reach(heads_of(arrays, first, heads), tails_of(arrays, first, tails))


def tails_of(arrays: PlacementArrays, order: IntArray, known: FloatArray | None = None) -> FloatArray:
    """The tails of :func:`reach_of`."""
    return heads_of(reversed_net(arrays), np.ascontiguousarray(order[::-1]), known)


def heads_of(arrays: PlacementArrays, order: IntArray, known: FloatArray | None = None) -> FloatArray:
    """The heads of :func:`reach_of`."""
    front = new_front(arrays, known)
    every, none = np.ones(len(order), dtype=bool), np.zeros(arrays.seconds.shape)
    passed_on(arrays, order, front, every, none, np.inf)
    return front.heads


def new_front(arrays: PlacementArrays, known: FloatArray | None = None) -> Front:
    """A front from valid heads, before anything is passed on."""
    heads = np.zeros(arrays.seconds.shape) if known is None else known.copy()
    return Front(heads, np.zeros((len(arrays.source), heads.shape[1])), np.zeros(heads.shape))


def passed_on(
    arrays: PlacementArrays, order: IntArray, front: Front, marked: BoolArray, tails: FloatArray, most: float
) -> bool:
    """Raise the heads of marked operators and all that follows; False if no plan is as short as ``most``.

    Heads of operators and devices that a plan of that length cannot use become inf.
    """
    largest = LARGEST if len(arrays.seconds) <= LARGE else SMALLEST_CLUSTER
    return bool(raise_marked(arrays, order, *front, marked, tails, most, largest))
