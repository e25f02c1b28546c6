"""Area bound: all work has to fit into the devices' time and, with memory rows, into their memory.

The linear program min L, sum_k x[j,k] = 1, sum_j p[j,k] x[j,k] + idle[k] <= L, sum_j m[j,k] x[j,k] <= memory[k] has the
dual: largest over prices s >= 0 with sum s = 1 and q >= 0 of

    sum_k s[k] idle[k] + sum_j min_k (s[k] p[j,k] + q[k] m[j,k]) - sum_k q[k] memory[k].

Proof: weak duality. *Every* price vector gives a lower bound, wherever it comes from, so no solver's tolerance enters.
The value is computed from the formula, and its terms (of both signs when memory has a price) are added exactly.
``idle[k]`` is time in which device k can run none of these operators. The loads of any schedule form a feasible point
of the linear program, whatever its transfers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.formulations.placement.instance import PlacementInstance
from opweave.problems.arrays import NO_LIMIT, FloatArray, FloatMatrix
from opweave.solvers.linear import LinearProgram, column_alone, minimise, sum_below
from opweave.solvers.loops import loop

ROUNDS = 60
"""Steps of the quick ascent over the prices of time."""

CUTS = 60
"""Most rounds of cutting planes over all prices."""

CLOSE_ENOUGH = 1e-9

PRODUCTS = 1e-12
"""Relative error allowed in a term of the dual: nine thousand roundings."""


class Memory(NamedTuple):
    """Bytes of every operator, none counted twice, and capacities. Shapes (operators,), (devices,)."""

    bytes: FloatArray
    capacity: FloatArray


class Area(NamedTuple):
    """A lower bound with the prices of time (which sum to 1) and of memory that prove it. Prices: shape (devices,)."""

    value: float
    time: FloatArray
    memory: FloatArray


def memory_of(instance: PlacementInstance) -> Memory | None:
    """Bytes of every operator, a parameter's divided among its users; None when no device has a limit.

    Dividing is safe: a device that runs some users of a parameter holds it once, and their shares add up to no more.
    """
    if (instance.capacity == NO_LIMIT).all():
        return None
    users = np.bincount(instance.parameters.items, minlength=len(instance.parameter_bytes))
    share = instance.parameter_bytes / np.maximum(users, 1)
    taken = instance.memory.astype(np.float64)
    np.add.at(taken, instance.parameters.heads(), share[instance.parameters.items])
    return Memory(taken, np.where(instance.capacity == NO_LIMIT, np.inf, instance.capacity.astype(np.float64)))


@loop
def ascend(
    seconds: FloatMatrix, count: FloatArray, idle: FloatArray, price: FloatArray, rounds: int
) -> tuple[float, FloatArray]:
    """Best value over the prices of time, by multiplicative ascent from ``price``, and the prices that give it."""
    rows, devices = seconds.shape
    price = price.copy()
    best, kept = -np.inf, price.copy()
    for step in range(rounds):
        load = idle.copy()
        for j in range(rows):
            least, where = np.inf, -1
            for k in range(devices):
                if seconds[j, k] < np.inf and price[k] * seconds[j, k] < least:
                    least, where = price[k] * seconds[j, k], k
            if where >= 0:
                load[where] += count[j] * seconds[j, where]
        value = 0.0
        for k in range(devices):
            value += price[k] * load[k]
        if value > best:
            best, kept = value, price.copy()
        largest = load[0]
        for k in range(devices):
            largest = max(largest, load[k])
        if largest <= 0.0 or largest - value <= CLOSE_ENOUGH * largest:
            break
        total = 0.0
        for k in range(devices):
            price[k] *= np.exp((load[k] - value) / largest * (1.5 / (1.0 + 0.25 * step)))
            total += price[k]
        for k in range(devices):
            price[k] /= total
    return best, kept


def first_prices(seconds: FloatArray) -> FloatArray:
    """Prices of time in proportion to the devices' speeds over the whole graph. Shape (devices,)."""
    usable = np.isfinite(seconds)
    slowness = np.where(usable, seconds, 0.0).sum(axis=0) / np.maximum(usable.sum(axis=0), 1)
    # the time of a device that runs nothing gets a price close to zero
    speed = np.where(usable.any(axis=0), 1.0 / np.maximum(slowness, 1e-300), 0.0)
    speed = speed / max(float(speed.max(initial=0.0)), 1e-300)
    speed = np.maximum(speed, 1e-9)
    return np.asarray(speed / speed.sum())


