"""The referee of placement: operators run on devices, and transfers use ports, at the times of the schedule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from opweave.problems import device_play
from opweave.problems.costs import MAX_SECONDS
from opweave.problems.device_play import Played, Runs
from opweave.problems.measures import DeviceDetails
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
    """Run the operators and transfers at the times of the schedule."""
    names, index = problem.graph.operator_ids, problem.cluster.device_index
    device = np.asarray([index[solution.device[name]] for name in names], dtype=np.int64)
    start = np.asarray([solution.start[name] for name in names], dtype=np.float64)
    operator = np.arange(len(names))
    end = start + problem.costs.array(names, index)[operator, device]
    runs = Runs(operator, device, start, end, np.ones_like(device))
    ports, for_all = problem.transfers != "delay", problem.transfers != "one_port_edge"
    return device_play.play(problem, runs, operator[:, None], solution.transfers, ports=ports, for_all=for_all)


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
