"""A Gantt chart of any timeline: one row per device and port in use, the critical path, and how busy each row is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from opweave.adapters.report.figures import (
    BEST,
    BOUND,
    CRITICAL,
    DASHES,
    MOST_SHAPES,
    MUTED,
    SENT,
    entitle,
    new_panels,
    safe_text,
    shortened,
)
from opweave.adapters.report.timeline_tables import DeviceUse
from opweave.adapters.report.timeline_trace import lanes
from opweave.problems.arrays import BoolArray, FloatArray, IntArray
from opweave.problems.measures import critical_rows, utilisation
from opweave.problems.timeline import ActivityKind, ResourceKind, Timeline
from opweave.problems.units import precise_seconds, readable_bytes, unit_of

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, TIME_SHARE = 12.0, 0.72
"""Width of a picture in inches, and the share of it that the time axis takes."""

DRAWN_DEVICES = 16
"""Only the busiest devices are drawn; a picture cannot show more."""

DRAWN_ROUNDS = 6
"""Number of inputs that are drawn if inputs follow each other."""

NAMED_RUNS = 160
"""If there are no more runs than this, each is labelled with its name where that fits."""

DEVICE_HEIGHT, PORT_HEIGHT, BETWEEN, GAP = 1.0, 0.42, 0.06, 0.3

STRIPE = 0.19
"""Height of the stripe that marks critical runs where the runs themselves are shaded by batch size."""

SHADES = ("#C6DBEF", "#9ECAE1", "#6BAED6", "#3182BD", "#08519C")
"""Colours from the smallest batch to the largest."""

LEAST, PARTED = 1 / 3000, 1 / 250
"""Shares of the time axis: the least visible width of a bar, and the least width of one with a gap beside it."""

END = "#333333"
PORT_WORDS: Mapping[ResourceKind, str] = {"send_port": "sends", "receive_port": "receives"}

SAME = 1e-9
"""Resources whose busy shares differ by no more than this are all the bottleneck."""


@dataclass(frozen=True, slots=True)
class Band:
    """A row of the chart: a resource, its labels, and its position (counted downwards)."""

    resource: int
    label: str
    top: float
    height: float
    device: bool

    @property
    def middle(self) -> float:
        """Position of the label."""
        return self.top + self.height / 2

    @property
    def colour(self) -> str:
        """Colour of the bars in this row."""
        return BEST if self.device else SENT


def _marked_rows(timeline: Timeline) -> BoolArray:
    """Activities on the critical path or, if inputs follow each other, on the bottleneck. Shape (activities,)."""
    marked = np.zeros(len(timeline.activities), dtype=bool)
    if timeline.period is None:
        marked[[row for rows, _ in critical_rows(timeline) for row in rows]] = True
        return marked
    busy = utilisation(timeline)
    worst = (busy >= busy.max(initial=0.0) * (1 - SAME)) & timeline.exclusive
    own, twin = worst[timeline.activities.resource], timeline.activities.twin
    both: BoolArray = own | ((twin >= 0) & own[twin])
    return both


def gantt_figure(
    timeline: Timeline, uses: Sequence[DeviceUse], *, headline: str, subtitle: str, bound: float | None
) -> Figure:
    """Draw a timeline with one row per device and port in use, and how busy each of them is.

    If runs process several inputs, darker colours mean larger batches, and a stripe above a run marks it as critical.

    Parameters
    ----------
    timeline, uses
        What happens, and what it demands of each device.
    headline, subtitle
        The title, and the line under it.
    bound
        Proved lower bound of the last end, in seconds; None if there is none.
    """
    ranked = sorted(uses, key=lambda use: (-use.runs, -use.busy_seconds))[:DRAWN_DEVICES]
    rows = _bands(timeline, [use for use in uses if use in ranked])
    bottom = max((band.top + band.height for band in rows), default=1.0)
    figure, (axes, shares) = new_panels(WIDTH, 1.9 + 0.42 * bottom, (6.0, 1.0))
    end = _draw(axes, timeline, rows, bound or 0.0)
    busy = utilisation(timeline).tolist()
    for band in rows:
        _share_bar(shares, band, busy[band.resource] if timeline.end > 0.0 else None)
    _dress_shares(shares, bottom)
    hidden = f"; {len(uses) - len(ranked)} devices not shown" if len(uses) > len(ranked) else ""
    entitle(axes, headline, subtitle + hidden)
    handles = _legend(timeline)
    if timeline.period is None:
        handles += _mark_end(axes, timeline.end, bound, end)
    in_a_row = -(-len(handles) // (1 if len(handles) <= 6 else 2))
    figure.legend(handles=handles, loc="outside lower center", ncols=in_a_row, frameon=False, fontsize=9.5)
    return figure


def _bands(timeline: Timeline, uses: Sequence[DeviceUse]) -> list[Band]:
    """The rows from the top down: each device with its memory and its ports in use, then links and channels."""
    used = set(timeline.activities.resource.tolist())
    found: list[Band] = []
    top = 0.0

    def add(resource: int, label: str, *, device: bool) -> None:
        nonlocal top
        height = DEVICE_HEIGHT if device else PORT_HEIGHT
        found.append(Band(resource, label, top, height, device))
        top += height + BETWEEN

    for use in uses:
        for row, resource in enumerate(timeline.resources):
            if resource.name != use.name:
                continue
            if resource.kind == "device":
                limit = "" if use.memory_limit is None else f" / {readable_bytes(use.memory_limit)}"
                held = f"{readable_bytes(use.memory_bytes)}{limit}" if use.memory_bytes or limit else ""
                add(row, f"{shortened(use.name, 22)}\n{held if use.runs else 'not used'}".rstrip(), device=True)
            elif row in used and resource.kind in PORT_WORDS:
                add(row, PORT_WORDS[resource.kind], device=False)
        top += GAP
    for row, resource in enumerate(timeline.resources):
        if row in used and resource.kind in ("link", "channel"):
            add(row, shortened(resource.name, 22), device=False)
    return found


def _draw(axes: Axes, timeline: Timeline, rows: Sequence[Band], bound: float) -> float:
    """Draw the activities of some rows; return the length of the time axis' unit in seconds."""
    acts = timeline.activities
    drawn = acts.round < DRAWN_ROUNDS
    until = max(bound, float(acts.end[drawn].max(initial=0.0)) if timeline.period is not None else timeline.end)
    scale, unit = unit_of(until, "seconds")
    span = until / scale or 1.0
    marked, sizes = _marked_rows(timeline), _sizes(timeline)
    named = int((drawn & (acts.kind == ActivityKind.RUN)).sum()) <= NAMED_RUNS
    gap = 0.8 if named else 0.4
    for band in rows:
        axes.axhspan(band.top, band.top + band.height, color="#F4F4F4", linewidth=0, zorder=0)
        chosen = np.flatnonzero((acts.resource == band.resource) & drawn)
        chosen = chosen[np.argsort(acts.start[chosen], kind="stable")]
        shades = sizes if band.device and sizes[-1:] > [1] else []
        boxes, critical = _boxes(timeline, band, chosen, scale=scale, striped=bool(shades)), marked[chosen]
        if shades:
            colours = [_shade(count, shades) for count in acts.count[chosen].tolist()]
            _draw_boxes(axes, boxes, colours, span=span, gap=gap, order=2)
            boxes[:, 2], boxes[:, 3] = band.top, band.top + 0.7 * STRIPE * band.height
        else:
            _draw_boxes(axes, boxes[~critical], band.colour, span=span, gap=gap, order=2)
        # critical ones last, so that they stay visible among thousands
        _draw_boxes(axes, boxes[critical], CRITICAL, span=span, gap=0.0 if shades else gap, order=3)
        if named:
            for row in chosen.tolist() if band.device or timeline.period is not None else ():
                _name(axes, timeline, band, row, scale=scale, span=span, sizes=shades)
    _dress(axes, timeline, rows, scale=scale, unit=unit, span=span)
    return scale


