"""What the referees of all schedules measure: a table of the devices, and the critical path.

The path is found backwards from the last end: each step leads to the latest of its causes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from opweave.problems.solution import Details
from opweave.problems.spec import FrozenDict, Many, Name, Seconds, Spec
from opweave.problems.timeline import ActivityKind, ResourceKind, Timeline

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
    current = int(np.argmax(np.where(runs, acts.end, -np.inf)))
    end, twin, before = acts.end.tolist(), acts.twin.tolist(), timeline.before.tolist()
    starts, causes = acts.causes.start.tolist(), acts.causes.items.tolist()
    place = [each.kind for each in timeline.resources]
    resource = acts.resource.tolist()
    path: list[tuple[tuple[int, ...], Wait]] = []
    seen: set[int] = set()  # a schedule that breaks the rules could lead in a circle
    while True:
        other = twin[current]
        rows = (current,) if other < 0 else (min(current, other), max(current, other))
        seen.update(rows)
        found: list[tuple[Wait, int]] = [
            ("data", cause) for cause in causes[starts[rows[0]] : starts[rows[0] + 1]] if cause not in seen
        ]
        found += [(place[resource[row]], before[row]) for row in rows if before[row] >= 0 and before[row] not in seen]
        if not found:
            return [(rows, "nothing"), *reversed(path)]
        wait, previous = max(found, key=lambda pair: end[pair[1]])
        path.append((rows, wait))
        current = previous


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
