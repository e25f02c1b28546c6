"""A Chrome trace of any timeline: tracks for devices and ports, arrows along the data, and counters of the memory.

Open it in https://ui.perfetto.dev or chrome://tracing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opweave.adapters.report.timeline_tables import PORT_WORDS, Notes, activity_of, lanes, rows_of
from opweave.problems.graph import OpGraph
from opweave.problems.measures import bytes_after_steps, bytes_over_time
from opweave.problems.timeline import ActivityKind, Timeline

SECOND, STEP = 1e6, 1e3
"""Microseconds of the trace per second, and per step if the problem has no seconds."""

SAID = ("operator", "tensor", "device", "start", "end")
"""What a block says by its name and its place."""

BUSY = 0.8
"""The part of a step in which its operator runs; the rest shows the bytes between two steps."""


def timeline_trace(graph: OpGraph, timeline: Timeline, critical: frozenset[int], notes: Notes) -> dict[str, object]:
    """Draw a timeline as a trace.

    An arrow leads from the run that makes a tensor, through the ports of sender and receiver, to every run that reads
    it. A resource that does several things at a time has as many tracks as it needs. Counters show the bytes that are
    held, with an entry whenever these change.

    Parameters
    ----------
    graph
        The graph that the timeline's names refer to.
    timeline
        What happens.
    critical
        Rows of the critical path; empty if none is known.
    notes
        Further details of an activity.

    Returns
    -------
    dict
        The Trace Event Format as plain data.
    """
    return {"traceEvents": _Drawing(graph, timeline, critical, notes).events, "displayTimeUnit": "ms"}


class _Drawing:
    """The events of a trace; their times are in microseconds, as the format requires."""

    def __init__(self, graph: OpGraph, timeline: Timeline, critical: frozenset[int], notes: Notes) -> None:
        self.events: list[dict[str, object]] = []
        self._graph, self._timeline, self._notes = graph, timeline, notes
        self._acts = timeline.activities
        self._critical, self._flows = critical, 0
        self._scale = SECOND if timeline.unit == "seconds" else STEP
        self._share = 1.0 if timeline.unit == "seconds" else BUSY
        self._event("process_name", "M", tid=0, args={"name": f"opweave: {graph.name}"})
        self._track = self._tracks()
        for row in np.lexsort((timeline.activities.rank, timeline.activities.start)).tolist():
            self._block(row)
        self._arrows()
        self._memory()

    def _event(self, name: str, phase: str, **more: object) -> None:
        self.events.append({"name": name, "ph": phase, "pid": 1, **more})

    def _tracks(self) -> list[int]:
        """Number the tracks, those of one device together; return the track of every activity."""
        resources, used = self._timeline.resources, self._timeline.activities.resource
        lane = lanes(self._timeline)
        number: dict[tuple[int, int], int] = {}
        for row, title in rows_of(self._timeline, len(resources)):
            kind, name = resources[row].kind, resources[row].name
            mine = np.unique(lane[used == row]).tolist() or [0] * (kind == "device")
            for each in mine:
                number[row, each] = len(number) + 1
                word = f"{name} {title}" if kind in PORT_WORDS else name
                told = {"name": f"{word} ({each + 1})" if each else word}
                self._event("thread_name", "M", tid=number[row, each], args=told)
        return [number[pair] for pair in zip(used.tolist(), lane.tolist(), strict=True)]

    def _block(self, row: int) -> None:
        about = {**activity_of(self._graph, self._timeline, row), **self._notes(row)}
        if "operator" in about and self._critical:
            about["critical"] = row in self._critical
        start, end = (float(column[row]) * self._scale for column in (self._acts.start, self._acts.end))
        told = {key: value for key, value in about.items() if value is not None and key not in SAID}
        length = max(0.0, end - start) * self._share
        self._event(self._name(row), "X", tid=self._track[row], ts=start, dur=length, args=told)

    def _name(self, row: int) -> str:
        acts = self._acts
        name, count = self._timeline.name(int(acts.what[row])), int(acts.count[row])
        name = name if count == 1 or acts.kind[row] != ActivityKind.RUN else f"{name} x{count}"
        return name if self._timeline.period is None else f"input {int(acts.round[row]) + 1}, {name}"

    def _arrows(self) -> None:
        timeline, acts = self._timeline, self._acts
        for row in np.flatnonzero((acts.kind == ActivityKind.SEND) & (acts.twin >= 0)).tolist():
            made = acts.causes[row].tolist()
            self._flow(self._name(row), [*made[:1], row, int(acts.twin[row])])
        effect, cause = acts.causes.heads(), acts.causes.items
        brings = (acts.kind[cause] == ActivityKind.RECEIVE) & (acts.kind[effect] == ActivityKind.RUN)
        for entry in np.flatnonzero(brings).tolist():
            brought = int(acts.brought[entry])
            name = self._name(int(cause[entry])) if brought < 0 else timeline.name(brought)
            self._flow(name, [int(cause[entry]), int(effect[entry])])

    def _flow(self, name: str, rows: Sequence[int]) -> None:
        """Draw an arrow through the middles of two or more blocks, which follow each other in time."""
        acts = self._acts
        self._flows += 1
        for position, row in enumerate(rows):
            start, end = float(acts.start[row]), float(acts.end[row])
            more: dict[str, object] = {"tid": self._track[row]}
            more["ts"] = (start + self._share * (end - start) / 2) * self._scale
            phase = "s" if position == 0 else "t"
            if position == len(rows) - 1:
                phase, more["bp"] = "f", "e"  # ends in the enclosing block, not at the next one
            self._event(name, phase, cat="data", id=self._flows, **more)

    def _memory(self) -> None:
        """Add the bytes held at every change; if time is counted in steps, while each step runs and after it."""
        timeline = self._timeline
        for position, resource in enumerate(timeline.resources):
            name, (times, level) = f"bytes held by {resource.name}", bytes_over_time(timeline, position)
            if timeline.unit == "steps" and (timeline.lifetimes.resource == position).any():
                name, times = "live bytes", np.stack([times, times + BUSY], axis=1).ravel()
                level = np.stack([level, bytes_after_steps(timeline, position)], axis=1).ravel()
            elif (level == level[:1]).all():
                continue  # it never changes
            for time, value in zip(times.tolist(), level.tolist(), strict=True):
                self._event(name, "C", ts=time * self._scale, args={"live": value})
