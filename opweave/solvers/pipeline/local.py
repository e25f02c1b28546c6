"""Local search for sums: it changes the sequence of devices step by step; the cuts are always optimal for it.

For a fixed sequence the best cuts come from a dynamic program over the points. Its forward table (cost of the stages up
to some device, by the point where they end) and its backward table together price a new device at any position, for all
devices at once. When no single change helps, a few random changes are made and the descent begins again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from opweave.formulations.pipeline.instance import PipelineInstance
from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.pipeline.plans import BestPlan, PipelinePlan, is_valid

BETTER = 1e-9
"""Relative gain below which a change counts as rounding."""

KICKS = 3
"""Most random changes before a new descent."""


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """The sum of stages and transfers on an instance, and the windows of stages.

    Attributes
    ----------
    computing
        Seconds of the operators before each point. Shape (devices, points).
    first, last
        First point where a stage that ends at each point may begin, and last point where one that begins there may end.
        Shape (devices, points).
    """

    instance: PipelineInstance
    computing: FloatArray
    first: IntArray
    last: IntArray
    blocked: FloatArray

    @classmethod
    def of(cls, instance: PipelineInstance, stage_weight: float) -> Sums:
        """Take the windows from the instance."""
        points = np.arange(instance.last + 1)
        begins = instance.reach > points
        farthest = np.maximum.accumulate(np.where(begins, instance.reach, 0), axis=1)
        first = np.zeros(farthest.shape, dtype=np.int64)
        for v, row in enumerate(farthest):
            first[v] = np.searchsorted(row, points, side="left")
        blocked = np.where(begins, 0.0, np.inf)
        return cls(instance, stage_weight * instance.elapsed, first, instance.reach, blocked)

    def sending(self, source: int | None, targets: IntArray) -> FloatArray:
        """Seconds from a device to others, by point; from None nothing is sent. Shape (targets, points)."""
        if source is None:
            return np.zeros((len(targets), self.instance.last + 1))
        return self._seconds(self.instance.rate[source, targets], self.instance.latency[source, targets])

    def receiving(self, sources: IntArray, target: int | None) -> FloatArray:
        """Seconds from devices to one, by point; to None nothing is sent. Shape (sources, points)."""
        if target is None:
            return np.zeros((len(sources), self.instance.last + 1))
        return self._seconds(self.instance.rate[sources, target], self.instance.latency[sources, target])

    def _seconds(self, rate: FloatArray, latency: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            seconds = latency[:, None] + self.instance.sent / rate[:, None]
        return np.where(rate[:, None] > 0, seconds, np.inf)

    def forward(self, devices: IntArray, before: FloatArray) -> FloatArray:
        """Cheapest sums by the end of a stage on each device, from the sums by its beginning. Shape as ``before``."""
        points = np.arange(self.instance.last + 1)
        begun = before - self.computing[devices] + self.blocked[devices]
        return least_in(begun, self.first[devices], np.broadcast_to(points - 1, begun.shape)) + self.computing[devices]

    def backward(self, devices: IntArray, after: FloatArray) -> FloatArray:
        """Cheapest sums by the beginning of a stage on each device, from the sums by its end. Shape as ``after``."""
        points = np.arange(self.instance.last + 1)
        ended = least_in(after + self.computing[devices], np.broadcast_to(points + 1, after.shape), self.last[devices])
        return ended - self.computing[devices]

    def cuts(self, devices: list[int]) -> PipelinePlan | None:
        """The best cuts for a sequence of devices; None if there are none."""
        if not devices:
            return None
        tables, point = self.fronts(devices), self.instance.last
        if not math.isfinite(tables[-1][-1]):
            return None
        ends: list[int] = []
        for j in range(len(devices) - 1, 0, -1):
            v, each = devices[j], np.asarray([devices[j]])
            received = tables[j] + self.sending(devices[j - 1], each)
            begun = (received - self.computing[each] + self.blocked[each])[0]
            low = int(self.first[v, point])
            point = low + int(np.argmin(begun[low:point]))
            ends.append(point)
        return PipelinePlan(tuple(reversed(ends)), tuple(devices))

    def _behind(self) -> FloatArray:
        """Sums before the first stage: 0 at the first point, infinite elsewhere."""
        start = np.full((1, self.instance.last + 1), np.inf)
        start[0, 0] = 0.0
        return start

    def fronts(self, devices: list[int]) -> list[FloatArray]:
        """Cheapest sums by the end of the first 0, 1, 2, ... stages. Each of shape (points,)."""
        tables = [self._behind()[0]]
        for source, v in zip([None, *devices[:-1]], devices, strict=True):
            each = np.asarray([v])
            tables.append(self.forward(each, tables[-1] + self.sending(source, each))[0])
        return tables

    def backs(self, devices: list[int]) -> list[FloatArray]:
        """Cheapest sums by the beginning of the stages from the 0th, 1st, ... on. Each of shape (points,)."""
        tables = [self._behind()[0][::-1]]
        for v, target in zip(reversed(devices), [None, *reversed(devices[1:])], strict=True):
            each = np.asarray([v])
            tables.append(self.backward(each, tables[-1] + self.receiving(each, target))[0])
        return tables[::-1]


def least_in(values: FloatArray, low: IntArray, high: IntArray) -> FloatArray:
    """The least value between two columns, both included, in every row; infinite if there are none.

    Parameters
    ----------
    values
        Shape (rows, columns).
    low, high
        First and last column. Shape (rows, columns).
    """
    levels = [values]
    while 1 << len(levels) <= values.shape[1]:
        half = 1 << (len(levels) - 1)
        below = levels[-1]
        shifted = np.full_like(below, np.inf)
        shifted[:, :-half] = below[:, half:]
        levels.append(np.minimum(below, shifted))
    high = np.minimum(high, values.shape[1] - 1)
    length = high - low + 1
    empty = length <= 0
    level = np.frexp(np.where(empty, 1, length).astype(np.float64))[1] - 1
    rows = np.arange(len(values))[:, None]
    stacked = np.stack(levels)
    begin = np.where(empty, 0, low)
    last = np.where(empty, 0, high - (1 << level) + 1)
    found: FloatArray = np.minimum(stacked[level, rows, begin], stacked[level, rows, last])
    return np.where(empty, np.inf, found)


@dataclass(eq=False)
class Descent:
    """Search for cheaper and cheaper sequences of devices until the run stops it."""

    sums: Sums
    best: BestPlan
    should_stop: Callable[[], bool]

    def run(self, start: list[int], rounds: int | None, seed: int) -> None:
        """Descend from a sequence, then repeatedly from random changes of the best one."""
        rng = np.random.default_rng(seed)
        kept, value = self._descended(start)
        done = 0
        while not self.should_stop() and (rounds is None or done < rounds) and len(self.sums.instance.devices) > 1:
            changed, found = self._descended(self._kicked(kept, rng))
            if found <= value:
                kept, value = changed, found
            done += 1

    def _descended(self, devices: list[int]) -> tuple[list[int], float]:
        """A sequence that no single change makes cheaper, and its sum."""
        value = self._value(devices)
        while not self.should_stop():
            changes = [*self._single(devices), *self._moved(devices)]
            found, changed = min(changes, key=lambda change: change[0], default=(math.inf, devices))
            if found >= value * (1 - BETTER) or not math.isfinite(found):
                break
            devices, value = changed, found
        plan = self.sums.cuts(devices) if math.isfinite(value) else None
        if plan is not None and is_valid(self.sums.instance, plan):
            self.best.consider(plan)
        return devices, value

    def _value(self, devices: list[int]) -> float:
        if not self._counted(len(devices)):
            return math.inf
        return float(self.sums.fronts(devices)[-1][-1])

    def _counted(self, stages: int) -> bool:
        return max(1, self.sums.instance.least) <= stages <= self.sums.instance.most

    def _single(self, devices: list[int]) -> Iterator[tuple[float, list[int]]]:
        """Sequences with the best replacement for each device, the best device in each gap, or one device left out."""
        fronts, backs = self.sums.fronts(devices), self.sums.backs(devices)
        unused = np.setdiff1d(np.arange(len(self.sums.instance.devices)), devices)
        count = len(devices)
        for j in range(count + 1):
            source = devices[j - 1] if j else None
            for skipped in (0, 1):  # insert a device before the j-th one, or in its place
                rest = j + skipped
                if rest > count or not self._counted(count + 1 - skipped) or not len(unused):
                    continue
                target = devices[rest] if rest < count else None
                ended = self.sums.forward(unused, fronts[j] + self.sums.sending(source, unused))
                prices = (ended + self.sums.receiving(unused, target) + backs[rest]).min(axis=1)
                i = int(np.argmin(prices))
                yield float(prices[i]), [*devices[:j], int(unused[i]), *devices[rest:]]
            if j < count and self._counted(count - 1):
                target = devices[j + 1] if j + 1 < count else None
                if source is not None and target is not None:
                    way = self.sums.sending(source, np.asarray([target]))[0]
                else:
                    way = np.zeros(self.sums.instance.last + 1)
                price = (fronts[j] + way + backs[j + 1]).min()
                yield float(price), [*devices[:j], *devices[j + 1 :]]

    def _moved(self, devices: list[int]) -> Iterator[tuple[float, list[int]]]:
        """Sequences in which two devices swap positions, or one moves."""
        for i in range(len(devices)):
            for j in range(i + 1, len(devices)):
                if self.should_stop():
                    return
                swapped = devices.copy()
                swapped[i], swapped[j] = swapped[j], swapped[i]
                yield self._value(swapped), swapped
                if j > i + 1:
                    moved = [*devices[:i], *devices[i + 1 : j + 1], devices[i], *devices[j + 1 :]]
                    yield self._value(moved), moved

    def _kicked(self, devices: list[int], rng: np.random.Generator) -> list[int]:
        """A sequence with a few random devices inserted, left out or exchanged."""
        changed = devices.copy()
        for _ in range(int(rng.integers(1, KICKS + 1))):
            unused = [v for v in range(len(self.sums.instance.devices)) if v not in set(changed)]
            at = int(rng.integers(len(changed) + 1))
            kind = int(rng.integers(3))
            if kind == 0 and unused:
                changed.insert(at, unused[int(rng.integers(len(unused)))])
            elif kind == 1 and len(changed) > 1:
                del changed[min(at, len(changed) - 1)]
            elif unused and changed:
                changed[min(at, len(changed) - 1)] = unused[int(rng.integers(len(unused)))]
        return changed
