"""Objective and lower bound over the time of a search, as a picture in HTML."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from opweave.adapters.report.html import text
from opweave.problems.result import Incumbent
from opweave.problems.units import precise_seconds, readable

ROOM = 0.08
"""Space above and below the lines, as a share of the height."""

LEVELS, MOMENTS = 4, 5
"""About as many labels are at the axes."""


def trace(incumbents: Sequence[Incumbent], seconds: float, unit: str) -> str:
    """Draw two lines of steps; the labels keep their size, whatever the width of the page.

    Parameters
    ----------
    incumbents
        How objective and bound changed.
    seconds
        When the search ended.
    unit
        The objective's unit.
    """
    lines = {
        "bound": [(each.seconds, each.bound) for each in incumbents if each.bound is not None],
        "objective": [(each.seconds, each.objective) for each in incumbents if each.objective is not None],
    }
    values = [float(value) for points in lines.values() for _, value in points]
    if not values:
        return ""
    last = max(seconds, incumbents[-1].seconds, 1e-6)
    low, high = min(values), max(values)
    space = ROOM * (high - low or abs(high) or 1.0)
    low, high = low - space, high + space

    def y(value: float) -> float:
        return 100 * (high - value) / (high - low)

    paths = "".join(
        f'<path class="{name}" d="{_steps([(100 * at / last, y(float(value))) for at, value in points])}"/>'
        for name, points in lines.items()
        if points
    )
    levels = "".join(
        f'<i style="top: {y(value):.2f}%"></i>'
        f'<span class="level" style="top: {y(value):.2f}%">{text(readable(value, unit))}</span>'
        for value in _round(low, high, LEVELS, 1024 if unit == "bytes" else 1000)
        if value >= 0
    )
    moments = "".join(
        f'<span class="moment" style="left: {100 * at / last:.2f}%">{text(precise_seconds(at))}</span>'
        for at in _round(0.0, last, MOMENTS, 1000)
        if at <= 0.95 * last
    )
    box = f'<svg viewBox="0 0 100 100" preserveAspectRatio="none" aria-hidden="true">{paths}</svg>'
    found = [f"{name} {readable(points[-1][1], unit)}" for name, points in lines.items() if points]
    told = f"After {precise_seconds(last)}: {' and '.join(found[::-1])}."
    return f'<div class="trace" role="img" aria-label="{text(told)}">{levels}{box}{moments}</div>'


def _steps(points: Sequence[tuple[float, float]]) -> str:
    (first, level), *others = points
    moves = "".join(f"H{x:.3f}V{y:.3f}" for x, y in others)
    return f"M{first:.3f} {level:.3f}{moves}H100"


def _round(low: float, high: float, count: int, base: int) -> Iterator[float]:
    """Round numbers in an interval: 1, 2 or 5 times a power of ten, in the unit of the largest, a power of ``base``."""
    largest = max(abs(low), abs(high))
    unit = float(base) ** max(0, math.floor(math.log(largest, base))) if base == 1024 and largest >= 1 else 1.0
    rough = (high - low) / unit / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next((each * power for each in (1, 2, 5) if each * power >= rough), 10 * power) * unit
    yield from (number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1))
