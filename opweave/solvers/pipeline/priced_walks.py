"""Priced walks without an immediate return: the bound of the joint optimum, and often the plan itself.

Give every visit of device v a price. A plan visits each device at most once, so it costs no more than the sum of all
prices, and it is a walk that never goes v, w, v. If the cheapest such walk at a threshold costs more than the sum of
all prices, no plan keeps the threshold. Subgradients adapt the prices: a device that the walk visits often becomes more
expensive. With a limit on the number of stages, every visit costs an additional price, and this price times the limit
is added to the sum.

The same walk with seconds as costs bounds sums of times. Dives build plans stage by stage along the completions of a
table, with some randomness.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import FloatArray, FloatCube, IntArray, IntCube
from opweave.solvers.loops import loop
from opweave.solvers.pipeline.arrays import PipelineArrays, Window, seconds_between

END = -1
"""Stands for the next device when the walk ends with this stage."""

NOWHERE = -2

LUCK = 0.9
"""Largest random addition to the cost of a completion, in prices of one visit."""


class Table(NamedTuple):
    """The cheapest completions of a walk, for every state (stage begins at a point on a device).

    Attributes
    ----------
    cost
        Cost of the cheapest completion, and of the cheapest with another next device; inf if there is none.
        Shape (2, points, devices).
    device, point
        The next device or ``END``, and the point where the stage ends. Shape (2, points, devices).
    onward
        Costs of the two cheapest continuations from the end of a stage on a device, with different next devices.
        Shape (2, devices, points): the loop over the ends of a stage reads them one after the other.
    onward_device
        The next devices of these continuations. Shape (2, devices, points).
    """

    cost: FloatCube
    device: IntCube
    point: IntCube
    onward: FloatCube
    onward_device: IntCube


def new_table(points: int, devices: int) -> Table:
    """A table in which only the last point is filled: there a walk has ended."""
    shape = (2, points, devices)
    turned = (2, devices, points)
    onward, onward_device = np.full(turned, np.inf), np.full(turned, NOWHERE, dtype=np.int64)
    onward[0, :, -1], onward_device[0, :, -1] = 0.0, END
    return Table(
        cost=np.full(shape, np.inf),
        device=np.full(shape, NOWHERE, dtype=np.int64),
        point=np.zeros(shape, dtype=np.int64),
        onward=onward,
        onward_device=onward_device,
    )


def table_work(window: Window) -> int:
    """Approximate number of elementary steps of :func:`fill_table`."""
    devices, points = window.end.shape
    return 2 * int((window.end - np.arange(points)).sum() + window.links.sum() + devices * points)


@loop
def fill_table(
    arrays: PipelineArrays,
    window: Window,
    price: FloatArray,
    stage_weight: float,
    link_weight: float,
    table: Table,
    high: int,
    low: int,
) -> None:
    """Compute the cheapest completions from a point back to an earlier one; those behind ``high`` are known."""
    devices = len(arrays.reach)
    layered = len(arrays.neighbour) > 1
    cost, following, ending = table.cost, table.device, table.point
    onward, onward_device = table.onward, table.onward_device
    for b in range(high, low - 1, -1):
        for v in range(devices):
            best = second = np.inf
            best_next = second_next = NOWHERE
            best_end = second_end = 0
            for e in range(window.end[v, b], b, -1):
                step = stage_weight * arrays.elapsed[v, e]
                value = step + onward[0, v, e]
                following_device = onward_device[0, v, e]
                if value < best:
                    if following_device != best_next:
                        second, second_next, second_end = best, best_next, best_end
                    best, best_next, best_end = value, following_device, e
                elif value < second and following_device != best_next:
                    second, second_next, second_end = value, following_device, e
                value = step + onward[1, v, e]
                if value < second and onward_device[1, v, e] != best_next:
                    second, second_next, second_end = value, onward_device[1, v, e], e
            base = price[v] - stage_weight * arrays.elapsed[v, b]
            cost[0, b, v], following[0, b, v], ending[0, b, v] = best + base, best_next, best_end
            cost[1, b, v], following[1, b, v], ending[1, b, v] = second + base, second_next, second_end
        if b == 0:
            break
        lowest = np.inf
        for v in range(devices):
            lowest = min(lowest, cost[0, b, v])
        for v in range(devices):
            best = second = np.inf
            best_next = second_next = NOWHERE
            for j in range(window.links[b, v]):
                if second <= lowest:
                    break  # no later entry can be cheaper
                w = arrays.neighbour[b if layered else 0, v, j]
                value = cost[0, b, w] if following[0, b, w] != v else cost[1, b, w]
                if value < second:
                    if link_weight > 0.0:
                        value += link_weight * seconds_between(arrays, b, v, w)
                    if value < best:
                        second, second_next = best, best_next
                        best, best_next = value, w
                    elif value < second:
                        second, second_next = value, w
            onward[0, v, b], onward_device[0, v, b] = best, best_next
            onward[1, v, b], onward_device[1, v, b] = second, second_next


def walk_in(table: Table) -> tuple[list[int], list[int]]:
    """The cheapest walk: its devices and the ends of its stages; empty if there is none."""
    last, v = table.cost.shape[1] - 1, int(table.cost[0, 0].argmin())
    stages, ends, point, came_from = list[int](), list[int](), 0, NOWHERE
    if table.cost[0, 0, v] == np.inf:
        return stages, ends
    while v != END and point < last:
        which = 1 if came_from >= 0 and table.device[0, point, v] == came_from else 0
        stages.append(v)
        ends.append(int(table.point[which, point, v]))
        came_from, v, point = v, int(table.device[which, point, v]), ends[-1]
    return stages, ends


def told_apart(twin: IntArray, stages: list[int]) -> list[int] | None:
    """A walk as a plan, in which each visit takes the next unused twin of its device; None if there are too few."""
    free: dict[int, list[int]] = {}
    settled = []
    for v in stages:
        first = int(twin[v])
        if first not in free:
            free[first] = np.flatnonzero(twin == first)[::-1].tolist()
        if not free[first]:
            return None
        settled.append(free[first].pop())
    return settled


@loop
def dive(
    arrays: PipelineArrays,
    window: Window,
    table: Table,
    first: int,
    last: int,
    seed: int,
    stages: IntArray,
    ends: IntArray,
) -> int:
    """From every stage, go to the unused device with the cheapest completion plus noise; return the stages, or 0.

    Attempts from ``first`` to before ``last`` are made; there is no noise in attempt 0.
    """
    devices, points = arrays.reach.shape
    layered = len(arrays.neighbour) > 1
    used = np.zeros(devices, dtype=np.bool_)
    luck = (seed + 7919 * first) % 2147483646 + 1
    for attempt in range(first, last):
        used[:] = False
        b, v, count = 0, -1, 0
        best = np.inf
        for w in range(devices):
            luck = luck * 16807 % 2147483647
            value = table.cost[0, 0, w] + (LUCK * (luck / 2147483647.0) if attempt > 0 else 0.0)
            if value < best:
                best, v = value, w
        while v >= 0:
            used[v] = True
            stages[count] = v
            count += 1
            if window.end[v, b] == points - 1 and arrays.least <= count <= arrays.most:
                ends[count - 1] = points - 1
                return count
            if count >= arrays.most:
                break
            best, following, end = np.inf, -1, 0
            for e in range(window.end[v, b], b, -1):
                if e == points - 1:
                    continue
                for j in range(window.links[e, v]):
                    w = arrays.neighbour[e if layered else 0, v, j]
                    if used[w] or table.cost[0, e, w] >= best:
                        continue
                    rest = table.cost[0, e, w] if table.device[0, e, w] != v else table.cost[1, e, w]
                    luck = luck * 16807 % 2147483647
                    value = rest + (LUCK * (luck / 2147483647.0) if attempt > 0 else 0.0)
                    if value < best:
                        best, following, end = value, w, e
            ends[count - 1] = end
            v, b = following, end
    return 0
