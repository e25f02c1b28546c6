"""Priced bounds of windows by constraint programming, in a child process: costs that no plan of a window can keep.

A cost is the length of a plan of the window plus the price of its bytes. The linear program of a window spreads its
operators over the devices and so hides that they take turns; on layers of fifty operators the integer program does not
close that within a minute. Refuting a cost somewhat below that of a good plan often takes less than a second: little
more than the plans of almost the same length are left, shaving takes most of their devices away, and one row adds up
what the bytes cost.

Proof: a plan that costs at most C is no longer than C minus the least price of all bytes, and obeys the row. Times and
prices are rounded down to ticks, and the right side of the row has room for a tick of each operator.
"""

from __future__ import annotations

import math
from time import perf_counter, time
from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray
from opweave.solvers.engines.child import Send
from opweave.solvers.engines.interval_child import without_pandas, write
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.bounds.shaving import shaved_space
from opweave.solvers.placement.module_intervals import net_intervals
from opweave.solvers.rounding import SUMMATION

FIRST_SHARE, LARGEST_SHARE, LEAST_SHARE = 0.5, 0.9, 0.1
LONGER, SHORTER = 1.4, 0.4
"""The cost that is tried first, as a share of the way from the bound to the best plan; the largest and smallest such
share; and what the share is multiplied by after a cost was refuted, and after an undecided try."""


class PricedWindow(NamedTuple):
    """A window with fixed ends, what the bytes of its operators cost on every device, a bound and a plan's cost."""

    arrays: PlacementArrays
    cost: FloatArray
    bound: float
    ceiling: float


class PricedWork(NamedTuple):
    """Windows to raise.

    Attributes
    ----------
    windows
        The windows.
    most
        Most work of a try, in CP-SAT's measure.
    step
        Relative distance of a bound from the best plan below which nothing is tried.
    end
        The moment at which all ends.
    """

    windows: list[PricedWindow]
    most: float
    step: float
    end: float


def raise_windows(work: PricedWork, send: Send) -> None:
    """Raise the bounds of windows one after the other; send a window's number and its bound."""
    for number, window in enumerate(work.windows):
        left = work.end - time()
        if left <= 0.0:
            return
        send((number, raised(window, work.most, work.step, left)))


def raised(window: PricedWindow, work: float, step: float, seconds: float) -> float:
    """The bound of a window after refuting larger costs."""
    if not math.isfinite(window.ceiling):  # missing links: no plan to begin from
        return window.bound
    low, high, share = window.bound, window.ceiling, FIRST_SHARE
    end = perf_counter() + seconds
    while high - low > step * high and share > LEAST_SHARE and perf_counter() < end:
        cost = low + share * (high - low)
        refuted, found = _refuted(window, cost, work, end - perf_counter())
        if refuted:
            low, share = cost, min(LONGER * share, LARGEST_SHARE)
        elif found < high:
            high = found
        else:
            share *= SHORTER
    return low


def _refuted(window: PricedWindow, cost: float, work: float, seconds: float) -> tuple[bool, float]:
    """Whether it is proved that no plan of the window is as cheap, and about the cost of a plan that was found."""
    end = perf_counter() + seconds
    arrays, usable = window.arrays, np.isfinite(window.arrays.seconds)
    least = float(np.where(usable, window.cost, np.inf).min(axis=1).sum())
    length = (cost - least) * (1.0 + SUMMATION) + SUMMATION * cost
    if length <= 0.0:
        return True, math.inf
    space = shaved_space(arrays, length, None, lambda: perf_counter() > end)
    if space is None:
        return True, math.inf
    arrays = arrays._replace(seconds=np.where(space.possible(), arrays.seconds, np.inf))
    model = net_intervals(arrays, length, 0.0, space.reach)
    if model is None:
        return True, math.inf
    row = {int(model.length): 1}
    for v, k in np.argwhere(model.place >= 0).tolist():
        price = int(window.cost[v, k] / model.tick)
        if price:
            row[int(model.place[v, k])] = price
    model.row(row, None, int(cost / model.tick * (1.0 + SUMMATION)) + len(arrays.seconds) + 1)
    with without_pandas():
        from ortools.sat.python import cp_model

    program, columns = write(model.program())
    program.clear_objective()  # type: ignore[no-untyped-call, unused-ignore]
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = max(end - perf_counter(), 0.0)
    solver.parameters.max_deterministic_time = work
    status = solver.solve(program)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return status == cp_model.INFEASIBLE, math.inf
    return False, model.tick * sum(each * solver.value(columns[column]) for column, each in row.items())
