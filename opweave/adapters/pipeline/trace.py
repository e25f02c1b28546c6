"""Several inputs in a pipeline as a Chrome trace: a track for each device and each link, and arrows along an input."""

from __future__ import annotations

from opweave.adapters.trace import Spot, Trace
from opweave.problems.pipeline import Pipeline, PipelineDetails, Stages
from opweave.problems.pipeline_simulation import Event, simulate

MICROSECONDS = 1e6

TRACED_INPUTS = 12


def events_of(problem: Pipeline, details: PipelineDetails, inputs: int) -> tuple[Event, ...]:
    """Let some inputs follow each other through the stages."""
    compute = [use.compute_seconds for use in details.stages]
    transfer = [use.send_seconds for use in details.stages[:-1]]
    return simulate(compute, transfer, inputs, shared=problem.channel == "shared")


def trace_json(problem: Pipeline, stages: Stages, details: PipelineDetails) -> dict[str, object]:
    """Draw the first inputs as a trace; ``details`` are the stages'.

    Returns
    -------
    dict
        The Trace Event Format as plain data.
    """
    trace = Trace(f"opweave: {problem.graph.name}")
    names = [stage.device for stage in stages.stages]
    for number, name in enumerate(names):
        trace.track(name)
        if number + 1 < len(names):
            trace.track(_link(names, number))
    spots: dict[int, list[Spot]] = {}
    for event in events_of(problem, details, TRACED_INPUTS):
        use = details.stages[event.stage]
        track = _link(names, event.stage) if event.sends else names[event.stage]
        about = {"bytes": use.sent_bytes} if event.sends else {"operators": use.operators}
        trace.block(
            f"input {event.input + 1}",
            track,
            start=event.start * MICROSECONDS,
            duration=(event.end - event.start) * MICROSECONDS,
            details={"stage": event.stage + 1, **about},
        )
        spots.setdefault(event.input, []).append(Spot(track, (event.start + event.end) / 2 * MICROSECONDS))
    for number, along in spots.items():
        if len(along) > 1:
            trace.flow(f"input {number + 1}", along)
    return trace.to_json()


def _link(names: list[str], number: int) -> str:
    return f"{names[number]} to {names[number + 1]}"
