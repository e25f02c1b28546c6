"""What a pipeline's result means, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from opweave.adapters.report.units import precise_seconds, readable_bytes, readable_rate
from opweave.adapters.report.wording import SAME, Alone, memory_binds, proof_sentence
from opweave.problems.pipeline.spec import Pipeline, PipelineDetails, Stage, Stages
from opweave.problems.result import Result, Status
from opweave.problems.words import counted


def best_alone(problem: Pipeline) -> Alone | None:
    """The fastest device that may run the whole model by itself, all rules obeyed; None where there is none."""
    names = problem.running_order
    needed = problem.memory_of(names)
    found = []
    for device in problem.usable_devices:
        limit = problem.memory_limits[device]
        if (limit is None or needed <= limit) and all(device in problem.known_seconds[name] for name in names):
            found.append((sum(problem.known_seconds[name][device] for name in names), device))
    for seconds, device in sorted(found):
        if problem.evaluate(Stages(stages=(Stage(device=device, operators=names),))).feasible:
            return Alone(device, seconds)
    return None


def sentences(
    problem: Pipeline, result: Result[Stages], details: PipelineDetails, alone: Alone | None
) -> Iterator[str]:
    """Explain a plan."""
    if not details.stages:
        yield "The model has no operators, so there is nothing to run."
        return
    used, there = len(details.stages), len(problem.cluster.devices)
    rate = details.inputs_per_second
    speed = "" if rate is None else f", {readable_rate(rate)} inputs per second"
    pause = precise_seconds(details.bottleneck_seconds)
    yield f"The pipeline has {counted(used, 'stage')} on {there} devices and gives a result every {pause}{speed}."
    settled = result.status is Status.OPTIMAL and problem.stage_limit > 1
    yield _split(details, alone, settled=settled)
    if used > 1:
        yield _bottleneck(details)
        yield f"A single input takes {precise_seconds(details.latency_seconds)} from end to end."
    yield from memory_binds((use.device, use.memory_bytes, use.memory_limit) for use in details.stages)
    yield proof_sentence(result, "better", "pipeline")


def _split(details: PipelineDetails, alone: Alone | None, *, settled: bool) -> str:
    """Whether splitting is worth it; ``settled`` when splits were allowed and are proved to be no better."""
    if alone is None:
        return "No single device may run the whole model, so it has to be split."
    if len(details.stages) == 1:
        holds = f"{details.stages[0].device!r} alone holds the model, and nothing is sent."
        return f"Splitting does not pay: {holds}" if settled else f"The model is not split: {holds}"
    if details.bottleneck_seconds < alone.seconds * (1 - SAME):
        takes = f"Splitting pays: {alone.device!r} alone takes {precise_seconds(alone.seconds)} for each input"
        if details.inputs_per_second is None:
            return f"{takes}, the pipeline none."
        return f"{takes}, {alone.seconds * details.inputs_per_second:.2f} times as long."
    return f"Splitting is not needed: {alone.device!r} alone takes {precise_seconds(alone.seconds)} for each input."


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
