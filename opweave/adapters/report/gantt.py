"""What the pictures of schedules share: the end and the bound, how busy the devices are, and their legend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from opweave.adapters.report.figures import BOUND
from opweave.adapters.report.units import TIME_UNITS, precise_seconds

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 12.0
"""Inches of a picture."""

TIME_SHARE = 0.72
"""Of the width is the time axis."""

END = "#333333"
DASHES = (0, (5, 3))


LEAST, PARTED = 1 / 3000, 1 / 250
"""Shares of the time axis: what could not be seen if it were narrower; what has room for a gap beside it."""


class Bar(NamedTuple):
    """A rectangle to fill, in the units of the axes; ``top`` downwards."""

    start: float
    width: float
    top: float
    height: float
    colour: str


def time_scale(makespan: float) -> tuple[float, str]:
    """Seconds of the unit in which a schedule is drawn, and its name."""
    return next((pair for pair in TIME_UNITS if makespan >= pair[0]), TIME_UNITS[-1])


def draw_bars(axes: Axes, bars: Sequence[Bar], *, span: float, gap: float, order: float) -> None:
    """Fill bars on an axis of ``span`` units, thousands of them at once.

    Only bars with room for it get a white edge, of ``gap`` points; the narrow ones are drawn over these edges. So the
    share of a row that is filled looks as large as it is.
    """
    from matplotlib.collections import PolyCollection

    for wide in (True, False):
        chosen = [bar for bar in bars if (bar.width > PARTED * span) is wide]
        axes.add_collection(
            PolyCollection(
                [_corners(bar, LEAST * span) for bar in chosen],
                facecolors=[bar.colour for bar in chosen],
                edgecolors="white" if wide else "none",
                linewidths=gap if wide else 0.0,
                zorder=order,
            )
        )


def _corners(bar: Bar, least: float) -> list[tuple[float, float]]:
    end, bottom = bar.start + max(bar.width, least), bar.top + bar.height
    return [(bar.start, bar.top), (end, bar.top), (end, bottom), (bar.start, bottom)]


def dress_time(axes: Axes, *, makespan: float, bound: float | None, scale: float, unit: str, span: float) -> None:
    """Mark the end and the bound, both in seconds, on an axis of ``span`` units of ``scale`` seconds."""
    axes.axvline(makespan / scale, color=END, linewidth=1.6, zorder=6)
    if bound is not None and bound > 0:
        axes.axvline(bound / scale, color=BOUND, linewidth=1.4, linestyle=DASHES, zorder=6)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x", color="#E3E3E3", linewidth=0.8)
    axes.set_xlim(0, span * 1.012)
    axes.set_xlabel(f"time ({unit})", fontsize=11)


def share_bar(axes: Axes, place: float, share: float | None, *, height: float, colour: str, size: float) -> None:
    """Draw a share of the time, from 0 to 100 %, with its number in letters of ``size`` points."""
    part = min(share or 0.0, 1.0)
    axes.barh(place, 1.0, height=height, color="#F4F4F4", linewidth=0)
    axes.barh(place, part, height=height, color=colour, alpha=0.85, linewidth=0)
    inside = part > 0.6
    axes.text(
        part - 0.04 if inside else part + 0.04,
        place,
        _percent(share),
        ha="right" if inside else "left",
        va="center",
        fontsize=size,
        color="white" if inside else "#222222",
    )


def dress_shares(axes: Axes, bottom: float, top: float) -> None:
    """Scale the axes of shares to the rows beside them."""
    axes.set_ylim(bottom, top)
    axes.set_xlim(0, 1)
    axes.set_yticks([])
    axes.set_xticks([0, 0.5, 1], ["0", "50", "100 %"])
    axes.spines["left"].set_visible(False)
    axes.grid(visible=False)
    axes.set_xlabel("busy", fontsize=11)


def add_legend(figure: Figure, handles: list[Artist], makespan: float, bound: float | None) -> None:
    """Put a legend below: ``handles``, the end, and the bound where there is one."""
    from matplotlib.lines import Line2D

    handles.append(Line2D([], [], color=END, linewidth=1.6, label=f"end: {precise_seconds(makespan)}"))
    if bound is not None and bound > 0:
        label = f"lower bound: no plan ends before {precise_seconds(bound)}"
        handles.append(Line2D([], [], color=BOUND, linewidth=1.4, linestyle=DASHES, label=label))
    rows = 1 if len(handles) <= 6 else 2
    columns = -(-len(handles) // rows)
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False, fontsize=9.5)


def _percent(share: float | None) -> str:
    return "-" if share is None else "0 %" if share == 0 else "< 1 %" if share < 0.01 else f"{100 * share:.0f} %"
