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
from opweave.solvers.loops import helper, loop
from opweave.solvers.pipeline.arrays import PipelineArrays, Window, seconds_between

END = -1
"""Stands for the next device when the walk ends with this stage."""

NOWHERE = -2

UNDECIDED, REFUTED, SIMPLE = 0, 1, 2

ROUNDING = 1e-9

PATIENCE = 8
"""Steps without a better bound before the step length is reduced."""

SURELY = 1e-6
"""Allowance for rounding: prices sum to the number of devices, and an excess of the walk above this refutes."""


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
        Shape (2, points, devices).
    onward_device
        The next devices of these continuations. Shape (2, points, devices).
    """

    cost: FloatCube
    device: IntCube
    point: IntCube
    onward: FloatCube
    onward_device: IntCube


def new_table(points: int, devices: int) -> Table:
    """An empty table."""
    shape = (2, points, devices)
    return Table(
        cost=np.full(shape, np.inf),
        device=np.full(shape, NOWHERE, dtype=np.int64),
        point=np.zeros(shape, dtype=np.int64),
        onward=np.full(shape, np.inf),
        onward_device=np.full(shape, NOWHERE, dtype=np.int64),
    )


def table_work(arrays: PipelineArrays) -> int:
    """Approximate number of elementary steps of :func:`fill_table`."""
    devices, points = arrays.reach.shape
    windows = int((arrays.reach - np.arange(points)).sum())
    links = int(arrays.degree.sum()) + int(devices)
    return 2 * (windows + int(points) * links)


@helper
def fill_table(
    arrays: PipelineArrays, window: Window, price: FloatArray, stage_weight: float, link_weight: float, table: Table
) -> bool:
    """Compute the cheapest completions from the last point to the first; False when halted, with an invalid table."""
    devices, points = arrays.reach.shape
    layered = len(arrays.neighbour) > 1
    cost, following, ending = table.cost, table.device, table.point
    onward, onward_device = table.onward, table.onward_device
    for v in range(devices):
        onward[0, points - 1, v] = 0.0
        onward_device[0, points - 1, v] = END
        onward[1, points - 1, v] = np.inf
        onward_device[1, points - 1, v] = NOWHERE
    for b in range(points - 2, -1, -1):
        if arrays.halt[0] != 0:
            return False
        for v in range(devices):
            best = second = np.inf
            best_next = second_next = NOWHERE
            best_end = second_end = 0
            for e in range(window.end[v, b], b, -1):
                step = stage_weight * arrays.elapsed[v, e]
                value = step + onward[0, e, v]
                following_device = onward_device[0, e, v]
                if value < best:
                    if following_device != best_next:
                        second, second_next, second_end = best, best_next, best_end
                    best, best_next, best_end = value, following_device, e
                elif value < second and following_device != best_next:
                    second, second_next, second_end = value, following_device, e
                value = step + onward[1, e, v]
                if value < second and onward_device[1, e, v] != best_next:
                    second, second_next, second_end = value, onward_device[1, e, v], e
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
            onward[0, b, v], onward_device[0, b, v] = best, best_next
            onward[1, b, v], onward_device[1, b, v] = second, second_next
    return True


@helper
def read_walk(table: Table, stages: IntArray, ends: IntArray) -> int:
    """Write the cheapest walk's devices and the ends of its stages; return the number of stages, 0 for no walk."""
    points = table.cost.shape[1]
    v = 0
    for w in range(table.cost.shape[2]):
        if table.cost[0, 0, w] < table.cost[0, 0, v]:
            v = w
    if table.cost[0, 0, v] == np.inf:
        return 0
    b, came_from, count = 0, NOWHERE, 0
    while True:
        which = 1 if came_from >= 0 and table.device[0, b, v] == came_from else 0
        stages[count], ends[count] = v, table.point[which, b, v]
        count += 1
        following = table.device[which, b, v]
        b = ends[count - 1]
        if following == END or b >= points - 1:
            return count
        came_from, v = v, following


@helper
def is_simple(arrays: PipelineArrays, stages: IntArray, count: int) -> bool:
    """Whether a walk becomes a plan when each visit takes the next unused twin of its device; if so, it is changed."""
    settled = np.full(count, -1, dtype=np.int64)
    for i in range(count):
        earlier = 0
        for j in range(i):
            if arrays.twin[stages[i]] == arrays.twin[stages[j]]:
                earlier += 1
        for w in range(arrays.twin[stages[i]], len(arrays.twin)):
            if arrays.twin[w] == arrays.twin[stages[i]]:
                if earlier == 0:
                    settled[i] = w
                    break
                earlier -= 1
        if settled[i] < 0:
            return False
    stages[:count][:] = settled
    return True


