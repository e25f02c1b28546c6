"""Oracle of placement with blocking calls: every assignment to calls, and every order of the calls of an accelerator.

An operator is on the host or in one of the calls of an accelerator. Steps (calls, and operators on the host) begin as
early as their inputs and the call before theirs allow. Takes Pin, Forbid, Colocate, Separate,
MaxDevices, MemoryCap.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, permutations, product

import opweave as ow
from tests.oracles.placement import allowed_assignments

Step = tuple[str, int]
"""A device and the number of its call; for the host, the number of the operator."""


def best_calls(problem: ow.Placement) -> float | None:
    """The least makespan; None if nothing is allowed."""
    best = math.inf
    for device in allowed_assignments(problem):
        for steps in _groupings(problem, device):
            best = min(best, makespan(problem, steps))
    return best if math.isfinite(best) else None


def _groupings(problem: ow.Placement, device: Mapping[str, str]) -> Iterator[dict[str, Step]]:
    """Every way to group the operators of each accelerator into numbered calls."""
    names = list(device)
    most = len(names) if problem.max_calls is None else problem.max_calls
    choices: list[Sequence[int]] = []
    for position, name in enumerate(names):
        inside = sum(device[other] == device[name] for other in names)
        choices.append([position] if device[name] == problem.host else range(min(most, inside)))
    for numbers in product(*choices):
        yield {name: (device[name], number) for name, number in zip(names, numbers, strict=True)}


def makespan(problem: ow.Placement, steps: Mapping[str, Step]) -> float:
    """The makespan for the best order of calls; inf if a call waits for itself or a link is missing."""
    waits: dict[Step, set[Step]] = {step: set() for step in steps.values()}
    seconds = dict.fromkeys(waits, 0.0)
    moved: set[tuple[str, Step, bool]] = set()
    for op in problem.graph.operators:
        seconds[steps[op.id]] += problem.known_seconds[op.id][steps[op.id][0]]
        for tensor in op.inputs:
            maker = problem.graph.producer.get(tensor)
            if maker is None or steps[maker] == steps[op.id]:
                continue
            waits[steps[op.id]].add(steps[maker])
            moved |= {(tensor, steps[op.id], True), (tensor, steps[maker], False)}
    for tensor, step, inward in moved:
        if step[0] != problem.host:
            seconds[step] += _carrying(problem, tensor, step[0], inward=inward)
    accelerators = {step[0] for step in waits} - {problem.host}
    calls = [sorted(step for step in waits if step[0] == name) for name in sorted(accelerators)]
    best = math.inf
    for orders in product(*(permutations(each) for each in calls)):
        after = {step: set(above) for step, above in waits.items()}
        for order in orders:
            for first, second in pairwise(order):
                after[second].add(first)
        best = min(best, _longest(after, seconds))
    return best


def _carrying(problem: ow.Placement, tensor: str, device: str, *, inward: bool) -> float:
    size = next(each.bytes for each in problem.graph.tensors if each.id == tensor)
    ends = (str(problem.host), device) if inward else (device, str(problem.host))
    try:
        return problem.cluster.transfer_seconds(size, *ends)
    except ow.InvalidInputError:
        return math.inf


def _longest(after: Mapping[Step, set[Step]], seconds: Mapping[Step, float]) -> float:
    ends: dict[Step, float] = {}
    while len(ends) < len(after):
        ready = [step for step, above in after.items() if step not in ends and above <= ends.keys()]
        if not ready:
            return math.inf
        for step in ready:
            ends[step] = max((ends[each] for each in after[step]), default=0.0) + seconds[step]
    return max(ends.values(), default=0.0)