def quick_area(seconds: FloatArray, idle: FloatArray, count: FloatArray | None = None) -> Area:
    """The bound for time alone, close to its best value and computed in microseconds.

    Parameters
    ----------
    seconds
        Shape (operators, devices), inf where an operator cannot run.
    idle
        Shape (devices,).
    count
        How many operators each row stands for.
    """
    weights = np.ones(len(seconds)) if count is None else count
    value, price = ascend(seconds, weights, idle, first_prices(seconds), ROUNDS)
    return Area(max(0.0, float(value)), price, np.zeros(len(idle)))


def _cut(
    seconds: FloatArray, count: FloatArray, idle: FloatArray, time: FloatArray, price: FloatArray, memory: Memory | None
) -> tuple[float, FloatArray, FloatArray]:
    """Value of the dual, and its subgradients in the prices of time and of memory."""
    usable = np.isfinite(seconds)
    cost = np.where(usable, seconds, 0.0) * time
    if memory is not None:
        cost = cost + memory.bytes[:, None] * price
    where = np.argmin(np.where(usable, cost, np.inf), axis=1)
    rows = np.arange(len(seconds))
    devices = len(idle)
    load = idle + np.bincount(where, weights=count * seconds[rows, where], minlength=devices)
    terms = [count * cost[rows, where], time * idle]
    over = np.zeros(devices)
    if memory is not None:
        limited = np.isfinite(memory.capacity)
        capacity = np.where(limited, memory.capacity, 0.0)
        terms.append(-price * capacity)
        held = np.bincount(where, weights=count * memory.bytes, minlength=devices)
        over = np.where(limited, held - capacity, 0.0)
    together = np.concatenate(terms)
    return sum_below(together, PRODUCTS * float(np.abs(together).sum())), load, over


def best_area(seconds: FloatArray, idle: FloatArray, memory: Memory | None = None) -> Area:
    """The bound at its best prices, by cutting planes (Kelley): each round adds the slope at the last prices.

    The value comes only from prices that were tried, so an early end leaves a valid bound.
    """
    from scipy.sparse import csr_matrix

    rows, count, bytes_ = _alike(seconds, memory)
    alike = None if memory is None else Memory(bytes_, memory.capacity)
    devices = len(idle)
    start = quick_area(rows, idle, count)
    best = start
    cuts = [_cut(rows, count, idle, start.time, start.memory, alike)]
    # unit of bytes for the prices of memory, so that the program is well scaled
    unit = (
        1.0 if memory is None else max(1.0, float(np.where(np.isfinite(memory.capacity), memory.capacity, 0.0).max()))
    )
    scale = max(best.value, 1e-300)
    limited = np.zeros(devices, dtype=bool) if memory is None else np.isfinite(memory.capacity)
    cuts += [_cut(rows, count, idle, np.eye(devices)[k], np.zeros(devices), alike) for k in range(devices)]
    for _ in range(CUTS):
        with np.errstate(over="ignore"):  # any prices give a bound
            slopes = np.asarray([[*(-load / scale), *(-over / unit), 1.0] for _, load, over in cuts])
        solved = minimise(
            LinearProgram(
                cost=-column_alone(2 * devices, 2 * devices + 1),
                equal=csr_matrix([[*np.ones(devices), *np.zeros(devices), 0.0]]),
                equal_right=np.ones(1),
                most=csr_matrix(slopes),
                most_right=np.zeros(len(cuts)),
                lower=np.zeros(2 * devices + 1),
                upper=np.asarray([*np.ones(devices), *np.where(limited, 50.0, 0.0), np.inf]),
            ),
            None,
        )
        if solved is None:
            break
        time = np.maximum(solved.point[:devices], 0.0)
        time = time / time.sum()
        price = np.maximum(solved.point[devices : 2 * devices], 0.0) * (scale / unit)
        cuts.append(_cut(rows, count, idle, time, price, alike))
        if cuts[-1][0] > best.value:
            best = Area(cuts[-1][0], time, price)
        if -solved.value * scale - best.value <= CLOSE_ENOUGH * scale:
            break
    return best


def _alike(seconds: FloatArray, memory: Memory | None) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Distinct rows, the number of operators that each stands for, and their bytes."""
    own = np.zeros(len(seconds)) if memory is None else memory.bytes
    rows, count = np.unique(np.column_stack([seconds, own]), axis=0, return_counts=True)
    return np.ascontiguousarray(rows[:, :-1]), count.astype(np.float64), np.ascontiguousarray(rows[:, -1])
