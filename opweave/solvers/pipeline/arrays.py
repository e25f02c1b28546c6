"""The arrays of the pipelines' hot loops, and the stages and links that a threshold allows.

A *walk* is a sequence of stages that begin at points, each on a device. It may use a device again; a *plan* may not. A
walk or plan keeps a threshold if no stage and no transfer takes longer. Among interchangeable devices, plans use the
first listed first. Every plan can be rewritten in this way, so links from a later to an earlier one of them are left
out here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from opweave.formulations.pipeline.instance import PipelineInstance
from opweave.problems.arrays import FloatArray, FloatCube, FloatMatrix, IntArray, IntCube, IntMatrix
from opweave.solvers.loops import helper, loop

END = -1
"""Stands for the next device when a walk ends with a stage."""


class PipelineArrays(NamedTuple):
    """A :class:`PipelineInstance` for compiled loops.

    Attributes
    ----------
    sent, elapsed, reach
        As in the instance.
    rate, latency
        Links, without those against the order of twins (rate 0). Shape (devices, devices).
    neighbour
        Devices by decreasing speed of the link from each device. There is one layer for all points, or one for each
        point if different latencies make the order depend on the size. Shape (layers, devices, devices).
    degree
        Number of links that leave each device. Shape (devices,).
    twin
        The first device that each one can be swapped with. Shape (devices,).
    least, most
        Smallest and largest number of stages.
    """

    sent: FloatArray
    elapsed: FloatMatrix
    reach: IntMatrix
    rate: FloatMatrix
    latency: FloatMatrix
    neighbour: IntCube
    degree: IntArray
    twin: IntArray
    least: int
    most: int


class WalkWindow(NamedTuple):
    """The stages and transfers that a threshold allows.

    Attributes
    ----------
    end
        Last point at which a stage may end, by first point; the first point itself if no stage may begin there.
        Shape (devices, points).
    links
        Number of a device's neighbours that are reached in time, by point. Shape (points, devices).
    """

    end: IntMatrix
    links: IntMatrix


class Table(NamedTuple):
    """The cheapest completions of a walk, for every state (stage begins at a point on a device).

    Attributes
    ----------
    cost
        Cost of the cheapest completion, and of the cheapest with another next device; inf if there is none.
        Shape (2, points, devices).
    device, point
        The next device or :data:`END`, and the point where the stage ends. Shape (2, points, devices).
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


def arrays_of(instance: PipelineInstance) -> PipelineArrays:
    """Flatten an instance."""
    twin = twins(instance)
    same = twin[:, None] == twin[None, :]
    against = same & (np.arange(len(twin))[:, None] > np.arange(len(twin))[None, :])
    rate = np.where(against, 0.0, instance.rate)
    linked = rate > 0
    latencies = instance.latency[linked]
    if latencies.size == 0 or latencies.min() == latencies.max():
        slowness = np.where(linked, -rate, np.inf)[None]
    else:
        with np.errstate(divide="ignore", invalid="ignore"):
            seconds = instance.latency[None] + instance.sent[:, None, None] / rate[None]
        slowness = np.where(linked[None], seconds, np.inf)
    return PipelineArrays(
        sent=instance.sent,
        elapsed=instance.elapsed,
        reach=instance.reach,
        rate=rate,
        latency=instance.latency,
        neighbour=np.argsort(slowness, axis=2, kind="stable").astype(np.int64),
        degree=linked.sum(axis=1).astype(np.int64),
        twin=twin,
        least=instance.least,
        most=instance.most,
    )


def twins(instance: PipelineInstance) -> IntArray:
    """The first device that each device can be swapped with: equal windows, times and links."""
    rate, latency = instance.rate, instance.latency
    count = len(rate)
    twin = np.arange(count, dtype=np.int64)
    outward, inward = np.sort(rate, axis=1), np.sort(rate, axis=0)
    firsts: dict[bytes, list[int]] = {}
    for v in range(count):
        parts = (instance.reach[v], instance.elapsed[v], outward[v], inward[:, v])
        known = firsts.setdefault(b"".join(part.tobytes() for part in parts), [])
        for u in known:
            others = (np.arange(count) != u) & (np.arange(count) != v)
            if all(
                each[u, v] == each[v, u]
                and np.array_equal(each[u, others], each[v, others])
                and np.array_equal(each[others, u], each[others, v])
                for each in (rate, latency)
            ):
                twin[v] = u
                break
        else:
            known.append(v)
    return twin


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


