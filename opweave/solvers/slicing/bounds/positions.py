"""The bound by cells: the least sum of all operators' times over all choices of a cell for each.

Every plan chooses one cell for every operator, and no operator takes less than its least time in those cells
(:mod:`.cells`), so the least sum (:mod:`.elimination`) is a lower bound.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opweave.formulations.slicing.instance import SlicingInstance
from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.slicing.arrays import SlicingArrays, arrays_of
from opweave.solvers.slicing.bounds.cut_boxes import Cells, pair_seconds, weights_of
from opweave.solvers.slicing.bounds.elimination import Elimination


def by_position(
    instance: SlicingInstance,
    cells: list[Cells],
    lower_bounds: FloatArray,
    should_stop: Callable[[], bool],
    halt: IntArray | None = None,
) -> float | None:
    """A lower bound of the latency; None when stopped before.

    Parameters
    ----------
    cells
        Of every operator, so that they hold every way to cut it (:func:`.cells.cells_of`).
    lower_bounds
        A known lower bound of every operator's seconds.
    should_stop, halt
        Asked now and then, and what ends long products.
    """
    arrays = arrays_of(instance)
    if not all(len(each.mode) for each in cells):
        return None  # an operator that no device may run
    flows = [_flows(instance, v) for v in range(instance.operators)]
    sums = Elimination([np.zeros(len(each.mode)) for each in cells], halt)
    for v, read in enumerate(flows):
        if should_stop():
            return None
        least = np.maximum(cells[v].seconds, lower_bounds[v])
        weights, common = weights_of(instance, v, cells[v])
        if not read:
            sums.single[v] += least
        elif len(read) > 1:  # means only: they add up, maxima do not
            sums.single[v] += common
        for e in read:
            found = _pairs(instance, arrays, cells, v, e, weights)
            if len(read) == 1:
                found = np.maximum(np.maximum(found[0] + common[:, None], found[1]), least[:, None])
                sums.add(v, int(instance.producer[e]), found)
            else:
                sums.add(v, int(instance.producer[e]), found[0])
    return sums.least(should_stop)


def _flows(instance: SlicingInstance, v: int) -> list[int]:
    """Flows with a producer."""
    first, end = int(instance.flow_start[v]), int(instance.flow_start[v + 1])
    return [e for e in range(first, end) if instance.producer[e] >= 0]


def _pairs(
    instance: SlicingInstance, arrays: SlicingArrays, cells: list[Cells], v: int, e: int, weights: FloatArray
) -> FloatArray:
    """Mean seconds of receiving, and seconds of the slowest device, for every pair of cells."""
    own, held = cells[v], cells[int(instance.producer[e])]
    found = np.zeros((2, len(own.mode), len(held.mode)))
    reader, producer = (own.mode, own.low, own.high), (held.mode, held.low, held.high)
    pair_seconds.sized(found.size * 10 * weights.shape[1])(arrays, v, e, reader, producer, weights, found)
    return found
