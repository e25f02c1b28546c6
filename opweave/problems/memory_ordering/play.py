"""Playing a memory ordering: operators run one after the other, and storages live until their last reader has run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from opweave.problems.arrays import BoolArray, FloatArray, IntArray
from opweave.problems.timeline import NEVER, Activities, ActivityKind, Lifetimes, Names, Resource, Timeline, joined

if TYPE_CHECKING:
    from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """What an order does.

    Attributes
    ----------
    timeline
        One resource, the memory; one activity per operator, as long as its step.
    storages
        Tensors that own the storages, by position in the graph. Shape (storages,).
    begin, end
        First and last step of each storage, both included; -1 for storages that exist before the first step, and the
        number of steps for storages that stay. Shape (storages,).
    bytes
        Bytes that each storage counts for. Shape (storages,).
    saved
        Bytes that every step writes over inputs that die in it. Shape (steps,).
    """

    timeline: Timeline
    storages: IntArray
    begin: IntArray
    end: IntArray
    bytes: IntArray
    saved: IntArray


def play(problem: MemoryOrdering, solution: Ordering) -> Played:
    """Run the operators one after the other: a storage lives from its producer's step to its last reader's step."""
    graph, arrays = problem.graph, problem.graph.arrays
    steps = len(graph.operators)
    step = np.empty(steps, dtype=np.int64)
    step[graph.positions(solution.order)] = np.arange(steps)
    size, kept = _sizes(problem)
    producer = np.append(step, -1)[arrays.producer]  # the last entry serves graph inputs, which have no producer
    last = np.full(len(size), -1, dtype=np.int64)
    np.maximum.at(last, arrays.storage[arrays.reads.items], step[arrays.reads.heads()])
    owner = arrays.storage == np.arange(len(size))
    there = owner & ((producer >= 0) | (last >= 0) | kept)
    storages = np.flatnonzero(there)
    begin = producer[storages]
    end = np.where(kept[storages], steps, np.maximum(last[storages], begin))
    replaced = _overwritten(problem, step, size, kept, last)
    saved = np.zeros(steps, dtype=np.int64)
    from_half, to_half = np.zeros(len(size), dtype=bool), np.zeros(len(size), dtype=bool)
    for root, written in replaced.items():
        saved[last[root]] += size[root]
        to_half[root] = from_half[written] = True
    names = Names.of(graph)
    timeline = Timeline(
        unit="steps",
        resources=(Resource("memory", "device"),),
        names=names,
        activities=_activities(problem, names, step),
        lifetimes=_lifetimes(
            problem,
            names,
            step,
            storages,
            size[storages],
            begin + np.where(from_half[storages], 0.5, 0.0),
            np.where(to_half[storages], end + 0.5, np.where(end >= steps, NEVER, end + 1.0)),
        ),
    )
    return Played(timeline, storages, begin, end, size[storages], saved)


def _sizes(problem: MemoryOrdering) -> tuple[IntArray, BoolArray]:
    """Bytes that every tensor's storage counts for, and whether the storage stays to the end."""
    graph, arrays = problem.graph, problem.graph.arrays
    size = arrays.tensor_bytes.copy()
    given = arrays.storage[arrays.producer < 0]
    asked = arrays.storage[[graph.tensor_index[name] for name in graph.outputs]]
    kept = np.zeros(len(size), dtype=bool)
    kept[asked] = True
    if problem.inputs == "kept":
        kept[given] = True
    if problem.inputs == "excluded":
        size[given] = 0
    if problem.outputs == "excluded":
        size[asked] = 0
    return size, kept


def _overwritten(
    problem: MemoryOrdering, step: IntArray, size: IntArray, kept: BoolArray, last: IntArray
) -> dict[int, int]:
    """Storages that die in a step and are overwritten there by a result of their size, and that result."""
    found: dict[int, int] = {}
    if problem.in_place == "none":
        return found
    arrays = problem.graph.arrays
    for v, op in enumerate(problem.graph.operators):
        if not op.inplace_ok:
            continue
        reads = list(dict.fromkeys(arrays.storage[arrays.reads[v]].tolist()))
        candidates = reads[:1] if problem.in_place == "first" else reads
        written = [t for t in arrays.writes[v].tolist() if arrays.storage[t] == t]
        for root in candidates:
            if kept[root] or last[root] != step[v]:
                continue
            over = next((t for t in written if size[t] == size[root]), None)
            if over is not None:
                written.remove(over)
                found[root] = over
    return found


def _activities(problem: MemoryOrdering, names: Names, step: IntArray) -> Activities:
    """One run per operator, in the graph's order."""
    arrays, count = problem.graph.arrays, len(step)
    reader, tensor = arrays.reads.heads(), arrays.reads.items
    inner = arrays.producer[tensor] >= 0
    causes, brought = joined(reader[inner], arrays.producer[tensor[inner]], names.tensor(tensor[inner]), count)
    zeros, none = np.zeros(count, dtype=np.int64), np.full(count, -1, dtype=np.int64)
    return Activities(
        kind=np.full(count, ActivityKind.RUN, dtype=np.int64),
        resource=zeros,
        start=step.astype(np.float64),
        end=(step + 1).astype(np.float64),
        what=np.arange(count, dtype=np.int64),
        rank=step,
        twin=none,
        reader=none,
        bytes=zeros,
        count=np.ones(count, dtype=np.int64),
        round=np.zeros(count, dtype=np.int64),
        causes=causes,
        brought=brought,
    )


def _lifetimes(
    problem: MemoryOrdering,
    names: Names,
    step: IntArray,
    storages: IntArray,
    size: IntArray,
    begin: FloatArray,
    end: FloatArray,
) -> Lifetimes:
    """Lifetimes of storages and workspaces; an overwritten storage gives way in the middle of its step."""
    scratch = problem.graph.workspace_sizes
    works = np.flatnonzero(scratch)
    return Lifetimes(
        storage=np.concatenate([names.tensor(storages), works]),
        resource=np.zeros(len(storages) + len(works), dtype=np.int64),
        begin=np.concatenate([begin, step[works].astype(np.float64)]),
        end=np.concatenate([end, step[works] + 1.0]),
        bytes=np.concatenate([size, scratch[works]]),
    )
