"""Lower bounds of the makespan that take seconds at most, whatever the size of the problem."""

from __future__ import annotations

import numpy as np

from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.placement.instance import PlacementInstance
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.bounds.area import best_area, memory_of
from opweave.solvers.placement.bounds.critical_path import Reach, longest, reach_of
from opweave.solvers.placement.bounds.energetic import energetic_at_best_prices
from opweave.solvers.scheduling.best_bound import Best


def finite_path(arrays: PlacementArrays, reach: Reach) -> float:
    """Length of the critical path, in seconds.

    Raises
    ------
    ContradictionError
        When the path is infinite, because missing links leave some operator no device.
    """
    path = longest(arrays, reach)
    if not np.isfinite(path):
        raise ContradictionError("missing links leave some operator without a device that its data could reach")
    return path


def quick_bounds(instance: PlacementInstance, arrays: PlacementArrays, best: Best) -> None:
    """Critical path, energetic bound, and area with memory; they take seconds at most, whatever the size.

    Raises
    ------
    ContradictionError
        When missing links leave some operator no device, which makes its path infinite.
    """
    best.run.enter("bounds")
    reach = reach_of(arrays)
    path = finite_path(arrays, reach)
    best.report(path, "critical path")
    best.report(energetic_at_best_prices(arrays, reach, path), "energetic")
    memory = memory_of(instance)
    if memory is not None and not best.run.should_stop():
        best.report(best_area(arrays.seconds, np.zeros(len(instance.devices)), memory).value, "area with memory")
