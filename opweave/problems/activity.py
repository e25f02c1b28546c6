"""Things that happen on devices and ports, one at a time: what the referees of schedules share."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

WhatT = TypeVar("WhatT", bound=Hashable)


@dataclass(frozen=True, slots=True, eq=False)
class Activity(Generic[WhatT]):
    """Something that runs or travels, with its times in seconds; ``rank`` grows along the data."""

    what: WhatT
    rank: int
    start: float
    end: float

    def __str__(self) -> str:
        return repr(self.what) if isinstance(self.what, str) else str(self.what)


def in_time(activities: Iterable[Activity[WhatT]]) -> list[Activity[WhatT]]:
    """By start; what takes 0 seconds before what starts with it, and in the order of the data."""
    return sorted(activities, key=lambda activity: (activity.start, activity.end, activity.rank))


def clashes(
    timeline: Iterable[Activity[WhatT]], tolerance: float
) -> Iterator[tuple[Activity[WhatT], Activity[WhatT], float]]:
    """Activities that overlap the one that was to last longest of those that started before, and by how much.

    Of two activities one must end no later than the other starts; the smaller of the two ways to fail counts. If any
    two clash, some clash is found, and there are no more of them than activities.

    Parameters
    ----------
    timeline
        As :func:`in_time` lists it.
    tolerance
        Seconds that two may share.
    """
    longest: Activity[WhatT] | None = None
    for activity in timeline:
        if longest is not None:
            shared = min(longest.end - activity.start, activity.end - longest.start)
            if shared > tolerance:
                yield longest, activity, shared
        if longest is None or activity.end > longest.end:
            longest = activity
