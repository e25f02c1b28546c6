"""Energetic bound: operators with late heads and long tails share the time left between heads and tails.

Proof: let S be the operators whose least head is >= h and least tail >= t. All of them run within [h, L - t] of a
plan of length L, so L - h - t is at least the area bound of S. So h + t plus any area value of S, at any prices, is a
bound. Device by device: if device k runs some of S, its share of the work lies between the least head h_k and the least
tail t_k that operators of S have *there*; if it runs none, L >= lower_bound, any known bound. In both cases L >=
min(h_k + t_k, lower_bound) + load_k. These are the rows of the area bound with idle_k = min(h_k + t_k, lower_bound).
Heads and tails hold under all three transfer models, hence so does this bound.

:func:`quick_bounds` reports this bound together with the critical path and the area bound with memory.

Source: Fernandez and Bussell, "Bounds on the number of processors and time for multiprocessor optimal schedules";
Baptiste, Le Pape and Nuijten, "Constraint-Based Scheduling", chapter 4.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.placement.instance import PlacementInstance
from opweave.problems.arrays import BoolArray, FloatArray
from opweave.solvers.loops import helper, loop
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.bounds.area import best_area, memory_of, quick_area
from opweave.solvers.placement.bounds.critical_path import Reach, longest, reach_of
from opweave.solvers.rounding import Best

THRESHOLDS = 400
"""Number of heads, and of tails, that are tried as thresholds."""

REFINED = 3
"""Number of times that the prices are fitted to the best set and the thresholds searched again."""


@helper
def last_within(ascending: FloatArray, limit: float) -> int:
    """Position of the last value that is at most ``limit``; -1 if there is none."""
    low, high = 0, len(ascending)
    while low < high:
        middle = (low + high) // 2
        if ascending[middle] <= limit:
            low = middle + 1
        else:
            high = middle
    return low - 1


@loop
def best_thresholds(
    heads: FloatArray, tails: FloatArray, work: FloatArray, early: FloatArray, late: FloatArray
) -> tuple[float, float, float]:
    """The largest h + t + work of the operators with head >= h and tail >= t, with that h and t.

    ``early`` and ``late`` are the thresholds to try, ascending.
    """
    rows, columns = len(early), len(late)
    inside = np.zeros((rows, columns))
    for j in range(len(work)):
        r, c = last_within(early, heads[j]), last_within(late, tails[j])
        if r >= 0 and c >= 0:
            inside[r, c] += work[j]
    best, h, t = 0.0, 0.0, 0.0
    for r in range(rows - 1, -1, -1):
        along = 0.0
        for c in range(columns - 1, -1, -1):
            along += inside[r, c]
            inside[r, c] = along + (inside[r + 1, c] if r + 1 < rows else 0.0)
            if inside[r, c] > 0.0 and early[r] + late[c] + inside[r, c] > best:
                best, h, t = early[r] + late[c] + inside[r, c], early[r], late[c]
    return best, h, t


class Thresholds(NamedTuple):
    """Least heads and tails of every operator, and those of them that are tried as thresholds, ascending."""

    heads: FloatArray
    tails: FloatArray
    early: FloatArray
    late: FloatArray

    @classmethod
    def of(cls, reach: Reach) -> Thresholds:
        """Values evenly spread in sorted order, the first and the last included."""
        heads, tails = reach.heads.min(axis=1), reach.tails.min(axis=1)
        if len(heads) <= THRESHOLDS:
            return cls(heads, tails, np.unique(heads), np.unique(tails))
        positions = np.linspace(0, len(heads) - 1, THRESHOLDS).astype(np.int64)
        return cls(heads, tails, np.unique(np.sort(heads)[positions]), np.unique(np.sort(tails)[positions]))

    def best_set(self, seconds: FloatArray, price: FloatArray) -> tuple[float, BoolArray]:
        """The largest bound of a set at prices of time, and the set; an operator counts on its cheapest device."""
        usable = np.isfinite(seconds)
        work = np.where(usable, np.where(usable, seconds, 0.0) * price, np.inf).min(axis=1)
        value, h, t = best_thresholds(self.heads, self.tails, work, self.early, self.late)
        return float(value), (self.heads >= h) & (self.tails >= t)


def _rows_of(
    arrays: PlacementArrays, reach: Reach, inside: BoolArray, lower_bound: float
) -> tuple[FloatArray, FloatArray]:
    """Run times of one set of operators, and idle times of the devices, for the area bound device by device."""
    ends = reach.heads[inside].min(axis=0) + reach.tails[inside].min(axis=0)
    return np.ascontiguousarray(arrays.seconds[inside]), np.minimum(ends, lower_bound)


def energetic(arrays: PlacementArrays, reach: Reach, lower_bound: float) -> float:
    """The largest energetic bound that a search over thresholds finds.

    Parameters
    ----------
    arrays, reach
        The problem, and valid heads and tails.
    lower_bound
        Any lower bound of the makespan.

    Returns
    -------
    float
        Seconds; inf when missing links leave some operator no device, so that there is no plan.
    """
    if not len(arrays.seconds):
        return lower_bound
    if not np.isfinite(longest(arrays, reach)):
        return np.inf
    thresholds = Thresholds.of(reach)
    area = quick_area(*_rows_of(arrays, reach, np.ones(len(arrays.seconds), dtype=bool), lower_bound))
    best = max(area.value, lower_bound)
    for _ in range(REFINED):
        value, inside = thresholds.best_set(arrays.seconds, area.time)
        area = quick_area(*_rows_of(arrays, reach, inside, max(best, value)))
        value = max(value, area.value)
        if value <= best:
            break
        best = value
    return best


def energetic_at_best_prices(arrays: PlacementArrays, reach: Reach, lower_bound: float) -> float:
    """Like :func:`energetic`, with optimal prices for the area of the whole graph."""
    best = max(lower_bound, energetic(arrays, reach, lower_bound))
    if not (len(arrays.seconds) and np.isfinite(best)):
        return best
    area = best_area(arrays.seconds, np.zeros(arrays.seconds.shape[1]))
    value, inside = Thresholds.of(reach).best_set(arrays.seconds, area.time)
    refined = best_area(*_rows_of(arrays, reach, inside, max(best, value)))
    return max(best, value, area.value, refined.value)


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

    A run that knows them already does not work them out again, and one that the path closes needs no others, which
    solve linear programs.

    Raises
    ------
    ContradictionError
        When missing links leave some operator no device, which makes its path infinite.
    """
    if best.run.kept.get("quick bounds") is instance:
        return
    best.run.enter("bounds")
    reach = reach_of(arrays)
    path = finite_path(arrays, reach)
    best.report(path, "critical path")
    if best.run.closed():
        return
    best.report(energetic_at_best_prices(arrays, reach, path), "energetic")
    best.report(
        float(arrays.seconds.min(axis=1).sum()) / len(instance.devices), "area"
    )  # time has one price everywhere
    memory = memory_of(instance)
    if memory is not None and not best.run.should_stop():
        best.report(best_area(arrays.seconds, np.zeros(len(instance.devices)), memory).value, "area with memory")
    if not best.run.should_stop():
        best.run.kept["quick bounds"] = instance
