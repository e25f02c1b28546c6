"""Pipelines as the command line and the reports show them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar

from opweave.adapters.report.figures import BEST, CRITICAL, MUTED, SENT, entitle, new_panels, safe_text, shortened
from opweave.adapters.report.gantt import WIDTH, bands, draw_gantt, legend_of
from opweave.adapters.report.timeline_tables import Cells
from opweave.adapters.report.view import Row, Section, View
from opweave.adapters.report.wording import LITTLE, SAME, memory_binds
from opweave.adapters.report.workbench.panels import Box, Chain, Panel
from opweave.adapters.runtimes.plan_exports import stage_exports
from opweave.formulations.pipeline.shortage import shortage
from opweave.problems.pipeline.order import cut_points
from opweave.problems.pipeline.spec import Pipeline, PipelineDetails, Stages
from opweave.problems.result import Status
from opweave.problems.units import precise_seconds, readable_bytes, readable_rate, unit_of
from opweave.problems.words import counted

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


NAMED_STAGES = 24
"""If there are no more stages than this, each is labelled with its name."""

DEVICES_IN_A_ROW = 9
"""Most devices in a row that leave room for the labels of the links."""

SHADES = ("#0072B2", "#56B4E9")
"""The colours of the stages, in turn, so that neighbours can be told apart."""


class PipelineView(View[Pipeline, Stages, PipelineDetails]):
    """The bottleneck, the throughput, the latency, and the work of every stage."""

    word: ClassVar[str] = "pipeline"
    problem_type = Pipeline
    baseline: ClassVar[str | None] = "one_device"
    noun: ClassVar[str] = "pipeline"
    plan_file: ClassVar[str] = "stages.json"
    figure_file: ClassVar[str] = "pipeline.png"

    def rows(self) -> list[Row]:
        """Add the number of stages."""
        rows = super().rows()
        if self.result.solution is not None:
            rows.append(("stages", f"{len(self.details.stages)} on {self._devices()}"))
        return rows

    def sentences(self) -> Iterator[str]:
        """Say whether splitting pays, what the bottleneck is, and what is proved."""
        details = self.details
        if not details.stages:
            yield "The model has no operators, so there is nothing to run."
            return
        used = len(details.stages)
        rate = details.inputs_per_second
        speed = "" if rate is None else f", {readable_rate(rate)} inputs per second"
        pause = precise_seconds(details.bottleneck_seconds)
        yield f"The pipeline has {counted(used, 'stage')} on {self._devices()} and gives a result every {pause}{speed}."
        yield self._split()
        if used > 1:
            yield self._bottleneck()
            yield f"A single input takes {precise_seconds(details.latency_seconds)} from end to end."
        yield from memory_binds(self.uses)
        yield self.proof()

    def _devices(self) -> str:
        """How many devices have stages, and of how many."""
        used, there = len(self.used), len(self.uses)
        return counted(there, "device") if used == there else f"{used} of {there} devices"

    def _split(self) -> str:
        """Say whether splitting pays, as far as splits were allowed and the result proves it."""
        details, alone = self.details, self.alone
        if alone is None:
            return "No single device may run the whole model, so it has to be split."
        if len(details.stages) == 1:
            holds = f"{details.stages[0].device!r} alone holds the model, and nothing is sent."
            settled = self.result.status is Status.OPTIMAL and self.problem.stage_limit > 1
            return f"Splitting does not pay: {holds}" if settled else f"The model is not split: {holds}"
        if details.bottleneck_seconds < alone.seconds * (1 - SAME):
            little = alone.seconds < details.bottleneck_seconds * (1 + LITTLE)
            gain = "gains little" if little else "pays"
            takes = f"Splitting {gain}: {alone.device!r} alone takes {precise_seconds(alone.seconds)} for each input"
            if details.inputs_per_second is None:
                return f"{takes}; the pipeline takes no time."
            if little:
                return f"{takes}."
            return f"{takes}, {alone.seconds * details.inputs_per_second:.2f} times as long."
        return f"Splitting is not needed: {alone.device!r} alone takes {precise_seconds(alone.seconds)} for each input."

    def _bottleneck(self) -> str:
        details, number = self.details, self.details.bottleneck_stage
        if details.bottleneck == "channel":
            return "The bottleneck is the shared channel, which carries every transfer."
        if number is None:
            return "Nothing takes any time."
        use = details.stages[number]
        if details.bottleneck == "compute":
            return f"The bottleneck is computing in stage {number + 1} on {use.device!r}."
        if details.bottleneck == "stage":
            return f"The bottleneck is stage {number + 1} on {use.device!r}: what it computes, receives and sends."
        onto = details.stages[number + 1].device
        size = readable_bytes(use.sent_bytes)
        return f"The bottleneck is the transfer of {size} from {use.device!r} to {onto!r} (after stage {number + 1})."

    def shortage(self) -> str | None:
        """Find a device or operator for which nothing fits."""
        return shortage(self.problem)

    def sections(self) -> list[Section]:
        """Put a table of the stages first; a star marks the bottleneck."""
        if self.result.solution is None:
            return []
        last = len(self.details.stages) - 1
        rows = [
            (
                f"{number + 1}{'*' if self.details.bottleneck_stage == number else ''}",
                ", ".join((use.device, *use.replicas)),
                f"{use.operators:,}",
                precise_seconds(use.compute_seconds),
                "-" if number == last else readable_bytes(use.sent_bytes),
                "-" if number == last else precise_seconds(use.send_seconds),
            )
            for number, use in enumerate(self.details.stages)
        ]
        headings = ("stage", "device", "operators", "computes", "sends", "takes")
        return [Section("Stages", headings, list(rows)), *super().sections()]

    def exports(self) -> Mapping[str, object]:
        """Add the stage boundaries and the settings of runtimes."""
        return stage_exports(self.problem, self.solution, self.details)

    def plan(self) -> dict[str, object]:
        """Write every stage with its operators, times and transfers."""
        details = self.details.model_dump(mode="json")
        stages = zip(details.pop("stages"), self.solution.stages, strict=True)
        return {
            "model": self.problem.graph.name,
            "assumptions": self.problem.assumptions(),
            **details,
            "stages": [{**use, "operators": list(stage.operators)} for use, stage in stages],
        }

    def steps(self) -> Cells:
        """List the operators in their order, with stage and device."""
        kinds = {op.id: op.kind for op in self.problem.graph.operators}
        return ("operator", "kind", "stage", "device"), [
            (name, kinds[name], str(number + 1), stage.device)
            for number, stage in enumerate(self.solution.stages)
            for name in stage.operators
        ]

    def panels(self) -> Sequence[Panel]:
        """The stages, with their memory and what they send."""
        details, index = self.details, self.problem.graph.operator_index
        pause, last = details.bottleneck_seconds or 1.0, len(details.stages) - 1
        rows = {device.name: row for row, device in enumerate(self.problem.cluster.devices)}
        boxes = []
        for number, (use, stage) in enumerate(zip(details.stages, self.solution.stages, strict=True)):
            slowest = details.bottleneck_stage == number
            limit = "" if use.memory_limit is None else f" of {readable_bytes(use.memory_limit)}"
            lines = (
                counted(use.operators, "operator"),
                f"computes {precise_seconds(use.compute_seconds)}",
                f"holds {readable_bytes(use.memory_bytes)}{limit}",
            )
            boxes.append(
                Box(
                    title=", ".join((use.device, *use.replicas)),
                    lines=lines,
                    place=rows[use.device],
                    filled=use.memory_bytes / use.memory_limit if use.memory_limit else None,
                    operators=[index[name] for name in stage.operators],
                    link=() if number == last else (readable_bytes(use.sent_bytes), precise_seconds(use.send_seconds)),
                    width=use.send_seconds / pause,
                    limits=slowest and details.bottleneck != "transfer",
                    link_limits=slowest and details.bottleneck == "transfer",
                )
            )
        about = "Each box is a device with its operators; it is filled like its memory. Arrows are transfers."
        return [Chain("Stages", about, boxes)]

    def figure(self) -> Figure:
        """Draw the model's stages, the devices with their links, and several inputs in the pipeline."""
        return pipeline_figure(self)

    def headline(self) -> str:
        """The number of stages, and the time between two results."""
        details, name = self.details, self.problem.graph.name[:40]
        if len(details.stages) == 1:
            return f"{name}: not split, {precise_seconds(details.bottleneck_seconds)} on {details.stages[0].device}"
        pause = precise_seconds(details.bottleneck_seconds)
        return f"{name}: {len(details.stages)} stages, a result every {pause}"

    def subtitle(self) -> str:
        """The size of the problem, and what is proved."""
        text, bound = self.problem.assumptions(), self.result.bound
        if bound is not None and bound > 0:
            text += f"; proved: {self.problem.objective} no less than {precise_seconds(bound)}"
        return text


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
    size_at = {point.position: point.bytes / scale for point in points}
    highest = max(size_at.values(), default=1.0) or 1.0
    ends = list(accumulate(len(stage.operators) for stage in stages.stages))
    for number, (begin, end, stage) in enumerate(zip([0, *ends], ends, stages.stages, strict=False)):
        axes.axvspan(begin, end, color=SHADES[number % 2], alpha=0.22, linewidth=0)
        if len(stages.stages) <= NAMED_STAGES:
            wide = (end - begin) / max(1, count) > 0.03
            name = safe_text(stage.device[:12]) if wide else str(number + 1)
            axes.text((begin + end) / 2, highest * 1.1, name, ha="center", va="center", fontsize=8.5, color="#222222")
    axes.step(list(size_at), list(size_at.values()), where="mid", color=MUTED, linewidth=0.9)
    opens = [place for place in size_at if place in allowed]
    axes.plot(opens, [size_at[place] for place in opens], ".", color=MUTED, markersize=3.5)
    cuts = ends[:-1]
    axes.vlines(cuts, 0, highest * 1.02, color=CRITICAL, linewidth=1.4)
    axes.plot(cuts, [size_at.get(cut, 0.0) for cut in cuts], "o", color=CRITICAL, markersize=5)
    axes.set_xlim(0, max(1, count))
    axes.set_ylim(0, highest * 1.2)
    axes.set_ylabel(f"{unit} between\noperators", fontsize=10)
    axes.set_xlabel(f"the model's {count:,} operators in their order", fontsize=10)


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
        line = 2.0 if slowest else 1.0
        axes.bar(x, 1.0, 0.56, y - 1.0, align="edge", color="white", edgecolor=edge, linewidth=line)
        if share:
            axes.bar(x, share, 0.56, y - 1.0, align="edge", color=BEST, linewidth=0.0, alpha=0.35)
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


def _add_legend(figure: Figure, handles: list[Artist]) -> None:
    from matplotlib.lines import Line2D

    handles.append(Line2D([], [], color=MUTED, marker=".", linewidth=0.9, label="places where the model may be cut"))
    handles.append(Line2D([], [], color=CRITICAL, marker="o", linewidth=1.4, label="cuts"))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=9.5)
