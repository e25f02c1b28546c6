"""Chrome traces (also read by Perfetto): operators as blocks on tracks, numbers as counter tracks."""

from __future__ import annotations

from collections.abc import Mapping

TraceEvent = dict[str, object]


class Trace:
    """Collects events in the Trace Event Format.

    Times are in microseconds, as the format has them. Open the JSON in https://ui.perfetto.dev or chrome://tracing.

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

    def block(
        self, name: str, track: str, *, start: float, duration: float, details: Mapping[str, object] | None = None
    ) -> None:
        """Add a named block to a track."""
        if track not in self._tracks:
            self._tracks[track] = len(self._tracks) + 1
            self._events.append(_metadata("thread_name", self._tracks[track], track))
        self._events.append(
            {
                "name": name,
                "ph": "X",
                "pid": 1,
                "tid": self._tracks[track],
                "ts": start,
                "dur": duration,
                "args": dict(details or {}),
            }
        )

    def counter(self, name: str, time: float, values: Mapping[str, float]) -> None:
        """Set the values of a counter track from a time on; several values are drawn stacked."""
        self._events.append({"name": name, "ph": "C", "pid": 1, "ts": time, "args": dict(values)})

    def to_json(self) -> dict[str, object]:
        """Return the whole trace as plain data for ``json.dumps``."""
        return {"traceEvents": list(self._events), "displayTimeUnit": "ms"}


def _metadata(what: str, thread: int, name: str) -> TraceEvent:
    return {"name": what, "ph": "M", "pid": 1, "tid": thread, "args": {"name": name}}