def _sizes(timeline: Timeline) -> list[int]:
    """The batch sizes of all runs, ascending."""
    acts = timeline.activities
    return sorted(set(acts.count[acts.kind == ActivityKind.RUN].tolist()))


def _boxes(timeline: Timeline, band: Band, chosen: IntArray, *, scale: float, striped: bool) -> FloatArray:
    """Left, right, top and bottom of each activity; overlapping ones share the row's height. Shape (chosen, 4)."""
    start, end = timeline.activities.start[chosen] / scale, timeline.activities.end[chosen] / scale
    lane = np.zeros(len(chosen))
    if not timeline.exclusive[band.resource]:
        lane[:] = lanes(("", *ends) for ends in zip(start.tolist(), end.tolist(), strict=True))
    stripe = STRIPE * band.height if striped else 0.0
    height = (band.height - stripe) / (lane.max(initial=0.0) + 1.0)
    top = band.top + stripe + lane * height
    return np.stack([start, end, top, top + height], axis=1)


def _shade(size: int, sizes: Sequence[int]) -> str:
    place = sizes.index(size) / (len(sizes) - 1) if len(sizes) > 1 else 0.75
    return SHADES[round(place * (len(SHADES) - 1))]


def _name(
    axes: Axes, timeline: Timeline, band: Band, row: int, *, scale: float, span: float, sizes: Sequence[int]
) -> None:
    """Label a bar, if the label fits: with the name, and with the batch size or the number of the input."""
    acts = timeline.activities
    start, end, count = float(acts.start[row]), float(acts.end[row]), int(acts.count[row])
    letters = int((end - start) / scale / span * WIDTH * TIME_SHARE / 0.075) - 1
    text, size, least = timeline.name(int(acts.what[row])), 8.5, 3
    if timeline.period is not None and acts.round.any():
        text, size, least = str(int(acts.round[row]) + 1), 7.5, 1
    elif sizes:
        last, size, least = text.split(".")[-1], 7.0, 2
        text = f"{last}\nx{count}" if len(last) <= letters else f"x{count}"
    if letters < least or (letters < 6 and len(text) > letters and not sizes):
        return
    axes.text(
        (start + end) / 2 / scale,
        band.middle + (STRIPE * band.height / 2 if sizes else 0.0),
        safe_text(text) if sizes else shortened(text, letters),
        ha="center",
        va="center",
        fontsize=size,
        color="#222222" if sizes and _shade(count, sizes) in SHADES[:2] else "white",
        fontweight="normal" if sizes else "bold",
        linespacing=0.95,
        zorder=5,
        clip_on=True,
    )


