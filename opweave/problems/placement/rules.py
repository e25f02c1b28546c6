"""The rules of placement: they judge operators on devices and transfers on ports, and measure the solution."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from opweave.problems.costs import MAX_SECONDS
from opweave.problems.device_details import critical_path
from opweave.problems.device_play import device_table, needless, overfull, route, unknown_ends, without_link
from opweave.problems.placement.details import PlacementDetails
from opweave.problems.rules import causes_first, lasts_as_long, one_at_a_time
from opweave.problems.solution import TIME_TOLERANCE, Evaluation, Violation
from opweave.problems.spec import FrozenDict

if TYPE_CHECKING:
    from opweave.problems.constraints import Precede
    from opweave.problems.placement.spec import Placement, Schedule
from opweave.problems.placement.play import Played, play


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
