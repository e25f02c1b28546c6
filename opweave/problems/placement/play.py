"""Playing a placement: operators run on devices, and transfers use ports, at the times of the schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from opweave.problems.arrays import BoolArray
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
    from opweave.problems.placement.spec import Placement, Schedule


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """What a schedule does: the timeline, and the transfers that it makes necessary.

    ``sent`` begins with the ``listed`` transfers.
    """

    timeline: Timeline
    runs: Runs
    needs: Needs
    sent: Sent
    listed: int


def play(problem: Placement, solution: Schedule) -> Played:
    """Run the operators and transfers at the times of the schedule.

    If transfers use no ports, a transfer that is not listed starts as soon as its tensor is available.
    """
    graph, cluster = problem.graph, problem.cluster
    runs = _runs(problem, solution)
    needs, reads = _needs(problem, runs)
    sent = _listed(problem, solution, runs, needs, reads)
    listed, ports = len(sent), problem.transfers != "delay"
    if not ports:
        sent = together(sent, unlisted(runs, needs, _met(needs, sent)))
    lives = lifetimes_held(graph, runs.operator, runs.device, runs.count, problem.memory)
    timeline = device_timeline(graph, cluster, runs, sent, reads, lives, ports=ports)
    return Played(timeline, runs, needs, sent, listed)


def _runs(problem: Placement, solution: Schedule) -> Runs:
    names = problem.graph.operator_ids
    count, index = len(names), problem.cluster.device_index
    device = np.fromiter((index[solution.device[name]] for name in names), dtype=np.int64, count=count)
    start = np.fromiter((solution.start[name] for name in names), dtype=np.float64, count=count)
    seconds = problem.costs.array(names, index)[np.arange(count), device]
    return Runs(np.arange(count), device, start, start + seconds, np.ones(count, dtype=np.int64))


def _needs(problem: Placement, runs: Runs) -> tuple[Needs, Reads]:
    """Tensors that are read on another device than the one that makes them, in the order of the reading operators."""
    arrays, cluster, device = problem.graph.arrays, problem.cluster, runs.device
    reader, tensor = arrays.reads.heads(), arrays.reads.items
    inner = arrays.producer[tensor] >= 0
    reader, tensor = reader[inner], tensor[inner]
    maker = arrays.producer[tensor]
    crossing = np.flatnonzero(device[maker] != device[reader])
    whose = reader if problem.transfers == "one_port_edge" else np.full(len(reader), -1, dtype=np.int64)
    key = codes(problem.graph, cluster, tensor, whose, device[maker], device[reader])[crossing]
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    order = np.argsort(first)
    need = np.full(len(reader), -1, dtype=np.int64)
    need[crossing] = np.argsort(order)[group]
    chosen = crossing[first[order]]
    source, target = device[maker[chosen]], device[reader[chosen]]
    size = arrays.tensor_bytes[tensor[chosen]]
    seconds = transfer_times(cluster, source, target, size.astype(np.float64))
    ones = np.ones(len(chosen), dtype=np.int64)
    linked = ~np.isnan(seconds)
    needs = Needs(tensor[chosen], whose[chosen], source, target, maker[chosen], size, ones, linked, seconds)
    return needs, Reads(reader, tensor, maker, need)


def _listed(problem: Placement, solution: Schedule, runs: Runs, needs: Needs, reads: Reads) -> Sent:
    """The transfers of the schedule, and the needs that they meet."""
    graph, cluster, index = problem.graph, problem.cluster, problem.cluster.device_index
    count = len(solution.transfers)
    rows = [
        (
            graph.tensor_index[sent.tensor],
            -1 if sent.consumer is None else graph.operator_index[sent.consumer],
            index[sent.source],
            index[sent.target],
        )
        for sent in solution.transfers
    ]
    tensor, reader, source, target = np.asarray(rows, dtype=np.int64).reshape(count, 4).T
    known = codes(graph, cluster, needs.tensor, needs.reader, needs.source, needs.target)
    need = positions_in(known, codes(graph, cluster, tensor, reader, source, target))
    if problem.transfers == "delay" and count:
        # optional transfers may be listed for one reader or for all readers on a device
        for_all = positions_in(known, codes(graph, cluster, tensor, np.full_like(reader, -1), source, target))
        width = len(graph.operators) + 1
        served = positions_in(reads.tensor * width + reads.reader, tensor * width + reader) >= 0
        there = np.append(runs.device, -1)[reader] == target  # the last entry serves transfers without a reader
        need = np.where((need < 0) & (reader >= 0) & served & there, for_all, need)
    return Sent(
        tensor=tensor,
        reader=reader,
        source=source,
        target=target,
        start=np.asarray([sent.start for sent in solution.transfers], dtype=np.float64),
        end=np.asarray([sent.end for sent in solution.transfers], dtype=np.float64),
        need=need,
        maker=graph.arrays.producer[tensor],
        count=np.ones(count, dtype=np.int64),
    )


def _met(needs: Needs, sent: Sent) -> BoolArray:
    """Whether each need is met by a listed transfer that serves all of its readers."""
    met = np.zeros(len(needs), dtype=bool)
    met[sent.need[(sent.need >= 0) & (sent.reader < 0)]] = True
    return met
