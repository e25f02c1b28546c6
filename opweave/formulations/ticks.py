"""Ticks: the integers in which constraint programs count seconds."""

from __future__ import annotations

TICKS = 10_000_000
"""Ticks of the horizon per activity, if durations have no common measure; rounding errors add up along paths."""

MOST_TICKS = 2**28
"""Most ticks of the horizon. From about 2**33 on, CP-SAT's presolve loses solutions: it has called 7.0 optimal where
the optimum was 6.25, which it found without presolve."""

MOST_OF_ANY = 2**40
"""Most ticks of a duration. Nothing so long ends within a horizon, and thousands of them add up to 64-bit numbers."""

WHOLE = 1e-9
"""Relative distance from an integer number of ticks that still counts as one."""


def fine_tick(activities: int, horizon: float) -> float:
    """A tick in seconds, so small that rounding does not matter even when summed along a path of all activities."""
    return horizon / min(TICKS * max(1, activities), MOST_TICKS) if horizon > 0 else 1.0
