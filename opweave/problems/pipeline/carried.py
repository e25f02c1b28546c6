"""The tensors that stages send and fetch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from opweave.problems.pipeline.spec import Pipeline, Stage


class Carried(NamedTuple):
    """What is carried for every input.

    Attributes
    ----------
    sent
        Tensors that each stage sends, in the order in which they are made, graph inputs first: across the cut behind it
        (one entry fewer than stages), or to the common memory (an entry for every stage).
    fetched
        Tensors that each stage fetches from the common memory; an entry for every stage.
    """

    sent: tuple[tuple[str, ...], ...]
    fetched: tuple[tuple[str, ...], ...]


def carried(problem: Pipeline, stages: Sequence[Stage]) -> Carried:
    """Find what stages send and fetch; every operator is in one stage, behind what it reads."""
    graph = problem.graph
    made = dict.fromkeys(graph.inputs, 0) if problem.inputs == "first" and stages else {}
    readers: dict[str, list[int]] = {}
    for number, stage in enumerate(stages):
        for name in stage.operators:
            op = graph.operators[graph.operator_index[name]]
            made |= dict.fromkeys(op.outputs, number)
            for tensor in dict.fromkeys(op.inputs):
                readers.setdefault(tensor, []).append(number)
    devices = [stage.device for stage in stages]
    if problem.delivery == "host":
        return _by_host(made, readers, devices)
    return _relayed(made, readers, devices)


def _relayed(made: Mapping[str, int], readers: Mapping[str, Sequence[int]], devices: Sequence[str]) -> Carried:
    """Every tensor goes on from stage to stage until all devices that read it have been there."""
    sent: list[list[str]] = [[] for _ in devices[1:]]
    for name, first in made.items():
        last = max((devices.index(devices[reader], first) for reader in readers.get(name, ())), default=first)
        for cut in range(first, last):
            sent[cut].append(name)
    return Carried(tuple(map(tuple, sent)), tuple(() for _ in devices))


def _by_host(made: Mapping[str, int], readers: Mapping[str, Sequence[int]], devices: Sequence[str]) -> Carried:
    """Every tensor goes to the common memory once, and from there once to each other device that reads it."""
    sent: list[list[str]] = [[] for _ in devices]
    fetched: list[list[str]] = [[] for _ in devices]
    for name, first in made.items():
        there = {devices[first]}
        for reader in readers.get(name, ()):
            if devices[reader] not in there:
                there.add(devices[reader])
                fetched[reader].append(name)
        if len(there) > 1:
            sent[first].append(name)
    return Carried(tuple(map(tuple, sent)), tuple(map(tuple, fetched)))
