"""Destructive bounds: a length is refuted when no operator placement within it is left.

Given a length, a device of an operator is deleted when its head, run time and tail exceed the length; then heads and
tails are worked out again, because clusters (:mod:`.clustered`) grow with every deletion. The length is refuted when an
operator has no device left, or when the operators and transfers that are settled overfill a device or a port
(:func:`~opweave.solvers.placement.module_search.partial_bound`). Otherwise the most critical operator is tried on each
of its devices: if every one is refuted, so is the length.

Proof: a plan of the length or shorter runs every operator on a device that is never deleted, and for each branch on one
of the devices tried. Whatever a branch does not finish counts as not refuted.

Source: Klein and Scholl, "Computing lower bounds by destructive improvement".
"""

from __future__ import annotations

import math
from time import perf_counter

import numpy as np

from opweave.problems.arrays import FloatArray, FloatMatrix, IntArray
from opweave.solvers.loops import loop
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.bounds.critical_path import Reach, longest, reach_of
from opweave.solvers.placement.bounds.energetic import energetic
from opweave.solvers.placement.module_search import partial_bound
from opweave.solvers.rounding import SUMMATION

FIRST_STEP, LAST_STEP = 0.005, 0.001
"""Relative increase of the first length that is tried, and the relative distance at which bisection ends."""


@loop
def settled_bound(arrays: PlacementArrays, device: IntArray, heads: FloatMatrix, tails: FloatMatrix) -> float:
    """See :func:`~opweave.solvers.placement.module_search.partial_bound`; ``device`` is -1 where none is settled."""
    return partial_bound(arrays, device, heads, tails)


class _Refuter:
    """Tries lengths of one problem, with a limit on branches and on time for all together."""

    def __init__(self, branches: int, seconds: float) -> None:
        self.left, self.end = branches, perf_counter() + seconds

    def late(self) -> bool:
        """Whether no more may be tried."""
        return self.left < 0 or perf_counter() > self.end

    def refutes(self, arrays: PlacementArrays, length: float, known: Reach | None, branches: int) -> bool:
        """Whether no plan is as short as the length, as far as ``branches`` more show."""
        self.left = branches
        return self._refutes(arrays, length, known)

    def _refutes(self, arrays: PlacementArrays, length: float, known: Reach | None) -> bool:
        most = length * (1.0 + SUMMATION)
        while True:
            known = reach_of(arrays, known=known)
            through = known.heads + arrays.seconds + known.tails
            late = (through > most) & np.isfinite(arrays.seconds)
            seconds = np.where(late | ~np.isfinite(through), np.inf, arrays.seconds)
            if np.isinf(seconds).all(axis=1).any():
                return True
            if not late.any():
                break
            if self.late():
                return False
            arrays = arrays._replace(seconds=seconds)
        open_ = np.isfinite(arrays.seconds).sum(axis=1)
        device = np.where(open_ == 1, np.isfinite(arrays.seconds).argmax(axis=1), -1).astype(np.int64)
        if settled_bound(arrays, device, known.heads, known.tails) > most:
            return True
        if energetic(arrays, known, longest(arrays, known)) > most:
            return True
        self.left -= 1
        if self.late() or not (open_ > 1).any():
            return False
        v = int(np.argmax(np.where(open_ > 1, through.min(axis=1), -np.inf)))
        devices = np.flatnonzero(np.isfinite(arrays.seconds[v]))
        for k in devices[np.argsort(through[v, devices], kind="stable")].tolist():
            if not self._refutes(arrays._replace(seconds=_only(arrays.seconds, v, k)), length, known):
                return False
        return True


def _only(seconds: FloatArray, v: int, k: int) -> FloatArray:
    """Run times with one device left for an operator."""
    fixed = seconds.copy()
    fixed[v] = np.inf
    fixed[v, k] = seconds[v, k]
    return fixed


def refuted_below(arrays: PlacementArrays, known: float, ceiling: float, branches: int, seconds: float) -> float:
    """The largest length found that is refuted, at least ``known`` and at most ``ceiling``, in seconds.

    Parameters
    ----------
    arrays
        The problem; memory is not seen.
    known, ceiling
        A lower bound, and the length of some plan.
    branches
        Most branches for each length that is tried.
    seconds
        Time limit.
    """
    refuter, low, high = _Refuter(branches, seconds), known, ceiling
    if not math.isfinite(ceiling):
        return known
    now = min(high, low * (1.0 + FIRST_STEP))
    while high - low > LAST_STEP * high and perf_counter() < refuter.end:
        if refuter.refutes(arrays, now, None, branches):
            low = now
        else:
            high = now
        now = 0.5 * (low + high)
    return low
