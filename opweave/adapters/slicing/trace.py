"""A slicing plan as a Chrome trace: for each device a track of what it computes and one of what it receives."""

from __future__ import annotations

from opweave.adapters.trace import Trace
from opweave.problems.slicing import Slicing, SlicingDetails

MICROSECONDS = 1e6


def trace_json(problem: Slicing, details: SlicingDetails) -> dict[str, object]:
    """Draw a plan as a trace.

    Returns
    -------
    dict
        The Trace Event Format as plain data.
    """
    trace = Trace(f"opweave: {problem.graph.name}")
    for device in problem.cluster.devices:
        trace.track(device.name)
        trace.track(f"{device.name} receives")
    shared = problem.channel == "shared"
    for step in details.steps:
        for name, share in step.shares.items():
            wait = step.airtime if shared else step.transfer_seconds[name]
            about = {"share": share, "dimension": step.dimension, "slowest": name == step.slowest}
            if step.bytes_in[name]:
                trace.block(
                    step.operator,
                    f"{name} receives",
                    start=step.start * MICROSECONDS,
                    duration=wait * MICROSECONDS,
                    details={"bytes": step.bytes_in[name]},
                )
            trace.block(
                step.operator,
                name,
                start=(step.start + wait) * MICROSECONDS,
                duration=step.compute_seconds[name] * MICROSECONDS,
                details=about,
            )
    return trace.to_json()