def _draw_boxes(
    axes: Axes, boxes: FloatArray, colours: str | Sequence[str], *, span: float, gap: float, order: float
) -> None:
    """Fill boxes on an axis of ``span`` units, thousands of them at once, in one colour or in one for each.

    Wide boxes get a white edge of ``gap`` points. Narrow ones get none and are drawn over those edges. So the filled
    share of a row looks as large as it is.
    """
    from matplotlib.collections import PolyCollection

    left, right, top, bottom = boxes.T
    corners = np.stack([left, top, right, top, right, bottom, left, bottom], axis=1).reshape(-1, 4, 2)
    corners[:, 1:3, 0] = np.maximum(right, left + LEAST * span)[:, None]
    wide = right - left > PARTED * span
    for part, edge, line in ((wide, "white", gap), (~wide, "none", 0.0)):
        filled = np.broadcast_to(colours, len(boxes))[part].tolist()
        drawn = PolyCollection(list(corners[part]), facecolors=filled, edgecolors=edge, linewidths=line, zorder=order)
        drawn.set_rasterized(len(filled) > MOST_SHAPES)
        axes.add_collection(drawn)


def _dress(axes: Axes, timeline: Timeline, rows: Sequence[Band], *, scale: float, unit: str, span: float) -> None:
    """Label the rows and the time axis; if inputs follow each other, mark when each result is ready."""
    acts = timeline.activities
    bottom = max((band.top + band.height for band in rows), default=1.0) + 0.15
    axes.set_ylim(bottom, -0.25)
    axes.set_yticks([band.middle for band in rows])
    for band, label in zip(rows, axes.set_yticklabels([safe_text(band.label) for band in rows]), strict=True):
        label.set_fontsize(9.5 if band.device else 8)
        label.set_color("#222222" if band.device else MUTED)
    played = np.unique(acts.round[acts.round < DRAWN_ROUNDS]) if timeline.period is not None else np.empty(0, int)
    if len(played):
        ends = [float(acts.end[acts.round == number].max()) / scale for number in played.tolist()]
        axes.vlines(ends, -0.25, bottom, color=BOUND, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x", color="#E3E3E3", linewidth=0.8)
    axes.set_xlim(0, span * 1.012)
    inputs = (
        "" if timeline.period is None else "one input: " if len(played) == 1 else f"the first {len(played)} inputs: "
    )
    axes.set_xlabel(f"{inputs}time ({unit})", fontsize=11)


def _share_bar(axes: Axes, band: Band, share: float | None) -> None:
    """Draw a share of the time, from 0 to 100 %, with its number."""
    part = min(share or 0.0, 1.0)
    axes.barh(band.middle, 1.0, height=band.height, color="#F4F4F4", linewidth=0)
    axes.barh(band.middle, part, height=band.height, color=band.colour, alpha=0.85, linewidth=0)
    inside = part > 0.6
    axes.text(
        part - 0.04 if inside else part + 0.04,
        band.middle,
        "-" if share is None else "0 %" if share == 0 else "< 1 %" if share < 0.01 else f"{100 * share:.0f} %",
        ha="right" if inside else "left",
        va="center",
        fontsize=9.5 if band.device else 8,
        color="white" if inside else "#222222",
    )


def _dress_shares(axes: Axes, bottom: float) -> None:
    axes.set_ylim(bottom + 0.15, -0.25)
    axes.set_xlim(0, 1)
    axes.set_yticks([])
    axes.set_xticks([0, 0.5, 1], ["0", "50", "100 %"])
    axes.spines["left"].set_visible(False)
    axes.grid(visible=False)
    axes.set_xlabel("busy", fontsize=11)


def _legend(timeline: Timeline) -> list[Artist]:
    """The meaning of a chart's colours."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    sizes = _sizes(timeline)
    shown = sizes if len(sizes) <= 5 else [sizes[0], sizes[len(sizes) // 2], sizes[-1]]
    handles: list[Artist] = [Patch(color=BEST, label="computing")]
    if sizes[-1:] > [1]:
        handles = [Patch(color=_shade(size, sizes), label=f"batch of {size}") for size in shown]
    if (timeline.activities.kind != ActivityKind.RUN).any():
        handles.append(Patch(color=SENT, label="sending, receiving"))
    handles.append(Patch(color=CRITICAL, label="critical path" if timeline.period is None else "bottleneck"))
    if timeline.period is not None:
        style = (0, (4, 3))
        handles.append(Line2D([], [], color=BOUND, linewidth=0.8, linestyle=style, label="a result is ready"))
    return handles


def _mark_end(axes: Axes, end: float, bound: float | None, scale: float) -> list[Artist]:
    """Draw the last end and its lower bound; return their entries of the legend."""
    from matplotlib.lines import Line2D

    axes.axvline(end / scale, color=END, linewidth=1.6, zorder=6)
    handles: list[Artist] = [Line2D([], [], color=END, linewidth=1.6, label=f"end: {precise_seconds(end)}")]
    if bound is not None and bound > 0:
        style = (0, DASHES[0])
        axes.axvline(bound / scale, color=BOUND, linewidth=1.4, linestyle=style, zorder=6)
        label = f"lower bound: no plan ends before {precise_seconds(bound)}"
        handles.append(Line2D([], [], color=BOUND, linewidth=1.4, linestyle=style, label=label))
    return handles
