"""Orders with more room around their peak: they can be packed better.

A layout has nothing to spare where the live bytes come close to its height. An order often has many such steps that
it does not need: operators may run earlier or later without a higher peak. So single operators are moved to random
places, and a move is kept unless the steps close to the peak become more, or come closer.
"""

from __future__ import annotations

import numpy as np

from opweave.formulations.memory_ordering.instance import OrderingInstance
from opweave.problems.arrays import IntArray

AROUND = 30
"""Most steps between a step that is close to the peak and an operator that is moved."""


class Flattening:
    """An order that is changed step by step.

    Parameters
    ----------
    instance
        The problem of the order; what is written over an input counts twice here.
    order
        Positions of the operators.
    cap, margin
        No step may exceed the cap in bytes, and those count that come closer to it than the margin.
    seed
        Of the moves.
    """

    def __init__(self, instance: OrderingInstance, order: IntArray, cap: int, margin: int, seed: int) -> None:
        self.order, self._instance = order, instance
        self._noise = np.random.default_rng(seed)
        self._reader, self._read = instance.readers.heads(), instance.readers.items
        self._live = (instance.producer >= 0) | instance.kept | (np.diff(instance.readers.start) > 0)
        profile = self.profile(order)
        self._cap, self._margin = max(cap, int(profile.max(initial=0))), max(1, margin)
        self._close = self._closeness(profile)

    def profile(self, order: IntArray) -> IntArray:
        """Live bytes in every step of an order. Shape (steps,)."""
        instance, steps = self._instance, len(order)
        step = _inverse(order)
        begin = np.where(instance.producer >= 0, step[instance.producer], 0)
        end = begin.copy()
        np.maximum.at(end, self._reader, step[self._read])
        end = np.where(instance.kept, steps - 1, end)
        change = np.zeros(steps + 1, dtype=np.int64)
        np.add.at(change, begin[self._live], instance.size[self._live])
        np.subtract.at(change, end[self._live] + 1, instance.size[self._live])
        held: IntArray = np.cumsum(change)[:steps] + instance.workspace[order]
        return held

    def _closeness(self, profile: IntArray) -> IntArray:
        """Bytes by which every step is closer to the cap than the margin. Shape (steps,)."""
        close: IntArray = np.maximum(0, profile - (self._cap - self._margin))
        return close

    def move(self, times: int) -> None:
        """Try some moves."""
        for _ in range(times):
            close = np.flatnonzero(self._close)
            if not len(close):
                return
            place = int(self._noise.choice(close)) + int(self._noise.integers(-AROUND, AROUND + 1))
            if 0 <= place < len(self.order):
                self._try(self._moved(place))

    def _try(self, order: IntArray) -> None:
        profile = self.profile(order)
        if profile.max() > self._cap:
            return
        close = self._closeness(profile)
        if self._worth(close) <= self._worth(self._close):
            self.order, self._close = order, close

    def _worth(self, close: IntArray) -> float:
        return float(((close / self._margin) ** 3).sum())

    def _moved(self, place: int) -> IntArray:
        """The order with one operator at another place between those before and after which it must run."""
        order, instance = self.order, self._instance
        step = _inverse(order)
        v = int(order[place])
        low = int(step[instance.before[v]].max(initial=-1)) + 1
        high = int(step[instance.after[v]].min(initial=len(order))) - 1
        return np.insert(np.delete(order, place), int(self._noise.integers(low, high + 1)), v)


def _inverse(order: IntArray) -> IntArray:
    step = np.empty(len(order), dtype=np.int64)
    step[order] = np.arange(len(order))
    return step
