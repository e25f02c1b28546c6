"""Figures read from a timeline, by name. A problem's objective is one of them; its tables show the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray, distinct
from opweave.problems.timeline import ActivityKind, ResourceKind, Timeline


def makespan(timeline: Timeline) -> float | None:
    """The last end of all runs, 0 if nothing runs; None if inputs follow each other, or times are not in seconds."""
    return timeline.end if timeline.period is None and timeline.unit == "seconds" else None


def bottleneck(timeline: Timeline) -> float | None:
    """Seconds between two results when inputs follow each other; None otherwise."""
    return timeline.period


def throughput(timeline: Timeline) -> float | None:
    """Inputs per second.

    With a period this is one input for each period; otherwise it is the number of inputs that run together,
    divided by the makespan. None if that takes no time, or if the timeline is not in seconds.
    """
    if timeline.unit != "seconds":
        return None
    if timeline.period is not None:
        return 1.0 / timeline.period if timeline.period > 0.0 else None
    return timeline.inputs / timeline.end if timeline.end > 0.0 else None


def latency(timeline: Timeline) -> float | None:
    """Seconds from the first start to the result of the first input; None if the timeline is not in seconds."""
    if timeline.unit != "seconds":
        return None
    acts = timeline.activities
    first = acts.round == 0
    return float(acts.end[first].max() - acts.start[first].min()) if first.any() else 0.0


def busy_seconds(timeline: Timeline, *, once: bool = False) -> FloatArray:
    """Seconds that every resource is busy; overlapping activities count separately. Shape (resources,).

    ``once``: if inputs follow each other, for one input.
    """
    acts = timeline.activities
    counted = (acts.round == 0) | (not once or timeline.period is None)
    lasts = np.where(counted, acts.end - acts.start, 0.0)
    return np.bincount(acts.resource, lasts, minlength=len(timeline.resources)).astype(np.float64)


def utilisation(timeline: Timeline) -> FloatArray:
    """The share of time for which every resource is busy, until the last end or in each period. Shape (resources,).

    Overlapping activities count separately, so a share may exceed 1. It is 0 if nothing takes time.
    """
    span = timeline.end if timeline.period is None else timeline.period
    return busy_seconds(timeline, once=True) / span if span > 0.0 else np.zeros(len(timeline.resources))


def moved_bytes(timeline: Timeline) -> tuple[int, ...]:
    """Bytes that pass every resource, as exact integers. Shape (resources,)."""
    acts = timeline.activities
    moved = np.zeros(len(timeline.resources), dtype=object)
    sent = acts.kind != ActivityKind.RUN
    np.add.at(moved, acts.resource[sent], acts.bytes[sent].astype(object) * acts.count[sent].astype(object))
    return tuple(moved.tolist())


def traffic(timeline: Timeline) -> int:
    """Bytes that arrive at devices."""
    moved = zip(timeline.resources, moved_bytes(timeline), strict=True)
    return sum(size for resource, size in moved if resource.kind == "receive_port")


def bytes_held(timeline: Timeline) -> IntArray:
    """The largest number of bytes that every resource holds at any time. Shape (resources,).

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


def bytes_over_time(timeline: Timeline, resource: int) -> tuple[FloatArray, IntArray]:
    """Bytes that a resource holds over time: the moments at which they change, and the bytes from each one to the next.

    If time is counted in steps, a moment is a step, and the bytes are those held while the step runs.

    Returns
    -------
    tuple
        Moments, ascending, from the start or earlier; bytes. Both of shape (moments,).
    """
    if timeline.unit == "steps":
        moments = np.arange(len(timeline.activities), dtype=np.float64)
        return moments, _held_at(timeline, resource, moments, moments)
    lives = timeline.lifetimes
    mine = lives.resource == resource
    changes = np.concatenate([[0.0], lives.begin[mine], lives.end[mine]])
    moments = distinct(np.clip(changes[np.isfinite(changes)], 0.0, None))
    return moments, _held_at(timeline, resource, moments, moments)


def bytes_after_steps(timeline: Timeline, resource: int) -> IntArray:
    """Bytes that a resource holds after each step. Shape (steps,)."""
    steps = np.arange(len(timeline.activities), dtype=np.float64)
    return _held_at(timeline, resource, steps + 0.5, steps + 1.0)


