"""A schedule as a Chrome trace: a track for each device, send port and receive port, and arrows along the data."""

from __future__ import annotations

from collections.abc import Iterable

from opweave.adapters.placement.plan import run_order, transfers_of
from opweave.adapters.trace import Spot, Trace
from opweave.problems.placement import Placement, PlacementDetails, Schedule, Transfer

MICROSECONDS = 1e6


def trace_json(problem: Placement, schedule: Schedule, details: PlacementDetails) -> dict[str, object]:
    """Draw a schedule as a trace; ``details`` are the schedule's.

    An arrow leads from the operator that makes a tensor over the sender's and the receiver's port to every operator
    that reads the tensor there. Where transfers may overlap, a port has as many tracks as it needs.

    Returns
    -------
    dict
        The Trace Event Format as plain data.
    """
    sent = transfers_of(problem, schedule, details)
    out = dict(zip(sent, lanes((one.source, one.start, one.end) for one in sent), strict=True))
    into = dict(zip(sent, lanes((one.target, one.start, one.end) for one in sent), strict=True))
    trace = Trace(f"opweave: {problem.graph.name}")
    for device in problem.cluster.devices:
        trace.track(device.name)
        for lane in sorted({out[one] for one in sent if one.source == device.name}):
            trace.track(_port(device.name, "sends", lane))
        for lane in sorted({into[one] for one in sent if one.target == device.name}):
            trace.track(_port(device.name, "receives", lane))
    _draw_operators(trace, problem, schedule, details)
    readers = _readers(problem, schedule)
    for one in sent:
        sending = _draw_transfer(trace, problem, one, _port(one.source, "sends", out[one]))
        receiving = _draw_transfer(trace, problem, one, _port(one.target, "receives", into[one]))
        made = _spot(problem.graph.producer[one.tensor], schedule, details)
        trace.flow(one.tensor, [made, sending, receiving])
        for name in readers.get((one.tensor, one.target), ()):
            if one.consumer in (None, name):
                trace.flow(one.tensor, [receiving, _spot(name, schedule, details)])
    return trace.to_json()


def lanes(activities: Iterable[tuple[str, float, float]]) -> list[int]:
    """Give each (place, start, end), listed by start, the first lane of its place that is free."""
    ends: dict[str, list[float]] = {}
    found = []
    for place, start, end in activities:
        taken = ends.setdefault(place, [])
        lane = next((index for index, until in enumerate(taken) if until <= start), len(taken))
        taken[lane : lane + 1] = [end]
        found.append(lane)
    return found


def _draw_operators(trace: Trace, problem: Placement, schedule: Schedule, details: PlacementDetails) -> None:
    about = {op.id: op for op in problem.graph.operators}
    critical = {step.operator for step in details.critical_path}
    for name in run_order(schedule, details):
        trace.block(
            name,
            schedule.device[name],
            start=schedule.start[name] * MICROSECONDS,
            duration=max(0.0, details.ends[name] - schedule.start[name]) * MICROSECONDS,
            details={"kind": about[name].kind, "module": about[name].module, "critical": name in critical},
        )


def _draw_transfer(trace: Trace, problem: Placement, sent: Transfer, track: str) -> Spot:
    size = problem.graph.tensors[problem.graph.tensor_index[sent.tensor]].bytes
    route = {"from": sent.source, "to": sent.target, "bytes": size}
    details = route if sent.consumer is None else {**route, "for": sent.consumer}
    start, end = sent.start * MICROSECONDS, sent.end * MICROSECONDS
    trace.block(sent.tensor, track, start=start, duration=end - start, details=details)
    return Spot(track, (start + end) / 2)


def _spot(operator: str, schedule: Schedule, details: PlacementDetails) -> Spot:
    middle = (schedule.start[operator] + details.ends[operator]) / 2
    return Spot(schedule.device[operator], middle * MICROSECONDS)


def _readers(problem: Placement, schedule: Schedule) -> dict[tuple[str, str], list[str]]:
    """Operators that read a tensor on a device."""
    readers: dict[tuple[str, str], list[str]] = {}
    for op in problem.graph.operators:
        for tensor in dict.fromkeys(op.inputs):
            readers.setdefault((tensor, schedule.device[op.id]), []).append(op.id)
    return readers


def _port(device: str, does: str, lane: int) -> str:
    return f"{device} {does}" if lane == 0 else f"{device} {does} ({lane + 1})"
