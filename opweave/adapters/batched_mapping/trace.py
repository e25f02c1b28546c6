"""A batched schedule as a Chrome trace: a track for each device and its transfers, and arrows along the data."""

from __future__ import annotations

from opweave.adapters.batched_mapping.plan import run_order, spans, transfers_of
from opweave.adapters.placement.trace import MICROSECONDS, lanes
from opweave.adapters.trace import Spot, Trace
from opweave.problems.batched_mapping import Batch, BatchedDetails, BatchedMapping, BatchedSchedule


def trace_json(problem: BatchedMapping, schedule: BatchedSchedule, details: BatchedDetails) -> dict[str, object]:
    """Draw a schedule as a trace; ``details`` are the schedule's.

    An arrow leads from the batch that makes a tensor over what the sender sends to the batch that reads it. Transfers
    may overlap, so that a device has as many tracks for them as it needs.

    Returns
    -------
    dict
        The Trace Event Format as plain data.
    """
    sent = transfers_of(problem, schedule)
    lane_of = dict(zip(sent, lanes((one.source, one.start, one.end) for one in sent), strict=True))
    trace = Trace(f"opweave: {problem.graph.name}")
    for device in problem.cluster.devices:
        trace.track(device.name)
        for lane in sorted({lane_of[one] for one in sent if one.source == device.name}):
            trace.track(_port(device.name, lane))
    critical = {(step.operator, step.source) for step in details.critical_path}
    where: dict[tuple[str, str], Batch] = {}
    for batch in run_order(schedule):
        where[batch.operator, batch.device] = batch
        trace.block(
            f"{batch.operator} x{len(batch.inputs)}",
            batch.device,
            start=batch.start * MICROSECONDS,
            duration=max(0.0, batch.end - batch.start) * MICROSECONDS,
            details={"inputs": spans(batch.inputs), "critical": (batch.operator, batch.device) in critical},
        )
    for one in sent:
        track = _port(one.source, lane_of[one])
        size = problem.graph.tensors[problem.graph.tensor_index[one.tensor]].bytes * len(one.inputs)
        trace.block(
            one.tensor,
            track,
            start=one.start * MICROSECONDS,
            duration=(one.end - one.start) * MICROSECONDS,
            details={"from": one.source, "to": one.target, "for": one.consumer, "bytes": size},
        )
        made = where[problem.graph.producer[one.tensor], one.source]
        read = where[one.consumer, one.target]
        middle = Spot(track, (one.start + one.end) / 2 * MICROSECONDS)
        trace.flow(one.tensor, [_spot(made), middle, _spot(read)])
    return trace.to_json()


def _spot(batch: Batch) -> Spot:
    return Spot(batch.device, (batch.start + batch.end) / 2 * MICROSECONDS)


def _port(device: str, lane: int) -> str:
    return f"{device} sends" if lane == 0 else f"{device} sends ({lane + 1})"
