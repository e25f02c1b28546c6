"""The referee of placement: plays operators on devices and transfers on ports, and looks at what happens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from opweave.problems.arrays import BoolArray
from opweave.problems.costs import MAX_SECONDS
from opweave.problems.critical_path import critical_path
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
from opweave.problems.on_cluster import lifetimes_held
from opweave.problems.placement.details import PlacementDetails
from opweave.problems.rules import causes_first, lasts_as_long, one_at_a_time
from opweave.problems.solution import TIME_TOLERANCE, Evaluation, Violation
from opweave.problems.spec import FrozenDict
from opweave.problems.timeline import Timeline

if TYPE_CHECKING:
    from opweave.problems.constraints import Precede
    from opweave.problems.placement.spec import Placement, Schedule


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """What a schedule does: the timeline, and what it made necessary; ``listed`` transfers come first in ``sent``."""

    timeline: Timeline
    runs: Runs
    needs: Needs
    sent: Sent
    listed: int


def play(problem: Placement, solution: Schedule) -> Played:
    """Let operators run and transfers happen when the schedule says.

    Where transfers have no ports, what the schedule does not list starts the moment its tensor is there.
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
    names = [op.id for op in problem.graph.operators]
    count, index = len(names), problem.cluster.device_index
    device = np.fromiter((index[solution.device[name]] for name in names), dtype=np.int64, count=count)
    start = np.fromiter((solution.start[name] for name in names), dtype=np.float64, count=count)
    seconds = problem.costs.array(names, index)[np.arange(count), device]
    return Runs(np.arange(count), device, start, start + seconds, np.ones(count, dtype=np.int64))


def _needs(problem: Placement, runs: Runs) -> tuple[Needs, Reads]:
    """Tensors that are read elsewhere than where they are made, in the order of the operators that read them."""
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
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    need = np.full(len(reader), -1, dtype=np.int64)
    need[crossing] = place[group]
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
        # transfers that need not be listed may be listed in either way: for one reader, or for all of a device
        for_all = positions_in(known, codes(graph, cluster, tensor, np.full_like(reader, -1), source, target))
        width = len(graph.operators) + 1
        served = positions_in(reads.tensor * width + reads.reader, tensor * width + reader) >= 0
        there = runs.device[np.maximum(reader, 0)] == target
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


def replay(problem: Placement, solution: Schedule) -> Evaluation[PlacementDetails]:
    """Judge everything but the side constraints."""
    unusable = list(_unusable(problem, solution))
    if unusable:
        return Evaluation(objective=None, violations=tuple(unusable))
    played, held = play(problem, solution), problem.memory_by_device(solution)
    broken, details = tuple(_violations(problem, played, held)), _details(problem, played, held)
    judged = Evaluation(objective=played.timeline.end, violations=broken, details=details)
    return judged.with_timeline(played.timeline)


def opposite_demanded(asked: Precede) -> str:
    """Say that nothing can obey a rule."""
    return (
        f"operator {asked.before!r} shall end before {asked.after!r} begins, but data or other such rules demand the "
        "opposite"
    )


def _unusable(problem: Placement, solution: Schedule) -> Iterator[Violation]:
    """Every operator on a device that can run it, with a start; no names that do not exist."""
    operators, devices, tensors = problem.known_seconds, problem.cluster.device_index, problem.graph.tensor_index
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
    for sent in solution.transfers:
        if sent.tensor not in tensors:
            yield Violation(rule="unknown", message=f"a transfer sends {sent.tensor!r}, which the graph does not have")
        if sent.consumer is not None and sent.consumer not in operators:
            yield Violation(
                rule="unknown", message=f"{sent.tensor!r} is sent for {sent.consumer!r}, which is no operator"
            )
        yield from unknown_ends(problem.cluster, sent.tensor, sent.source, sent.target)


def _met(needs: Needs, sent: Sent) -> BoolArray:
    """Which needs a listed transfer serves for all of their readers."""
    met = np.zeros(len(needs), dtype=bool)
    met[sent.need[(sent.need >= 0) & (sent.reader < 0)]] = True
    return met


def _violations(problem: Placement, played: Played, held: Mapping[str, int]) -> Iterator[Violation]:
    """Whatever is wrong, rule by rule."""
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
    """Every needed transfer once, and none that is needless."""
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
    names = (op.id for op in problem.graph.operators)
    return PlacementDetails(
        makespan=timeline.end,
        ends=FrozenDict(dict(zip(names, runs.end.tolist(), strict=True))),
        **device_table(timeline),
        memory_bytes=FrozenDict(held),
        memory_limits=FrozenDict(problem.memory_limits),
        transfer_count=len(needs),
        critical_path=critical_path(timeline),
    )
