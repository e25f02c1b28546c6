"""A picture of any timeline's memory: the bytes that each device holds, and where storages stand if that is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from opweave.adapters.report.figures import (
    BEST,
    BOUND,
    DASHED,
    GIVEN,
    LINES,
    MOST_SHAPES,
    MUTED,
    boxes_of,
    entitle,
    new_panels,
    shortened,
)
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.graph import OpGraph
from opweave.problems.measures import bytes_over_time
from opweave.problems.timeline import ActivityKind, Timeline
from opweave.problems.units import readable_bytes, unit_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from opweave.adapters.report.view import AnyView

HEADROOM = 1.3
"""Height of the picture relative to the highest peak; the space above the curves is for labels."""

DRAWN_DEVICES = 8
"""Only the fullest devices are drawn."""


class Before(NamedTuple):
    """What a plan is compared with: its name, such as "given order", what happens then, and the objective, if known."""

    name: str
    timeline: Timeline
    objective: float | None


class MemoryCurve(NamedTuple):
    """What a device holds: ``bytes[k]`` from ``edges[k]`` to ``edges[k + 1]``; ``peak`` says how much, at most."""

    colour: str
    edges: FloatArray
    bytes: IntArray
    peak: str


def memory_figure(view: AnyView) -> Figure:
    """Draw the bytes that devices hold at each step, beside the order that it is compared with.

    If storages have addresses, draw where they stand.
    """
    graph, best, before = view.problem.graph, view.timeline, view.before()
    bound = view.result.bound if view.problem.unit == "bytes" else None
    devices = [row for row, each in enumerate(best.resources) if each.kind == "device"]
    curves = {row: list(_curves(graph, best, before, row)) for row in devices}
    tops = {row: max([_arena(best, row), *(int(each.bytes.max(initial=0)) for each in curves[row])]) for row in devices}
    shown = sorted(sorted(devices, key=lambda row: -tops[row])[:DRAWN_DEVICES])
    shown = [row for row in shown if tops[row]] or shown[:1]
    figure, panels = new_panels(10.0, 5.0 if len(shown) == 1 else 1.3 + 2.0 * len(shown), rows=len(shown))
    scale, unit = unit_of(max(tops.values()), "bytes")
    span = np.asarray([curve.edges[[0, -1]] for row in shown for curve in curves[row]])
    for axes, row in zip(panels, shown, strict=True):
        name = best.resources[row].name
        axes.set(xlim=(span.min(), span.max()), ylim=(0, HEADROOM * max(tops[row], 1) / scale))
        _draw_addresses(axes, best, row, scale)
        _draw_curves(axes, curves[row], scale)
        what = "live memory" if best.lifetimes.offset is None else "address"
        axes.set_ylabel(f"{shortened(name, 22)}\n({unit})" if len(shown) > 1 else f"{what} ({unit})", fontsize=11)
        _line(axes, view.limits.get(name), scale, "what the device may hold", color=MUTED, linestyle=":")
        if len(devices) == 1 and bound is not None:
            words = f"lower bound: no {view.noun} needs less than {readable_bytes(bound)}"
            _line(axes, bound, scale, words, color=BOUND, linestyle=DASHED)
    words = (
        "step (one operator each)" if best.lifetimes.offset is None else "time (steps, or the unit of the lifetimes)"
    )
    panels[-1].set_xlabel(words, fontsize=11)
    entitle(panels[0], view.headline(), view.subtitle())
    named = [axes.get_legend_handles_labels() for axes in panels]
    handles = {label: handle for some in named for handle, label in zip(*some, strict=True)}
    look: dict[str, Any] = {"loc": "outside lower center", "ncols": 3, "frameon": False, "fontsize": 10}
    figure.legend(handles.values(), handles.keys(), **look)
    return figure


def _arena(timeline: Timeline, row: int) -> int:
    """The bytes up to the highest address in use; 0 if no address is known."""
    lives = timeline.lifetimes
    ends = 0 if lives.offset is None else (lives.offset + lives.bytes)[lives.resource == row].max(initial=0)
    return int(ends)


def _curves(graph: OpGraph, best: Timeline, before: Before | None, row: int) -> Iterator[MemoryCurve]:
    """The best curve in front of the one that it is compared with, if they differ."""
    if best.lifetimes.offset is not None:
        yield _curve(graph, best, row, "live peak", BOUND)
    elif before is None:
        yield _curve(graph, best, row, "peak", BEST)
    else:
        after = _curve(graph, best, row, "best", BEST)
        given = _curve(graph, before.timeline, row, before.name.split()[0], GIVEN)
        if np.array_equal(given.bytes, after.bytes):
            yield _curve(graph, best, row, f"{before.name}, and best found", BEST)
        else:
            yield from (given, after)


def _curve(graph: OpGraph, timeline: Timeline, row: int, word: str, colour: str) -> MemoryCurve:
    """What a device holds; the words at the peak name what runs there."""
    edges, held = _levels(timeline, row)
    acts, step = timeline.activities, int(held.argmax())
    there = (acts.resource == row) & (acts.kind == ActivityKind.RUN)
    there &= (acts.start < edges[step + 1]) & (acts.end > edges[step])
    peak = f"{word}: {readable_bytes(int(held[step]))}"
    for what in acts.what[np.flatnonzero(there)[:1]].tolist():
        kind = graph.operators[what].kind if what < timeline.names.operators else ""
        peak += f" at {shortened(timeline.name(what), 40)}" + (f" ({shortened(kind, 40)})" if kind else "")
    return MemoryCurve(colour, edges, held, peak)


def _levels(timeline: Timeline, row: int) -> tuple[FloatArray, IntArray]:
    """Moments, and the bytes that live between them."""
    if timeline.lifetimes.offset is not None:  # nothing runs, and the moments are those of the storages
        timeline = replace(timeline, unit="seconds")
    moments, held = bytes_over_time(timeline, row)
    end = max(timeline.end, moments.max(initial=0.0)) if timeline.unit == "seconds" else len(moments)
    return (np.append(moments, end or 1.0), held) if len(held) else (np.arange(2.0), np.zeros(1, dtype=np.int64))


def _draw_curves(axes: Axes, curves: list[MemoryCurve], scale: float) -> None:
    """Fill the curves, and say above them what their peaks are."""
    for number, curve in enumerate(curves):
        edges, values, colour, step = curve.edges, curve.bytes / scale, curve.colour, int(curve.bytes.argmax())
        middle = (edges[step] + edges[step + 1]) / 2
        axes.plot(middle, values[step], marker="o", color=colour, markeredgecolor="white", zorder=6)
        many = len(values) > MOST_SHAPES
        axes.stairs(values, edges, color=colour, linewidth=1.2, zorder=4, rasterized=many)
        faint = 0.15 * (colour != BOUND)
        axes.stairs(values, edges, color=colour, alpha=faint, fill=True, linewidth=0, zorder=2, rasterized=many)
        words: dict[str, Any] = {"va": "top", "fontsize": 9.5, "fontweight": "bold", "zorder": 7}
        axes.text(0.01, 0.97 - 0.08 * number, curve.peak, transform=axes.transAxes, color=colour, **words)


def _draw_addresses(axes: Axes, timeline: Timeline, row: int, scale: float) -> None:
    """Draw where storages stand."""
    lives = timeline.lifetimes
    if lives.offset is None:
        return
    mine = np.flatnonzero(lives.resource == row)
    low, high = lives.offset[mine] / scale, (lives.offset[mine] + lives.bytes[mine]) / scale
    boxes = np.stack([lives.begin[mine], lives.end[mine], low, high], axis=1)
    colours = [LINES[int(storage) % len(LINES)] for storage in lives.storage[mine].tolist()]
    boxes_of(axes, boxes, facecolors=colours, edgecolors="white", linewidths=0.4, alpha=0.75, zorder=3)
    arena = _arena(timeline, row)
    label = f"arena: {readable_bytes(arena)}" if len(timeline.resources) == 1 else "reserved"
    _line(axes, arena, scale, label, color=BEST, linestyle="-")


def _line(axes: Axes, value: float | None, scale: float, label: str, **style: Any) -> None:
    """Draw a level, if it lies within the picture."""
    if value is not None and value / scale <= axes.get_ylim()[1]:
        axes.axhline(value / scale, linewidth=1.5, label=label, zorder=5, **style)
