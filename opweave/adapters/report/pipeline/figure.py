"""A picture of a pipeline: the stages of the model, the devices and their links, and the first inputs in flight."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from opweave.adapters.report.figures import BEST, CRITICAL, MUTED, SENT, entitle, new_panels, safe_text, shortened
from opweave.adapters.report.gantt import WIDTH, bands, draw_gantt, legend_of
from opweave.adapters.report.units import readable_bytes, unit_of
from opweave.problems.pipeline.order import cut_points
from opweave.problems.pipeline.spec import Pipeline, PipelineDetails, Stages

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    from opweave.adapters.report.pipeline.view import PipelineView

NAMED_STAGES = 24
"""If there are no more stages than this, each is labelled with its name."""

DEVICES_IN_A_ROW = 9
"""Most devices in a row that leave room for the labels of the links."""

SHADES = ("#0072B2", "#56B4E9")
"""The colours of the stages, in turn, so that neighbours can be told apart."""


def pipeline_figure(view: PipelineView) -> Figure:
    """Draw three panels, one above the other.

    The first shows the model from left to right: the stages, and the bytes that cross each place between two operators.
    The second shows the devices in pipeline order, their memory, and the links with their share of the bottleneck.
    The third shows how the first inputs pass through devices and links.
    """
    details, timeline = view.details, view.timeline
    order = {stage.device: number for number, stage in enumerate(details.stages)}
    uses = sorted((use for use in view.uses if use.name in order), key=lambda use: order[use.name])
    rows = bands(timeline, uses, ("send_port", "channel"))
    height = 0.36 * max((band.top + band.height for band in rows), default=1.0)
    rows_of_boxes = math.ceil(len(details.stages) / DEVICES_IN_A_ROW) or 1
    parts = (2.2, 1.5 * rows_of_boxes, 0.9 + height)
    figure, (model, devices, chart) = new_panels(WIDTH, 1.6 + sum(parts), parts, stacked=True)
    _draw_model(model, view.problem, view.solution)
    _draw_devices(devices, details)
    draw_gantt(chart, timeline, rows, until=None)
    entitle(model, view.headline(), view.subtitle())
    _add_legend(figure, legend_of(timeline))
    return figure


def _draw_model(axes: Axes, problem: Pipeline, stages: Stages) -> None:
    """Draw the bytes that are live between operators, shade the stages, and label the cuts with their bytes."""
    points = cut_points(problem.graph, problem.running_order, problem.inputs)
    allowed = {point.position for point in problem.cut_points}
    count = len(problem.running_order)
    scale, unit = unit_of(max((point.bytes for point in points), default=0), "bytes")
    sizes = [point.bytes / scale for point in points]
    highest = max(sizes, default=1.0) or 1.0
    begin = 0
    for number, stage in enumerate(stages.stages):
        end = begin + len(stage.operators)
        axes.axvspan(begin, end, color=SHADES[number % 2], alpha=0.22, linewidth=0)
        if len(stages.stages) <= NAMED_STAGES:
            wide = (end - begin) / max(1, count) > 0.03
            name = safe_text(stage.device[:12]) if wide else str(number + 1)
            axes.text((begin + end) / 2, highest * 1.1, name, ha="center", va="center", fontsize=8.5, color="#222222")
        begin = end
    axes.step([point.position for point in points], sizes, where="mid", color=MUTED, linewidth=0.9)
    open_points = [
        (point.position, size) for point, size in zip(points, sizes, strict=True) if point.position in allowed
    ]
    axes.plot(*zip(*open_points, strict=True) if open_points else ([], []), ".", color=MUTED, markersize=3.5)
    size_at = {point.position: size for point, size in zip(points, sizes, strict=True)}
    cuts = _cuts(stages)
    axes.vlines(cuts, 0, highest * 1.02, color=CRITICAL, linewidth=1.4)
    axes.plot(cuts, [size_at.get(cut, 0.0) for cut in cuts], "o", color=CRITICAL, markersize=5)
    axes.set_xlim(0, max(1, count))
    axes.set_ylim(0, highest * 1.2)
    axes.set_ylabel(f"{unit} between\noperators", fontsize=10)
    axes.set_xlabel(f"the model's {count:,} operators in their order", fontsize=10)


def _cuts(stages: Stages) -> list[int]:
    ends, done = [], 0
    for stage in stages.stages[:-1]:
        done += len(stage.operators)
        ends.append(done)
    return ends


def _draw_devices(axes: Axes, details: PipelineDetails) -> None:
    """Draw a box per device, filled like its memory, and arrows whose width is the link's share of the bottleneck."""
    count = len(details.stages)
    pause = details.bottleneck_seconds or 1.0
    columns = min(count, DEVICES_IN_A_ROW) or 1
    for number, use in enumerate(details.stages):
        x, y = _place(number, columns)
        share = None if not use.memory_limit else min(1.0, use.memory_bytes / use.memory_limit)
        slowest = details.bottleneck == "compute" and details.bottleneck_stage == number
        edge = CRITICAL if slowest else "#444444"
        axes.add_patch(_box(x, y, 0.56, 1.0, "white", edge, 2.0 if slowest else 1.0))
        if share:
            axes.add_patch(_box(x, y, 0.56, share, BEST, "none", 0.0, alpha=0.35))
        axes.text(x + 0.28, y - 0.5, shortened(use.device, 10), ha="center", va="center", fontsize=8.5)
        filled = readable_bytes(use.memory_bytes) if share is None else f"{100 * share:.0f} % full"
        axes.text(x + 0.28, y - 0.72, filled, ha="center", va="center", fontsize=7, color="#444444")
        if number + 1 < count:
            _draw_link(axes, number, columns, use.send_seconds / pause, details)
    rows = math.ceil(count / columns) or 1
    axes.set_xlim(-0.25, max(columns, 4) + 0.05)
    axes.set_ylim(-1.55 * rows + 0.3, 0.35)
    axes.set_axis_off()