def _held_at(timeline: Timeline, resource: int, begun: FloatArray, ended: FloatArray) -> IntArray:
    """Bytes of the storages that have begun by one moment and not ended by another. Shape (moments,)."""
    lives = timeline.lifetimes
    mine = np.flatnonzero(lives.resource == resource)
    totals = []
    for column, moments in ((lives.begin, begun), (lives.end, ended)):
        order = mine[np.argsort(column[mine], kind="stable")]
        sums = np.concatenate([[0], np.cumsum(lives.bytes[order])])
        totals.append(sums[np.searchsorted(column[order], moments, side="right")])
    held: IntArray = totals[0] - totals[1]
    return held


def peak_bytes(timeline: Timeline) -> int:
    """The largest number of bytes that any resource holds at any time."""
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
    """Joules of all devices until the last end, or over one period; None if the watts of a device are unknown."""
    devices = [row for row, resource in enumerate(timeline.resources) if resource.kind == "device"]
    known = [value for value in map(joules(timeline).__getitem__, devices) if value is not None]
    return sum(known, 0.0) if len(known) == len(devices) else None


def joules(timeline: Timeline) -> list[float | None]:
    """Joules of every resource until the last end, or over one period; None where its watts are unknown."""
    span = timeline.end if timeline.period is None else timeline.period
    found: list[float | None] = []
    for resource, busy in zip(timeline.resources, busy_seconds(timeline, once=True).tolist(), strict=True):
        watts = resource.watts
        found.append(None if watts is None else watts[0] * max(0.0, span - busy) + watts[1] * busy)
    return found


_MEASURES = (makespan, bottleneck, latency, throughput, peak_bytes, total_bytes, traffic, energy)
MEASURES: Mapping[str, Callable[[Timeline], float | int | None]] = {each.__name__: each for each in _MEASURES}
"""What can be read from a timeline, by name; None where a timeline does not say it."""

Wait = Literal["nothing", "data"] | ResourceKind


def critical_rows(timeline: Timeline) -> list[tuple[tuple[int, ...], Wait]]:
    """Walk back from the last end, from each activity to one that it had to wait for.

    An activity waits for its causes, and for the previous activity on an exclusive resource. Of those that end when it
    starts, it is the one whose own chain without a pause began first; if none does, it is the one that ends last. Of
    activities that take no time at one moment, the earlier along the data comes first.

    Returns
    -------
    list
        In order of time: the rows of each run or transfer (both of its ends), and what it waited for: its ``"data"``,
        or what held its ``"device"``, ``"send_port"`` or another of its resources before; ``"nothing"`` for the first.
    """
    acts = timeline.activities
    runs = acts.kind == ActivityKind.RUN
    if not runs.any():
        return []
    start, end, twin = acts.start.tolist(), acts.end.tolist(), acts.twin.tolist()
    causes, previous = acts.causes.lists(), timeline.before.tolist()
    places = [timeline.resources[place].kind for place in acts.resource.tolist()]
    since, back = acts.start.tolist(), dict[int, tuple[Wait, int]]()

    def ends_of(row: int) -> tuple[int, ...]:
        return (row,) if twin[row] < 0 else (min(row, twin[row]), max(row, twin[row]))

    for row in np.lexsort((acts.rank, acts.end, acts.start)).tolist():
        rows = ends_of(row)
        waits: list[tuple[Wait, int]] = [("data", cause) for cause in causes[row]]
        waits += [(places[each], previous[each]) for each in rows if previous[each] >= 0]
        without_pause = [each for each in waits if end[each[1]] >= start[row]]
        if without_pause:
            chosen = min(without_pause, key=lambda each: since[each[1]])
            since[row] = min(start[row], since[chosen[1]])
            back[row] = chosen
        elif waits:
            back[row] = max(waits, key=lambda each: end[each[1]])
    current = int(np.argmax(np.where(runs, acts.end, -np.inf)))
    path: list[tuple[tuple[int, ...], Wait]] = []
    while current in back:
        wait, earlier = back.pop(current)  # a schedule that breaks the rules could lead in a circle
        path.append((ends_of(current), wait))
        current = earlier
    return [(ends_of(current), "nothing"), *reversed(path)]
