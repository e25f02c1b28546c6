"""A schedule as a picture: what every device and port does when, the critical path, and how busy each of them is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opweave.adapters.report.figures import BEST, CRITICAL, MUTED, SENT, new_panels, safe_text
from opweave.adapters.report.gantt import (
    TIME_SHARE,
    WIDTH,
    Bar,
    add_legend,
    draw_bars,
    dress_shares,
    dress_time,
    share_bar,
    time_scale,
)
from opweave.adapters.report.placement.plan import DeviceUse
from opweave.adapters.report.timeline_trace import lanes
from opweave.adapters.report.units import readable_bytes
from opweave.problems.placement.spec import Placement, PlacementDetails, Schedule, Transfer

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DRAWN_DEVICES = 16
"""The busiest devices are drawn; a picture cannot show more."""

NAMED_OPERATORS = 80
"""Up to this many operators get their names where these fit."""

DEVICE_HEIGHT, PORT_HEIGHT, GAP = 1.0, 0.42, 0.3


@dataclass(frozen=True, slots=True)
class _Row:
    """A horizontal band: a device or one of its ports, its top at ``top`` (downwards)."""

    label: str
    note: str
    top: float
    height: float
    share: float | None
    colour: str


@dataclass(frozen=True, slots=True)
class _Bar:
    """Something that happens; ``lane`` of ``lanes`` within its row."""

    name: str
    start: float
    end: float
    critical: bool
    lane: int = 0
    lanes: int = 1


def placement_figure(
    problem: Placement,
    schedule: Schedule,
    details: PlacementDetails,
    *,
    uses: Sequence[DeviceUse],
    sent: Sequence[Transfer],
    bound: float | None,
    headline: str,
) -> Figure:
    """Draw a Gantt chart with a row for each device and each port in use, and how busy they are beside it.

    Parameters
    ----------
    problem, schedule, details
        What was solved, the plan, and what the referee measured of it.
    uses
        A row for each device.
    sent
        The plan's transfers by start.
    bound
        Proved lower bound of the makespan; None when there is none.
    headline
        The title.
    """
    shown = _shown(uses)
    bands = _bands(schedule, details, shown=shown, sent=sent)
    bottom = max((row.top + row.height for row, _ in bands), default=1.0)
    figure, (axes, shares) = new_panels(WIDTH, 1.9 + 0.42 * bottom, (6.0, 1.0))
    scale, unit = time_scale(details.makespan)
    span = max(details.makespan, bound or 0.0) / scale or 1.0
    named = len(schedule.device) <= NAMED_OPERATORS
    for row, bars in bands:
        _draw(axes, row, bars, scale=scale, span=span, named=named)
        share_bar(
            shares,
            row.top + row.height / 2,
            row.share,
            height=row.height,
            colour=row.colour,
            size=9.5 if row.colour == BEST else 8,
        )
    _label_rows(axes, [row for row, _ in bands], bottom)
    dress_time(axes, makespan=details.makespan, bound=bound, scale=scale, unit=unit, span=span)
    dress_shares(shares, bottom + 0.15, -0.25)
    axes.set_title(safe_text(headline), fontsize=14, fontweight="bold", loc="left", pad=24)
    idle = len(uses) - len(shown)
    hidden = f"; {idle} devices not shown" if idle else ""
    subtitle = f"{len(schedule.device):,} operators, {len(sent):,} transfers; {problem.assumptions()}{hidden}"
    axes.text(0, 1.0, subtitle, transform=axes.transAxes, fontsize=9.5, color=MUTED, va="bottom")
    add_legend(figure, _legend(), details.makespan, bound)
    return figure


def _shown(uses: Sequence[DeviceUse]) -> list[DeviceUse]:
    """The devices that fit, in the cluster's order; the busiest where not all do."""
    ranked = sorted(uses, key=lambda use: (-use.operators, -use.busy_seconds))
    kept = {use.name for use in ranked[:DRAWN_DEVICES]}
    return [use for use in uses if use.name in kept]


