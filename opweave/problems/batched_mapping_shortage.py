"""Plain proofs that a batched mapping has no solution, in the user's words, with the largest batch that could run."""

from __future__ import annotations

from collections.abc import Iterator

from opweave.problems.batched_mapping import BatchedMapping, sums_up_to
from opweave.problems.constraints import Forbid, Pin


def shortage(problem: BatchedMapping) -> str | None:
    """Say why the batch cannot run, if that is easy to see.

    Looks for operators whose devices, after pins, forbids and memory limits, cannot make up the batch, and for too
    little memory in all.

    Returns
    -------
    str or None
        The reason, naming operator, bytes that are lacking and the largest batch that could run; None when nothing was
        found, which proves nothing.

    Examples
    --------
    >>> from opweave.problems.cluster import Cluster, Device
    >>> from opweave.problems.costs import Costs
    >>> from opweave.problems.graph import OpGraph, Operator, Tensor
    >>> graph = OpGraph(tensors=[Tensor(id="y", bytes=4)], operators=[Operator(id="p", outputs=["y"])])
    >>> cluster = Cluster(devices=[Device(name="a", memory_bytes=5)])
    >>> costs = Costs.from_table({"p": {"a": {1: 1.0, 2: 1.5}}})
    >>> shortage(BatchedMapping(graph=graph, cluster=cluster, costs=costs, batch=2))
    "operator 'p' cannot run 2 inputs: its devices have memory for 1 on 'a'; the largest batch that fits is 1"
    """
    return next(_reasons(problem), None)


def _reasons(problem: BatchedMapping) -> Iterator[str]:
    allowed = {op.id: _allowed(problem, op.id) for op in problem.graph.operators}
    for name, devices in allowed.items():
        sizes = {device: list(problem.known_seconds[name][device]) for device in devices}
        if problem.batch not in sums_up_to(problem.batch, sizes.values()):
            yield _not_allowed(problem, name, devices)
            return
    fitting = {name: _fitting(problem, name, devices) for name, devices in allowed.items()}
    sums = {name: sums_up_to(problem.batch, sizes.values()) for name, sizes in fitting.items()}
    for name, reached in sums.items():
        if problem.batch not in reached:
            common = max(frozenset.intersection(*sums.values()))
            yield _too_small(problem, name, fitting[name], common)
            return
    yield from _too_much(problem)


def _allowed(problem: BatchedMapping, name: str) -> list[str]:
    """Devices that know the operator's time, after pins and forbids."""
    able = list(problem.known_seconds[name])
    for constraint in problem.constraints:
        if isinstance(constraint, Pin) and constraint.op == name:
            able = [device for device in able if device == constraint.device]
        elif isinstance(constraint, Forbid) and constraint.op == name:
            able = [device for device in able if device != constraint.device]
    return able


def _not_allowed(problem: BatchedMapping, name: str, devices: list[str]) -> str:
    if not devices:
        return f"operator {name!r} is left no device to run on by its pins and forbids"
    sizes = {device: list(problem.known_seconds[name][device]) for device in devices}
    most = max(sums_up_to(problem.batch, sizes.values()))
    where = ", ".join(map(repr, devices))
    return (
        f"operator {name!r} may only run on {where}, whose batch sizes cannot add up to {problem.batch}; the largest "
        f"batch that it can make up there is {most or 'none'}"
    )


def _fitting(problem: BatchedMapping, name: str, devices: list[str]) -> dict[str, list[int]]:
    """Sizes that the operator could run if it were alone on each device."""
    limits = problem.memory_limits
    found: dict[str, list[int]] = {}
    for device in devices:
        limit = limits[device]
        sizes = [
            size
            for size in problem.known_seconds[name][device]
            if limit is None or problem.memory_of({name: size}) <= limit
        ]
        if sizes:
            found[device] = sizes
    return found


def _too_small(problem: BatchedMapping, name: str, fitting: dict[str, list[int]], common: int) -> str:
    if not fitting:
        least = min(problem.memory_of({name: size}) for sizes in problem.known_seconds[name].values() for size in sizes)
        most = max(problem.memory_limits[device] or 0 for device in _allowed(problem, name))
        return (
            f"operator {name!r} needs {least:,} bytes for its smallest batch; the largest device that may run it holds "
            f"{most:,}: {least - most:,} bytes short, so that no batch fits"
        )
    there = ", ".join(f"{max(sizes):,} on {device!r}" for device, sizes in fitting.items())
    return (
        f"operator {name!r} cannot run {problem.batch:,} inputs: its devices have memory for {there}; the largest "
        f"batch that fits is {common or 'none'}"
    )


def _too_much(problem: BatchedMapping) -> Iterator[str]:
    """More bytes in all than all devices hold."""
    limits = list(problem.memory_limits.values())
    known = [limit for limit in limits if limit is not None]
    if len(known) < len(limits):
        return
    used = {name for op in problem.graph.operators for name in op.parameters}
    weights = sum(parameter.bytes for parameter in problem.graph.parameters if parameter.id in used)
    each = sum(problem.bytes_per_input.values())
    needed, room = weights + problem.batch * each, sum(known)
    if needed > room:
        most = max(0, (room - weights) // each) if each else 0
        yield (
            f"{problem.batch:,} inputs need {needed:,} bytes on all devices together, which hold {room:,}: "
            f"{needed - room:,} bytes short; no batch of more than {most:,} can fit"
        )
