"""Figures read from a timeline, by name. A problem's objective is one of them; its tables show the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.timeline import ActivityKind, Timeline


def makespan(timeline: Timeline) -> float:
    """Latest end of all runs; 0 when nothing runs."""
    return timeline.end


def bottleneck(timeline: Timeline) -> float | None:
    """Seconds between two results when inputs follow each other; None otherwise."""
    return timeline.period


def throughput(timeline: Timeline) -> float | None:
    """Inputs per second.

    With a period this is one input for each period; otherwise it is the largest number of inputs that run together,
    divided by the makespan. None if that takes no time, or if the timeline is not in seconds.
    """
    if timeline.unit != "seconds":
        return None
    if timeline.period is not None:
        return 1.0 / timeline.period if timeline.period > 0.0 else None
    acts = timeline.activities
    runs = acts.kind == ActivityKind.RUN
    inputs = np.bincount(acts.what[runs], weights=acts.count[runs])
    return float(inputs.max()) / timeline.end if len(inputs) and timeline.end > 0.0 else None


def latency(timeline: Timeline) -> float | None:
    """Seconds from the first start to the result of the first input; None if the timeline is not in seconds."""
    if timeline.unit != "seconds":
        return None
    acts = timeline.activities
    first = acts.round == 0
    return float(acts.end[first].max() - acts.start[first].min()) if first.any() else 0.0


def busy_seconds(timeline: Timeline) -> FloatArray:
    """Seconds that every resource is busy; overlapping activities count separately. Shape (resources,)."""
    acts = timeline.activities
    seconds = np.zeros(len(timeline.resources))
    np.add.at(seconds, acts.resource, acts.end - acts.start)
    return seconds


def moved_bytes(timeline: Timeline) -> tuple[int, ...]:
    """Bytes that pass every resource, as exact integers. Shape (resources,)."""
    acts = timeline.activities
    moved = [0] * len(timeline.resources)
    sent = acts.kind != ActivityKind.RUN
    for resource, size, count in zip(
        acts.resource[sent].tolist(), acts.bytes[sent].tolist(), acts.count[sent].tolist(), strict=True
    ):
        moved[resource] += size * count
    return tuple(moved)


def traffic(timeline: Timeline) -> int:
    """Bytes that arrive at devices."""
    moved = zip(timeline.resources, moved_bytes(timeline), strict=True)
    return sum(size for resource, size in moved if resource.kind == "receive_port")


def bytes_held(timeline: Timeline) -> IntArray:
    """The most bytes that every resource holds at a time. Shape (resources,).

    Storage that ends at a moment makes space for storage that begins then, so a lifetime of zero length takes nothing.
    """
    lives = timeline.lifetimes
    peaks = np.zeros(len(timeline.resources), dtype=np.int64)
    times = np.concatenate([lives.begin, lives.end])
    change = np.concatenate([lives.bytes, -lives.bytes])
    where = np.concatenate([lives.resource, lives.resource])
    order = np.lexsort((change, times, where))
    level = np.cumsum(change[order])  # back at 0 behind each resource, since everything that begins also ends
    np.maximum.at(peaks, where[order], level)
    return peaks


def peak_bytes(timeline: Timeline) -> int:
    """The most bytes that any resource holds at a time."""
    return int(bytes_held(timeline).max(initial=0))


def total_bytes(timeline: Timeline) -> int | None:
    """Sum over all steps of the bytes held while each runs; None if the timeline has no steps."""
    if timeline.unit != "steps":
        return None
    lives, steps = timeline.lifetimes, len(timeline.activities)
    halves = 2.0 * (np.minimum(lives.end, steps) - np.maximum(lives.begin, 0.0))  # results may replace others midway
    doubled = [size * int(count) for size, count in zip(lives.bytes.tolist(), halves.tolist(), strict=True)]
    return int(sum(doubled)) // 2


def energy(timeline: Timeline) -> float | None:
    """Joules of all devices until the last end, or over one period; None if a device's watts are unknown."""
    span = timeline.end if timeline.period is None else timeline.period
    devices = [row for row, resource in enumerate(timeline.resources) if resource.kind == "device"]
    acts, busy = timeline.activities, np.zeros(len(timeline.resources))
    once = (acts.kind == ActivityKind.RUN) & ((acts.round == 0) | (timeline.period is None))
    np.add.at(busy, acts.resource[once], (acts.end - acts.start)[once])
    total = 0.0
    for row in devices:
        watts = timeline.resources[row].watts
        if watts is None:
            return None
        idle, working = watts
        total += idle * max(0.0, span - float(busy[row])) + working * float(busy[row])
    return total


MEASURES: Mapping[str, Callable[[Timeline], float | int | None]] = {
    "makespan": makespan,
    "bottleneck": bottleneck,
    "latency": latency,
    "throughput": throughput,
    "peak_bytes": peak_bytes,
    "total_bytes": total_bytes,
    "traffic": traffic,
    "energy": energy,
}
"""Single figures by name, in seconds, inputs per second, bytes or joules; None where a figure has no meaning."""
