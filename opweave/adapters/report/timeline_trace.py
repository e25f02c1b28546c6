"""A Chrome trace of any timeline: tracks for devices and ports, arrows along the data, and counters of the memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from opweave.adapters.report.trace import Spot, Trace
from opweave.problems.graph import OpGraph
from opweave.problems.measures import bytes_after_steps, bytes_over_time
from opweave.problems.timeline import ActivityKind, Resource, ResourceKind, Timeline

SECOND, STEP = 1e6, 1e3
"""Microseconds of the trace per second, and per step if the problem has no seconds."""

BUSY = 0.8
"""The part of a step in which its operator runs; the rest shows the bytes between two steps."""

WORDS: Mapping[ResourceKind, str] = {
    "device": "{name}",
    "send_port": "{name} sends",
    "receive_port": "{name} receives",
    "link": "{name}",
    "channel": "{name}",
}
"""Name of the track of each kind of resource."""

Notes = Callable[[int], Mapping[str, object]]
"""The problem's notes on an activity, given its row."""


def lanes(activities: Iterable[tuple[str, float, float]]) -> list[int]:
    """Assign each (place, start, end) the first free lane of its place; the activities are sorted by start."""
    ends: dict[str, list[float]] = {}
    found = []
    for place, start, end in activities:
        taken = ends.setdefault(place, [])
        lane = next((index for index, until in enumerate(taken) if until <= start), len(taken))
        taken[lane : lane + 1] = [end]
        found.append(lane)
    return found


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
    return _Drawing(graph, timeline, critical, notes).trace.to_json()


class _Drawing:
    """A trace under construction."""

    def __init__(self, graph: OpGraph, timeline: Timeline, critical: frozenset[int], notes: Notes) -> None:
        self.trace = Trace(f"opweave: {graph.name}")
        self._graph, self._timeline, self._notes = graph, timeline, notes
        self._critical = critical
        self._scale = SECOND if timeline.unit == "seconds" else STEP
        self._share = 1.0 if timeline.unit == "seconds" else BUSY
        self._track = self._tracks()
        for row in np.lexsort((timeline.activities.rank, timeline.activities.start)).tolist():
            self._block(row)
        self._arrows()
        self._memory()

    def _tracks(self) -> list[str]:
        """The track of every activity; the tracks of one device stand together."""
        timeline, acts = self._timeline, self._timeline.activities
        order = np.lexsort((acts.rank, acts.end, acts.start)).tolist()
        places = [_word(timeline.resources[acts.resource[row]]) for row in order]
        spans = zip(places, acts.start[order].tolist(), acts.end[order].tolist(), strict=True)
        exclusive = [bool(timeline.exclusive[acts.resource[row]]) for row in order]
        chosen = [0 if alone else lane for alone, lane in zip(exclusive, lanes(spans), strict=True)]
        track = [""] * len(acts)
        used: dict[str, int] = {}
        for row, place, lane in zip(order, places, chosen, strict=True):
            track[row] = place if lane == 0 else f"{place} ({lane + 1})"
            used[place] = max(used.get(place, 0), lane)
        for device in dict.fromkeys(resource.name for resource in timeline.resources):
            for resource in (each for each in timeline.resources if each.name == device):
                place = _word(resource)
                if resource.kind == "device":
                    self.trace.track(place)
                for lane in range(used[place] + 1 if place in used else 0):
                    self.trace.track(place if lane == 0 else f"{place} ({lane + 1})")
        return track

    def _block(self, row: int) -> None:
        timeline, acts = self._timeline, self._timeline.activities
        start, end, what = float(acts.start[row]), float(acts.end[row]), int(acts.what[row])
        about: dict[str, object] = {}
        if acts.kind[row] == ActivityKind.RUN:
            if what < timeline.names.operators:
                about = {"kind": self._graph.operators[what].kind, "module": self._graph.operators[what].module}
            if self._critical:
                about["critical"] = row in self._critical
        else:
            about = self._moved(row)
        self.trace.block(
            self._name(row),
            self._track[row],
            start=start * self._scale,
            duration=max(0.0, end - start) * self._share * self._scale,
            details={**about, **self._notes(row)},
        )

    def _name(self, row: int) -> str:
        acts = self._timeline.activities
        name, count = self._timeline.name(int(acts.what[row])), int(acts.count[row])
        name = name if count == 1 or acts.kind[row] != ActivityKind.RUN else f"{name} x{count}"
        return name if self._timeline.period is None else f"input {int(acts.round[row]) + 1}, {name}"

    def _moved(self, row: int) -> dict[str, object]:
        timeline, acts = self._timeline, self._timeline.activities
        twin, reader = int(acts.twin[row]), int(acts.reader[row])
        about: dict[str, object] = {"bytes": int(acts.bytes[row]) * int(acts.count[row])}
        if twin >= 0:
            ends = (row, twin) if acts.kind[row] == ActivityKind.SEND else (twin, row)
            source, target = (timeline.resources[acts.resource[end]].name for end in ends)
            about = {"from": source, "to": target, **about}
        return about if reader < 0 else {**about, "for": timeline.name(reader)}

    def _arrows(self) -> None:
        timeline, acts = self._timeline, self._timeline.activities
        for row in np.flatnonzero((acts.kind == ActivityKind.SEND) & (acts.twin >= 0)).tolist():
            made = acts.causes[row].tolist()
            self.trace.flow(self._name(row), [self._spot(each) for each in (*made[:1], row, int(acts.twin[row]))])
        effect, cause = acts.causes.heads(), acts.causes.items
        brings = (acts.kind[cause] == ActivityKind.RECEIVE) & (acts.kind[effect] == ActivityKind.RUN)
        for entry in np.flatnonzero(brings).tolist():
            brought = int(acts.brought[entry])
            name = self._name(int(cause[entry])) if brought < 0 else timeline.name(brought)
            self.trace.flow(name, [self._spot(int(cause[entry])), self._spot(int(effect[entry]))])

    def _spot(self, row: int) -> Spot:
        acts = self._timeline.activities
        start, end = float(acts.start[row]), float(acts.end[row])
        return Spot(self._track[row], (start + self._share * (end - start) / 2) * self._scale)

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
                self.trace.counter(name, time * self._scale, {"live": value})


def _word(resource: Resource) -> str:
    return WORDS[resource.kind].format(name=resource.name)
