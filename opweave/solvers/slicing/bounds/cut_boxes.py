"""Cells: boxes of cuts, and the least time of an operator for every pair of its cell and its producer's.

The shares of :mod:`.program` show neither the position of a part nor the dimension of its producer's cut, and the mean
of many plans on one device each looks like one well-shared plan. Cells avoid all three weaknesses: along each
dimension, the ways to cut an operator are divided into boxes in which every cut has an interval. Intervals are narrow
near the cuts by speed and wide elsewhere. For a cell of the reader and one of the producer, every end of every part is
taken separately at its best. If the intervals are single cuts, the time is exact.

Several inputs are joined into one bound: a maximum over devices is at least their mean with any weights. With weights
inverse to the slopes, the compute time is the same for all cuts, and the inputs of an operator add up.

Every plan chooses one cell for every operator, and no operator takes less than its least time in those cells, so the
least sum over all choices (:mod:`.elimination`) is a lower bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from opweave.formulations.slicing.instance import CHANNELS, ROWS, SlicingInstance
from opweave.problems.arrays import FloatArray, FloatCube, FloatMatrix, IntArray, IntMatrix
from opweave.solvers.loops import loop
from opweave.solvers.slicing.arrays import (
    ALL_CHANNELS,
    ALL_ROWS,
    CELL,
    PRODUCER,
    WHOLE,
    SlicingArrays,
    arrays_of,
    need_of,
)
from opweave.solvers.slicing.bounds.elimination import Elimination
from opweave.solvers.slicing.bounds.instant import TINY

HALVINGS = 40
NEAREST = 16.0
GROWTHS = tuple(0.1 * 1.15**i for i in range(36))
"""The width of an interval is a factor times its distance from the cut by speed, and at least that factor times length
/ NEAREST."""


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The cells of one operator.

    Attributes
    ----------
    mode
        Dimension of every cell.
    low, high
        First and last position of every cut, the cuts at both ends included. Shape (cells, devices + 1).
    seconds
        Least compute time in every cell.
    """

    mode: IntArray
    low: IntArray
    high: IntArray
    seconds: FloatArray


def cells_of(instance: SlicingInstance, v: int, most: int) -> Cells:
    """At most ``most`` cells (or a single one for each dimension) that hold every way to cut an operator."""
    modes = [mode for mode in (ROWS, CHANNELS) if instance.length[v, mode] > 0]
    low = []
    high = []
    mode = []
    for each in modes:
        wanted = most if len(modes) == 1 else most * 3 // 4 if each == ROWS else most // 4
        found = _boxes(instance, v, each, max(wanted, 1))
        low.append(found[0])
        high.append(found[1])
        mode.append(np.full(len(found[0]), each, dtype=np.int64))
    modes_of = np.concatenate(mode)
    lows = np.concatenate(low)
    highs = np.concatenate(high)
    seconds = _least_seconds(instance, v, modes_of, lows, highs)
    possible = np.isfinite(seconds)
    return Cells(modes_of[possible], lows[possible], highs[possible], seconds[possible])


def _boxes(instance: SlicingInstance, v: int, mode: int, most: int) -> tuple[IntArray, IntArray]:
    """The finest boxes, at most ``most``; one box of everything if even the coarsest are more."""
    whole = instance.intercept[v] + instance.slope[v]
    speed = np.where(np.isfinite(whole), 1.0 / np.maximum(whole, TINY), 0.0)
    length = int(instance.length[v, mode])
    centres = np.rint(np.cumsum(speed)[:-1] / speed.sum() * length).astype(np.int64)
    return _finest(length, tuple(centres.tolist()), most)


@lru_cache(maxsize=256)
def _finest(length: int, centres: tuple[int, ...], most: int) -> tuple[IntArray, IntArray]:
    """The finest grid of at most ``most`` boxes, by bisection over the growth of intervals."""
    few = len(GROWTHS)
    many = -1
    low = [0] * (len(centres) + 1)
    high = [length] * (len(centres) + 1)
    best = np.asarray([[*low, length]]), np.asarray([[0, *high]])
    while few - many > 1:
        middle = (few + many) // 2
        found = _grid(length, centres, GROWTHS[middle], most)
        if found is None:
            many = middle
        else:
            few = middle
            best = found
    return best


