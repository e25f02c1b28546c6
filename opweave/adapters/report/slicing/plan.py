"""A slicing plan for people and programs: every operator with its parts and times, and a row per device."""

from __future__ import annotations

from collections.abc import Sequence

from opweave.adapters.report.units import precise_seconds, readable_bytes, readable_share
from opweave.problems.slicing.spec import Slices, Slicing, SlicingDetails


def work_shares(details: SlicingDetails) -> dict[str, float]:
    """Share of the plan's length that every device computes."""
    return {
        name: seconds / details.latency if details.latency > 0 else 0.0
        for name, seconds in details.busy_seconds.items()
    }


def device_table(details: SlicingDetails) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Write devices as headings and rows."""
    parts = {name: sum(name in step.shares for step in details.steps) for name in details.busy_seconds}
    headings = ("device", "parts", "computes", "share", "receives", "bytes in", "peak memory", "limit")
    return headings, [
        (
            name,
            f"{parts[name]:,}",
            precise_seconds(details.busy_seconds[name]),
            readable_share(share),
            precise_seconds(details.receive_seconds[name]),
            readable_bytes(details.bytes_in[name]),
            readable_bytes(details.memory_bytes[name]),
            "-" if (limit := details.memory_limits[name]) is None else readable_bytes(limit),
        )
        for name, share in work_shares(details).items()
    ]


def plan_json(problem: Slicing, solution: Slices, details: SlicingDetails) -> dict[str, object]:
    """Write a plan as plain data; ``details`` are the plan's.

    Returns
    -------
    dict
        ``latency_seconds``; ``devices`` with their peaks; ``operators`` in running order, each with its dimension and
        cuts, and for every device that has a part its positions, seconds of waiting and computing, and bytes received.
    """
    return {
        "model": problem.graph.name,
        "assumptions": problem.assumptions(),
        "latency_seconds": details.latency,
        "gather_seconds": details.gather_seconds,
        "devices": [
            {
                "name": name,
                "busy_seconds": details.busy_seconds[name],
                "receive_seconds": details.receive_seconds[name],
                "bytes_in": details.bytes_in[name],
                "memory_bytes": details.memory_bytes[name],
                "memory_limit": details.memory_limits[name],
            }
            for name in solution.devices
        ],
        "operators": [
            {
                "operator": step.operator,
                "start": step.start,
                "end": step.end,
                "dimension": step.dimension,
                "cuts": list(solution.slices[step.operator].cuts),
                "slowest": step.slowest,
                "parts": [
                    {
                        "device": name,
                        "share": share,
                        "transfer_seconds": step.transfer_seconds[name],
                        "compute_seconds": step.compute_seconds[name],
                        "bytes_in": step.bytes_in[name],
                    }
                    for name, share in step.shares.items()
                ],
            }
            for step in details.steps
        ],
    }
