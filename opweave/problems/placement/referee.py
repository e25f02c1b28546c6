"""The rules of placement: they judge operators on devices and transfers on ports, and measure the solution."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from opweave.problems.arrays import BoolArray
from opweave.problems.costs import MAX_SECONDS
from opweave.problems.device_play import (
    Needs,
    Reads,
    Runs,
    Sent,
    codes,
    device_table,
    device_timeline,
    needless,
    overfull,
    positions_in,
    route,
    together,
    transfer_times,
    unknown_ends,
    unlisted,
    without_link,
)
from opweave.problems.measures import DeviceDetails, critical_path
from opweave.problems.on_cluster import lifetimes_held
from opweave.problems.rules import causes_first, lasts_as_long, one_at_a_time
from opweave.problems.solution import TIME_TOLERANCE, Evaluation, Violation
from opweave.problems.spec import FrozenDict
from opweave.problems.timeline import Timeline

if TYPE_CHECKING:
    from opweave.problems.constraints import Precede
    from opweave.problems.placement.spec import Placement, Schedule


class PlacementDetails(DeviceDetails):
    """How a schedule uses the devices; with ``"delay"``, one transfer is counted for each tensor and device."""


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


def judge(problem: Placement, solution: Schedule) -> Evaluation[PlacementDetails]:
    """Judge a solution against all rules except the side constraints."""
    wrong = list(unusable(problem, solution))
    if wrong:
        return Evaluation(objective=None, violations=tuple(wrong))
    played, held = play(problem, solution), problem.memory_by_device(solution)
    broken = tuple(_violations(problem, played, held))
    judged: Evaluation[PlacementDetails] = Evaluation(objective=played.timeline.end, violations=broken)
    return judged.with_timeline(played.timeline).with_details(lambda: _details(problem, played, held))


def opposite_demanded(asked: Precede) -> str:
    """Say that a precedence constraint cannot be satisfied because its opposite is required."""
    return (
        f"operator {asked.before!r} shall end before {asked.after!r} begins, but data or other such rules demand the "
        "opposite"
    )


def unusable(problem: Placement, solution: Schedule) -> Iterator[Violation]:
    """Check that every operator has a start and a device that can run it, and that all names exist."""
    if not _all_can_start(problem, solution):
        yield from _wrong_starts(problem, solution)
    operators, tensors = problem.graph.operator_index, problem.graph.tensor_index
    for sent in solution.transfers:
        if sent.tensor not in tensors:
            yield Violation(rule="unknown", message=f"a transfer sends {sent.tensor!r}, which the graph does not have")
        if sent.consumer is not None and sent.consumer not in operators:
            yield Violation(
                rule="unknown", message=f"{sent.tensor!r} is sent for {sent.consumer!r}, which is no operator"
            )
        yield from unknown_ends(problem.cluster, sent.tensor, sent.source, sent.target)


def _all_can_start(problem: Placement, solution: Schedule) -> bool:
    """Whether :func:`_wrong_starts` has nothing to say, found out for all operators at once."""
    names, devices = problem.graph.operator_ids, problem.cluster.device_index
    known = problem.graph.operator_index.keys()
    if solution.device.keys() != known or solution.start.keys() != known:
        return False
    if not devices.keys() >= set(solution.device.values()):
        return False
    device = [devices[solution.device[name]] for name in names]
    lasts = problem.costs.array(names, devices)[np.arange(len(names)), device]
    return bool((np.asarray([solution.start[name] for name in names]) + lasts <= MAX_SECONDS).all())


def _wrong_starts(problem: Placement, solution: Schedule) -> Iterator[Violation]:
    """Operators without a start or a device that can run them, and names that do not exist."""
    operators, devices = problem.known_seconds, problem.cluster.device_index
    for name in dict.fromkeys((*solution.device, *solution.start)):
        if name not in operators:
            yield Violation(rule="unknown", message=f"{name!r} is not an operator of the graph")
    for name, costs in operators.items():
        device = solution.device.get(name)
        if device is None:
            yield Violation(rule="missing", message=f"{name!r} has no device")
        elif device not in devices:
            yield Violation(rule="unknown", message=f"{name!r} runs on {device!r}, which the cluster does not have")
        elif device not in costs:
            yield Violation(rule="device", message=f"{name!r} cannot run on {device!r}: its time there is not known")
        if name not in solution.start:
            yield Violation(rule="missing", message=f"{name!r} has no start")
        elif device in costs and solution.start[name] + costs[device] > MAX_SECONDS:
            yield Violation(
                rule="unknown", message=f"{name!r} ends after {MAX_SECONDS:.0e} s, which is too late to count"
            )


def _violations(problem: Placement, played: Played, held: Mapping[str, int]) -> Iterator[Violation]:
    """All violations, rule by rule."""
    timeline, tolerance = played.timeline, TIME_TOLERANCE * played.timeline.end
    yield from _wrong_transfers(problem, played)
    lasts = np.full(len(timeline.activities), np.nan)
    met = np.flatnonzero(played.sent.need[: played.listed] >= 0)
    lasts[len(played.runs.operator) + met] = played.needs.seconds[played.sent.need[met]]
    yield from lasts_as_long(timeline, lasts, tolerance)
    yield from causes_first(timeline, tolerance)
    yield from one_at_a_time(timeline, tolerance)
    yield from overfull(problem.cluster, held)
    if problem.turned_round is not None:
        yield Violation(rule="precedence", message=opposite_demanded(problem.turned_round))


def _wrong_transfers(problem: Placement, played: Played) -> Iterator[Violation]:
    """Check that every necessary transfer happens once, and that no listed transfer is needless."""
    needs, sent = played.needs, played.sent
    yield from without_link(problem.graph, problem.cluster, needs)
    if problem.transfers != "delay":
        met = sent.need[sent.need >= 0]
        missing = needs.linked & (np.bincount(met, minlength=len(needs)) == 0)
        for row in np.flatnonzero(missing).tolist():
            what = route(problem.graph, problem.cluster, needs, row)
            yield Violation(rule="transfer", message=f"the schedule never sends {what}")
    yield from needless(problem.graph, problem.cluster, sent, played.listed)


def _details(problem: Placement, played: Played, held: Mapping[str, int]) -> PlacementDetails:
    """Everything that can be measured."""
    runs, needs, timeline = played.runs, played.needs, played.timeline
    names = problem.graph.operator_ids
    return PlacementDetails(
        makespan=timeline.end,
        ends=FrozenDict(dict(zip(names, runs.end.tolist(), strict=True))),
        **device_table(timeline),
        memory_bytes=FrozenDict(held),
        memory_limits=FrozenDict(problem.memory_limits),
        transfer_count=len(needs),
        critical_path=critical_path(timeline),
    )
