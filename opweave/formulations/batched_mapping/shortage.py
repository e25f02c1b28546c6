"""Simple proofs that a batched mapping has no solution, in the user's words, and a limit of the batch size."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from opweave.formulations import on_cluster as shared
from opweave.formulations.on_cluster import Asked, asked_of, room_of
from opweave.formulations.once import once
from opweave.problems.batched_mapping.spec import LARGEST_BATCH, BatchedMapping, sums_up_to
from opweave.problems.words import counted, joined

ROUNDING = 1e-9
"""Relative error of sums of bytes as floats, and far more than that."""


@once
def shortage(problem: BatchedMapping) -> str | None:
    """Say why the batch cannot run, if that is easy to see.

    The function looks for operators whose shares, pins and forbids contradict each other, for operators whose remaining
    devices cannot make up the batch within their memory, and for too little memory in total.

    Returns
    -------
    str or None
        The reason, with the operator, the missing bytes and, if it concerns sizes or memory, a batch size above which
        no batch can run by any of these arguments; None if none was found, which proves nothing.

    Examples
    --------
    >>> from opweave.problems.cluster import Cluster, Device
    >>> from opweave.problems.costs import Costs
    >>> from opweave.problems.graph import OpGraph, Operator, Tensor
    >>> graph = OpGraph(tensors=[Tensor(id="y", bytes=4)], operators=[Operator(id="p", outputs=["y"])])
    >>> cluster = Cluster(devices=[Device(name="a", memory_bytes=5)])
    >>> costs = Costs.from_table({"p": {"a": {1: 1.0, 2: 1.5}}})
    >>> shortage(BatchedMapping(graph=graph, cluster=cluster, costs=costs, batch=2))
    "operator 'p' cannot run 2 inputs: its devices have memory for 1 on 'a'; no batch of more than 1 can fit"
    """
    return next(_reasons(problem), None)


def rules_in_the_way(problem: BatchedMapping, *, rows_added: bool = False) -> str:
    """Name the rules of the problem that may exclude every mapping; ``rows_added``: whether the user added rows."""
    every = set(range(1, problem.batch + 1))
    gaps = any(sizes.keys() < every for known in problem.known_seconds.values() for sizes in known.values())
    return shared.rules_in_the_way(problem, own={"the batch sizes": gaps}, rows_added=rows_added)


class _Choice(NamedTuple):
    """Batch sizes of one operator by device, and the devices that it must use."""

    sizes: tuple[tuple[str, tuple[int, ...]], ...]
    needed: frozenset[str]


@lru_cache(maxsize=4096)  # many operators have the same sizes
def _sums(choice: _Choice, most: int) -> frozenset[int]:
    """Batches of at most ``most`` inputs that an operator can make up."""
    fixed = sum(sizes[0] for device, sizes in choice.sizes if device in choice.needed)
    if fixed > most or not choice.needed <= {device for device, _ in choice.sizes}:
        return frozenset()
    free = [sizes for device, sizes in choice.sizes if device not in choice.needed]
    return frozenset(fixed + more for more in sums_up_to(most - fixed, free))


def _allowed(problem: BatchedMapping, name: str, asked: Asked) -> _Choice:
    """Batch sizes on the devices where the operator's time is known, after pins, forbids and shares."""
    known = ((u, by_size) for u, by_size in problem.known_seconds[name].items() if asked.allow(u))
    able = ((u, tuple(size for size in by_size if asked.shares.get(u, {size}) == {size})) for u, by_size in known)
    return _Choice(tuple((device, sizes) for device, sizes in able if sizes), frozenset(asked.fixed))


def _fitting(problem: BatchedMapping, name: str, choice: _Choice) -> _Choice:
    """Batch sizes that the operator could run if it were alone on each device."""
    limits = problem.memory_limits
    able = (
        (device, tuple(size for size in sizes if _fits(problem.memory_of({name: size}), limits[device])))
        for device, sizes in choice.sizes
    )
    return _Choice(tuple((device, sizes) for device, sizes in able if sizes), choice.needed)


def _fits(needed: int, limit: int | None) -> bool:
    """Whether bytes fit into a limit; None for no limit."""
    return limit is None or needed <= limit


def _reasons(problem: BatchedMapping) -> Iterator[str]:
    asked = asked_of(problem.known_seconds, problem.constraints)
    allowed = {name: _allowed(problem, name, rules) for name, rules in asked.items()}
    for name, choice in allowed.items():
        if problem.batch not in _sums(choice, problem.batch):
            yield _not_allowed(problem, name, asked[name], choice)
    for name in _perhaps_too_large(problem):
        fitting = _fitting(problem, name, allowed[name])
        if problem.batch not in _sums(fitting, problem.batch):
            yield _too_small(problem, name, allowed[name], fitting)
    room, (weights, each) = room_of(problem.memory_limits.values()), _demand(problem)
    needed = weights + problem.batch * each
    if room is not None and needed > room:
        verb = "needs" if problem.batch == 1 else "need"
        yield (
            f"{counted(problem.batch, 'input')} {verb} {counted(needed, 'byte')} on all devices together, which hold "
            f"{room:,}: {counted(needed - room, 'byte')} short; {_limit(problem)}"
        )


