"""A batched schedule as a plan for people and programs: every batch and transfer with its times, a row per device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from opweave.adapters.report.units import precise_seconds, readable_bytes, readable_share
from opweave.problems.batched_mapping.spec import Batch, BatchedDetails, BatchedMapping, BatchedSchedule, BatchTransfer


def transfers_of(problem: BatchedMapping, schedule: BatchedSchedule) -> tuple[BatchTransfer, ...]:
    """Return every transfer of a schedule by its start; those that it leaves out start when their tensor is there."""
    if schedule.transfers:
        return tuple(sorted(schedule.transfers, key=lambda sent: (sent.start, sent.end)))
    by_operator: dict[str, list[tuple[Batch, frozenset[int]]]] = {}
    for batch in schedule.batches:
        by_operator.setdefault(batch.operator, []).append((batch, frozenset(batch.inputs)))
    sent = []
    for op in problem.graph.operators:
        for tensor in dict.fromkeys(op.inputs):
            for made, written in by_operator.get(problem.graph.producer.get(tensor, ""), ()):
                for reader, read in by_operator[op.id]:
                    inputs = sorted(written & read)
                    if not inputs or made.device == reader.device:
                        continue
                    seconds = problem.transfer_seconds(tensor, len(inputs), made.device, reader.device) or 0.0
                    sent.append(
                        BatchTransfer(
                            tensor=tensor,
                            consumer=op.id,
                            source=made.device,
                            target=reader.device,
                            inputs=tuple(inputs),
                            start=made.end,
                            end=made.end + seconds,
                        )
                    )
    return tuple(sorted(sent, key=lambda one: (one.start, one.end)))


@dataclass(frozen=True, slots=True)
class BatchedUse:
    """What a plan asks of one device; the share is of the makespan, None for a plan that takes no time."""

    name: str
    batches: int
    inputs: int
    mean_size: float | None
    busy_seconds: float
    busy_share: float | None
    bytes_in: int
    bytes_out: int
    memory_bytes: int
    memory_limit: int | None


def device_uses(problem: BatchedMapping, schedule: BatchedSchedule, details: BatchedDetails) -> list[BatchedUse]:
    """List what a plan asks of each device, in the cluster's order; inputs are counted once for each operator."""
    count = Counter(batch.device for batch in schedule.batches)
    inputs: Counter[str] = Counter()
    for batch in schedule.batches:
        inputs[batch.device] += len(batch.inputs)
    return [
        BatchedUse(
            name=name,
            batches=count[name],
            inputs=inputs[name],
            mean_size=inputs[name] / count[name] if count[name] else None,
            busy_seconds=details.busy_seconds[name],
            busy_share=details.busy_seconds[name] / details.makespan if details.makespan > 0 else None,
            bytes_in=details.bytes_in[name],
            bytes_out=details.bytes_out[name],
            memory_bytes=details.memory_bytes[name],
            memory_limit=details.memory_limits[name],
        )
        for name in (device.name for device in problem.cluster.devices)
    ]


def device_table(uses: Sequence[BatchedUse]) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Write devices as headings and rows."""
    headings = ("device", "batches", "inputs", "mean batch", "busy", "bytes out", "bytes in", "memory", "limit")
    return headings, [
        (
            use.name,
            f"{use.batches:,}",
            f"{use.inputs:,}",
            "-" if use.mean_size is None else f"{use.mean_size:.1f}",
            f"{precise_seconds(use.busy_seconds)} ({readable_share(use.busy_share)})",
            readable_bytes(use.bytes_out),
            readable_bytes(use.bytes_in),
            readable_bytes(use.memory_bytes),
            "-" if use.memory_limit is None else readable_bytes(use.memory_limit),
        )
        for use in uses
    ]


def run_order(schedule: BatchedSchedule) -> list[Batch]:
    """List the batches by start; of several at one time, the one that ends first comes first."""
    return sorted(schedule.batches, key=lambda batch: (batch.start, batch.end, batch.operator, batch.device))


def spans(inputs: Sequence[int]) -> str:
    """Write input numbers shortly.

    Examples
    --------
    >>> spans([0, 1, 2, 5, 7, 8])
    '0-2, 5, 7-8'
    """
    parts: list[list[int]] = []
    for number in sorted(inputs):
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def plan_json(problem: BatchedMapping, schedule: BatchedSchedule, details: BatchedDetails) -> dict[str, object]:
    """Write a schedule as plain data; ``details`` are the schedule's.

    Returns
    -------
    dict
        ``makespan_seconds``, ``inputs_per_second``; ``devices`` (what the plan asks of each); ``batches`` and
        ``transfers`` by start; all times in seconds.
    """
    critical = {(step.operator, step.source) for step in details.critical_path}
    kinds = {op.id: op.kind for op in problem.graph.operators}
    return {
        "model": problem.graph.name,
        "assumptions": problem.assumptions(),
        "makespan_seconds": details.makespan,
        "inputs_per_second": details.inputs_per_second,
        "devices": [
            {field: getattr(use, field) for field in BatchedUse.__slots__}
            for use in device_uses(problem, schedule, details)
        ],
        "batches": [
            {
                "operator": batch.operator,
                "kind": kinds[batch.operator],
                "device": batch.device,
                "inputs": list(batch.inputs),
                "start": batch.start,
                "end": batch.end,
                "critical": (batch.operator, batch.device) in critical,
            }
            for batch in run_order(schedule)
        ],
        "transfers": [
            {
                "tensor": sent.tensor,
                "consumer": sent.consumer,
                "source": sent.source,
                "target": sent.target,
                "inputs": list(sent.inputs),
                "start": sent.start,
                "end": sent.end,
            }
            for sent in transfers_of(problem, schedule)
        ],
    }
