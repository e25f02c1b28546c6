"""Figures read from a timeline, by name: the objective of a problem is one of them, its tables show the others."""

from __future__ import annotations

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.timeline import ActivityKind, Timeline


def makespan(timeline: Timeline) -> float:
    """The last end of all runs; 0 when nothing runs."""
    return timeline.end


def occupied(timeline: Timeline) -> FloatArray:
    """How long every resource is at work, what overlaps counted twice. Shape (resources,)."""
    acts = timeline.activities
    seconds = np.zeros(len(timeline.resources))
    np.add.at(seconds, acts.resource, acts.end - acts.start)
    return seconds


def moved_bytes(timeline: Timeline) -> tuple[int, ...]:
    """Bytes that pass every resource, as exact whole numbers. Shape (resources,)."""
    acts = timeline.activities
    moved = [0] * len(timeline.resources)
    sent = acts.kind != ActivityKind.RUN
    for resource, size, count in zip(
        acts.resource[sent].tolist(), acts.bytes[sent].tolist(), acts.count[sent].tolist(), strict=True
    ):
        moved[resource] += size * count
    return tuple(moved)


def traffic(timeline: Timeline) -> int:
    """Bytes that travel between devices."""
    kinds = (resource.kind for resource in timeline.resources)
    return sum(size for kind, size in zip(kinds, moved_bytes(timeline), strict=True) if kind == "send_port")


def bytes_held(timeline: Timeline) -> IntArray:
    """The most bytes that every resource holds at a time. Shape (resources,).

    What ends at a moment makes room for what begins then.
    """
    lives = timeline.lifetimes
    peaks = np.zeros(len(timeline.resources), dtype=np.int64)
    times = np.concatenate([lives.begin, lives.end])
    change = np.concatenate([lives.bytes, -lives.bytes])
    where = np.concatenate([lives.resource, lives.resource])
    order = np.lexsort((change, times, where))
    level = np.cumsum(change[order])  # ends at 0 after each resource, since everything that begins also ends
    np.maximum.at(peaks, where[order], level)
    return peaks
