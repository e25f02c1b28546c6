"""A Gantt chart of any timeline: one row per device and port in use, the critical path, and how busy each row is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from opweave.adapters.report.figures import (
    BEST,
    BOUND,
    CRITICAL,
    DASHES,
    MUTED,
    SENT,
    boxes_of,
    entitle,
    new_panels,
    safe_text,
    shortened,
)
from opweave.adapters.report.timeline_tables import DeviceUse, lanes, rows_of
from opweave.problems.arrays import BoolArray, FloatArray, IntArray
from opweave.problems.measures import critical_rows, utilisation
from opweave.problems.timeline import ActivityKind, Timeline
from opweave.problems.units import precise_seconds, readable_bytes, unit_of

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, TIME_SHARE, LETTER = 12.0, 0.72, 0.075
"""Width of a picture in inches, the share of it that the time axis takes, and the width of a letter in inches."""

DRAWN_DEVICES = 16
"""Only the busiest devices are drawn; a picture cannot show more."""

DRAWN_ROUNDS = 6
"""Number of inputs that are drawn if inputs follow each other."""

NAMED_RUNS = 160
"""If there are no more runs than this, each is labelled with its name where that fits."""

DEVICE_HEIGHT, PORT_HEIGHT, BETWEEN, GAP = 1.0, 0.42, 0.06, 0.3

PALEST = 0.3
"""How strong the colour of the smallest batch is; that of the largest is 1."""

LEAST, PARTED = 1 / 3000, 1 / 250
"""Shares of the time axis: the least visible width of a bar, and the least width of one with a gap beside it."""

END = "#333333"

SAME = 1e-9
"""Resources whose busy shares differ by no more than this are all the bottleneck."""


@dataclass(frozen=True, slots=True)
class Band:
    """A row of the chart: a resource, its label, and its position (counted downwards)."""

    resource: int
    label: str
    top: float
    height: float
    device: bool

    @property
    def middle(self) -> float:
        """Position of the label."""
        return self.top + self.height / 2


def gantt_figure(
    timeline: Timeline, uses: Sequence[DeviceUse], *, headline: str, subtitle: str, bound: float | None
) -> Figure:
    """Draw a timeline with one row per device and port in use, and how busy each of them is.

    What is critical has a colour of its own. If runs process several inputs, stronger colours are larger batches.

    Parameters
    ----------
    timeline, uses
        What happens, and what it demands of each device.
    headline, subtitle
        The title, and the line under it.
    bound
        Proved lower bound of the last end, in seconds; None if there is none.
    """
    bands = _bands(timeline, uses)
    bottom = max((band.top + band.height for band in bands), default=1.0)
    figure, (axes, shares) = new_panels(WIDTH, 1.9 + 0.42 * bottom, (6.0, 1.0))
    scale = _draw(axes, timeline, bands, bound or 0.0)
    _label_rows(axes, bands)
    busy = utilisation(timeline).tolist()
    for band in bands:
        _share_bar(shares, band, busy[band.resource] if timeline.end > 0.0 else None)
    for panel in (axes, shares):
        panel.set_ylim(bottom + 0.15, -0.25)
    shares.set(xlim=(0, 1), yticks=[], xlabel="busy")
    shares.set_xticks([0, 0.5, 1], ["0", "50", "100 %"])
    shares.spines["left"].set_visible(False)
    shares.grid(visible=False)
    left_out = len(uses) - sum(band.device for band in bands)
    entitle(axes, headline, subtitle + (f"; {left_out} devices not shown" if left_out else ""))
    handles = [*_legend(timeline), *_marks(axes, timeline, bound, scale)]
    in_a_row = -(-len(handles) // (1 if len(handles) <= 6 else 2))
    figure.legend(handles=handles, loc="outside lower center", ncols=in_a_row, frameon=False, fontsize=9.5)
    return figure


def _bands(timeline: Timeline, uses: Sequence[DeviceUse]) -> list[Band]:
    """The rows from the top down: each device with its memory and its ports in use, then links and channels."""
    used, by_name = set(timeline.activities.resource.tolist()), {use.name: use for use in uses}
    found: list[Band] = []
    top = 0.0
    for row, title in rows_of(timeline, DRAWN_DEVICES):
        resource = timeline.resources[row]
        device, label = resource.kind == "device", shortened(title, 22)
        if not device and row not in used:
            continue
        if device:
            use = by_name[resource.name]
            limit = "" if use.memory_limit is None else f" / {readable_bytes(use.memory_limit)}"
            held = f"{readable_bytes(use.memory_bytes)}{limit}" if use.memory_bytes or limit else ""
            label = f"{label}\n{held if use.runs else 'not used'}".rstrip()
            top += GAP if found else 0.0
        height = DEVICE_HEIGHT if device else PORT_HEIGHT
        found.append(Band(row, label, top, height, device))
        top += height + BETWEEN
    return found


def _draw(axes: Axes, timeline: Timeline, bands: Sequence[Band], bound: float) -> float:
    """Draw the activities; return the unit of the time axis in seconds."""
    acts = timeline.activities
    drawn = acts.round < DRAWN_ROUNDS
    until = max(bound, float(acts.end[drawn].max(initial=0.0)))
    scale, unit = unit_of(until, "seconds")
    span = until / scale or 1.0
    named = int((drawn & (acts.kind == ActivityKind.RUN)).sum()) <= NAMED_RUNS
    marked, lane, strength = _marked(timeline), lanes(timeline), _strengths(timeline)
    for band in bands:
        axes.axhspan(band.top, band.top + band.height, color="#F4F4F4", linewidth=0, zorder=0)
        rows = np.flatnonzero((acts.resource == band.resource) & drawn)
        rows = rows[np.argsort(acts.start[rows], kind="stable")]
        height = band.height / (lane[rows].max(initial=0) + 1)
        top = band.top + lane[rows] * height
        boxes = np.stack([acts.start[rows] / scale, acts.end[rows] / scale, top, top + height], axis=1)
        own = BEST if band.device else SENT
        colours = [_mixed(CRITICAL if marked[row] else own, strength[row]) for row in rows.tolist()]
        _fill(axes, boxes, colours, marked[rows], span=span, gap=0.8 if named else 0.4)
        for row in rows.tolist() if named and (band.device or timeline.period is not None) else ():
            letters = int((acts.end[row] - acts.start[row]) / scale / span * WIDTH * TIME_SHARE / LETTER) - 1
            text = _text(timeline, row, letters)
            middle = (acts.start[row] + acts.end[row]) / 2 / scale
            colour = "#222222" if strength[row] < 0.6 else "white"
            look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 8, "linespacing": 0.95, "zorder": 5}
            axes.text(middle, band.middle, text, color=colour, clip_on=True, **look)
    axes.set_xlim(0, span * 1.012)
    rounds = int(acts.round[drawn].max(initial=0)) + 1
    inputs = "" if timeline.period is None else "one input: " if rounds == 1 else f"the first {rounds} inputs: "
    axes.set_xlabel(f"{inputs}time ({unit})", fontsize=11)
    return scale


def _marked(timeline: Timeline) -> BoolArray:
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


def _sizes(timeline: Timeline) -> IntArray:
    """The batch sizes of all runs, ascending."""
    acts = timeline.activities
    sizes: IntArray = np.unique(acts.count[acts.kind == ActivityKind.RUN])
    return sizes


def _strengths(timeline: Timeline) -> FloatArray:
    """How strong the colour of each activity is: by the batch of a run, in equal steps. Shape (activities,)."""
    acts, sizes = timeline.activities, _sizes(timeline)
    steps = np.linspace(PALEST if len(sizes) > 1 else 1.0, 1.0, max(1, len(sizes)))
    place = np.minimum(np.searchsorted(sizes, acts.count), len(steps) - 1)
    return np.where(acts.kind == ActivityKind.RUN, steps[place], 1.0)


def _mixed(colour: str, strength: float) -> str:
    """A colour, mixed with white."""
    from matplotlib.colors import to_hex, to_rgb

    red, green, blue = (1 - strength * (1 - part) for part in to_rgb(colour))
    return to_hex((red, green, blue))


def _text(timeline: Timeline, row: int, letters: int) -> str:
    """What a bar says, as far as it fits: its name, with the size of its batch, or the number of its input."""
    acts = timeline.activities
    if timeline.period is not None and acts.round.any():
        return str(int(acts.round[row]) + 1) if letters >= 1 else ""
    name, count = timeline.name(int(acts.what[row])), int(acts.count[row])
    if _sizes(timeline)[-1:] > 1:
        last = safe_text(name.split(".")[-1])
        return "" if letters < 2 else f"{last}\nx{count}" if len(last) <= letters else f"x{count}"
    return shortened(name, letters) if letters >= max(3, min(6, len(name))) else ""


def _fill(
    axes: Axes, boxes: FloatArray, colours: Sequence[object], marked: BoolArray, *, span: float, gap: float
) -> None:
    """Fill boxes on an axis of ``span`` units, thousands of them at once; marked ones last, so that they stay visible.

    Wide boxes get a white edge of ``gap`` points. Narrow ones get none and are drawn over those edges. So the filled
    share of a row looks as large as it is.
    """
    wide = boxes[:, 1] - boxes[:, 0] > PARTED * span
    boxes[:, 1] = np.maximum(boxes[:, 1], boxes[:, 0] + LEAST * span)
    for order, chosen in ((2, wide & ~marked), (2, ~wide & ~marked), (3, wide & marked), (3, ~wide & marked)):
        own = [colours[row] for row in np.flatnonzero(chosen).tolist()]
        edge, width = ("white", gap) if (chosen & wide).any() else ("none", 0.0)
        boxes_of(axes, boxes[chosen], facecolors=own, edgecolors=edge, linewidths=width, zorder=order)


def _label_rows(axes: Axes, bands: Sequence[Band]) -> None:
    axes.set_yticks([band.middle for band in bands])
    for band, label in zip(bands, axes.set_yticklabels([safe_text(band.label) for band in bands]), strict=True):
        label.set_fontsize(9.5 if band.device else 8)
        label.set_color("#222222" if band.device else MUTED)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x", color="#E3E3E3", linewidth=0.8)


def _share_bar(axes: Axes, band: Band, share: float | None) -> None:
    """Draw a share of the time, from 0 to 100 %, with its number."""
    part = min(share or 0.0, 1.0)
    axes.barh(band.middle, 1.0, height=band.height, color="#F4F4F4", linewidth=0)
    axes.barh(band.middle, part, height=band.height, color=BEST if band.device else SENT, alpha=0.85, linewidth=0)
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


def _legend(timeline: Timeline) -> list[Artist]:
    """The meaning of a chart's colours."""
    from matplotlib.patches import Patch

    acts, sizes, strengths = timeline.activities, _sizes(timeline).tolist(), _strengths(timeline)
    handles: list[Artist] = [Patch(color=BEST, label="computing")]
    if sizes[-1:] > [1]:
        shown = sizes if len(sizes) <= 5 else [sizes[0], sizes[len(sizes) // 2], sizes[-1]]
        runs = acts.kind == ActivityKind.RUN
        found = {size: float(strengths[runs & (acts.count == size)][0]) for size in shown}
        handles = [Patch(color=_mixed(BEST, strength), label=f"batch of {size}") for size, strength in found.items()]
    if (acts.kind != ActivityKind.RUN).any():
        handles.append(Patch(color=SENT, label="sending, receiving"))
    return [*handles, Patch(color=CRITICAL, label="critical path" if timeline.period is None else "bottleneck")]


def _marks(axes: Axes, timeline: Timeline, bound: float | None, scale: float) -> list[Artist]:
    """Draw the last end and its lower bound, or when each result is ready; return their entries of the legend."""
    acts = timeline.activities
    style: dict[str, Any] = {"color": BOUND, "linestyle": (0, DASHES[0])}
    if timeline.period is not None:
        rounds = np.unique(acts.round[acts.round < DRAWN_ROUNDS]).tolist()
        lines = [
            axes.axvline(acts.end[acts.round == k].max() / scale, linewidth=0.8, zorder=1, **style) for k in rounds
        ]
        found = [(line, "a result is ready") for line in lines[:1]]
    else:
        end = axes.axvline(timeline.end / scale, color=END, linewidth=1.6, zorder=6)
        found = [(end, f"end: {precise_seconds(timeline.end)}")]
        if bound is not None and bound > 0:
            line = axes.axvline(bound / scale, linewidth=1.4, zorder=6, **style)
            found.append((line, f"lower bound: no plan ends before {precise_seconds(bound)}"))
    for line, label in found:
        line.set_label(label)
    return [line for line, _ in found]
