"""Playing a batched mapping: batches run on devices, and every input flows along the data."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, repeat
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

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

    ``sent`` begins with the ``listed`` transfers; ``taker`` has the run that waits for every need.
    """

    timeline: Timeline
    runs: Runs
    needs: Needs
    taker: IntArray
    sent: Sent
    listed: int


class Columns(NamedTuple):
    """The batches of a schedule as columns: operator and device, -1 if unknown, and number of inputs. (batches,) each.

    ``inputs`` has the inputs of all batches, one batch behind the other. (inputs,)
    """

    operator: IntArray
    device: IntArray
    number: IntArray
    inputs: IntArray


def play(problem: BatchedMapping, solution: BatchedSchedule, columns: Columns) -> Played:
    """Run every batch and transfer at the times of the schedule, whose columns are given.

    A transfer that is not listed starts as soon as its tensor is available.
    """
    runs = _runs(problem, solution, columns)
    needs, reads, taker = _needs(problem, columns.inputs, runs)
    listed = _listed(problem, solution, needs)
    met = np.zeros(len(needs), dtype=bool)
    met[listed.need[listed.need >= 0]] = True
    sent = together(listed, unlisted(runs, needs, met))
    lives = lifetimes_held(problem.graph, runs.operator, runs.device, runs.count, problem.memory)
    timeline = device_timeline(
        problem.graph, problem.cluster, runs, sent, reads, lives, ports=False, inputs=problem.batch
    )
    return Played(timeline, runs, needs, taker, sent, len(listed))


def _runs(problem: BatchedMapping, solution: BatchedSchedule, columns: Columns) -> Runs:
    start = np.asarray([batch.start for batch in solution.batches], dtype=np.float64)
    operator, device, count, _ = columns
    lasts = problem.times[operator, device, np.searchsorted(problem.sizes, count)]
    return Runs(operator, device, start, start + lasts, count)


def columns_of(problem: BatchedMapping, solution: BatchedSchedule) -> Columns:
    """The batches of a schedule as columns."""
    operators, devices = problem.graph.operator_index, problem.cluster.device_index
    names, places, inputs = ([*map(attrgetter(what), solution.batches)] for what in ("operator", "device", "inputs"))
    return Columns(
        np.asarray([*map(operators.get, names, repeat(-1))], dtype=np.int64),
        np.asarray([*map(devices.get, places, repeat(-1))], dtype=np.int64),
        np.asarray(list(map(len, inputs)), dtype=np.int64),
        np.fromiter(chain.from_iterable(inputs), dtype=np.int64),
    )


def _needs(problem: BatchedMapping, inputs: IntArray, runs: Runs) -> tuple[Needs, Reads, IntArray]:
    """Follow every input along every tensor, from the batch that makes it to the batch that reads it.

    Returns
    -------
    tuple
        The needs, the reads, and the run that waits for every need.
    """
    arrays, devices = problem.graph.arrays, len(problem.cluster.devices)
    run_of = np.empty((len(problem.graph.operators), problem.batch), dtype=np.int64)
    run = np.repeat(np.arange(len(runs.operator)), runs.count)
    run_of[runs.operator[run], inputs] = run
    reader, tensor = arrays.reads.heads(), arrays.reads.items
    inner = arrays.producer[tensor] >= 0
    reader, tensor = reader[inner], tensor[inner]
    made, read = run_of[arrays.producer[tensor]], run_of[reader]
    flows = (np.arange(len(tensor))[:, None] * devices + runs.device[made]) * devices + runs.device[read]
    _, first, count = np.unique(flows, return_index=True, return_counts=True)
    entry, made, read = first // problem.batch, made.ravel()[first], read.ravel()[first]
    order = np.lexsort((read, made, entry))  # in the order of the solution's batches
    entry, made, read, count = entry[order], made[order], read[order], count[order]
    crosses = runs.device[made] != runs.device[read]
    need = np.where(crosses, np.cumsum(crosses) - 1, -1)
    maker, taker, moved = made[crosses], read[crosses], tensor[entry[crosses]]
    size, source, target = arrays.tensor_bytes[moved], runs.device[maker], runs.device[taker]
    seconds = transfer_times(problem.cluster, source, target, _moved(problem, size, count[crosses]))
    found = Needs(moved, runs.operator[taker], source, target, maker, size, count[crosses], ~np.isnan(seconds), seconds)
    return found, Reads(read, tensor[entry], made, need), taker


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
