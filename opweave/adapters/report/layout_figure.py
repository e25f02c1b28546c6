"""A picture of a memory layout: time by address, a rectangle for every storage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

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
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.timeline import Timeline
from opweave.problems.units import readable_bytes, unit_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_NAMED = 40
"""Rectangles that are large enough are named, up to this number in each pool."""

DRAWN_POOLS = 6
"""Only the fullest pools are drawn."""


def layout_figure(
    timeline: Timeline, capacities: Sequence[int | None], bound: float | None, *, headline: str, subtitle: str
) -> Figure:
    """Draw where every storage stands while it lives.

    Parameters
    ----------
    timeline
        What a layout does; its lifetimes have offsets.
    capacities
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
    shown = sorted(np.argsort(-top, kind="stable")[:DRAWN_POOLS].tolist())
    shown = [row for row in shown if top[row] or len(shown) == 1] or [0]
    height = 5.0 if len(shown) == 1 else 1.2 + 2.2 * len(shown)
    figure, panels = new_panels(10.0, height, [1.0] * len(shown), stacked=True)
    for axes, pool in zip(panels, shown, strict=True):
        only = len(timeline.resources) == 1
        _draw_pool(axes, timeline, pool, int(top[pool]), capacities[pool], bound if only else None)
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
