"""Pictures of any timeline's memory: what each device holds over time, and at which address each storage stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from opweave.adapters.report.figures import (
    BEST,
    BOUND,
    DASHES,
    GIVEN,
    LINES,
    MOST_SHAPES,
    MUTED,
    entitle,
    new_panels,
    shortened,
)
from opweave.adapters.report.timeline_tables import Limits
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.graph import OpGraph
from opweave.problems.measures import bytes_held, bytes_over_time
from opweave.problems.timeline import ActivityKind, Timeline
from opweave.problems.units import readable_bytes, unit_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEADROOM = 1.3
"""Height of the picture relative to the highest peak; the space above the curves is for labels."""

DRAWN_STEPS = 4000
"""A picture cannot show more steps; neighbouring steps are drawn as one."""

DRAWN_DEVICES = 8
"""Only the fullest devices are drawn."""

MOST_NAMED = 40
"""Rectangles that are large enough are named, up to this number in each pool."""


class Before(NamedTuple):
    """What a plan is compared with: its name, such as "given order", and what happens then."""

    name: str
    timeline: Timeline


class Curve(NamedTuple):
    """What a device holds: ``bytes[k]`` from ``edges[k]`` to ``edges[k + 1]``; ``at`` names what runs at the peak."""

    word: str
    label: str
    colour: str
    fade: float
    edges: FloatArray
    bytes: IntArray
    peak: int
    at: str


def memory_figure(
    graph: OpGraph,
    best: Timeline,
    *,
    before: Before | None = None,
    noun: str = "plan",
    bound: float | None = None,
    limits: Limits,
    headline: str,
    subtitle: str,
) -> Figure:
    """Draw the bytes that devices hold, over time or over steps.

    Parameters
    ----------
    graph
        The graph that the timelines' names refer to.
    best, before
        What happens, and what would happen in the solution that it is compared with.
    noun
        The word after "best".
    bound
        Proved lower bound in bytes; None if there is none, or if it bounds something else.
    limits
        Bytes that each device may hold.
    headline, subtitle
        The title, and the line under it.
    """
    peaks, given = bytes_held(best), None if before is None else before.timeline
    devices = [row for row, each in enumerate(best.resources) if each.kind == "device" and peaks[row] > 0]
    shown = sorted(sorted(devices, key=lambda row: -peaks[row])[:DRAWN_DEVICES]) or [0]
    height = 5.0 if len(shown) == 1 else 1.3 + 1.9 * len(shown)
    figure, panels = new_panels(10.0, height, [1.0] * len(shown), stacked=True)
    scale, unit = unit_of(max(int(bytes_held(each).max(initial=0)) for each in (best, given) if each), "bytes")
    until = best.end if best.unit == "seconds" else float(len(best.activities))
    seconds, time_unit = unit_of(until, "seconds") if best.unit == "seconds" else (1.0, "")
    for axes, row in zip(panels, shown, strict=True):
        curves = _curves(graph, best, before, row, noun)
        _draw_panel(axes, curves, scale, until=until)
        name = f"{shortened(best.resources[row].name, 22)}\n" if len(shown) > 1 else ""
        axes.set_ylabel(f"{name}live memory ({unit})" if len(shown) == 1 else f"{name}{unit} held", fontsize=11)
        limit = limits.get(best.resources[row].name)
        if limit is not None and limit / scale <= axes.get_ylim()[1]:
            label = "what the device may hold" if axes is panels[0] or len(shown) == 1 else None
            axes.axhline(limit / scale, color=MUTED, linewidth=1.4, linestyle=":", label=label, zorder=4)
    if bound is not None and len(shown) == 1:
        label = f"lower bound: no order needs less than {readable_bytes(bound)}"
        panels[0].axhline(bound / scale, color=BOUND, linewidth=1.4, linestyle=(0, DASHES[0]), label=label, zorder=4)
        axes.xaxis.set_major_formatter("{x:,.0f}" if best.unit == "steps" else lambda x, _: f"{x / seconds:g}")
    panels[-1].set_xlabel("step (one operator each)" if best.unit == "steps" else f"time ({time_unit})", fontsize=11)
    entitle(panels[0], headline, subtitle)
    handles, labels = panels[0].get_legend_handles_labels()
    if len(handles) > 1 or given is not None:
        figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=10)
    return figure


def _curves(graph: OpGraph, best: Timeline, before: Before | None, row: int, noun: str) -> list[Curve]:
    """The best curve in front of the one that it is compared with, if they differ."""
    after = _curve(graph, best, row, "best", BEST, 0.25)
    if before is None:
        return [after._replace(word="peak", label="held")]
    given = _curve(graph, before.timeline, row, before.name.split()[0], GIVEN, 0.10)
    if np.array_equal(given.bytes, after.bytes):
        return [after._replace(word="peak", label=f"{before.name}, and best found: {after.label}")]
    return [given._replace(label=f"{before.name}: {given.label}"), after._replace(label=f"best {noun}: {after.label}")]


def _curve(graph: OpGraph, timeline: Timeline, row: int, word: str, colour: str, fade: float) -> Curve:
    moments, held = bytes_over_time(timeline, row)
    edges = np.append(moments, max(timeline.end, moments[-1]) if timeline.unit == "seconds" else len(moments))
    most = int(bytes_held(timeline)[row])
    acts, at = timeline.activities, ""
    if len(held):
        first, last = edges[int(held.argmax())], edges[int(held.argmax()) + 1]
        there = (acts.resource == row) & (acts.kind == ActivityKind.RUN) & (acts.start < last) & (acts.end > first)
        for what in acts.what[np.flatnonzero(there)[:1]].tolist():
            kind = graph.operators[what].kind if what < timeline.names.operators else ""
            at = f" at {shortened(timeline.name(what), 40)}" + (f" ({shortened(kind, 40)})" if kind else "")
    return Curve(word, f"peak {readable_bytes(most)}", colour, fade, edges, held, most, at)


def _draw_panel(axes: Axes, curves: Sequence[Curve], scale: float, *, until: float) -> None:
    """Fill the curves, and label their peaks above them, in one row per curve."""
    highest = max((int(curve.bytes.max(initial=0)) for curve in curves), default=0)
    axes.set_ylim(0, HEADROOM * max(highest, 1) / scale)
    axes.set_xlim(0, until or 1)
    for curve in curves:
        edges, values = curve.edges, curve.bytes / scale
        if len(values) > DRAWN_STEPS:  # keep the highest step of each group, so that no peak is lost
            groups = np.linspace(0, len(values), DRAWN_STEPS + 1).astype(np.int64)
            edges, values = edges[groups], np.maximum.reduceat(values, groups[:-1])
        width = 1.6 if len(values) <= 400 else 1.0
        axes.stairs(values, edges, color=curve.colour, linewidth=width, label=curve.label, zorder=3)
        axes.stairs(values, edges, color=curve.colour, alpha=curve.fade, fill=True, linewidth=0, zorder=2)
    if all(curve.bytes.max(initial=-1) >= curve.peak for curve in curves):  # else inputs take most of the height
        _mark_peaks(axes, curves, scale, until or 1)


def _mark_peaks(axes: Axes, curves: Sequence[Curve], scale: float, until: float) -> None:
    steps = [int(curve.bytes.argmax()) for curve in curves]
    spots = [(curve.edges[step] + curve.edges[step + 1]) / 2 for curve, step in zip(curves, steps, strict=True)]
    right = max(spots) < 0.6 * until
    edge = max(spots) + 0.02 * until if right else min(spots) - 0.02 * until
    rows = (0.92,) if len(curves) == 1 else (0.955, 0.885)
    for curve, step, x, row in zip(curves, steps, spots, rows, strict=False):
        y = curve.bytes[step] / scale
        axes.plot([x], [y], marker="o", markersize=6, color=curve.colour, markeredgecolor="white", zorder=6)
        axes.annotate(
            f"{curve.word}: {readable_bytes(int(curve.bytes[step]))}{curve.at}",
            (x, y),
            xytext=(edge, row),
            textcoords=axes.get_xaxis_transform(),
            ha="left" if right else "right",
            va="center",
            fontsize=9.5,
            color=curve.colour,
            fontweight="bold",
            zorder=7,
            arrowprops={
                "arrowstyle": "-",
                "color": curve.colour,
                "linewidth": 0.9,
                "relpos": (0 if right else 1, 0.5),
                "shrinkA": 0,
                "shrinkB": 3,
            },
        )


def layout_figure(timeline: Timeline, limits: Limits, bound: float | None, *, headline: str, subtitle: str) -> Figure:
    """Draw where every storage stands while it lives.

    Parameters
    ----------
    timeline
        What a layout does; its lifetimes have offsets.
    limits
        Bytes of every pool; None for no limit.
    bound
        A proved lower bound on the arena, drawn if there is one pool.
    headline, subtitle
        The title, and the line under it.
    """
    lives = timeline.lifetimes
    assert lives.offset is not None
    top = np.zeros(len(timeline.resources), dtype=np.int64)
    np.maximum.at(top, lives.resource, lives.offset + lives.bytes)
    shown = sorted(np.argsort(-top, kind="stable")[:DRAWN_DEVICES].tolist())
    shown = [row for row in shown if top[row] or len(shown) == 1] or [0]
    height = 5.0 if len(shown) == 1 else 1.2 + 2.2 * len(shown)
    figure, panels = new_panels(10.0, height, [1.0] * len(shown), stacked=True)
    for axes, pool in zip(panels, shown, strict=True):
        only = len(timeline.resources) == 1
        _draw_pool(
            axes, timeline, pool, int(top[pool]), limits.get(timeline.resources[pool].name), bound if only else None
        )
        name = "" if only else f"{shortened(timeline.resources[pool].name, 22)}\n"
        axes.set_ylabel(f"{name}address ({unit_of(float(top[pool]), 'bytes')[1]})", fontsize=11)
    panels[-1].set_xlabel("time (steps, or the unit of the lifetimes)", fontsize=11)
    entitle(panels[0], headline, subtitle)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=10)
    return figure


def _draw_pool(axes: Axes, timeline: Timeline, pool: int, top: int, capacity: int | None, bound: float | None) -> None:
    lives = timeline.lifetimes
    assert lives.offset is not None
    scale, _ = unit_of(float(top), "bytes")
    rows = np.flatnonzero(lives.resource == pool)
    begin, end, size = lives.begin[rows], lives.end[rows], lives.bytes[rows]
    low, last = float(begin.min(initial=0.0)), float(end.max(initial=1.0))
    axes.set_xlim(low, max(last, low + 1e-12))
    axes.set_ylim(0, 1.12 * max(top, 1) / scale)
    edges, live = _live(begin, end, size)
    peak = int(live.max(initial=0))
    for first, after, held in zip(edges[:-1].tolist(), edges[1:].tolist(), live.tolist(), strict=True):
        if held == peak and peak:
            axes.axvspan(first, after, color=GIVEN, alpha=0.15, linewidth=0, zorder=0)
    _draw_boxes(axes, timeline, rows, (last - low, 1.12 * max(top, 1)), scale)
    axes.stairs(live / scale, edges, color=BOUND, linewidth=1.0, label="live bytes", zorder=4)
    axes.axhline(peak / scale, color=GIVEN, linewidth=1.4, label=f"live peak {readable_bytes(peak)}", zorder=5)
    axes.axhline(top / scale, color=BEST, linewidth=1.6, label=f"arena {readable_bytes(top)}", zorder=5)
    if bound is not None and bound > peak:
        label = f"lower bound {readable_bytes(bound)}"
        axes.axhline(bound / scale, color=BOUND, linewidth=1.4, linestyle=(0, DASHES[0]), label=label, zorder=5)
    if capacity is not None and capacity <= 1.12 * top:
        axes.axhline(capacity / scale, color=MUTED, linewidth=1.4, linestyle=":", label="capacity", zorder=5)


def _draw_boxes(axes: Axes, timeline: Timeline, rows: IntArray, extent: tuple[float, float], scale: float) -> None:
    """The rectangles; the largest ones that have room for it are named."""
    from matplotlib.collections import PolyCollection

    lives = timeline.lifetimes
    assert lives.offset is not None
    left, right = lives.begin[rows], lives.end[rows]
    low, high = lives.offset[rows] / scale, (lives.offset[rows] + lives.bytes[rows]) / scale
    corners = np.stack([left, low, left, high, right, high, right, low], axis=1).reshape(len(rows), 4, 2)
    colours = [LINES[int(storage) % len(LINES)] for storage in lives.storage[rows].tolist()]
    boxes = PolyCollection(list(corners), facecolors=colours, edgecolors="white", linewidths=0.4, alpha=0.75, zorder=2)
    boxes.set_rasterized(len(corners) > MOST_SHAPES)
    axes.add_collection(boxes)
    area = (right - left) * lives.bytes[rows]
    for row in np.argsort(-area, kind="stable")[:MOST_NAMED].tolist():
        wide, tall = (right[row] - left[row]) / (extent[0] or 1.0), lives.bytes[rows[row]] / extent[1]
        letters = int(wide * 110)
        if letters >= 3 and tall > 0.03:
            name = shortened(timeline.name(int(lives.storage[rows[row]])), letters)
            middle = ((left[row] + right[row]) / 2, (low[row] + high[row]) / 2)
            axes.text(*middle, name, ha="center", va="center", fontsize=7, color="white", zorder=3, clip_on=True)


def _live(begin: FloatArray, end: FloatArray, size: IntArray) -> tuple[FloatArray, IntArray]:
    """The moments at which something begins or ends, and the bytes that live between them."""
    edges = np.unique(np.concatenate([begin, end]))
    if len(edges) < 2:
        return np.asarray([0.0, 1.0]), np.zeros(1, dtype=np.int64)
    change = np.zeros(len(edges), dtype=np.int64)
    np.add.at(change, np.searchsorted(edges, begin), size)
    np.subtract.at(change, np.searchsorted(edges, end), size)
    return edges, np.cumsum(change)[:-1]
