"""A pipeline as a picture: stages on the model, devices with the loads of their links, several inputs in flight."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from opweave.adapters.report.figures import BEST, BOUND, CRITICAL, MUTED, SENT, new_panels, safe_text
from opweave.adapters.report.units import TIME_UNITS, precise_seconds, readable_bytes, unit_of
from opweave.problems.pipeline.order import cut_points
from opweave.problems.pipeline.simulation import simulate
from opweave.problems.pipeline.spec import Pipeline, PipelineDetails, Stages

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

WIDTH = 12.0

DRAWN_INPUTS = 6
"""Inputs in the chart of the pipeline."""

NAMED_STAGES = 24
"""Up to this many stages get their names."""

DEVICES_IN_A_ROW = 9
"""So many leave room for what stands at the links."""

SHADES = ("#0072B2", "#56B4E9")
"""Neighbouring stages, told apart."""


def pipeline_figure(
    problem: Pipeline, stages: Stages, details: PipelineDetails, *, bound: float | None, headline: str
) -> Figure:
    """Draw three panels, one above the other.

    The first has the model from left to right, what crosses each place between two operators, and the stages. The
    second has the devices in pipeline order, their memory, and the links with their share of the bottleneck. The third
    has the first inputs as they pass through devices and links.

    Parameters
    ----------
    problem, stages, details
        What was solved, the plan, and what the referee measured of it.
    bound
        Proved lower bound of the objective; None when there is none.
    headline
        The title.
    """
    lanes = max(1, 2 * len(details.stages) - 1)
    figure, (model, devices, chart) = new_panels(
        WIDTH, 6.4 + 0.17 * lanes, (2.2, 2.0, 1.4 + 0.17 * lanes), stacked=True
    )
    _draw_model(model, problem, stages)
    _draw_devices(devices, details)
    _draw_inputs(chart, problem, details)
    model.set_title(safe_text(headline), fontsize=14, fontweight="bold", loc="left", pad=24)
    subtitle = problem.assumptions()
    if bound is not None and bound > 0:
        subtitle += f"; proved: {problem.objective} no less than {precise_seconds(bound)}"
    model.text(0, 1.03, safe_text(subtitle), transform=model.transAxes, fontsize=9.5, color=MUTED, va="bottom")
    _add_legend(figure)
    return figure


def _draw_model(axes: Axes, problem: Pipeline, stages: Stages) -> None:
    """Bytes that are live between operators, on spans of the stages; the cuts with what they carry."""
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
    """Boxes filled as far as memory is, joined by arrows as thick as their share of the bottleneck."""
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
        axes.text(x + 0.28, y - 0.5, safe_text(_short(use.device)), ha="center", va="center", fontsize=8.5)
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
    """A rectangle filled from below: ``share`` of a box of height 1 whose top is at y."""
    from matplotlib.patches import Rectangle

    return Rectangle((x, y - 1.0), width, share, facecolor=face, edgecolor=edge, linewidth=line, alpha=alpha)


def _draw_inputs(axes: Axes, problem: Pipeline, details: PipelineDetails) -> None:
    """A row for each device and each link; the bottleneck's row in its colour."""
    compute = [use.compute_seconds for use in details.stages]
    transfer = [use.send_seconds for use in details.stages[:-1]]
    events = simulate(compute, transfer, DRAWN_INPUTS, shared=problem.channel == "shared")
    span = max((event.end for event in events), default=0.0)
    scale, unit = next((pair for pair in TIME_UNITS if span >= pair[0]), TIME_UNITS[-1])
    labels: list[tuple[float, str]] = []
    for number, use in enumerate(details.stages):
        labels.append((2.0 * number, _short(use.device)))
    for event in events:
        row = 2 * event.stage + event.sends
        slowest = (details.bottleneck_stage == event.stage and event.sends == (details.bottleneck == "transfer")) or (
            event.sends and details.bottleneck == "channel"
        )
        colour = CRITICAL if slowest else SENT if event.sends else BEST
        width = max((event.end - event.start) / scale, span / scale / 1500)
        height = 0.55 if event.sends else 0.9
        axes.barh(
            row,
            width,
            left=event.start / scale,
            height=height,
            color=colour,
            edgecolor="white",
            linewidth=0.6,
            zorder=3,
        )
        if width > span / scale * 0.03 and len(details.stages) <= NAMED_STAGES:
            x = (event.start + event.end) / 2 / scale
            axes.text(x, row, str(event.input + 1), ha="center", va="center", fontsize=7, color="white", zorder=4)
    ends = [end / scale for end in details.simulated_ends[:DRAWN_INPUTS]]
    axes.vlines(ends, -0.8, 2 * len(details.stages) - 1.2, color=BOUND, linewidth=0.8, linestyle=(0, (4, 3)), zorder=2)
    axes.set_yticks([place for place, _ in labels], [safe_text(label) for _, label in labels], fontsize=8)
    axes.set_ylim(max(1, 2 * len(details.stages)) - 1.2, -0.8)
    axes.set_xlim(0, (span / scale or 1.0) * 1.01)
    axes.set_xlabel(f"the first {DRAWN_INPUTS} inputs: time ({unit})", fontsize=10)
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x", color="#E3E3E3", linewidth=0.8)


def _add_legend(figure: Figure) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Patch | Line2D] = [
        Patch(color=BEST, label="computing"),
        Patch(color=SENT, label="sending"),
        Patch(color=CRITICAL, label="bottleneck, and chosen cuts"),
        Line2D([], [], color=MUTED, marker=".", linewidth=0.9, label="places where the model may be cut"),
        Line2D([], [], color=BOUND, linewidth=0.8, linestyle=(0, (4, 3)), label="a result is there"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=9.5)


def _short(name: str) -> str:
    return name if len(name) <= 10 else f"{name[:6]}..{name[-2:]}"
