"""A schedule as a plan for people and programs: every operator and transfer with its times, and a row per device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from opweave.adapters.report.units import precise_seconds, readable_bytes, readable_share
from opweave.problems.placement.spec import Placement, PlacementDetails, Schedule, Transfer


def transfers_of(problem: Placement, schedule: Schedule, details: PlacementDetails) -> tuple[Transfer, ...]:
    """Return every transfer of a schedule by its start; those that it may leave out are added.

    Where transfers do not share ports, a schedule need not list them: each starts when its tensor is there.
    """
    if problem.transfers != "delay":
        return tuple(sorted(schedule.transfers, key=lambda one: (one.start, one.end)))
    graph, cluster = problem.graph, problem.cluster
    listed = {(one.tensor, one.source, one.target) for one in schedule.transfers}
    routes = dict.fromkeys(
        (tensor, schedule.device[graph.producer[tensor]], schedule.device[op.id])
        for op in graph.operators
        for tensor in op.inputs
        if tensor in graph.producer and schedule.device[graph.producer[tensor]] != schedule.device[op.id]
    )
    sent = list(schedule.transfers)
    for tensor, source, target in routes:
        if (tensor, source, target) in listed:
            continue
        size = graph.tensors[graph.tensor_index[tensor]].bytes
        start = details.ends[graph.producer[tensor]]
        end = start + cluster.transfer_seconds(size, source, target)
        sent.append(Transfer(tensor=tensor, source=source, target=target, start=start, end=end))
    return tuple(sorted(sent, key=lambda one: (one.start, one.end)))


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """What a plan asks of one device; shares are of the makespan, None for a plan that takes no time."""

    name: str
    operators: int
    busy_seconds: float
    idle_seconds: float
    busy_share: float | None
    send_share: float | None
    receive_share: float | None
    bytes_in: int
    bytes_out: int
    memory_bytes: int
    memory_limit: int | None


def device_uses(problem: Placement, schedule: Schedule, details: PlacementDetails) -> list[DeviceUse]:
    """List what a plan asks of each device, in the cluster's order."""
    count = Counter(schedule.device.values())

    def share(seconds: float) -> float | None:
        return seconds / details.makespan if details.makespan > 0 else None

    return [
        DeviceUse(
            name=name,
            operators=count[name],
            busy_seconds=details.busy_seconds[name],
            idle_seconds=details.idle_seconds[name],
            busy_share=share(details.busy_seconds[name]),
            send_share=share(details.send_seconds[name]),
            receive_share=share(details.receive_seconds[name]),
            bytes_in=details.bytes_in[name],
            bytes_out=details.bytes_out[name],
            memory_bytes=details.memory_bytes[name],
            memory_limit=details.memory_limits[name],
        )
        for name in (device.name for device in problem.cluster.devices)
    ]


def device_table(uses: Sequence[DeviceUse]) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Write devices as headings and rows."""
    headings = ("device", "operators", "busy", "idle", "sends", "receives", "bytes out", "bytes in", "memory", "limit")
    return headings, [
        (
            use.name,
            f"{use.operators:,}",
            f"{precise_seconds(use.busy_seconds)} ({readable_share(use.busy_share)})",
            precise_seconds(use.idle_seconds),
            readable_share(use.send_share),
            readable_share(use.receive_share),
            readable_bytes(use.bytes_out),
            readable_bytes(use.bytes_in),
            readable_bytes(use.memory_bytes),
            "-" if use.memory_limit is None else readable_bytes(use.memory_limit),
        )
        for use in uses
    ]


def run_order(schedule: Schedule, details: PlacementDetails) -> list[str]:
    """List the operators by start; of several at one time, the one that ends first comes first."""
    return sorted(schedule.start, key=lambda name: (schedule.start[name], details.ends[name]))


def plan_json(problem: Placement, schedule: Schedule, details: PlacementDetails) -> dict[str, object]:
    """Write a schedule as plain data; ``details`` are the schedule's.

    Returns
    -------
    dict
        ``makespan_seconds``; ``devices`` (what the plan asks of each); ``operators`` by start, each with ``operator``,
        ``kind``, ``device``, ``start``, ``end`` and ``critical``; ``transfers`` by start; all times in seconds.
    """
    kinds = {op.id: op.kind for op in problem.graph.operators}
    critical = {step.operator for step in details.critical_path}
    return {
        "model": problem.graph.name,
        "assumptions": problem.assumptions(),
        "makespan_seconds": details.makespan,
        "devices": [
            {field: getattr(use, field) for field in DeviceUse.__slots__}
            for use in device_uses(problem, schedule, details)
        ],
        "operators": [
            {
                "operator": name,
                "kind": kinds[name],
                "device": schedule.device[name],
                "start": schedule.start[name],
                "end": details.ends[name],
                "critical": name in critical,
            }
            for name in run_order(schedule, details)
        ],
        "transfers": [
            {
                "tensor": sent.tensor,
                "consumer": sent.consumer,
                "source": sent.source,
                "target": sent.target,
                "start": sent.start,
                "end": sent.end,
            }
            for sent in transfers_of(problem, schedule, details)
        ],
    }
