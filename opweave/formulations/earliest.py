"""Exact times for what a model has decided: every activity starts as soon as the decided orders allow.

Engines work with tolerances and whole ticks. Only decisions are taken from them: where something happens, and in which
order. A schedule whose activities then start as soon as they can is no longer than the engine's, up to its tolerance.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

ActivityT = TypeVar("ActivityT", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Activity:
    """Something that takes time.

    Attributes
    ----------
    seconds
        Its duration.
    near
        Its approximate start. Activities on one resource do not overlap, so their middles give the order.
    rank
        Decides between equal middles; it agrees with precedence.
    uses
        Resources that do one thing at a time.
    release
        Earliest start.
    """

    seconds: float
    near: float
    rank: int
    uses: Sequence[Hashable] = ()
    release: float = 0.0


def earliest_starts(
    activities: Mapping[ActivityT, Activity], before: Mapping[ActivityT, Sequence[tuple[ActivityT, float]]]
) -> dict[ActivityT, float]:
    """Start every activity as soon as possible, on each resource in the order of the middles.

    Parameters
    ----------
    activities
        The activities.
    before
        For every activity, those that must have ended so many seconds before it starts.

    Returns
    -------
    dict
        Starts, in an order that respects precedence.

    Examples
    --------
    >>> both = {"p": Activity(2.0, 1.9, 0, ["cpu"]), "q": Activity(1.0, 0.0, 1, ["cpu"])}
    >>> earliest_starts(both, {"p": (), "q": ()})
    {'q': 0.0, 'p': 1.0}
    """
    after: dict[ActivityT, list[ActivityT]] = {name: [] for name in activities}
    for name, earlier in before.items():
        for other, _ in earlier:
            after[other].append(name)
    waits = {name: len(before[name]) for name in activities}
    number = {name: k for k, name in enumerate(activities)}

    def key(name: ActivityT) -> tuple[float, int, int, ActivityT]:
        each = activities[name]
        return each.near + each.seconds / 2, each.rank, number[name], name

    ready = [key(name) for name, count in waits.items() if count == 0]
    heapq.heapify(ready)
    free: dict[Hashable, float] = {}
    begin: dict[ActivityT, float] = {}
    while ready:
        *_, name = heapq.heappop(ready)
        each = activities[name]
        arrivals = (begin[other] + activities[other].seconds + lag for other, lag in before[name])
        begin[name] = max([each.release, *arrivals, *(free.get(resource, 0.0) for resource in each.uses)])
        free.update(dict.fromkeys(each.uses, begin[name] + each.seconds))
        for other in after[name]:
            waits[other] -= 1
            if waits[other] == 0:
                heapq.heappush(ready, key(other))
    return begin
