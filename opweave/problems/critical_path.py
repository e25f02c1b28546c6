"""The critical path of a timeline, found backwards from the last end: each step leads to the latest of its causes."""

from __future__ import annotations

import numpy as np

from opweave.problems.device_details import CriticalStep, Wait
from opweave.problems.timeline import ActivityKind, Timeline


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
        CriticalStep.model_construct(  # nothing here comes from outside, and there may be a step per operator
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
