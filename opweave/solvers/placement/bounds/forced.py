"""Work that slow links force onto one device, which then does it one operator after the other.

For a length, heads, tails and clusters (:mod:`.shaving`) leave many operators a single device when links are slow: data
sent elsewhere would come back too late. All that such operators do before an operator, on any one device, is a head of
that operator, and all that they do after it is a tail. Raised heads and tails leave more operators a single device, so
this is repeated. If an operator loses its last device, or the energetic bound of what is left exceeds the length, no
plan is as short. All this is done once for each device of one operator, so that something has a single device at the
start. Lengths are tried in growing and then halved steps.

Proof: a plan as short as the length runs every operator on a device that is left to it. The predecessors of an operator
(direct or not) that have only device k end before it starts, whatever its own device, and k runs them one after the
other. So it starts at the sum of their run times or later. Tails are heads of the reversed problem.

Source: Klein and Scholl, "Computing lower bounds by destructive improvement".
"""

from __future__ import annotations

import numpy as np

from opweave.problems.arrays import BoolArray, FloatArray
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.bounds.critical_path import Reach, operator_order
from opweave.solvers.placement.bounds.energetic import energetic
from opweave.solvers.placement.bounds.shaving import Space
from opweave.solvers.rounding import SUMMATION, Best
from opweave.solvers.run import Run

MOST_OPERATORS = 4_000
"""Most operators, because a table says which operators precede which."""

FIRST_STEP, CLOSE = 1e-3, 2e-4
"""The first step above the bound and the smallest one, relative to the bound. If the first length is not refuted,
nothing more is tried."""

SHARE, MOST_SECONDS = 0.1, 5.0
"""Share of the time left, and seconds when there is no limit."""

AT_A_TIME = 256
"""Rows of the table that are added up at a time."""


def raise_by_forced_work(arrays: PlacementArrays, best: Best) -> None:
    """Report the largest length that forced work refutes, between the bound and the best plan.

    Most problems with fast links end at the first length, just above the bound.
    """
    run = best.run
    low, high = float(run.bound or 0.0), float(run.objective or 0.0)
    if not 0.0 < low < high or len(arrays.seconds) > MOST_OPERATORS or arrays.seconds.shape[1] < 2:
        return
    run.enter("forced work")
    with run.share(SHARE, MOST_SECONDS):
        _raise(arrays, best, low, high)


def _raise(arrays: PlacementArrays, best: Best, low: float, high: float) -> None:
    """Try a length just above the bound, then the best plan's, then lengths between in growing and halved steps."""
    run, before = best.run, _precedence(arrays)
    top, step, tried = high * (1.0 - 2.0 * SUMMATION), FIRST_STEP * low, 0
    while low < top and step > CLOSE * low and not run.should_stop():
        length = top if tried == 1 else min(low + step, top)
        refuted = _refuted(arrays, before, length, run)
        tried += 1
        if refuted:
            low, step = length, 2.0 * step
            best.report(low, "forced work")
        elif tried == 1:
            return
        elif tried > 2:
            high = min(high, length)
        step = min(step, 0.5 * (high - low))


def _precedence(arrays: PlacementArrays) -> BoolArray:
    """Whether the operator of a row has to wait for that of a column. Shape (operators, operators)."""
    count = len(arrays.seconds)
    before = np.zeros((count, count), dtype=bool)
    for v in operator_order(arrays).tolist():
        direct = arrays.before[arrays.before_start[v] : arrays.before_start[v + 1]]
        before[v] = before[direct].any(axis=0)
        before[v, direct] = True
    return before


def _refuted(arrays: PlacementArrays, before: BoolArray, length: float, run: Run) -> bool:
    """Whether no plan is as short as a length, whatever device the operator with the most relatives is on.

    Where devices are equal, no operator has a single device before one operator has been given to one.
    """
    space = Space.of(arrays, length)
    if space is None:
        return True
    first = int(np.argmax(before.sum(axis=0) + before.sum(axis=1)))
    for k in np.flatnonzero(space.possible()[first]).tolist():
        heads, tails = (side.copy() for side in space.reach)
        heads[first, np.arange(heads.shape[1]) != k] = np.inf
        tails[first, np.arange(heads.shape[1]) != k] = np.inf
        if run.should_stop() or not _emptied(arrays, before, length, Reach(heads, tails)):
            return False
    return True


def _emptied(arrays: PlacementArrays, before: BoolArray, length: float, known: Reach) -> bool:
    """Whether no plan that obeys known heads and tails is as short as a length."""
    forced = 0
    while True:
        space = Space.of(arrays, length, known)
        if space is None:
            return True
        possible = space.possible()
        alone = possible.sum(axis=1) == 1
        if int(alone.sum()) <= forced:
            break
        forced = int(alone.sum())
        work = np.where(possible & alone[:, None], arrays.seconds, 0.0)
        heads, tails = space.reach
        known = Reach(
            np.maximum(heads, _most_work(before, work)[:, None]),
            np.maximum(tails, _most_work(before.T, work)[:, None]),
        )
    left = arrays._replace(seconds=np.where(possible, arrays.seconds, np.inf))
    return energetic(left, space.reach, 0.0) > space.most


def _most_work(related: BoolArray, work: FloatArray) -> FloatArray:
    """The most work that the related operators of every row have on any one device. Shape (operators,)."""
    parts = [
        (related[row : row + AT_A_TIME].astype(np.float64) @ work).max(axis=1)
        for row in range(0, len(related), AT_A_TIME)
    ]
    return np.concatenate(parts) * (1.0 - SUMMATION)
