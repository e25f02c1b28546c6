"""Priced bounds of windows by constraint programming, in a child process: costs that no plan of a window can keep.

A cost is the length of a plan of the window plus the price of its bytes. The linear program of a window spreads its
operators over the devices and so hides that they take turns; on layers of fifty operators the integer program does not
close that within a minute. Deciding a cost near that of a good plan takes less than half a second: little more than the
plans of almost the same length are left, and one row adds up what the bytes cost. Without linear
relaxations and probing, CP-SAT is more than twice as fast here. Either the cost is refuted, or there is a cheaper plan,
which remains a ceiling at other prices.

Proof: a plan that costs at most C is no longer than C minus the least price of all bytes, and obeys the row. Times and
prices are rounded down to ticks, and the right side of the row has room for a tick of each operator.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from time import perf_counter, time
from typing import NamedTuple

import numpy as np

from opweave.formulations.placement.programs import PlacementIntervals
from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.engines.child import Send
from opweave.solvers.engines.interval_child import without_pandas, write
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.bounds.critical_path import reach_of
from opweave.solvers.placement.module_intervals import net_intervals, plan_in
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


class PricedPlan(NamedTuple):
    """A plan of a window: its length in seconds, and the device of every operator."""

    length: float
    device: IntArray

    def cost(self, prices: FloatArray) -> float:
        """Its length plus what the bytes of its operators cost where they run. Shape (operators, devices)."""
        return self.length + float(prices[np.arange(len(self.device)), self.device].sum())


class Raised(NamedTuple):
    """News of a window (its number): its bound, plans that were found since the last news, and whether it is done."""

    number: int
    bound: float
    plans: tuple[PricedPlan, ...]
    done: bool


class PricedWork(NamedTuple):
    """Windows to raise.

    Attributes
    ----------
    windows
        The windows.
    most
        Most work of a try for each window, in CP-SAT's measure.
    step
        Relative distance of a bound from the best plan below which nothing is tried.
    end
        The moment at which all ends.
    """

    windows: list[PricedWindow]
    most: list[float]
    step: float
    end: float


def raise_windows(work: PricedWork, send: Send) -> None:
    """Raise the bounds of windows one after the other, and send what is found, so that it counts if time runs out."""
    for number, (window, most) in enumerate(zip(work.windows, work.most, strict=True)):
        left = work.end - time()
        if left <= 0.0:
            return
        for news in raised(window, most, work.step, left):
            send(Raised(number, *news))


def raised(
    window: PricedWindow, work: float, step: float, seconds: float
) -> Iterator[tuple[float, tuple[PricedPlan, ...], bool]]:
    """The bound of a window after every cost that is decided, the plan that keeps the cost, and whether all is done."""
    low, high, share = window.bound, window.ceiling, FIRST_SHARE
    end = perf_counter() + seconds
    # without a ceiling links are missing: there is no plan to begin from
    while math.isfinite(high) and high - low > step * high and share > LEAST_SHARE and perf_counter() < end:
        cost = low + share * (high - low)
        refuted, plan = _decided(window, cost, work, end - perf_counter())
        if refuted:
            low, share = cost, min(LONGER * share, LARGEST_SHARE)
            yield low, (), False
        elif plan is not None and plan.cost(window.cost) < high:
            high = plan.cost(window.cost)
            yield low, (plan,), False
        else:
            share *= SHORTER
    yield low, (), True


def _decided(window: PricedWindow, cost: float, work: float, seconds: float) -> tuple[bool, PricedPlan | None]:
    """Whether it is proved that no plan of the window is as cheap; else a plan of about that cost, if one was found."""
    end = perf_counter() + seconds
    arrays, usable = window.arrays, np.isfinite(window.arrays.seconds)
    least = float(np.where(usable, window.cost, np.inf).min(axis=1).sum())
    length = (cost - least) * (1.0 + SUMMATION) + SUMMATION * cost
    if length <= 0.0:
        return True, None
    reach = reach_of(arrays)
    possible = reach.heads + arrays.seconds + reach.tails <= length
    if not possible.any(axis=1).all():
        return True, None
    arrays = arrays._replace(seconds=np.where(possible, arrays.seconds, np.inf))
    model = net_intervals(arrays, length, 0.0, reach)
    if model is None:
        return True, None
    row = {int(model.length): 1}
    for v, k in np.argwhere(model.place >= 0).tolist():
        price = int(window.cost[v, k] / model.tick)
        if price:
            row[int(model.place[v, k])] = price
    model.row(row, None, int(cost / model.tick * (1.0 + SUMMATION)) + len(arrays.seconds) + 1)
    _order_equal_devices(model, arrays, window.cost)
    with without_pandas():
        from ortools.sat.python import cp_model

    program, columns = write(model.program())
    program.clear_objective()  # type: ignore[no-untyped-call, unused-ignore]
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = max(end - perf_counter(), 0.0)
    solver.parameters.max_deterministic_time = work
    solver.parameters.linearization_level = 0
    solver.parameters.cp_model_probing_level = 0
    solver.parameters.symmetry_level = 0
    status = solver.solve(program)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return status == cp_model.INFEASIBLE, None
    values = np.asarray([solver.value(column) for column in columns], dtype=np.float64)
    makespan, device, _, _ = plan_in(model, arrays, values)
    return False, PricedPlan(makespan, device)


def _order_equal_devices(model: PlacementIntervals, arrays: PlacementArrays, cost: FloatArray) -> None:
    """Let an operator run on a device only if one before it runs on its equal: plans that exchange them are one plan.

    Operators are compared by their numbers.
    """
    devices = arrays.seconds.shape[1]
    for k, j in enumerate(equal_before(arrays, np.zeros(devices))):
        if j is None or (cost[:, j] != cost[:, k]).any():
            continue
        earlier: dict[int, int] = {}
        for here, there in zip(model.place[:, k].tolist(), model.place[:, j].tolist(), strict=True):
            if here >= 0:
                model.row({here: 1, **earlier}, None, 0)
            if there >= 0:
                earlier[there] = -1


def equal_before(arrays: PlacementArrays, capacity: FloatArray) -> list[int | None]:
    """For every device the last one before it that it can be exchanged with, if there is one."""
    devices = range(len(capacity))

    def equal(j: int, k: int) -> bool:
        swapped = np.arange(len(capacity))
        swapped[[j, k]] = k, j
        links = (arrays.latency, arrays.per_byte)
        same = all((link[np.ix_(swapped, swapped)] == link).all() for link in links)
        return bool(same and capacity[j] == capacity[k] and (arrays.seconds[:, j] == arrays.seconds[:, k]).all())

    return [next((j for j in reversed(range(k)) if equal(j, k)), None) for k in devices]