def _place(number: int, columns: int) -> tuple[float, float]:
    """Top left corner of a device's box; rows are read from left to right."""
    return float(number % columns), -1.55 * (number // columns)


def _draw_link(axes: Axes, number: int, columns: int, share: float, details: PipelineDetails) -> None:
    use = details.stages[number]
    slowest = details.bottleneck == "channel" or (
        details.bottleneck == "transfer" and details.bottleneck_stage == number
    )
    (x, y), (to_x, to_y) = _place(number, columns), _place(number + 1, columns)
    wraps = to_y < y
    begin, end = ((x + 0.28, y - 1.0), (to_x + 0.28, to_y)) if wraps else ((x + 0.56, y - 0.5), (to_x, to_y - 0.5))
    colour = CRITICAL if slowest else SENT
    arrow = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.0 + 3.0 * min(1.0, share), "shrinkA": 1, "shrinkB": 1}
    axes.annotate("", xy=end, xytext=begin, arrowprops=arrow)
    if not wraps:
        middle = (begin[0] + end[0]) / 2
        axes.text(middle, y - 0.28, readable_bytes(use.sent_bytes), ha="center", va="bottom", fontsize=7, color=MUTED)
        axes.text(middle, y - 0.64, f"{100 * share:.0f} %", ha="center", va="top", fontsize=7.5, color=colour)


def _box(
    x: float, y: float, width: float, share: float, face: str, edge: str, line: float, alpha: float = 1.0
) -> Patch:
    """Draw a rectangle of height 1 with its top at y, filled from below up to ``share``."""
    from matplotlib.patches import Rectangle

    return Rectangle((x, y - 1.0), width, share, facecolor=face, edgecolor=edge, linewidth=line, alpha=alpha)


def _add_legend(figure: Figure, handles: list[Artist]) -> None:
    from matplotlib.lines import Line2D

    handles.append(Line2D([], [], color=MUTED, marker=".", linewidth=0.9, label="places where the model may be cut"))
    handles.append(Line2D([], [], color=CRITICAL, marker="o", linewidth=1.4, label="cuts"))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=9.5)
