"""The rules of memory ordering: they judge an order, and measure which storages live when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from opweave.problems.arrays import BoolArray, IntArray
from opweave.problems.measures import bytes_after_steps, bytes_over_time
from opweave.problems.on_cluster import wrong_order
from opweave.problems.solution import Details, Evaluation, broken
from opweave.problems.spec import Many, Name
from opweave.problems.timeline import NEVER, Activities, ActivityKind, Lifetimes, Names, Resource, Timeline, joined

if TYPE_CHECKING:
    from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering


class MemoryProfile(Details):
    """Live bytes at every step of an order.

    Attributes
    ----------
    peak_bytes, peak_step, peak_operator
        The largest stable footprint, its first step, and the operator that runs then; None for a graph without
        operators.
    total_bytes
        Sum of the stable footprints over the steps.
    stable
        Live bytes while each operator runs: everything it reads and writes, its workspace, and tensors still needed
        later.
    transient
        Live bytes after each operator, once it has freed everything that is not needed any more.
    peak_tensors
        Storages that are live at the peak step, largest first.
    """

    peak_bytes: int
    peak_step: int | None
    peak_operator: str | None
    total_bytes: int
    stable: Many[int]
    transient: Many[int]
    peak_tensors: Many[Name]


def play(problem: MemoryOrdering, solution: Ordering) -> Timeline:
    """Run the operators one after the other: a storage lives from its producer's step to its last reader's step.

    There is one resource, the memory. An input that a result is written over gives way in the middle of its last step.
    """
    graph, arrays = problem.graph, problem.graph.arrays
    steps = len(graph.operators)
    step = np.empty(steps, dtype=np.int64)
    step[graph.positions(solution.order)] = np.arange(steps)
    size, kept = _sizes(problem)
    producer = np.append(step, -1)[arrays.producer]  # the last entry serves graph inputs, which have no producer
    last = np.full(len(size), -1, dtype=np.int64)
    np.maximum.at(last, arrays.storage[arrays.reads.items], step[arrays.reads.heads()])
    owner = arrays.storage == np.arange(len(size))
    storages = np.flatnonzero(owner & ((producer >= 0) | (last >= 0) | kept))
    begin, end = producer.astype(np.float64), np.where(kept, NEVER, np.maximum(last, producer) + 1.0)
    for root, written in _overwritten(problem, step, size, kept, last).items():
        end[root] -= 0.5
        begin[written] += 0.5
    names, works = Names.of(graph), np.flatnonzero(graph.workspace_sizes)
    lifetimes = Lifetimes(
        storage=np.concatenate([names.tensor(storages), works]),
        resource=np.zeros(len(storages) + len(works), dtype=np.int64),
        begin=np.concatenate([begin[storages], step[works].astype(np.float64)]),
        end=np.concatenate([end[storages], step[works] + 1.0]),
        bytes=np.concatenate([size[storages], graph.workspace_sizes[works]]),
    )
    memory = (Resource("memory", "device"),)
    return Timeline("steps", memory, names, _activities(problem, names, step), lifetimes)


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


def judge(problem: MemoryOrdering, solution: Ordering) -> Evaluation[MemoryProfile]:
    """Judge a solution against all rules except the side constraints."""
    found = list(wrong_order(problem.graph, solution.order))
    if any(each.rule != "precedence" for each in found):
        return Evaluation(objective=None, violations=tuple(found))
    timeline = play(problem, solution)
    profile = _profile(solution, timeline)
    most, limit = profile.peak_bytes, problem.limit_bytes
    if limit is not None and most > limit:
        where = "the start" if profile.peak_operator is None else repr(profile.peak_operator)
        message = f"{most:,} bytes are live at {where}: {most - limit:,} over the limit of {limit:,}"
        found.append(broken("limit", message, float(most - limit)))
    objective = most if problem.objective == "peak" else profile.total_bytes
    judged = Evaluation(objective=objective, violations=tuple(found), details=profile)
    return judged.with_timeline(timeline)


def _profile(solution: Ordering, timeline: Timeline) -> MemoryProfile:
    """Everything that can be measured."""
    lives, stable = timeline.lifetimes, bytes_over_time(timeline, 0)[1].tolist()
    before, most = int(lives.bytes[lives.begin < 0.0].sum()), max(stable, default=-1)
    peak_step = stable.index(most) if stable and most >= before else None
    at = -1 if peak_step is None else peak_step
    live = np.flatnonzero((np.floor(lives.begin) <= at) & (lives.end > at) & (lives.storage >= len(stable)))
    largest = sorted((-int(lives.bytes[row]), timeline.name(int(lives.storage[row]))) for row in live.tolist())
    return MemoryProfile(
        peak_bytes=max(before, most),
        peak_step=peak_step,
        peak_operator=None if peak_step is None else solution.order[peak_step],
        total_bytes=sum(stable),
        stable=tuple(stable),
        transient=tuple(bytes_after_steps(timeline, 0).tolist()),
        peak_tensors=tuple(name for _, name in largest),
    )
