"""Rules that hold for the timelines of all problems: exclusive resources, causes before effects, durations, memory.

Each rule yields violations in the order of the timeline. Times are compared with a tolerance in the timeline's unit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.measures import bytes_held
from opweave.problems.solution import Violation, broken
from opweave.problems.timeline import ActivityKind, ResourceKind, Timeline

DOES: Mapping[ResourceKind, tuple[str, str]] = {
    "device": ("overlap", "device {name!r} runs"),
    "send_port": ("port", "device {name!r} sends"),
    "receive_port": ("port", "device {name!r} receives"),
    "link": ("port", "link {name!r} carries"),
    "channel": ("port", "the channel carries"),
}
"""For each kind of resource, the rule that two simultaneous activities break, and the words for what it does."""


def describe(timeline: Timeline, activity: int) -> str:
    """Name an activity in a sentence: ``'conv1'``, ``tensor 'x' from 'a' to 'b'``."""
    acts = timeline.activities
    name = repr(timeline.name(int(acts.what[activity])))
    if acts.kind[activity] == ActivityKind.RUN:
        return name
    ends = (activity, int(acts.twin[activity]))
    source, target = ends if acts.kind[activity] == ActivityKind.SEND else ends[::-1]
    places = [timeline.resources[acts.resource[end]].name for end in (source, target)]
    reader = int(acts.reader[activity])
    whose = "" if reader < 0 else f" for {timeline.name(reader)!r}"
    return f"tensor {name} from {places[0]!r} to {places[1]!r}{whose}"


def one_at_a_time(timeline: Timeline, tolerance: float) -> Iterator[Violation]:
    """Exclusive resources that do two things at once.

    Of two activities, one must end no later than the other starts. The excess is the smaller of the two amounts by
    which they miss this. Each activity is compared with the latest-ending activity that started before it on its
    resource, so a clash is found whenever there is one.
    """
    acts, order = timeline.activities, timeline.in_time
    order = order[timeline.exclusive[acts.resource[order]]]
    longest = _longest_before(acts.resource[order], acts.end[order])
    start, end = acts.start[order], acts.end[order]
    against = order[longest]
    shared = np.minimum(acts.end[against] - start, end - acts.start[against])
    for position in np.flatnonzero((longest >= 0) & (shared > tolerance)).tolist():
        resource = timeline.resources[acts.resource[order[position]]]
        rule, does = DOES[resource.kind]
        first, second = (describe(timeline, int(row)) for row in (against[position], order[position]))
        message = f"{does.format(name=resource.name)} {first} and {second} at the same time"
        yield Violation(rule=rule, message=message, excess=float(shared[position]))


def _longest_before(resource: IntArray, end: FloatArray) -> IntArray:
    """The earlier activity on the same resource that ends last, -1 if none; given by resource and start."""
    found = np.full(len(end), -1, dtype=np.int64)
    borders = np.flatnonzero(np.diff(resource, prepend=-1, append=-1))
    for first, last in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
        if last - first < 2:
            continue
        ends = end[first:last]
        latest = np.maximum.accumulate(ends)
        raised = np.concatenate([[True], ends[1:] > latest[:-1]])
        holder = np.maximum.accumulate(np.where(raised, np.arange(first, last), first))
        found[first + 1 : last] = holder[:-1]
    return found


def causes_first(timeline: Timeline, tolerance: float) -> Iterator[Violation]:
    """Runs that start before their inputs are there, and transfers that start before their tensor is made."""
    acts = timeline.activities
    effect, cause = acts.causes.heads(), acts.causes.items
    early = acts.end[cause] - acts.start[effect]
    wrong = np.flatnonzero((early > tolerance) & (acts.kind[effect] != ActivityKind.RECEIVE))
    runs: dict[tuple[int, int], float] = {}
    for entry in wrong.tolist():
        row = int(effect[entry])
        if acts.kind[row] == ActivityKind.RUN:
            key = (row, int(acts.brought[entry]))
            runs[key] = max(runs.get(key, 0.0), float(acts.end[cause[entry]]))
            continue
        maker = int(cause[entry])
        made = f"{describe(timeline, maker)} on {timeline.resources[acts.resource[maker]].name!r}"
        message = f"{describe(timeline, row)} starts {early[entry]:.6g} s before {made} has made it"
        yield broken("precedence", message, float(early[entry]))
    for (row, brought), arrived in runs.items():
        starts, device = float(acts.start[row]), timeline.resources[acts.resource[row]].name
        message = (
            f"{describe(timeline, row)} starts at {starts:.6g} s, but its input {timeline.name(brought)!r} is on "
            f"{device!r} only from {arrived:.6g} s"
        )
        yield broken("precedence", message, arrived - starts)


def lasts_as_long(timeline: Timeline, seconds: FloatArray, tolerance: float) -> Iterator[Violation]:
    """Activities whose duration differs from the required one.

    Parameters
    ----------
    seconds
        Required duration of every activity; NaN if any duration is allowed. Shape (activities,).
    """
    acts = timeline.activities
    said = acts.end - acts.start
    with np.errstate(invalid="ignore"):
        off = np.abs(said - seconds)
        wrong = np.flatnonzero((off > tolerance) & (acts.kind == ActivityKind.SEND))
    for row in wrong.tolist():
        message = f"{describe(timeline, row)} takes {seconds[row]:.6g} s, not {said[row]:.6g} s"
        yield broken("transfer", message, float(off[row]))


def within_memory(timeline: Timeline, limits: Sequence[int | None]) -> Iterator[Violation]:
    """Devices that hold more bytes than their memory.

    Parameters
    ----------
    limits
        By resource, devices first; None for no limit.
    """
    for resource, limit, used in zip(timeline.resources, limits, bytes_held(timeline).tolist(), strict=False):
        yield from over_memory(resource.name, used, limit)


def over_memory(device: str, used: int, limit: int | None) -> Iterator[Violation]:
    """Bytes on one device that exceed its memory; None for no limit."""
    if limit is not None and used > limit:
        message = f"device {device!r} holds {used:,} bytes: {used - limit:,} over its memory of {limit:,}"
        yield broken("memory", message, float(used - limit))
