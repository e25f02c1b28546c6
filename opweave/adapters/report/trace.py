"""Chrome traces, which Perfetto also reads: operators as blocks on tracks, numbers as counter tracks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

TraceEvent = dict[str, object]


class Spot(NamedTuple):
    """A moment within a block on a track, where an arrow begins or ends."""

    track: str
    time: float


class Trace:
    """Collects events in the Trace Event Format.

    Times are in microseconds, as the format requires. Open the JSON in https://ui.perfetto.dev or chrome://tracing.

    Examples
    --------
    >>> trace = Trace("opweave")
    >>> trace.block("conv", "device", start=0.0, duration=5.0, details={"bytes": 4})
    >>> trace.counter("live bytes", 0.0, {"live": 4})
    >>> [event["ph"] for event in trace.to_json()["traceEvents"]]
    ['M', 'M', 'X', 'C']
    """

    def __init__(self, process: str) -> None:
        self._events: list[TraceEvent] = [_metadata("process_name", 0, process)]
        self._tracks: dict[str, int] = {}
        self._flows = 0

    def track(self, name: str) -> int:
        """Make sure that a track exists, and return its number. Tracks keep the order of their first mention."""
        if name not in self._tracks:
            self._tracks[name] = len(self._tracks) + 1
            self._events.append(_metadata("thread_name", self._tracks[name], name))
        return self._tracks[name]

    def block(
        self, name: str, track: str, *, start: float, duration: float, details: Mapping[str, object] | None = None
    ) -> None:
        """Add a named block to a track."""
        thread = self.track(track)
        self._events.append(
            {
                "name": name,
                "ph": "X",
                "pid": 1,
                "tid": thread,
                "ts": start,
                "dur": duration,
                "args": dict(details or {}),
            }
        )

    def flow(self, name: str, spots: Sequence[Spot]) -> None:
        """Draw an arrow through two or more spots, which follow each other in time."""
        self._flows += 1
        for position, spot in enumerate(spots):
            phase = "s" if position == 0 else "f" if position == len(spots) - 1 else "t"
            event: TraceEvent = {"name": name, "cat": "data", "ph": phase, "id": self._flows, "pid": 1}
            event |= {"tid": self.track(spot.track), "ts": spot.time}
            if phase == "f":
                event["bp"] = "e"  # ends in the enclosing block, not at the next one
            self._events.append(event)

    def counter(self, name: str, time: float, values: Mapping[str, float]) -> None:
        """Set the values of a counter track from a time on; several values are stacked."""
        self._events.append({"name": name, "ph": "C", "pid": 1, "ts": time, "args": dict(values)})

    def to_json(self) -> dict[str, object]:
        """Return the whole trace as plain data for ``json.dumps``."""
        return {"traceEvents": list(self._events), "displayTimeUnit": "ms"}


def _metadata(what: str, thread: int, name: str) -> TraceEvent:
    return {"name": what, "ph": "M", "pid": 1, "tid": thread, "args": {"name": name}}