def _bands(
    schedule: Schedule,
    details: PlacementDetails,
    *,
    shown: Sequence[DeviceUse],
    sent: Sequence[Transfer],
) -> list[tuple[_Row, list[_Bar]]]:
    """Rows from the top down, each with its bars."""
    critical = {step.operator for step in details.critical_path}
    routes = {(step.tensor, step.consumer, step.target) for step in details.critical_path if step.operator is None}
    runs: dict[str, list[_Bar]] = {use.name: [] for use in shown}
    for name, device in schedule.device.items():
        if device in runs:
            runs[device].append(_Bar(name, schedule.start[name], details.ends[name], name in critical))
    sends = _port_bars(sent, [one.source for one in sent], routes)
    receives = _port_bars(sent, [one.target for one in sent], routes)
    bands = []
    top = 0.0
    for use in shown:
        limit = "" if use.memory_limit is None else f" / {readable_bytes(use.memory_limit)}"
        note = f"{readable_bytes(use.memory_bytes)}{limit}" if use.operators else "not used"
        rows = [(_short(use.name, 22), note, DEVICE_HEIGHT, use.busy_share, BEST, runs[use.name])]
        for word, share, bars in (("sends", use.send_share, sends), ("receives", use.receive_share, receives)):
            if use.name in bars:
                rows.append((word, "", PORT_HEIGHT, share, SENT, bars[use.name]))
        for label, about, height, share, colour, bars_here in rows:
            bands.append((_Row(label, about, top, height, share, colour), bars_here))
            top += height + 0.06
        top += GAP
    return bands


def _port_bars(
    sent: Sequence[Transfer], places: Sequence[str], critical: set[tuple[str | None, str | None, str]]
) -> dict[str, list[_Bar]]:
    lane_of = lanes((place, one.start, one.end) for place, one in zip(places, sent, strict=True))
    count: dict[str, int] = {}
    for place, lane in zip(places, lane_of, strict=True):
        count[place] = max(count.get(place, 1), lane + 1)
    bars: dict[str, list[_Bar]] = {}
    for one, place, lane in zip(sent, places, lane_of, strict=True):
        marked = (one.tensor, one.consumer, one.target) in critical
        bars.setdefault(place, []).append(_Bar(one.tensor, one.start, one.end, marked, lane, count[place]))
    return bars


def _draw(axes: Axes, row: _Row, bars: Sequence[_Bar], *, scale: float, span: float, named: bool) -> None:
    """Draw a row's bars: the critical ones last, so that they stay visible among thousands."""
    axes.axhspan(row.top, row.top + row.height, color="#F4F4F4", linewidth=0, zorder=0)
    for critical in (False, True):
        colour = CRITICAL if critical else row.colour
        chosen = [
            Bar(
                start=bar.start / scale,
                width=(bar.end - bar.start) / scale,
                top=row.top + bar.lane * row.height / bar.lanes,
                height=row.height / bar.lanes,
                colour=colour,
            )
            for bar in bars
            if bar.critical is critical
        ]
        draw_bars(axes, chosen, span=span, gap=0.8 if named else 0.4, order=3 if critical else 2)
    if named and row.colour == BEST:
        for bar in bars:
            _name_bar(axes, row, bar, scale=scale, span=span)


def _name_bar(axes: Axes, row: _Row, bar: _Bar, *, scale: float, span: float) -> None:
    """Write an operator's name into its bar where it fits."""
    inches = (bar.end - bar.start) / scale / span * WIDTH * TIME_SHARE
    letters = int(inches / 0.075) - 1
    if letters < 3:
        return
    axes.text(
        (bar.start + bar.end) / 2 / scale,
        row.top + row.height / 2,
        _short(bar.name, letters),
        ha="center",
        va="center",
        fontsize=8.5,
        color="white",
        fontweight="bold",
        zorder=5,
        clip_on=True,
    )


def _label_rows(axes: Axes, rows: Sequence[_Row], bottom: float) -> None:
    axes.set_ylim(bottom + 0.15, -0.25)
    axes.set_yticks([row.top + row.height / 2 for row in rows])
    labels = axes.set_yticklabels([safe_text(f"{row.label}\n{row.note}" if row.note else row.label) for row in rows])
    for row, label in zip(rows, labels, strict=True):
        is_device = row.colour == BEST
        label.set_fontsize(9.5 if is_device else 8)
        label.set_color("#222222" if is_device else MUTED)


def _legend() -> list[Artist]:
    from matplotlib.patches import Patch

    named = (("computing", BEST), ("sending, receiving", SENT), ("critical path", CRITICAL))
    return [Patch(color=colour, label=label) for label, colour in named]


def _short(name: str, letters: int) -> str:
    if len(name) <= letters:
        return safe_text(name)
    half = max(1, (letters - 2) // 2)
    return safe_text(f"{name[: letters - 2 - half]}..{name[-half:]}" if letters > 5 else name[:letters])
