"""What calls take that run a stretch of a path or of an order: computing, transfers and memory, as tables."""

from __future__ import annotations

import math

import numpy as np

from opweave.formulations.placement.calls import CallInstance
from opweave.problems.arrays import NO_LIMIT, FloatArray, FloatMatrix, IntArray
from opweave.solvers.rounding import SUMMATION

MOST_STATES = 256
"""Most combinations of numbers of calls, by class of accelerators; beyond that, their number does not count."""


class Stretches:
    """What stretches of a sequence take. Entry [i, j] of a table is about the stretch from i to j.

    The sequence is a path of the graph, or all operators in an order that their data allow, in blocks. An operator is
    between i and j if its ``below`` is at least i and its ``above`` at most j.

    Parameters
    ----------
    below, above
        On a path: the last position that comes before the operator or is its own, and the first that comes behind it or
        is its own; -1 and the length if there is none. In an order: the operator's block, both times. Shape
        (operators,).
    """

    def __init__(self, instance: CallInstance, length: int, below: IntArray, above: IntArray) -> None:
        self.instance, self.length, self.below, self.above = instance, length, below, above
        self.between = (below >= 0) & (above < length)
        readers, start = below[instance.readers.items], instance.readers.start[:-1]
        self.last_read = np.maximum.reduceat(readers, start) if len(start) else start
        whole = instance.whole
        users = whole.parameters.reversed(len(whole.parameter_bytes))
        self.held = self._sums(whole.memory.astype(np.float64))
        for p in np.flatnonzero(whole.parameter_bytes > 0).tolist():
            self._from(self.held, self._reach(users[p]), float(whole.parameter_bytes[p]))

    def _reach(self, members: IntArray) -> IntArray:
        """For every i, the first j whose stretch has one of the operators between i and j; the length if none has."""
        first = np.full(self.length + 1, self.length, dtype=np.int64)
        there = members[self.below[members] >= 0]
        np.minimum.at(first, self.below[there], self.above[there])
        reach = np.minimum.accumulate(first[::-1])[::-1][: self.length]
        return np.where(reach < self.length, np.maximum(reach, np.arange(self.length)), self.length)

    def _from(self, table: FloatMatrix, reach: IntArray, value: float, first: int = 0) -> None:
        """Add a value to every stretch that begins at ``first`` or later and reaches far enough."""
        for i in (first + np.flatnonzero(reach[first:] < self.length)).tolist():
            table[i, reach[i] :] += value

    def _sums(self, weights: FloatArray) -> FloatMatrix:
        """The sum of weights of operators between i and j."""
        table = np.zeros((self.length, self.length))
        np.add.at(table, (self.below[self.between], self.above[self.between]), weights[self.between])
        return np.cumsum(np.cumsum(table[::-1], axis=0)[::-1], axis=1)

    def seconds(self, k: int) -> FloatMatrix:
        """Least seconds of every stretch on accelerator k; inf if it cannot run it."""
        instance, seconds = self.instance, self.instance.seconds[:, k]
        known, makers = np.isfinite(seconds), instance.producer
        table = self._sums(np.where(known, seconds, 0.0))
        bring, give = instance.bring[:, k], instance.give[:, k]
        for t in np.flatnonzero((self.above[makers] < self.last_read) & (bring > 0.0)).tolist():
            self._from(table, self._reach(instance.readers[t]), bring[t], int(self.above[makers[t]]) + 1)
        for t in np.flatnonzero(self.between[makers] & (self.above[makers] < self.last_read) & (give > 0.0)).tolist():
            table[: self.below[makers[t]] + 1, self.above[makers[t]] : self.last_read[t]] += give[t]
        capacity = int(instance.whole.capacity[instance.accelerators[k]])
        table[self._sums(np.where(known, 0.0, 1.0)) > 0.0] = np.inf
        if capacity != NO_LIMIT:
            table[self.held * (1.0 - SUMMATION) > capacity] = np.inf
        table[np.tril_indices(self.length, -1)] = np.inf
        return table


Stretch = tuple[int, int, int]
"""Class of the accelerator, first position, and the position behind the last one."""


def cheapest(tables: list[FloatMatrix], most: list[int | None], host: FloatArray) -> tuple[float, list[Stretch]]:
    """Stretches for calls with which the sum over calls and positions on the host is least, and the sum.

    Parameters
    ----------
    tables
        Seconds of every stretch, for every class of accelerators.
    most
        Most calls of every class; None for any number.
    host
        Seconds of every position on the host.
    """
    shape, length = [1 if number is None else number + 1 for number in most], len(host)
    states = math.prod(shape)
    counts = np.stack(np.unravel_index(np.arange(states), shape), axis=1) if shape else np.zeros((1, 0), dtype=np.int64)
    strides = [0 if number is None else math.prod(shape[c + 1 :]) for c, number in enumerate(most)]
    least = np.full((states, length + 1), np.inf)
    least[0, 0] = 0.0
    by, since = (np.full((states, length + 1), -1, dtype=np.int64) for _ in range(2))
    for i in range(1, length + 1):
        least[:, i] = least[:, i - 1] + host[i - 1]
        for c, table in enumerate(tables):
            able = np.flatnonzero((counts[:, c] > 0) | (most[c] is None))
            if not len(able):
                continue
            sums = least[able - strides[c], :i] + table[:i, i - 1]
            j = sums.argmin(axis=1)
            value = sums[np.arange(len(able)), j]
            better = value < least[able, i]
            least[able[better], i], by[able[better], i], since[able[better], i] = value[better], c, j[better]
    state, i, found = int(least[:, length].argmin()), length, list[Stretch]()
    value = float(least[state, length])
    while i > 0 and math.isfinite(value):
        c = int(by[state, i])
        if c < 0:
            i -= 1
            continue
        found.append((c, int(since[state, i]), i))
        state, i = state - strides[c], int(since[state, i])
    return value, found


def numbers(most: list[int], length: int) -> list[int | None]:
    """Most calls of every class for :func:`cheapest`; any number where there are too many combinations."""
    found = [None if number >= length else number for number in most]
    return (
        found if math.prod(number + 1 for number in found if number is not None) <= MOST_STATES else [None] * len(most)
    )
