"""Energetic bound: operators with late heads and long tails share the time left between heads and tails.

Proof: let S be the operators whose least head is >= h and least tail >= t. All of them run within [h, L - t] of a
plan of length L, so L - h - t is at least the area bound of S. So h + t plus any area value of S, at any prices, is a
bound. Device by device: if device k runs some of S, its share of the work lies between the least head h_k and the least
tail t_k that operators of S have *there*; if it runs none, L >= lower_bound, any known bound. In both cases L >=
min(h_k + t_k, lower_bound) + load_k. These are the rows of the area bound with idle_k = min(h_k + t_k, lower_bound).
Heads and tails hold under all three transfer models, hence so does this bound.

Source: Fernandez and Bussell, "Bounds on the number of processors and time for multiprocessor optimal schedules";
Baptiste, Le Pape and Nuijten, "Constraint-Based Scheduling", chapter 4.
"""

from __future__ import annotations

import numpy as np

from opweave.problems.arrays import BoolArray, FloatArray
from opweave.solvers.compiled import kernel
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.bounds.area import best_area, quick_area, total_order_positions
from opweave.solvers.placement.bounds.critical_path import Reach, longest

THRESHOLDS = 400
"""Number of heads, and of tails, that are tried as thresholds."""

REFINED = 3
"""Number of times that the prices are fitted to the best set and the thresholds searched again."""


@kernel
def best_thresholds(
    heads: FloatArray, tails: FloatArray, work: FloatArray, early: FloatArray, late: FloatArray
) -> tuple[float, float, float]:
    """The largest h + t + work of the operators with head >= h and tail >= t, with that h and t.

    ``early`` and ``late`` are the thresholds to try, ascending.
    """
    rows, columns = len(early), len(late)
    inside = np.zeros((rows, columns))
    for j in range(len(work)):
        r = np.searchsorted(early, heads[j], side="right") - 1
        c = np.searchsorted(late, tails[j], side="right") - 1
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


def least_work(seconds: FloatArray, price: FloatArray) -> FloatArray:
    """Every operator's run time at the prices of time, on its cheapest device. Shape (operators,)."""
    cost = np.where(np.isfinite(seconds), seconds, 0.0) * price
    return np.asarray(np.where(np.isfinite(seconds), cost, np.inf).min(axis=1))


def set_bound(arrays: PlacementArrays, reach: Reach, inside: BoolArray, lower_bound: float) -> tuple[float, FloatArray]:
    """The bound that one set of operators gives, device by device, and its prices of time."""
    seconds = np.ascontiguousarray(arrays.seconds[inside])
    ends = reach.heads[inside].min(axis=0) + reach.tails[inside].min(axis=0)
    area = quick_area(seconds, np.minimum(ends, lower_bound))
    return area.value, area.time


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
    heads, tails = reach.heads.min(axis=1), reach.tails.min(axis=1)
    early = np.unique(heads[total_order_positions(heads, THRESHOLDS)])
    late = np.unique(tails[total_order_positions(tails, THRESHOLDS)])
    everything = np.ones(len(arrays.seconds), dtype=bool)
    best, price = set_bound(arrays, reach, everything, lower_bound)
    best = max(best, lower_bound)
    for _ in range(REFINED):
        work = least_work(arrays.seconds, price)
        sized = best_thresholds.sized(len(early) * len(late) + 10 * len(heads))
        value, h, t = sized(heads, tails, work, early, late)
        inside = (heads >= h) & (tails >= t)
        better, price = set_bound(arrays, reach, inside, max(best, float(value)))
        value = max(float(value), better)
        if value <= best:
            break
        best = value
    return best


def energetic_at_best_prices(arrays: PlacementArrays, reach: Reach, lower_bound: float) -> float:
    """Like :func:`energetic`, with optimal prices for the area of the whole graph."""
    if not len(arrays.seconds):
        return lower_bound
    best = max(lower_bound, energetic(arrays, reach, lower_bound))
    if not np.isfinite(best):
        return best
    area = best_area(arrays.seconds, np.zeros(arrays.seconds.shape[1]))
    heads, tails = reach.heads.min(axis=1), reach.tails.min(axis=1)
    early = np.unique(heads[total_order_positions(heads, THRESHOLDS)])
    late = np.unique(tails[total_order_positions(tails, THRESHOLDS)])
    sized = best_thresholds.sized(len(early) * len(late) + 10 * len(heads))
    value, h, t = sized(heads, tails, least_work(arrays.seconds, area.time), early, late)
    inside = (heads >= h) & (tails >= t)
    ends = np.minimum(reach.heads[inside].min(axis=0) + reach.tails[inside].min(axis=0), max(best, float(value)))
    refined = best_area(np.ascontiguousarray(arrays.seconds[inside]), ends)
    return max(best, float(value), area.value, refined.value)
