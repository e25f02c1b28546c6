"""Rows for programs of windows: what shaving found out about plans that run an operator on a device.

On a device, an operator makes others wait: those that feed it, those that it feeds, and those that share its cluster or
its port. A program of intervals sees this only after it has tried many orders. One row for each operator that has to
wait tells it at once. Close to the shortest length, that often saves nine tenths of the conflicts.

Proof: a plan as short as the length that runs v on k obeys the heads and tails of that trial (:mod:`.shaving`). Starts
and lengths in whole ticks are rounded down, and so are these times, and floor(a + b) >= floor(a) + floor(b).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opweave.formulations.modeling.linear import Linear
from opweave.formulations.placement.interval_model import PlacementIntervals
from opweave.problems.arrays import BoolArray, FloatArray
from opweave.solvers.placement.bounds.shaving import Trial

WORTH = 0.1
"""Least increase of a head or tail that is worth a row, as a share of the length."""


def add_trials(model: PlacementIntervals, trials: Sequence[Trial]) -> None:
    """Add the rows of trials to the program of the same window."""
    windows, least = model.windows, WORTH * model.windows.horizon
    for v, k, reach in trials:
        if model.place[v, k] < 0:
            continue
        here = [int(model.place[v, k])]
        possible = np.isfinite(reach.heads) & np.isfinite(reach.tails)
        for u, a in np.argwhere((model.place >= 0) & ~possible).tolist():
            if u != v:
                model.require(model.runs_on(u, a) <= 0, here)
        for u in _raised(reach.heads, windows.head, possible, least):
            model.require(model.weighted(u, np.where(possible[u], reach.heads[u], 0.0)) <= model.at(u), here)
        after = model.instance.seconds + reach.tails
        for u in _raised(reach.tails, windows.tail, possible, least):
            rest = model.weighted(u, np.where(possible[u], after[u], 0.0))
            model.require(model.at(u) + rest <= Linear.of(model.length), here)


def _raised(times: FloatArray, known: FloatArray, possible: BoolArray, least: float) -> list[int]:
    """Operators for which some time is larger than the known one by more than ``least``."""
    both = possible & np.isfinite(known)
    gain = np.where(both, times, 0.0) - np.where(both, known, 0.0)
    return np.flatnonzero(gain.max(axis=1) > least).tolist()
