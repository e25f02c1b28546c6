"""A picture of any timeline's memory: what each device holds over time, next to the given order and the lower bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from opweave.adapters.report.figures import BEST, BOUND, DASHES, GIVEN, MUTED, entitle, new_panels, shortened
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
    given: Timeline | None = None,
    proved: bool = False,
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
    best, given
        What happens, and what would happen in the solution that it is compared with.
    proved
        Whether ``best`` is proved to be optimal.
    bound
        Proved lower bound in bytes; None if there is none, or if it bounds something else.
    limits
        Bytes that each device may hold.
    headline, subtitle
        The title, and the line under it.
    """
    peaks = bytes_held(best)
    devices = [row for row, each in enumerate(best.resources) if each.kind == "device" and peaks[row] > 0]
    shown = sorted(sorted(devices, key=lambda row: -peaks[row])[:DRAWN_DEVICES]) or [0]
    height = 5.0 if len(shown) == 1 else 1.3 + 1.9 * len(shown)
    figure, panels = new_panels(10.0, height, [1.0] * len(shown), stacked=True)
    scale, unit = unit_of(max(int(bytes_held(each).max(initial=0)) for each in (best, given) if each), "bytes")
    until = best.end if best.unit == "seconds" else float(len(best.activities))
    seconds, time_unit = unit_of(until, "seconds") if best.unit == "seconds" else (1.0, "")
    for axes, row in zip(panels, shown, strict=True):
        curves = _curves(graph, best, given, row, proved=proved)
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


def _curves(graph: OpGraph, best: Timeline, given: Timeline | None, row: int, *, proved: bool) -> list[Curve]:
    """The best curve in front of the given one, if they differ."""
    after = _curve(graph, best, row, "best", BEST, 0.25)
    if given is None:
        return [after._replace(word="peak", label="held")]
    before = _curve(graph, given, row, "given", GIVEN, 0.10)
    if np.array_equal(before.bytes, after.bytes):
        return [after._replace(word="peak", label=f"given order, and best found: {after.label}")]
    word = "best order" if proved else "best order found"
    return [before._replace(label=f"given order: {before.label}"), after._replace(label=f"{word}: {after.label}")]


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