def _grid(length: int, centres: tuple[int, ...], growth: float, most: int) -> tuple[IntArray, IntArray] | None:
    """All boxes with cuts in ascending order, each as small as the order allows; None if more than ``most``."""
    low = high = np.zeros((1, 1), dtype=np.int64)
    for centre in centres:
        intervals = np.asarray(_intervals(centre, length, growth), dtype=np.int64)
        i, j = np.nonzero(intervals[None, :, 1] >= low[:, -1:])
        starts = np.maximum(intervals[j, 0], low[i, -1])
        if len(i) > most:
            return None
        low = np.column_stack([low[i], starts])
        high = np.column_stack([high[i], intervals[j, 1]])
    ends = np.full(len(low), length)
    low = np.column_stack([low, ends])
    high = np.column_stack([high, ends])
    high = np.minimum.accumulate(high[:, ::-1], axis=1)[:, ::-1]
    return np.ascontiguousarray(low), np.ascontiguousarray(high)


def _intervals(centre: int, length: int, growth: float) -> list[tuple[int, int]]:
    """Intervals of positions 0 to length: both ends are single, and intervals widen away from the centre."""
    found = [(0, 0), (length, length)]
    width = max(1, int(growth * length / NEAREST))
    at = start = max(1, min(centre, length - 1) - width // 2)
    while at < length:
        end = min(length - 1, at + max(width, int(growth * (at - centre))) - 1)
        found.append((at, end))
        at = end + 1
    at = start - 1
    while at >= 1:
        begin = max(1, at - max(width, int(growth * (centre - at))) + 1)
        found.append((begin, at))
        at = begin - 1
    return sorted(found)


def _least_seconds(instance: SlicingInstance, v: int, mode: IntArray, low: IntArray, high: IntArray) -> FloatArray:
    """Least compute time in every cell, by bisection over whole positions; inf if no device may take part."""
    length = instance.length[v][mode].astype(np.float64)[:, None]
    least = np.maximum(0, low[:, 1:] - high[:, :-1])
    most = high[:, 1:] - low[:, :-1]
    allowed = np.isfinite(instance.intercept[v])[None, :]
    fixed = np.where(allowed, instance.intercept[v], 0.0)
    slope = np.where(allowed, np.maximum(instance.slope[v], 0.0), 0.0)
    most = np.where(allowed, most, 0)
    impossible = (least > most).any(axis=1) | (most.sum(axis=1) < length[:, 0])
    forced = np.where(least > 0, fixed + slope * least / length, 0.0).max(axis=1)
    below = forced
    above = np.maximum(forced, np.where(most > 0, fixed + slope, 0.0).max(axis=1))

    def enough(t: FloatArray) -> IntArray:
        spare = (t[:, None] - fixed) * length
        places = np.floor(np.divide(spare, slope, out=np.full(spare.shape, np.inf), where=slope > 0) + 1e-6)
        places = np.where(spare >= 0, np.minimum(places, most), 0.0)
        return np.asarray(places.sum(axis=1) >= length[:, 0])

    above = np.where(enough(below), below, above)
    for _ in range(HALVINGS):
        middle = 0.5 * (below + above)
        reached = enough(middle)
        below = np.where(reached, below, middle)
        above = np.where(reached, middle, above)
    return np.where(impossible, np.inf, below)


def weights_of(instance: SlicingInstance, v: int, cells: Cells) -> tuple[FloatArray, FloatArray]:
    """Weights of the devices in every cell, which sum to 1, and the weighted compute time, equal for all cuts.

    The weights are inverse to the slopes; if a cell gives everything to one device, it has all the weight.
    """
    allowed = np.isfinite(instance.intercept[v])
    slope = np.where(allowed, instance.slope[v], 1.0)
    free = bool((slope <= TINY).any())
    speed = allowed.astype(np.float64) if free else np.where(allowed, 1.0 / np.maximum(slope, TINY), 0.0)
    weights = np.repeat(speed[None] / speed.sum(), len(cells.mode), axis=0)
    common = np.full(len(cells.mode), 0.0 if free else 1.0 / speed.sum())
    some = (cells.low[:, 1:] > cells.high[:, :-1]).sum(axis=1)
    others = (cells.high[:, 1:] > cells.low[:, :-1]).sum(axis=1)
    alone = (some == 1) & (others == 1)
    weights[alone] = cells.low[alone, 1:] > cells.high[alone, :-1]
    common[alone] = cells.seconds[alone]
    return weights, common


@loop
def pair_seconds(
    arrays: SlicingArrays,
    v: int,
    e: int,
    modes: IntArray,
    low: IntMatrix,
    high: IntMatrix,
    held_modes: IntArray,
    held_low: IntMatrix,
    held_high: IntMatrix,
    weights: FloatMatrix,
    needs: IntMatrix,
    done: FloatArray,
    found: FloatCube,
) -> None:
    """Least seconds of operator v for flow e, for every pair of its cells and the producer's.

    They are written to ``found``, shape (2, cells of v, cells of the producer): the weighted mean over the devices of
    the seconds to receive the flow, and those of the slowest device, which computes as well. ``needs`` (2, devices) and
    ``done`` are memory.
    """
    flows = arrays.flows
    times = arrays.times
    devices = weights.shape[1]
    whole = arrays.ops[flows[e, PRODUCER], WHOLE] == 1
    for s in range(len(low)):
        by_rows = modes[s] == ROWS
        across = flows[e, ALL_CHANNELS] if by_rows else flows[e, ALL_ROWS]
        for k in range(devices):
            a = high[s, k]
            b = low[s, k + 1]
            needs[0, k], needs[1, k], done[k] = 0, 0, 0.0
            if a >= b:
                continue  # the part may be empty
            needs[0, k], needs[1, k] = need_of(flows, e, modes[s], a, b)
            done[k] = times[v, 0, k] + max(0.0, times[v, 1 + modes[s], k]) * (b - a)
        for q in range(len(held_low)):
            mean = 0.0
            largest = 0.0
            for k in range(devices):
                need_low = float(needs[0, k])
                need_high = float(needs[1, k])
                seconds = done[k]
                if need_high > need_low:
                    first = held_low[q, k]
                    end = held_high[q, k + 1]
                    if whole:
                        lacking = 0.0 if end > first else need_high - need_low
                    elif modes[s] != held_modes[q]:
                        lacking = (need_high - need_low) * max(0.0, 1.0 - (end - first) / across)
                    else:
                        lacking = max(0.0, min(need_high, float(first)) - need_low)
                        lacking += max(0.0, need_high - max(need_low, float(end)))
                    wait = lacking * across * flows[e, CELL] * arrays.links[0, k]
                    mean += weights[s, k] * wait
                    seconds += wait
                largest = max(largest, seconds)
            found[0, s, q], found[1, s, q] = mean, largest


def by_position(
    instance: SlicingInstance,
    cells: list[Cells],
    lower_bounds: FloatArray,
    should_stop: Callable[[], bool],
) -> float | None:
    """A lower bound of the latency; None when stopped early.

    Parameters
    ----------
    cells
        Cells of every operator, which contain every way to cut it (:func:`cells_of`).
    lower_bounds
        A known lower bound of every operator's seconds.
    should_stop
        Asked every few hundredths of a second.
    """
    arrays = arrays_of(instance)
    if not all(len(each.mode) for each in cells):
        return None  # an operator that no device may run
    flows = [_flows(instance, v) for v in range(instance.operators)]
    sums = Elimination([np.zeros(len(each.mode)) for each in cells])
    for v, read in enumerate(flows):
        if should_stop():
            return None
        least = np.maximum(cells[v].seconds, lower_bounds[v])
        weights, common = weights_of(instance, v, cells[v])
        if not read:
            sums.single[v] += least
        elif len(read) > 1:  # only means, because they add up and maxima do not
            sums.single[v] += common
        for e in read:
            found = _pairs(instance, arrays, cells, v, e, weights)
            if len(read) == 1:
                found = np.maximum(np.maximum(found[0] + common[:, None], found[1]), least[:, None])
                sums.add(v, int(instance.producer[e]), found)
            else:
                sums.add(v, int(instance.producer[e]), found[0])
    return sums.least(should_stop)


def _flows(instance: SlicingInstance, v: int) -> list[int]:
    """Flows with a producer."""
    first = int(instance.flow_start[v])
    end = int(instance.flow_start[v + 1])
    return [e for e in range(first, end) if instance.producer[e] >= 0]


def _pairs(
    instance: SlicingInstance, arrays: SlicingArrays, cells: list[Cells], v: int, e: int, weights: FloatArray
) -> FloatArray:
    """Mean seconds of receiving, and seconds of the slowest device, for every pair of cells."""
    own = cells[v]
    held = cells[int(instance.producer[e])]
    found = np.zeros((2, len(own.mode), len(held.mode)))
    devices = weights.shape[1]
    reader = (own.mode, own.low, own.high)
    producer = (held.mode, held.low, held.high)
    memory = np.zeros((2, devices), dtype=np.int64), np.zeros(devices)
    pair_seconds(arrays, v, e, *reader, *producer, weights, *memory, found)
    return found
