"""What a pipeline's result means, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from opweave.adapters.units import precise_seconds, readable_bytes, readable_share
from opweave.problems.pipeline import Pipeline, PipelineDetails, Stages
from opweave.problems.pipeline_shortage import shortage
from opweave.problems.result import Result, Status

FULL = 0.95
"""Memory filled to this share is worth a sentence."""

SAME = 1e-6


def alone(problem: Pipeline) -> tuple[str, float] | None:
    """The fastest device that may run the whole model by itself, and its seconds; None where there is none."""
    names = problem.running_order
    needed = problem.memory_of(names)
    found = []
    for device in problem.usable_devices:
        limit = problem.memory_limits[device]
        if (limit is None or needed <= limit) and all(device in problem.known_seconds[name] for name in names):
            found.append((sum(problem.known_seconds[name][device] for name in names), device))
    if not found:
        return None
    seconds, device = min(found)
    return device, seconds


def unplanned(problem: Pipeline, result: Result[Stages]) -> str:
    """Say why there is no plan."""
    reason = result.reason or shortage(problem)
    if result.status is Status.INFEASIBLE:
        return f"No pipeline obeys all rules: {reason}." if reason else "No pipeline obeys all rules."
    stopped = result.termination.value.replace("_", " ")
    return f"No pipeline was found ({stopped}){f': {reason}' if reason else ''}."


def sentences(problem: Pipeline, result: Result[Stages], details: PipelineDetails) -> Iterator[str]:
    """Explain a plan."""
    used, there = len(details.stages), len(problem.cluster.devices)
    rate = "" if details.inputs_per_second is None else f", {details.inputs_per_second:,.4g} inputs per second"
    pause = precise_seconds(details.bottleneck_seconds)
    stages = "stage" if used == 1 else "stages"
    yield f"The pipeline has {used} {stages} on {there} devices and gives a result every {pause}{rate}."
    yield _split(problem, details)
    if used > 1:
        yield _bottleneck(details)
        yield f"A single input takes {precise_seconds(details.latency_seconds)} from end to end."
    for use in details.stages:
        if use.memory_limit and use.memory_bytes >= FULL * use.memory_limit:
            share = readable_share(use.memory_bytes / use.memory_limit)
            yield f"Memory binds on {use.device!r}: {readable_bytes(use.memory_bytes)} of its limit ({share})."
    yield _proof(result)


def _split(problem: Pipeline, details: PipelineDetails) -> str:
    """Whether splitting is worth it."""
    whole = alone(problem)
    if whole is None:
        return "No single device may run the whole model, so it has to be split."
    device, seconds = whole
    if len(details.stages) == 1:
        return f"Splitting does not pay: {details.stages[0].device!r} alone holds the model, and nothing is sent."
    if details.bottleneck_seconds < seconds * (1 - SAME):
        gain = seconds / details.bottleneck_seconds
        return (
            f"Splitting pays: {device!r} alone takes {precise_seconds(seconds)} for each input, {gain:.2f} times as "
            "long."
        )
    return f"Splitting is not needed: {device!r} alone takes {precise_seconds(seconds)} for each input."


def _bottleneck(details: PipelineDetails) -> str:
    number = details.bottleneck_stage
    if details.bottleneck == "channel":
        return "The bottleneck is the shared channel, which carries every transfer."
    if number is None:
        return "Nothing takes any time."
    use = details.stages[number]
    if details.bottleneck == "compute":
        return f"The bottleneck is computing in stage {number + 1} on {use.device!r}."
    onto = details.stages[number + 1].device
    size = readable_bytes(use.sent_bytes)
    return f"The bottleneck is the transfer of {size} from {use.device!r} to {onto!r} (after stage {number + 1})."


def _proof(result: Result[Stages]) -> str:
    if result.status is Status.OPTIMAL:
        return "It is proved that no choice of cuts and devices is better."
    if result.gap is None:
        return "Nothing is proved about how much better a pipeline could be."
    return f"No pipeline can be more than {readable_share(result.gap)} better."