@helper
def seconds_between(arrays: PipelineArrays, point: int, source: int, target: int) -> float:
    """Seconds to send the data that crosses a point over an existing link."""
    return float(arrays.latency[source, target] + arrays.sent[point] / arrays.rate[source, target])


@loop
def open_window(
    arrays: PipelineArrays, stage_limit: float, link_limit: float, end: IntMatrix, links: IntMatrix
) -> None:
    """Fill the arrays of a :class:`WalkWindow`."""
    devices, points = arrays.reach.shape
    for v in range(devices):
        last = 0
        for a in range(points):
            last = max(last, a)
            while last < arrays.reach[v, a] and arrays.elapsed[v, last + 1] - arrays.elapsed[v, a] <= stage_limit:
                last += 1
            end[v, a] = min(last, arrays.reach[v, a])
    layered = len(arrays.neighbour) > 1
    for b in range(1, points - 1):
        layer = b if layered else 0
        for v in range(devices):
            low, high = 0, arrays.degree[v]
            while low < high:  # number of neighbours that are fast enough
                middle = (low + high) // 2
                if seconds_between(arrays, b, v, arrays.neighbour[layer, v, middle]) <= link_limit:
                    low = middle + 1
                else:
                    high = middle
            links[b, v] = low


def window_at(arrays: PipelineArrays, stage_limit: float, link_limit: float) -> WalkWindow:
    """The window for limits on stages and on transfers."""
    devices, points = arrays.reach.shape
    end = np.zeros((devices, points), dtype=np.int64)
    links = np.zeros((points, devices), dtype=np.int64)
    open_window(arrays, stage_limit, link_limit, end, links)
    return WalkWindow(end, links)


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """The times that stages and transfers can take.

    Attributes
    ----------
    arrays
        The instance.
    stages, transfers
        Whether the times of stages, or of transfers, are among them.
    """

    arrays: PipelineArrays
    stages: bool
    transfers: bool

    def above(self, low: float) -> float:
        """The smallest time above ``low``; infinite for none."""
        return float(self._beside(window_at(self.arrays, low, low), 1).min(initial=np.inf))

    def below(self, high: float) -> float:
        """The largest time below ``high``; -1 for none."""
        limit = float(np.nextafter(high, -np.inf))
        return float(self._beside(window_at(self.arrays, limit, limit), 0).max(initial=-1.0))

    def between(self, low: float, high: float) -> float | None:
        """A time between two, both excluded, near their geometric mean; None when there is none."""
        first = self.above(low) if low >= 0.0 else 0.0
        if first >= high:
            return None
        last = max(first, self.below(high))
        middle = math.sqrt(first * last) if first > 0.0 else 0.5 * last
        return min(max(self.below(math.nextafter(middle, math.inf)), first), last)

    def _beside(self, window: WalkWindow, step: int) -> FloatArray:
        """The longest stages and transfers within a window (step 0), or the shortest ones beyond it (1)."""
        arrays, found = self.arrays, [np.zeros(0)]
        if self.stages:
            end = window.end + step
            v, a = np.nonzero((end > np.arange(end.shape[1])) & (end <= arrays.reach))
            found.append(arrays.elapsed[v, end[v, a]] - arrays.elapsed[v, a])
        if self.transfers:
            place = window.links[1:-1] - 1 + step
            b, v = np.nonzero((place >= 0) & (place < arrays.degree))
            w = arrays.neighbour[b + 1 if len(arrays.neighbour) > 1 else 0, v, place[b, v]]
            found.append(arrays.latency[v, w] + arrays.sent[b + 1] / arrays.rate[v, w])
        return np.concatenate(found)
