"""Area bound: all work has to fit into the devices' time and, with memory rows, into their memory.

The linear program min L, sum_k x[j,k] = 1, sum_j p[j,k] x[j,k] + idle[k] <= L, sum_j m[j,k] x[j,k] <= memory[k] has the
dual: largest over prices s >= 0 with sum s = 1 and q >= 0 of

    sum_k s[k] idle[k] + sum_j min_k (s[k] p[j,k] + q[k] m[j,k]) - sum_k q[k] memory[k].

Proof: weak duality. *Every* price vector gives a lower bound, wherever it comes from, so no solver's tolerance enters.
The value is computed from the formula, and its terms (of both signs when memory has a price) are added exactly.
``idle[k]`` is time in which device k can run none of these operators. The loads of any schedule form a feasible point
of the linear program, whatever its transfers.

Energetic bound: operators with late heads and long tails share the time left between heads and tails.

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
from opweave.problems.arrays import NO_LIMIT, BoolArray, FloatArray, FloatMatrix
from opweave.solvers.linear import LinearProgram, SparseRows, column_alone, minimise, sum_below
from opweave.solvers.loops import helper, loop
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.bounds.critical_path import Reach, longest, reach_of
from opweave.solvers.rounding import Best

ROUNDS = 60
"""Steps of the quick ascent over the prices of time."""

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


def best_area(seconds: FloatArray, idle: FloatArray, memory: Memory | None = None) -> Area:
    """The bound at its best prices, the multipliers of the linear program; those for time alone if it has no plan."""
    rows, count, bytes_ = _alike(seconds, memory)
    first, devices = quick_area(rows, idle, count), len(idle)
    limited = np.zeros(devices, dtype=np.bool_) if memory is None else np.isfinite(memory.capacity)
    room = np.full(devices, float(count @ bytes_)) if memory is None else np.where(limited, memory.capacity, 0.0)
    scale, unit = max(first.value, 1e-300), max(1.0, float(room.max(initial=0.0)))
    row, device = np.nonzero(np.isfinite(rows))
    share, length = np.arange(len(row)), len(row)
    most, equal = SparseRows(), SparseRows()
    with np.errstate(over="ignore"):  # any prices give a bound
        load = most.open(-idle / scale)
        most.put(load[device], share, count[row] * rows[row, device] / scale)
        most.put(load, np.asarray([length]), -1.0)
        held = most.open(np.where(limited, room, float(count @ bytes_)) / unit)
        most.put(held[device], share, count[row] * bytes_[row] / unit)
        equal.put(equal.open(np.ones(len(rows)))[row], share, 1.0)
        upper = np.append(np.ones(length), np.inf)
        found = minimise(LinearProgram.of(column_alone(length, length + 1), upper, most, equal), None)
    if found is None or not found.most_price[:devices].any():
        return first
    time, price = np.maximum(-found.most_price, 0.0).reshape(2, devices)
    time, price = time / time.sum(), np.where(limited, price, 0.0) * (scale / unit)
    cost = np.where(np.isfinite(rows), np.where(np.isfinite(rows), rows, 0.0) * time + bytes_[:, None] * price, np.inf)
    terms = np.concatenate([count * cost.min(axis=1), time * idle, -price * room])
    value = sum_below(terms, PRODUCTS * float(np.abs(terms).sum()))
    return max(first, Area(value, time, price), key=lambda area: area.value)


def _alike(seconds: FloatArray, memory: Memory | None) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Distinct rows, the number of operators that each stands for, and their bytes."""
    own = np.zeros(len(seconds)) if memory is None else memory.bytes
    rows, count = np.unique(np.column_stack([seconds, own]), axis=0, return_counts=True)
    return np.ascontiguousarray(rows[:, :-1]), count.astype(np.float64), np.ascontiguousarray(rows[:, -1])


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
        positions = np.linspace(0, len(heads) - 1, min(len(heads), THRESHOLDS)).astype(np.int64)
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


def quick_bounds(instance: PlacementInstance, arrays: PlacementArrays, best: Best) -> None:
    """Critical path, energetic bound, and area with memory; they take seconds at most, whatever the size.

    A run that the path closes needs no others, of which the last solves a linear program.

    Raises
    ------
    ContradictionError
        When missing links leave some operator no device, which makes its path infinite.
    """
    best.run.enter("bounds")
    reach = reach_of(arrays)
    path = longest(arrays, reach)
    if not np.isfinite(path):
        raise ContradictionError("missing links leave some operator without a device that its data could reach")
    best.report(path, "critical path")
    if best.run.closed():
        return
    best.report(energetic(arrays, reach, path), "energetic")
    best.report(
        float(arrays.seconds.min(axis=1).sum()) / len(instance.devices), "area"
    )  # time has one price everywhere
    memory = memory_of(instance)
    if not best.run.should_stop():
        area = best_area(arrays.seconds, np.zeros(len(instance.devices)), memory)
        best.report(area.value, "area" if memory is None else "area with memory")
