"""Oracle of batched mapping: all ways to spread the inputs and all orders, for 3 operators, 3 devices and 4 inputs.

Inputs are interchangeable: an input is a string of devices, one for each operator, and a way to spread the batch is a
multiset of strings. For each the batches are tasks on devices, and the best order comes from the search of placement's
oracle (:mod:`tests.oracles.placement`), which see for why orders suffice.

Takes Pin, Forbid, Colocate, Separate, MaxDevices, MemoryCap, Share, and Precede where it closes no circle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations_with_replacement, product

from opweave.problems.batched_mapping.spec import Batch, BatchedMapping, BatchedSchedule
from opweave.problems.constraints import Precede, Share
from opweave.problems.errors import InvalidInputError
from tests.oracles.placement import Task, best_of, obeys

String = tuple[str, ...]
"""The device of one input at every operator."""


def best_batched_mapping(problem: BatchedMapping) -> tuple[float | None, BatchedSchedule | None]:
    """Try every way to spread the batch and every order."""
    ways = ((strings, tasks_of(problem, strings)) for strings in spreads(problem))
    return best_of(ways, lambda strings, tasks, starts: as_schedule(problem, strings, tasks, starts))


def spreads(problem: BatchedMapping) -> Iterator[tuple[String, ...]]:
    """Every multiset of strings whose batches can run, fit and obey the side constraints."""
    names = [op.id for op in problem.graph.operators]
    devices = [device.name for device in problem.cluster.devices]
    able = [[name for name in devices if seconds_of(problem, op, name)] for op in names]
    for strings in combinations_with_replacement(list(product(*able)), problem.batch):
        count = counts(names, strings)
        if all(number in seconds_of(problem, *cell) for cell, number in count.items()) and _allowed(problem, count):
            yield strings


def counts(names: Sequence[str], strings: Sequence[String]) -> Counter[tuple[str, str]]:
    """Inputs by operator and device."""
    return Counter((name, device) for string in strings for name, device in zip(names, string, strict=True))


def seconds_of(problem: BatchedMapping, op: str, device: str) -> dict[int, float]:
    """Times by size that the device supports, straight from the costs."""
    sizes = problem.cluster.devices[problem.cluster.device_index[device]].batch_sizes or problem.costs.batches
    found = {}
    for size in sizes:
        try:
            found[size] = problem.costs.seconds(op, device, size)
        except InvalidInputError:
            continue
    return found


def _allowed(problem: BatchedMapping, count: Mapping[tuple[str, str], int]) -> bool:
    held = {device.name: bytes_on(problem, count, device.name) for device in problem.cluster.devices}
    limits = {device.name: device.memory_bytes for device in problem.cluster.devices}
    if any(limit is not None and held[name] > limit for name, limit in limits.items()):
        return False
    where: dict[str, set[str]] = {}
    for (name, device), number in count.items():
        if number:
            where.setdefault(name, set()).add(device)
    return all(
        count.get((rule.op, rule.device), 0) == rule.inputs if isinstance(rule, Share) else obeys(rule, where, held)
        for rule in problem.constraints
    )


def bytes_on(problem: BatchedMapping, count: Mapping[tuple[str, str], int], device: str) -> int:
    """What one device holds."""
    sizes = {each.id: each.bytes for each in problem.graph.tensors}
    own = {each.id: each.bytes for each in problem.graph.tensors if each.alias_of is None}
    weights = {each.id: each.bytes for each in problem.graph.parameters}
    total, held = 0, set()
    for op in problem.graph.operators:
        number = count.get((op.id, device), 0)
        if number:
            held |= set(op.parameters)
            if problem.memory != "parameters":
                total += number * (op.workspace_bytes + sum(own.get(name, 0) for name in op.outputs))
            if problem.memory == "buffers":
                total += number * sum(sizes[name] for name in set(op.inputs))
    return total + sum(weights[name] for name in held)


def tasks_of(problem: BatchedMapping, strings: Sequence[String]) -> list[Task] | None:
    """The batches of a way to spread the inputs; None when a link is missing."""
    names = [op.id for op in problem.graph.operators]
    column = {name: position for position, name in enumerate(names)}
    count = counts(names, strings)
    cells = [cell for cell in product(names, problem.cluster.device_index) if count[cell]]
    place = {cell: index for index, cell in enumerate(cells)}
    writer = {tensor: op.id for op in problem.graph.operators for tensor in op.outputs}
    size = {tensor.id: tensor.bytes for tensor in problem.graph.tensors}
    waits: list[list[tuple[int, float]]] = [[] for _ in cells]
    for op in problem.graph.operators:
        for tensor in set(op.inputs) & set(writer):
            passing = Counter((string[column[writer[tensor]]], string[column[op.id]]) for string in strings)
            for (source, target), number in passing.items():
                moved = size[tensor] * (number if problem.transfers == "delay" else 1)
                try:
                    sent = problem.cluster.transfer_seconds(moved, source, target)
                except InvalidInputError:
                    return None
                waits[place[op.id, target]].append((place[writer[tensor], source], sent))
    for constraint in problem.constraints:
        if isinstance(constraint, Precede):
            for late in (index for (name, _), index in place.items() if name == constraint.after):
                waits[late] += [(index, 0.0) for (name, _), index in place.items() if name == constraint.before]
    return [
        Task(f"{name}@{device}", seconds_of(problem, name, device)[count[name, device]], (device,), tuple(waits[index]))
        for (name, device), index in place.items()
    ]


def as_schedule(
    problem: BatchedMapping, strings: Sequence[String], tasks: Sequence[Task], starts: Sequence[float]
) -> BatchedSchedule:
    """The times in the problem's words."""
    column = {op.id: position for position, op in enumerate(problem.graph.operators)}
    batches = []
    for task, start in zip(tasks, starts, strict=True):
        assert isinstance(task.name, str)
        name, device = task.name.split("@")
        inputs = [number for number, string in enumerate(strings) if string[column[name]] == device]
        batches.append(Batch(operator=name, device=device, inputs=inputs, start=start, end=start + task.seconds))
    return BatchedSchedule(batches=batches)
