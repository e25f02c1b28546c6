"""The tensors that stages send and fetch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

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
    devices = [stage.device for stage in stages]
    made, readers = _leaving(problem, stages)
    if problem.delivery == "host":
        return _by_host(made, readers, devices)
    return _relayed(made, readers, devices)


def _leaving(problem: Pipeline, stages: Sequence[Stage]) -> tuple[dict[str, int], dict[str, list[int]]]:
    """The stage in which each tensor is made that another stage reads, as they are made, and the stages that read it.

    Graph inputs come first, if the first stage gets them.
    """
    graph, arrays, index = problem.graph, problem.graph.arrays, problem.graph.operator_index
    stage_of = np.empty(len(graph.operators), dtype=np.int64)
    turn = np.empty(len(graph.operators), dtype=np.int64)
    order = [index[name] for stage in stages for name in stage.operators]
    turn[order] = np.arange(len(order))
    stage_of[order] = np.repeat(np.arange(len(stages)), [len(stage.operators) for stage in stages])
    reader, tensor = arrays.reads.heads(), arrays.reads.items
    maker = arrays.producer[tensor]
    first = np.append(stage_of, 0)[maker]  # the last entry serves graph inputs, which have no maker
    leaves = np.zeros(len(arrays.producer), dtype=bool)
    leaves[tensor[(first != stage_of[reader]) & ((maker >= 0) | (problem.inputs == "first"))]] = True
    place = np.arange(len(leaves))
    place[arrays.writes.items] = np.arange(len(arrays.writes.items))
    moving = np.flatnonzero(leaves)
    moving = moving[np.lexsort((place[moving], np.append(turn, -1)[arrays.producer[moving]]))]
    begin = np.append(stage_of, 0)[arrays.producer[moving]].tolist()
    made = {graph.tensor_ids[t]: number for t, number in zip(moving.tolist(), begin, strict=True)}
    readers: dict[str, list[int]] = {name: [] for name in made}
    entries = np.flatnonzero(leaves[tensor])
    for entry in entries[np.argsort(turn[reader[entries]], kind="stable")].tolist():
        readers[graph.tensor_ids[tensor[entry]]].append(int(stage_of[reader[entry]]))
    return made, readers


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
