"""A Gantt chart of any timeline: one row per device and port in use, the critical path, and how busy each row is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from opweave.adapters.report.figures import (
    BEST,
    BOUND,
    CRITICAL,
    DASHED,
    MUTED,
    SENT,
    boxes_of,
    entitle,
    new_figure,
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

    from opweave.adapters.report.view import AnyView

WIDTH, TIME_SHARE, LETTER = 12.0, 0.8, 0.075
"""Width of a picture in inches, the share of it that the time axis takes, and the width of a letter in inches."""

DRAWN_DEVICES, DRAWN_ROUNDS, NAMED_RUNS = 16, 6, 160
"""Most devices and inputs that are drawn, and most runs that are labelled with their names, where these fit."""

DEVICE_HEIGHT, PORT_HEIGHT, BETWEEN, GAP = 1.0, 0.42, 0.06, 0.3

PALEST = 0.3
"""How strong the colour of the smallest batch is; that of the largest is 1."""

LEAST, PARTED = 1 / 3000, 1 / 250
"""Shares of the time axis: the least visible width of a bar, and the least width of one with a gap beside it."""

SAME = 1e-9
"""Resources whose busy shares differ by no more than this are all the bottleneck."""


class Band(NamedTuple):
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


def gantt_figure(view: AnyView) -> Figure:
    """Draw a timeline with one row per device and port in use, and how busy each of them is.

    What is critical has a colour of its own. If runs process several inputs, stronger colours are larger batches.
    """
    timeline, uses, result = view.timeline, view.uses, view.result
    bound = result.bound if view.problem.unit == "seconds" and result.objective == timeline.end else None
    acts, bands = timeline.activities, _bands(timeline, uses)
    bottom = max((band.top + band.height for band in bands), default=1.0)
    figure, axes = new_figure(WIDTH, 1.9 + 0.42 * bottom)
    drawn = acts.round < DRAWN_ROUNDS
    until = max(bound or 0.0, float(acts.end[drawn].max(initial=0.0)))
    scale, unit = unit_of(until, "seconds")
    span = until / scale or 1.0
    looks = _marked(timeline), lanes(timeline), _strengths(timeline)
    for band in bands:
        _draw(axes, timeline, band, looks, scale, span)
    rounds = int(acts.round[drawn].max(initial=0)) + 1
    inputs = "" if timeline.period is None else "one input: " if rounds == 1 else f"the first {rounds} inputs: "
    axes.set_xlabel(f"{inputs}time ({unit}); at the right: busy", fontsize=11)
    axes.set(xlim=(0, span * 1.012), ylim=(bottom + 0.15, -0.25))
    axes.set_yticks([band.middle for band in bands], [safe_text(band.label) for band in bands], fontsize=9)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x", color="#E3E3E3", linewidth=0.8)
    left_out = len(uses) - sum(band.device for band in bands)
    entitle(axes, view.headline(), view.subtitle() + (f"; {left_out} devices not shown" if left_out else ""))
    handles = [*_legend(timeline), *_marks(axes, timeline, bound, scale)]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=9.5)
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


def _draw(
    axes: Axes, timeline: Timeline, band: Band, looks: tuple[BoolArray, IntArray, FloatArray], scale: float, span: float
) -> None:
    """Draw the activities of a resource, thousands of them at once, with their names where these fit."""
    from matplotlib.colors import to_rgba_array

    acts, (marked, lane, strength) = timeline.activities, looks
    drawn = acts.round < DRAWN_ROUNDS
    named = int((drawn & (acts.kind == ActivityKind.RUN)).sum()) <= NAMED_RUNS
    axes.axhspan(band.top, band.top + band.height, color="#F4F4F4", linewidth=0, zorder=0)
    mine = (acts.resource == band.resource) & drawn
    height = band.height / (lane[mine].max(initial=0) + 1)
    for order, rows in ((2, np.flatnonzero(mine & ~marked)), (3, np.flatnonzero(mine & marked))):
        left, right = acts.start[rows] / scale, acts.end[rows] / scale
        wide = right - left > PARTED * span
        right, top = np.maximum(right, left + LEAST * span), band.top + lane[rows] * height
        colour = CRITICAL if order == 3 else BEST if band.device else SENT
        style: dict[str, Any] = {"facecolors": to_rgba_array(colour, strength[rows]), "edgecolors": "white"}
        boxes = np.stack([left, right, top, top + height], axis=1)
        boxes_of(axes, boxes, linewidths=wide * (0.8 if named else 0.4), zorder=order, **style)
        for row in rows.tolist() if named and (band.device or timeline.period is not None) else ():
            letters = int((acts.end[row] - acts.start[row]) / scale / span * WIDTH * TIME_SHARE / LETTER) - 1
            middle, words = (acts.start[row] + acts.end[row]) / 2 / scale, _text(timeline, row, letters)
            look: dict[str, Any] = {"color": "#222222" if strength[row] < 0.6 else "white", "fontsize": 8}
            axes.text(middle, band.middle, words, ha="center", va="center", zorder=5, clip_on=True, **look)
    busy = float(utilisation(timeline)[band.resource])
    words = "0 %" if busy == 0 else "< 1 %" if busy < 0.01 else f"{100 * busy:.0f} %"
    right_of = axes.get_yaxis_transform()
    axes.text(1.01, band.middle, words, transform=right_of, va="center", fontsize=9, color=MUTED)


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


def _strengths(timeline: Timeline) -> FloatArray:
    """How strong the colour of each activity is, by the batch of a run. Shape (activities,)."""
    acts = timeline.activities
    batches = np.where(acts.kind == ActivityKind.RUN, acts.count, 0)
    largest = int(batches.max(initial=1))
    found: FloatArray = np.where((batches > 0) & (largest > 1), PALEST + (1 - PALEST) * batches / largest, 1.0)
    return found


def _text(timeline: Timeline, row: int, letters: int) -> str:
    """What a bar says, as far as it fits: its name, with the size of its batch, or the number of its input."""
    acts = timeline.activities
    if timeline.period is not None and acts.round.any():
        return str(int(acts.round[row]) + 1) if letters >= 1 else ""
    name, count = timeline.name(int(acts.what[row])), int(acts.count[row])
    if (acts.count > 1).any():
        last = safe_text(name.split(".")[-1])
        words = f"{last}\nx{count}" if len(last) <= letters else f"x{count}"
        return words if letters >= 2 else ""
    return shortened(name, letters) if letters >= max(3, min(6, len(name))) else ""


def _legend(timeline: Timeline) -> list[Artist]:
    """The meaning of a chart's colours."""
    from matplotlib.patches import Patch

    acts = timeline.activities
    shades = ", stronger: a larger batch" if (acts.count > 1).any() else ""
    meanings = {BEST: f"computing{shades}"}
    if (acts.kind != ActivityKind.RUN).any():
        meanings[SENT] = "sending, receiving"
    meanings[CRITICAL] = "critical path" if timeline.period is None else "bottleneck"
    return [Patch(color=colour, label=meaning) for colour, meaning in meanings.items()]


def _marks(axes: Axes, timeline: Timeline, bound: float | None, scale: float) -> Sequence[Artist]:
    """Draw the last end and its lower bound, or when each result is ready; return their entries of the legend."""
    acts = timeline.activities
    style: dict[str, Any] = {"color": BOUND, "linestyle": DASHED, "linewidth": 1.2}
    if timeline.period is not None:
        rounds = np.unique(acts.round[acts.round < DRAWN_ROUNDS]).tolist()
        ends = [acts.end[acts.round == each].max() / scale for each in rounds]
        return [axes.axvline(end, label="a result is ready", zorder=1, **style) for end in ends][:1]
    end = f"end: {precise_seconds(timeline.end)}"
    found = [axes.axvline(timeline.end / scale, color="#333333", linewidth=1.6, zorder=6, label=end)]
    if bound is not None and bound > 0:
        words = f"lower bound: no plan ends before {precise_seconds(bound)}"
        found.append(axes.axvline(bound / scale, label=words, zorder=6, **style))
    return found
