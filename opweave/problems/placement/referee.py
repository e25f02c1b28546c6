"""The referee of placement: operators run on devices, and transfers use ports, at the times of the schedule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from opweave.problems import device_play
from opweave.problems.costs import MAX_SECONDS
from opweave.problems.device_play import Needs, Played, Reads, Runs, Sent, codes, positions_in
from opweave.problems.measures import DeviceDetails
from opweave.problems.on_cluster import lifetimes_held
from opweave.problems.solution import Evaluation, Violation, broken

if TYPE_CHECKING:
    from opweave.problems.constraints import Precede
    from opweave.problems.placement.spec import Placement, Schedule


class PlacementDetails(DeviceDetails):
    """How a schedule uses the devices; with ``"delay"``, one transfer is counted for each tensor and device."""


def judge(problem: Placement, solution: Schedule) -> Evaluation[PlacementDetails]:
    """Judge a solution against all rules except the side constraints."""
    wrong = tuple(unusable(problem, solution))
    if wrong:
        return Evaluation(objective=None, violations=wrong)
    played, held = play(problem, solution), problem.memory_by_device(solution)

    def details() -> PlacementDetails:
        ends = dict(zip(problem.graph.operator_ids, played.runs.end.tolist(), strict=True))
        count = len(played.needs)
        return PlacementDetails(**device_play.device_details(played.timeline, ends, held, problem.memory_limits, count))

    found = [*_wrong_transfers(problem, played), *played.in_time(), *device_play.overfull(problem.cluster, held)]
    if problem.turned_round is not None:
        found.append(broken("precedence", opposite_demanded(problem.turned_round)))
    judged: Evaluation[PlacementDetails] = Evaluation(objective=played.timeline.end, violations=tuple(found))
    return judged.with_timeline(played.timeline).with_details(details)


def play(problem: Placement, solution: Schedule) -> Played:
    """Run the operators and transfers at the times of the schedule.

    If transfers use no ports, a transfer that is not listed starts as soon as its tensor is available.
    """
    graph, cluster = problem.graph, problem.cluster
    runs = _runs(problem, solution)
    needs, reads = _needs(problem, runs)
    sent = _meeting(problem, device_play.listed(graph, cluster, solution.transfers), runs, needs, reads)
    count, ports = len(sent), problem.transfers != "delay"
    if not ports:
        met = np.zeros(len(needs), dtype=bool)
        met[sent.need[(sent.need >= 0) & (sent.reader < 0)]] = True  # those that serve all readers
        sent = device_play.with_unlisted(sent, runs, needs, met)
    lives = lifetimes_held(graph, runs.operator, runs.device, runs.count, problem.memory)
    timeline = device_play.device_timeline(graph, cluster, runs, sent, reads, lives, ports=ports)
    return Played(graph, cluster, timeline, runs, needs, needs.reader, sent, count)


def _runs(problem: Placement, solution: Schedule) -> Runs:
    names, index = problem.graph.operator_ids, problem.cluster.device_index
    device = np.asarray([index[solution.device[name]] for name in names], dtype=np.int64)
    start = np.asarray([solution.start[name] for name in names], dtype=np.float64)
    seconds = problem.costs.array(names, index)[np.arange(len(names)), device]
    return Runs(np.arange(len(names)), device, start, start + seconds, np.ones_like(device))


def _needs(problem: Placement, runs: Runs) -> tuple[Needs, Reads]:
    """Tensors that are read on another device than the one that makes them, in the order of the reading operators."""
    arrays, cluster, device = problem.graph.arrays, problem.cluster, runs.device
    reader, tensor = arrays.reads.heads(), arrays.reads.items
    inner = arrays.producer[tensor] >= 0
    reader, tensor = reader[inner], tensor[inner]
    maker = arrays.producer[tensor]
    crossing = np.flatnonzero(device[maker] != device[reader])
    made, read = maker[crossing], reader[crossing]
    whose = read if problem.transfers == "one_port_edge" else np.full(len(read), -1, dtype=np.int64)
    needs = device_play.needs_of(problem.graph, cluster, tensor[crossing], whose, device[made], device[read], made)
    _, first, group = np.unique(codes(problem.graph, cluster, needs), return_index=True, return_inverse=True)
    order = np.argsort(first)
    need = np.full(len(reader), -1, dtype=np.int64)
    need[crossing] = np.argsort(order)[group]
    return needs.at(first[order]), Reads(reader, tensor, maker, need)


def _meeting(problem: Placement, sent: Sent, runs: Runs, needs: Needs, reads: Reads) -> Sent:
    """The transfers of the schedule with the needs that they meet."""
    graph, cluster, tensor, reader = problem.graph, problem.cluster, sent.tensor, sent.reader
    known = codes(graph, cluster, needs)
    need = positions_in(known, codes(graph, cluster, sent))
    if problem.transfers == "delay" and len(sent):
        # optional transfers may be listed for one reader or for all readers on a device
        for_all = positions_in(known, codes(graph, cluster, sent, np.full_like(reader, -1)))
        width = len(graph.operators) + 1
        served = positions_in(reads.tensor * width + reads.reader, tensor * width + reader) >= 0
        there = np.append(runs.device, -1)[reader] == sent.target  # the last entry serves transfers without a reader
        need = np.where((need < 0) & (reader >= 0) & served & there, for_all, need)
    return replace(sent, need=need, maker=graph.arrays.producer[tensor])


def opposite_demanded(asked: Precede) -> str:
    """Say that a precedence constraint cannot be satisfied because its opposite is required."""
    return (
        f"operator {asked.before!r} shall end before {asked.after!r} begins, but data or other such rules demand the "
        "opposite"
    )


def unusable(problem: Placement, solution: Schedule) -> Iterator[Violation]:
    """Check that every operator has a start and a device that can run it, and that all names exist."""
    operators, devices = problem.known_seconds, problem.cluster.device_index
    for name in dict.fromkeys((*solution.device, *solution.start)):
        if name not in operators:
            yield broken("unknown", f"{name!r} is not an operator of the graph")
    where, when = dict(solution.device.items()), dict(solution.start.items())
    for name, costs in operators.items():
        device = where.get(name)
        if device is None:
            yield broken("missing", f"{name!r} has no device")
        elif device not in devices:
            yield broken("unknown", f"{name!r} runs on {device!r}, which the cluster does not have")
        elif device not in costs:
            yield broken("device", f"{name!r} cannot run on {device!r}: its time there is not known")
        if name not in when:
            yield broken("missing", f"{name!r} has no start")
        elif device in costs and when[name] + costs[device] > MAX_SECONDS:
            yield broken("unknown", f"{name!r} ends after {MAX_SECONDS:.0e} s, which is too late to count")
    yield from device_play.wrong_names(problem.graph, problem.cluster, solution.transfers)


def _wrong_transfers(problem: Placement, played: Played) -> Iterator[Violation]:
    """Check that every necessary transfer happens once, and that no listed transfer is needless."""
    needs = played.needs
    yield from played.without_link()
    if problem.transfers != "delay":
        met = played.sent.need[played.sent.need >= 0]
        for row in np.flatnonzero(needs.linked & (np.bincount(met, minlength=len(needs)) == 0)).tolist():
            yield broken("transfer", f"the schedule never sends {played.route(needs, row)}")
    yield from played.needless()
