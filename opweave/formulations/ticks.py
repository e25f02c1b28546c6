"""Ticks: the whole numbers that constraint programs count seconds in."""

from __future__ import annotations

TICKS = 10_000_000
"""Ticks of the horizon for every activity, where durations have no common measure: rounding adds up along paths."""

MOST_TICKS = 2**28
"""Ticks of the horizon at most. From about 2**33 on, CP-SAT's presolve loses solutions: it has called 7.0 optimal where
6.25 was, and found 6.25 without presolve."""

WHOLE = 1e-9
"""Relative distance from a whole number of ticks that still counts as one."""


def fine_tick(activities: int, horizon: float) -> float:
    """Seconds of a tick so small that rounding does not matter, even summed up along a path of all activities."""
    return horizon / min(TICKS * max(1, activities), MOST_TICKS) if horizon > 0 else 1.0