@helper
def _move(
    arrays: PipelineArrays, price: FloatArray, direction: FloatArray, stages: IntArray, count: int, length: float
) -> bool:
    """Raise the prices of devices visited more than once, lower those of unvisited ones; False if nothing changes.

    Only the ratios of prices matter, so the prices are scaled to sum to the number of devices.
    """
    devices = len(price) - 1
    for v in range(devices + 1):
        direction[v] *= 0.6
        if v < devices:
            direction[v] -= 0.4
    if arrays.most < devices:
        direction[devices] += 0.4 * (count - arrays.most)
    for i in range(count):
        direction[stages[i]] += 0.4
    square = 0.0
    for v in range(devices + 1):
        square += direction[v] * direction[v]
    if square < 1e-12:
        return False
    total = 0.0
    for v in range(devices + 1):
        price[v] = max(0.0, price[v] + length / square * direction[v])
        if v < devices:
            total += price[v]
    if total > 0.0:
        for v in range(devices + 1):
            price[v] *= devices / total
    return True


@loop
def price_walks(
    arrays: PipelineArrays,
    window: Window,
    price: FloatArray,
    rounds: int,
    table: Table,
    stages: IntArray,
    ends: IntArray,
) -> tuple[int, int]:
    """Move prices along subgradients until the walk costs more than their sum, or is a plan.

    Parameters
    ----------
    price
        Price of every device, and finally the price of any stage; changed to the best prices.
    rounds
        Most steps.

    Returns
    -------
    tuple
        The answer, and the length of the walk that proves it.
    """
    devices = arrays.reach.shape[0]
    direction = np.zeros(devices + 1)
    full = np.zeros(devices)
    best_price = price.copy()
    best, step, stale = -1e300, 0.5, 0
    for _ in range(rounds):
        budget = float(price[devices]) * arrays.most
        for v in range(devices):
            full[v] = price[v] + price[devices]
            budget += price[v]
        if not fill_table(arrays, window, full, 0.0, 0.0, table):
            break
        count = read_walk(table, stages, ends)
        if count == 0:
            return REFUTED, 0
        bound = float(table.cost[0, 0].min()) - budget
        if bound > best:
            best, stale = bound, 0
            best_price[:] = price
        else:
            stale += 1
        if best > SURELY:
            price[:] = best_price
            return REFUTED, 0
        if arrays.least <= count <= arrays.most and is_simple(arrays, stages, count):
            price[:] = best_price
            return SIMPLE, count
        if stale >= PATIENCE:
            step, stale = 0.7 * step, 0
        if not _move(arrays, price, direction, stages, count, step * (0.5 * abs(bound) + 0.05 * devices)):
            break
    price[:] = best_price
    return UNDECIDED, 0


@loop
def best_walk(
    arrays: PipelineArrays,
    window: Window,
    price: FloatArray,
    stage_weight: float,
    link_weight: float,
    table: Table,
    stages: IntArray,
    ends: IntArray,
) -> tuple[int, bool]:
    """Fill the table at given prices of visits; return the length of the cheapest walk, and whether it is a plan.

    When halted it returns -1, and the table must not be used.
    """
    if not fill_table(arrays, window, price, stage_weight, link_weight, table):
        return -1, False
    count = read_walk(table, stages, ends)
    return count, arrays.least <= count <= arrays.most and is_simple(arrays, stages, count)


@loop
def dive(
    arrays: PipelineArrays, window: Window, table: Table, tries: int, seed: int, stages: IntArray, ends: IntArray
) -> int:
    """From every stage, go to the unused device with the cheapest completion plus noise; return the stages, or 0."""
    devices, points = arrays.reach.shape
    layered = len(arrays.neighbour) > 1
    used = np.zeros(devices, dtype=np.bool_)
    luck = seed % 2147483646 + 1
    for attempt in range(tries):
        if arrays.halt[0] != 0:
            return 0
        used[:] = False
        b, v, count = 0, -1, 0
        best = np.inf
        for w in range(devices):
            luck = luck * 16807 % 2147483647
            value = table.cost[0, 0, w] + (LUCK * (luck / 2147483647.0) if attempt > 0 else 0.0)
            if value < best:
                best, v = value, w
        while v >= 0 and arrays.halt[0] == 0:
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
