"""Simple proofs that a batched mapping has no solution, in the user's words, and a limit of the batch size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from opweave.formulations import on_cluster as shared
from opweave.formulations.on_cluster import Asked, asked_of, room_of
from opweave.formulations.once import once
from opweave.problems.batched_mapping.spec import LARGEST_BATCH, BatchedMapping, sums_up_to
from opweave.problems.spec import FrozenDict
from opweave.problems.words import counted, joined

ROUNDING = 1e-9
"""Relative error of sums of bytes as floats, and far more than that."""


@once
def shortage(problem: BatchedMapping) -> str | None:
    """Say why the batch cannot run, if that is easy to see.

    The function looks for contradictory shares, pins and forbids, for operators whose remaining devices cannot make up
    the batch within their memory, and for too little memory in total.

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


@dataclass(frozen=True, slots=True)
class _Choice:
    """Batch sizes of one operator by device, and the devices that it must use."""

    sizes: FrozenDict[str, tuple[int, ...]]
    needed: frozenset[str]

    def sums(self, most: int) -> frozenset[int]:
        """Batches of at most ``most`` inputs that it can make up."""
        if not all(self.sizes.get(device) for device in self.needed):
            return frozenset()
        fixed = sum(self.sizes[device][0] for device in self.needed)
        free = [sizes for device, sizes in self.sizes.items() if device not in self.needed]
        return frozenset(fixed + more for more in sums_up_to(most - fixed, free)) if fixed <= most else frozenset()


def _reasons(problem: BatchedMapping) -> Iterator[str]:
    asked = asked_of(problem.known_seconds, problem.constraints)
    for name, rules in asked.items():
        if rules.shares:
            yield from _contradictions(problem, name, rules)
    allowed = _all_allowed(problem, asked)
    runs = cache(lambda choice: problem.batch in choice.sums(problem.batch))  # many operators have the same sizes
    able = {id(choice): runs(choice) for choice in {id(choice): choice for choice in allowed.values()}.values()}
    for name, choice in allowed.items():
        if not able[id(choice)]:
            yield _not_allowed(problem, name, asked[name], choice)
    for name in _perhaps_too_large(problem):
        fitting = _fitting(problem, name, allowed[name])
        if not runs(fitting):
            yield _too_small(problem, name, allowed[name], fitting)
    yield from _too_much(problem)


def _contradictions(problem: BatchedMapping, name: str, asked: Asked) -> Iterator[str]:
    """Shares of one operator that contradict each other, or its pins and forbids."""
    for device, counts in asked.shares.items():
        if len(counts) > 1:
            two = " and ".join(f"{count:,}" for count in sorted(counts)[:2])
            yield f"operator {name!r} must run {two} inputs on {device!r} by two of its shares"
    known = problem.known_seconds[name]
    for device, count in asked.fixed.items():
        shall = f"operator {name!r} must run {counted(count, 'input')} on {device!r} by its share"
        elsewhere = sorted(asked.pins - {device})
        if device in asked.forbids:
            yield f"{shall} and is forbidden there"
        elif elsewhere:
            yield f"{shall} and is pinned to {elsewhere[0]!r}"
        elif device not in known:
            yield f"{shall}, where its time is not known"
        elif count not in known[device]:
            yield f"{shall}, which is not one of its batch sizes there"
    total = sum(asked.fixed.values())
    if total > problem.batch:
        there = ", ".join(f"{count:,} on {device!r}" for device, count in asked.fixed.items())
        what = f"the shares of operator {name!r} add up to {counted(total, 'input')}"
        yield f"{what}, {there}, but the batch is {problem.batch:,}"


def _allowed(problem: BatchedMapping, name: str, asked: Asked) -> _Choice:
    """Batch sizes on the devices where the operator's time is known, after pins, forbids and shares."""
    sizes = {}
    for device, by_size in problem.known_seconds[name].items():
        counts = asked.shares.get(device)
        if asked.allow(device):
            able = tuple(by_size if counts is None else (size for size in by_size if size in counts))
            if able:
                sizes[device] = able
    return _Choice(FrozenDict(sizes), frozenset(asked.fixed))


