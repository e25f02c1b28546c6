"""Playing a batched mapping: batches run on devices, and every input flows along the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.device_play import (
    Needs,
    Reads,
    Runs,
    Sent,
    codes,
    device_timeline,
    positions_in,
    together,
    transfer_times,
    unlisted,
)
from opweave.problems.on_cluster import lifetimes_held
from opweave.problems.timeline import Timeline

if TYPE_CHECKING:
    from opweave.problems.batched_mapping.spec import BatchedMapping, BatchedSchedule


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """What a schedule does: the timeline, and the transfers that it makes necessary.

    ``sent`` begins with the ``listed`` transfers; ``passed`` has the inputs of every need.
    """

    timeline: Timeline
    runs: Runs
    needs: Needs
    passed: list[frozenset[int]]
    sent: Sent
    listed: int


def play(problem: BatchedMapping, solution: BatchedSchedule) -> Played:
    """Run every batch and transfer at the times of the schedule.

    A transfer that is not listed starts as soon as its tensor is available.
    """
    runs = _runs(problem, solution)
    needs, reads, passed = _needs(problem, solution)
    listed = _listed(problem, solution, needs)
    met = np.zeros(len(needs), dtype=bool)
    met[listed.need[listed.need >= 0]] = True
    sent = together(listed, unlisted(runs, needs, met))
    lives = lifetimes_held(problem.graph, runs.operator, runs.device, runs.count, problem.memory)
    timeline = device_timeline(
        problem.graph, problem.cluster, runs, sent, reads, lives, ports=False, inputs=problem.batch
    )
    return Played(timeline, runs, needs, passed, sent, len(listed))


def _runs(problem: BatchedMapping, solution: BatchedSchedule) -> Runs:
    known, index, batches = problem.known_seconds, problem.cluster.device_index, solution.batches
    start = np.asarray([batch.start for batch in batches], dtype=np.float64)
    lasts = [known[batch.operator][batch.device][len(batch.inputs)] for batch in batches]
    return Runs(
        operator=np.asarray([problem.graph.operator_index[batch.operator] for batch in batches], dtype=np.int64),
        device=np.asarray([index[batch.device] for batch in batches], dtype=np.int64),
        start=start,
        end=start + np.asarray(lasts, dtype=np.float64),
        count=np.asarray([len(batch.inputs) for batch in batches], dtype=np.int64),
    )


def _needs(problem: BatchedMapping, solution: BatchedSchedule) -> tuple[Needs, Reads, list[frozenset[int]]]:
    """Follow every input along every tensor, from the batch that makes it to the batch that reads it."""
    graph, index = problem.graph, problem.cluster.device_index
    inputs = [frozenset(batch.inputs) for batch in solution.batches]
    device = [index[batch.device] for batch in solution.batches]
    by_operator: dict[int, list[int]] = {}
    for run, batch in enumerate(solution.batches):
        by_operator.setdefault(graph.operator_index[batch.operator], []).append(run)
    reads: list[tuple[int, int, int, int]] = []
    needs: list[tuple[int, int, int, int, int]] = []
    passed: list[frozenset[int]] = []
    arrays = graph.arrays
    for v in range(len(graph.operators)):
        for tensor in arrays.reads[v].tolist():
            producer = int(arrays.producer[tensor])
            for made in by_operator[producer] if producer >= 0 else ():
                for reader in by_operator[v]:
                    shared = inputs[made] & inputs[reader]
                    if not shared:
                        continue
                    crosses = device[made] != device[reader]
                    reads.append((reader, tensor, made, len(needs) if crosses else -1))
                    if crosses:
                        needs.append((tensor, v, device[made], device[reader], made))
                        passed.append(shared)
    tensor_, reader_, source, target, maker = np.asarray(needs, dtype=np.int64).reshape(len(needs), 5).T
    count = np.asarray([len(shared) for shared in passed], dtype=np.int64)
    size = arrays.tensor_bytes[tensor_]
    seconds = transfer_times(problem.cluster, source, target, _moved(problem, size, count))
    found = Needs(tensor_, reader_, source, target, maker, size, count, ~np.isnan(seconds), seconds)
    return found, Reads(*np.asarray(reads, dtype=np.int64).reshape(len(reads), 4).T), passed


def _moved(problem: BatchedMapping, size: IntArray, count: IntArray) -> FloatArray:
    """Bytes that determine the duration of a transfer."""
    inputs = count if problem.transfers == "delay" else np.ones_like(count)
    return size.astype(np.float64) * inputs


def _listed(problem: BatchedMapping, solution: BatchedSchedule, needs: Needs) -> Sent:
    graph, index = problem.graph, problem.cluster.device_index
    transfers = solution.transfers
    rows = [
        (graph.tensor_index[sent.tensor], graph.operator_index[sent.consumer], index[sent.source], index[sent.target])
        for sent in transfers
    ]
    columns = np.asarray(rows, dtype=np.int64).reshape(len(rows), 4).T
    known = codes(graph, problem.cluster, needs.tensor, needs.reader, needs.source, needs.target)
    need = positions_in(known, codes(graph, problem.cluster, *columns))
    maker = np.full(len(rows), -1, dtype=np.int64)
    maker[need >= 0] = needs.maker[need[need >= 0]]
    tensor, reader, source, target = columns
    return Sent(
        tensor=tensor,
        reader=reader,
        source=source,
        target=target,
        start=np.asarray([sent.start for sent in transfers], dtype=np.float64),
        end=np.asarray([sent.end for sent in transfers], dtype=np.float64),
        need=need,
        maker=maker,
        count=np.asarray([len(sent.inputs) for sent in transfers], dtype=np.int64),
    )