def _perhaps_too_large(problem: BatchedMapping) -> list[str]:
    """Operators that, alone with the whole batch, would exceed the memory of the smallest device."""
    limits = [limit for limit in problem.memory_limits.values() if limit is not None]
    graph = problem.graph
    if not limits:
        return []
    weights = np.zeros(len(graph.operators))
    np.add.at(weights, graph.uses.heads(), graph.parameter_sizes[graph.uses.items].astype(np.float64))
    needed = weights + problem.batch * problem.sizes_per_input.astype(np.float64)
    return [graph.operator_ids[i] for i in np.flatnonzero(needed * (1.0 + ROUNDING) > min(limits)).tolist()]


def _not_allowed(problem: BatchedMapping, name: str, asked: Asked, choice: _Choice) -> str:
    sizes = dict(choice.sizes)
    impossible = sorted(choice.needed - sizes.keys())
    if impossible:
        shall = f"operator {name!r} must run {counted(asked.fixed[impossible[0]], 'input')} on {impossible[0]!r}"
        return f"{shall} by its share, which its times, pins, forbids and other shares exclude"
    if not sizes:
        rules = {"pins": asked.pins, "forbids": asked.forbids, "shares": asked.shares}
        there = joined(kind for kind, some in rules.items() if some)
        return f"operator {name!r} has no device left, because of its {there}"
    shares = {device: f" ({counted(sizes[device][0], 'input')} by its share)" for device in choice.needed}
    where = ", ".join(f"{device!r}{shares.get(device, '')}" for device in sizes)
    what = f"may only run on {where}, whose batch sizes cannot add up to {problem.batch:,}"
    return f"operator {name!r} {what}; {_limit(problem)}"


def _too_small(problem: BatchedMapping, name: str, choice: _Choice, fitting: _Choice) -> str:
    sizes, there = dict(choice.sizes), dict(fitting.sizes)
    lost = next((device for device in sizes if device in choice.needed - there.keys()), None)
    if lost is None and there:
        most = ", ".join(f"{max(able):,} on {device!r}" for device, able in there.items())
        what = f"cannot run {counted(problem.batch, 'input')}: its devices have memory for {most}"
        return f"operator {name!r} {what}; {_limit(problem)}"
    needs = {device: problem.memory_of({name: min(able)}) for device, able in sizes.items()}
    short = {device: need - (problem.memory_limits[device] or 0) for device, need in needs.items()}
    device = lost or min(short, key=lambda device: short[device])
    why = f"its share of {counted(sizes[device][0], 'input')}" if lost else "its smallest batch"
    rest = "" if lost or len(short) == 1 else ", and no device that may run it lacks less"
    return (
        f"operator {name!r} needs {counted(needs[device], 'byte')} for {why} on {device!r}, which holds "
        f"{problem.memory_limits[device] or 0:,}: {counted(short[device], 'byte')} short{rest}; {_limit(problem)}"
    )


def _demand(problem: BatchedMapping) -> tuple[int, int]:
    """Bytes that any batch takes, wherever it runs, and bytes of each input."""
    graph = problem.graph
    weights = graph.parameter_sizes[np.unique(graph.uses.items)].tolist()
    return sum(weights), sum(problem.sizes_per_input.tolist())


def _limit(problem: BatchedMapping) -> str:
    """The largest batch that may run by all the arguments together, in words, for a problem whose batch cannot run.

    If batch sizes have gaps, a larger batch may run although this one cannot; the words then concern smaller batches
    only.
    """
    wide = problem.model_copy(update={"batch": LARGEST_BATCH})
    room, (weights, each) = room_of(wide.memory_limits.values()), _demand(wide)
    most = LARGEST_BATCH
    if room is not None and (each or room < weights):
        most = min(LARGEST_BATCH, (room - weights) // each) if room >= weights else 0
    common = frozenset(range(most + 1))
    for name, rules in asked_of(wide.known_seconds, wide.constraints).items():
        common &= _sums(_fitting(wide, name, _allowed(wide, name, rules)), most)
    smaller = "smaller " if max(common, default=0) > problem.batch else ""
    below = max((count for count in common if count < problem.batch), default=0)
    if not below:
        return f"no {smaller}batch fits, not even one input"
    return f"no {smaller}batch of more than {below:,} can fit"