def _all_allowed(problem: BatchedMapping, asked: Mapping[str, Asked]) -> dict[str, _Choice]:
    """:func:`_allowed` of every operator; operators with the same sizes of which nothing is required share one."""
    operators, devices, sizes = problem.times.shape
    wide, text = devices * sizes, (~np.isnan(problem.times)).tobytes()
    same: dict[tuple[bytes, int], _Choice] = {}
    found = {}
    for v, (name, rules) in zip(range(operators), asked.items(), strict=True):
        key = text[v * wide : (v + 1) * wide], id(rules)
        if key not in same:
            same[key] = _allowed(problem, name, rules)
        found[name] = same[key]
    return found


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


def _fitting(problem: BatchedMapping, name: str, choice: _Choice) -> _Choice:
    """Batch sizes that the operator could run if it were alone on each device."""
    limits = problem.memory_limits
    found: dict[str, tuple[int, ...]] = {}
    for device, able in choice.sizes.items():
        limit = limits[device]
        sizes = tuple(size for size in able if limit is None or problem.memory_of({name: size}) <= limit)
        if sizes:
            found[device] = sizes
    return _Choice(FrozenDict(found), choice.needed)


def _not_allowed(problem: BatchedMapping, name: str, asked: Asked, choice: _Choice) -> str:
    if not choice.sizes:
        rules = {"pins": asked.pins, "forbids": asked.forbids, "shares": asked.shares}
        there = joined(kind for kind, some in rules.items() if some)
        return f"operator {name!r} has no device left, because of its {there}"
    where = ", ".join(
        f"{device!r} ({counted(sizes[0], 'input')} by its share)" if device in choice.needed else repr(device)
        for device, sizes in choice.sizes.items()
    )
    return (
        f"operator {name!r} may only run on {where}, whose batch sizes cannot add up to {problem.batch:,}; "
        f"{_limit(problem)}"
    )


def _too_small(problem: BatchedMapping, name: str, choice: _Choice, fitting: _Choice) -> str:
    lost = next((device for device in choice.sizes if device in choice.needed - fitting.sizes.keys()), None)
    if lost is None and fitting.sizes:
        there = ", ".join(f"{max(sizes):,} on {device!r}" for device, sizes in fitting.sizes.items())
        return (
            f"operator {name!r} cannot run {counted(problem.batch, 'input')}: its devices have memory for {there}; "
            f"{_limit(problem)}"
        )
    needs = {device: problem.memory_of({name: min(sizes)}) for device, sizes in choice.sizes.items()}
    short = {device: need - (problem.memory_limits[device] or 0) for device, need in needs.items()}
    device = lost or min(short, key=lambda device: short[device])
    why = f"its share of {counted(choice.sizes[device][0], 'input')}" if lost else "its smallest batch"
    rest = "" if lost or len(short) == 1 else ", and no device that may run it lacks less"
    return (
        f"operator {name!r} needs {counted(needs[device], 'byte')} for {why} on {device!r}, which holds "
        f"{problem.memory_limits[device] or 0:,}: {counted(short[device], 'byte')} short{rest}; {_limit(problem)}"
    )


def _too_much(problem: BatchedMapping) -> Iterator[str]:
    """More bytes are needed in total than all devices hold."""
    room = room_of(problem.memory_limits.values())
    if room is None:
        return
    weights, each = _demand(problem)
    needed = weights + problem.batch * each
    if needed > room:
        verb = "needs" if problem.batch == 1 else "need"
        yield (
            f"{counted(problem.batch, 'input')} {verb} {counted(needed, 'byte')} on all devices together, which hold "
            f"{room:,}: {counted(needed - room, 'byte')} short; {_limit(problem)}"
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
    if room is None:
        most = LARGEST_BATCH
    elif room < weights:
        most = 0
    else:
        most = min(LARGEST_BATCH, (room - weights) // each) if each else LARGEST_BATCH
    common = frozenset(range(most + 1))
    known: dict[str, frozenset[int]] = {}  # many operators have the same sizes
    for name, rules in asked_of(wide.known_seconds, wide.constraints).items():
        fitting = _fitting(wide, name, _allowed(wide, name, rules))
        key = repr(fitting)
        if key not in known:
            known[key] = fitting.sums(most)
        common &= known[key]
    smaller = "smaller " if max(common, default=0) > problem.batch else ""
    below = max((count for count in common if count < problem.batch), default=0)
    if not below:
        return f"no {smaller}batch fits, not even one input"
    return f"no {smaller}batch of more than {below:,} can fit"
