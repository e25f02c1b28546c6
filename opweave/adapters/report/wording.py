"""Sentences for explanations of any plan: why there is none, whether splitting pays, what limits it, what is proved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from opweave.adapters.report.timeline_tables import DeviceUse
from opweave.problems.measures import Wait, utilisation
from opweave.problems.result import Incumbent, Result, Status
from opweave.problems.timeline import ActivityKind, ResourceKind, Timeline
from opweave.problems.units import precise_seconds, readable_bytes, readable_share
from opweave.problems.words import counted, joined

SAME = 1e-6
"""Times that differ by less than this share count as equal."""

LITTLE = 0.005
"""A gain of less than this share is called small; as a factor with two decimals it would be 1.00."""

BOTTLENECK = 0.9
"""A device or port that is busy for this share of the plan is its bottleneck."""

FULL = 0.95
"""Memory that is filled to this share is mentioned."""

WORTH_NAMING = 0.01
"""A device is named if it accounts for this share of the critical path."""

PLACES: Mapping[ResourceKind, str] = {
    "device": "device {name!r}, which computes",
    "send_port": "the send port of {name!r}, which is busy",
    "receive_port": "the receive port of {name!r}, which is busy",
    "link": "link {name!r}, which is busy",
    "channel": "the channel, which is busy",
}
"""The phrase for a bottleneck of each kind."""


MORE = "ow.conflict(problem) names the requirements that cannot hold together, and changes that would help."


class Alone(NamedTuple):
    """The best single device, and the time that it takes, in seconds."""

    device: str
    seconds: float


def no_plan(result: Result[Any], noun: str) -> str:
    """Say why there is no plan; ``noun`` is the problem's word for one."""
    because = f": {result.reason}" if result.reason else ""
    if result.status is Status.INFEASIBLE:
        return f"No {noun} meets all requirements{because}. {MORE}"
    return f"No {noun} was found ({result.termination.value.replace('_', ' ')}){because}."


def verdict(seconds: float, used: Sequence[str], alone: Alone | None, devices: int) -> str:
    """Say whether splitting over several devices pays, and by how much.

    Parameters
    ----------
    seconds
        Time that the plan takes.
    used
        The devices that run something.
    alone
        The best plan on a single device; None if no device may run the whole graph.
    devices
        Number of devices.
    """
    if not used:
        return "The graph has no operators, so there is nothing to split."
    if alone is None:
        return "No single device may run the whole model, so it has to be split."
    whole = f"device {alone.device!r} alone takes {precise_seconds(alone.seconds)}"
    if len(used) == 1:
        if seconds > alone.seconds * (1 + SAME):
            return f"Splitting is not used, and {whole}, which is better."
        if devices == 1:
            return f"Nothing can be split: {used[0]!r} is the only device."
        return f"No split was found that pays: everything runs on {used[0]!r}, the best single device."
    if seconds <= 0 < alone.seconds:
        return f"Splitting pays: {whole}; the plan takes no time."
    if seconds <= 0 or abs(seconds - alone.seconds) <= SAME * alone.seconds:
        return f"Splitting gains nothing: {whole} as well."
    if seconds > alone.seconds:
        return (
            f"Splitting does not pay here: {whole}, {readable_share(1 - alone.seconds / seconds)} less than this plan."
        )
    if alone.seconds < seconds * (1 + LITTLE):
        return f"Splitting gains little: {whole}."
    return f"Splitting pays: {whole}, so the plan is {alone.seconds / seconds:.2f} times as fast."


def bottleneck(timeline: Timeline) -> str:
    """Name the resource that limits the plan, or say that the critical path does."""
    busy = np.where(timeline.exclusive, utilisation(timeline), 0.0).tolist()
    ranked = sorted(zip(busy, timeline.resources, strict=True), key=lambda pair: (-pair[0], pair[1].kind != "device"))
    share, worst = ranked[0]
    if share >= BOTTLENECK:
        place = PLACES[worst.kind].format(name=worst.name)
        return f"The bottleneck is {place} for {readable_share(share)} of the time."
    share, device = next(pair for pair in ranked if pair[1].kind == "device")
    rest = ""
    for part, port in [pair for pair in ranked if pair[1].kind != "device" and pair[0] > 0][:1]:
        name = PLACES[port.kind].format(name=port.name).split(",")[0]
        rest = f", and no port busier than {readable_share(part)} ({name})"
    busiest = f"{readable_share(share)} ({device.name!r})"
    return f"The bottleneck is the critical path: no device is busier than {busiest}{rest}."


def path_sentence(timeline: Timeline, path: Sequence[tuple[Sequence[int], Wait]]) -> str:
    """Say what the critical path consists of; ``path`` has the rows of each step, and what the step waited for."""
    acts, span = timeline.activities, timeline.end
    computing: dict[str, float] = {}
    sending = 0.0
    for rows, _ in path:
        seconds = float(acts.end[rows[0]] - acts.start[rows[0]])
        if acts.kind[rows[0]] == ActivityKind.RUN:
            name = timeline.resources[acts.resource[rows[0]]].name
            computing[name] = computing.get(name, 0.0) + seconds
        else:
            sending += seconds
    worth = {name: seconds for name, seconds in computing.items() if seconds >= WORTH_NAMING * span}
    parts = [
        f"{readable_share(seconds / span)} computing on {name!r}"
        for name, seconds in sorted(worth.items(), key=lambda pair: -pair[1])
    ]
    elsewhere = sum(computing.values()) - sum(worth.values())
    idle = 1 - (sum(computing.values()) + sending) / span
    for share, what in ((elsewhere / span, "computing elsewhere"), (sending / span, "sending"), (idle, "idle")):
        if share > SAME:
            parts.append(f"{readable_share(share)} {what}")
    queued = sum(wait not in ("nothing", "data", "device") for _, wait in path)
    times = {1: "once", 2: "twice"}.get(queued, f"{queued:,} times")
    wait = f"; {times} it waits for a port" if queued else ""
    return f"The critical path of {counted(len(path), 'step')} is {joined(parts)}{wait}."


def memory_binds(uses: Iterable[DeviceUse]) -> Iterator[str]:
    """Name the devices whose memory is nearly full."""
    for use in uses:
        used, limit = use.memory_bytes, use.memory_limit
        if limit and used >= FULL * limit:
            share = readable_share(used / limit)
            yield f"Memory is nearly full on {use.name!r}: {readable_bytes(used)} of {readable_bytes(limit)} ({share})."


def finders(incumbents: Sequence[Incumbent]) -> str:
    """Say which workers of the portfolio improved the plan and the bound; empty if one did everything.

    Examples
    --------
    >>> finders([Incumbent(seconds=0.1, objective=7, worker="lists"), Incumbent(seconds=0.2, objective=7, bound=3,
    ... worker="bound"), Incumbent(seconds=0.3, objective=5, bound=3, worker="cooling")])
    "The plan is from 'cooling', the bound from 'bound'."
    """
    known = [each for each in incumbents if each.worker]
    if len({each.worker for each in known}) < 2:
        return ""
    plan, bound = known[0], known[0]
    for before, each in pairwise([Incumbent(seconds=0.0), *known]):
        plan = each if each.objective != before.objective else plan
        bound = each if each.bound != before.bound else bound
    if plan.worker == bound.worker:
        return f"Plan and bound are from {plan.worker!r}."
    return f"The plan is from {plan.worker!r}, the bound from {bound.worker!r}."
