"""The rules of serving: they judge names, blocks of layers, memory, and whether tokens find a way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from opweave.problems.serving_flow.details import ServingDetails, ServingLink, ServingUse
from opweave.problems.serving_flow.play import Flow, Held, held, largest_flow, timeline
from opweave.problems.solution import Evaluation, Violation

if TYPE_CHECKING:
    from opweave.problems.serving_flow.spec import LayerBlocks, ServingFlow


def judge(problem: ServingFlow, solution: LayerBlocks) -> Evaluation[ServingDetails]:
    """Judge a plan against all rules except the side constraints."""
    blocks = held(problem, solution)
    if blocks is None:
        return Evaluation(objective=None, violations=tuple(_unusable(problem, solution)))
    flow = largest_flow(problem, blocks)
    broken = (*_too_much(problem, blocks), *_no_way(problem, blocks, flow))
    if not flow.tokens:
        return Evaluation(objective=None, violations=broken)
    judged = Evaluation(objective=float(1 / flow.tokens), violations=broken, details=_details(problem, blocks, flow))
    return judged.with_timeline(timeline(problem, blocks, flow))


def _unusable(problem: ServingFlow, solution: LayerBlocks) -> Iterator[Violation]:
    """Names that the problem does not have, and layers that are not consecutive."""
    for device, names in solution.operators.items():
        if device not in problem.cluster.device_index:
            yield Violation(rule="unknown", message=f"{device!r} holds layers, but the cluster does not have it")
        unknown = [name for name in names if name not in problem.layer_index]
        for name in unknown:
            yield Violation(rule="unknown", message=f"{name!r} is not a layer of the graph")
        numbers = [] if unknown else [problem.layer_index[name] for name in names]
        if numbers and numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            message = f"the layers of {device!r} are not consecutive: {', '.join(names[:4])}"
            yield Violation(rule="block", message=message + (", ..." if len(names) > 4 else ""))


def _too_much(problem: ServingFlow, blocks: dict[str, Held]) -> Iterator[Violation]:
    """Devices with more layers than they have a rate for, or more bytes than their memory."""
    for device, (first, end) in blocks.items():
        rates = problem.rates.get(device, ())
        most = max((number for number, rate in enumerate(rates, 1) if rate > 0), default=0)
        if end - first > len(rates) or not rates[end - first - 1]:
            message = f"{device!r} holds {end - first} layers; its rates know at most {most}"
            yield Violation(rule="rate", message=message)
        used, limit = sum(problem.layer_bytes[first:end]), problem.memory_limits[device]
        if limit is not None and used > limit:
            message = f"device {device!r} holds {used:,} bytes: {used - limit:,} over its memory of {limit:,}"
            yield Violation(rule="memory", message=message, excess=float(used - limit))


def _no_way(problem: ServingFlow, blocks: dict[str, Held], flow: Flow) -> Iterator[Violation]:
    """Layers that no device holds; or, if all are held, that no links lead through them."""
    covered = {number for block in blocks.values() for number in range(block.first, block.end)}
    missing = [name for number, name in enumerate(problem.layers) if number not in covered]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        yield Violation(rule="missing", message=f"no device holds {missing[0]!r}{more}")
    elif not flow.tokens:
        yield Violation(rule="no_way", message="no links lead from the first layer to the last one through all others")


def _details(problem: ServingFlow, blocks: dict[str, Held], flow: Flow) -> ServingDetails:
    uses = (
        ServingUse(
            device=device,
            first=first,
            layers=end - first,
            tokens_per_second=float(flow.through[device]),
            most_per_second=float(flow.speeds[device]),
            memory_bytes=sum(problem.layer_bytes[first:end]),
        )
        for device, (first, end) in sorted(blocks.items(), key=lambda each: each[1])
    )
    links = (
        ServingLink(
            source=source,
            target=target,
            tokens_per_second=float(tokens),
            most_per_second=None if (most := flow.links[source, target]) is None else float(most),
        )
        for (source, target), tokens in flow.between.items()
    )
    return ServingDetails(
        tokens_per_second=float(flow.tokens), devices=tuple(uses), links=tuple(links), limits=flow.limits
    )
