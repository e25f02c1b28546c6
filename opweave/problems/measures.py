"""Figures read from a timeline, by name. A problem's objective is one of them; its tables show the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray, distinct
from opweave.problems.solution import Details
from opweave.problems.spec import FrozenDict, Many, Name, Seconds, Spec
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


def busy_seconds(timeline: Timeline) -> FloatArray:
    """Seconds that every resource is busy; overlapping activities count separately. Shape (resources,)."""
    acts = timeline.activities
    return np.bincount(acts.resource, acts.end - acts.start, minlength=len(timeline.resources)).astype(np.float64)


def utilisation(timeline: Timeline) -> FloatArray:
    """The share of time for which every resource is busy, until the last end or in each period. Shape (resources,).

    Overlapping activities count separately, so a share may exceed 1. It is 0 if nothing takes time.
    """
    span = timeline.end if timeline.period is None else timeline.period
    return _busy_once(timeline) / span if span > 0.0 else np.zeros(len(timeline.resources))


def _busy_once(timeline: Timeline) -> FloatArray:
    """Seconds that every resource is busy; if inputs follow each other, for one input. Shape (resources,)."""
    acts = timeline.activities
    once = (acts.round == 0) | (timeline.period is None)
    return np.bincount(acts.resource[once], (acts.end - acts.start)[once], minlength=len(timeline.resources)).astype(
        np.float64
    )


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
    for resource, busy in zip(timeline.resources, _busy_once(timeline).tolist(), strict=True):
        watts = resource.watts
        found.append(None if watts is None else watts[0] * max(0.0, span - busy) + watts[1] * busy)
    return found


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


Wait = Literal["nothing", "data"] | ResourceKind


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticalStep:
    """One operator or transfer of a critical path; a dataclass, because a path may have a step for every operator.

    Attributes
    ----------
    operator
        The operator that runs; None for a transfer.
    tensor, consumer
        The tensor that is sent and, if it is sent for one reader, that reader; None for an operator.
    source, target
        Devices of the transfer; for an operator, both are its device.
    start, end
        Seconds.
    waited_for
        What the step before it in the path was to it: its ``"data"``, or what held its ``"device"``, ``"send_port"`` or
        another of its resources before; ``"nothing"`` for the first step.
    """

    __pydantic_config__ = Spec.model_config

    operator: Name | None = None
    tensor: Name | None = None
    consumer: Name | None = None
    source: Name
    target: Name
    start: Seconds
    end: Seconds
    waited_for: Wait


class DeviceDetails(Details):
    """How a schedule uses the devices.

    Attributes
    ----------
    makespan
        Latest end of all runs, in seconds; 0 for a graph without operators.
    ends
        Latest end of every operator, in seconds.
    busy_seconds, idle_seconds
        By device, up to the makespan.
    send_seconds, receive_seconds
        By device: the sum of the transfers that the schedule makes necessary. On devices without ports, transfers may
        overlap, so the sum may exceed the makespan.
    bytes_in, bytes_out
        Bytes that every device receives and sends.
    memory_bytes, memory_limits
        Bytes that every device holds, and the most that it may hold (side constraints included; None for no limit).
    transfer_count
        Number of transfers that the schedule makes necessary.
    critical_path
        Steps from the beginning to the makespan. No step could start before the step in front of it had ended. If a
        step starts later than that, nothing in the plan explains the delay.
    """

    makespan: Seconds
    ends: FrozenDict[Name, Seconds]
    busy_seconds: FrozenDict[Name, Seconds]
    idle_seconds: FrozenDict[Name, Seconds]
    send_seconds: FrozenDict[Name, Seconds]
    receive_seconds: FrozenDict[Name, Seconds]
    bytes_in: FrozenDict[Name, int]
    bytes_out: FrozenDict[Name, int]
    memory_bytes: FrozenDict[Name, int]
    memory_limits: FrozenDict[Name, int | None]
    transfer_count: int
    critical_path: Many[CriticalStep]


def critical_rows(timeline: Timeline) -> list[tuple[tuple[int, ...], Wait]]:
    """Walk back from the last end, from each activity to the latest-ending one that it had to wait for.

    An activity waits for its causes, and for the previous activity on an exclusive resource.

    Returns
    -------
    list
        In order of time: the rows of each run or transfer (both of its ends), and what it waited for.
    """
    acts = timeline.activities
    runs = acts.kind == ActivityKind.RUN
    if not runs.any():
        return []
    waits = _Waits(timeline)
    current = int(np.argmax(np.where(runs, acts.end, -np.inf)))
    path: list[tuple[tuple[int, ...], Wait]] = []
    while chain := waits.explained(current):
        for wait, previous in chain:
            path.append((waits.ends_of(current), wait))
            current = previous
    return [(waits.ends_of(current), "nothing"), *reversed(path)]


class _Waits:
    """What each activity waited for.

    A plan does not say which of several activities that take no time at one moment comes first. Each may have come
    behind any other on its resource that does not depend on it.
    """

    def __init__(self, timeline: Timeline) -> None:
        acts, exclusive = timeline.activities, timeline.exclusive
        self._start, self._end, self._twin = acts.start.tolist(), acts.end.tolist(), acts.twin.tolist()
        self._causes, self._before = acts.causes.lists(), timeline.before.tolist()
        self._resource, self._places = acts.resource.tolist(), [each.kind for each in timeline.resources]
        self._seen: set[int] = set()  # a schedule that breaks the rules could lead in a circle
        self._instants: dict[tuple[int, float], list[int]] = {}
        for row in np.flatnonzero((acts.start == acts.end) & (acts.start > 0.0) & exclusive[acts.resource]).tolist():
            self._instants.setdefault((self._resource[row], self._start[row]), []).append(row)

    def ends_of(self, row: int) -> tuple[int, ...]:
        """The activity and, if it is a transfer, its other end."""
        other = self._twin[row]
        return (row,) if other < 0 else (min(row, other), max(row, other))

    def explained(self, row: int) -> list[tuple[Wait, int]]:
        """The way back to the next activity that takes time, if one ends here; else one step; nothing at the start."""
        self._seen.update(self.ends_of(row))
        first, back = self._before_it(row), dict[int, tuple[Wait, int]]()
        ahead = [(row, *each) for each in reversed(first)]
        while ahead:
            later, wait, here = ahead.pop()
            if here in back or self._end[here] < self._start[later]:
                continue
            back[here] = (wait, later)
            if self._start[here] < self._end[here]:
                chain = []
                while here != row:
                    wait, later = back[here]
                    chain.append((wait, here))
                    self._seen.update(self.ends_of(here))
                    here = later
                return chain[::-1]
            ahead += [(here, *each) for each in reversed(self._before_it(here))]
        return first[:1]

    def _before_it(self, row: int) -> list[tuple[Wait, int]]:
        """What an activity may have waited for, the latest first."""
        rows = self.ends_of(row)
        found: list[tuple[Wait, int]] = [("data", cause) for cause in self._causes[rows[0]]]
        found += [(self._places[self._resource[each]], self._before[each]) for each in rows if self._before[each] >= 0]
        for each in rows:
            others = self._instants.get((self._resource[each], self._start[each]), [])
            if len(others) > 1 and self._start[each] == self._end[each]:
                place = self._places[self._resource[each]]
                found += [(place, other) for other in others if not self._depends(other, each)]
        return sorted((each for each in found if each[1] not in self._seen), key=lambda each: -self._end[each[1]])

    def _depends(self, later: int, earlier: int) -> bool:
        """Whether one activity of a moment waits for another by way of the data."""
        ahead, known = [later], {later}
        while ahead and earlier not in known:
            fresh = {each for each in self._causes[ahead.pop()] if self._start[each] == self._start[later]} - known
            known |= fresh
            ahead += fresh
        return earlier in known


def critical_path(timeline: Timeline) -> tuple[CriticalStep, ...]:
    """The critical rows with the names of operators, tensors and devices."""
    acts, texts = timeline.activities, timeline.names.texts
    path = critical_rows(timeline)
    first = np.asarray([rows[0] for rows, _ in path], dtype=np.int64)
    sent = acts.kind[first] != int(ActivityKind.RUN)
    columns = (sent, acts.what[first], acts.reader[first], acts.start[first], acts.end[first])
    places = [timeline.resources[place].name for place in acts.resource.tolist()]
    return tuple(
        CriticalStep(
            operator=None if transfer else texts[what],
            tensor=texts[what] if transfer else None,
            consumer=None if reader < 0 else texts[reader],
            source=places[rows[0]],
            target=places[rows[-1]],
            start=start,
            end=end,
            waited_for=wait,
        )
        for (rows, wait), transfer, what, reader, start, end in zip(
            path, *(column.tolist() for column in columns), strict=True
        )
    )
