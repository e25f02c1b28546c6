"""Pipelines as the command line and the reports show them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from opweave.adapters.report.replayed import details_of
from opweave.adapters.report.timeline_tables import Cells
from opweave.adapters.report.units import precise_seconds, readable_bytes, readable_rate
from opweave.adapters.report.views import Row, Section, View
from opweave.adapters.report.wording import SAME, memory_binds, proof_sentence
from opweave.adapters.runtimes.pipeline_exports import exports_of
from opweave.formulations.pipeline.shortage import shortage
from opweave.problems.pipeline.spec import Pipeline, PipelineDetails, Stages
from opweave.problems.result import Status
from opweave.problems.words import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class PipelineView(View[Pipeline, Stages]):
    """The bottleneck, the throughput, the latency, and the work of every stage."""

    word: ClassVar[str] = "pipeline"
    problem_type = Pipeline
    baseline: ClassVar[str | None] = "one_device"
    noun: ClassVar[str] = "pipeline"
    plan_file: ClassVar[str] = "stages.json"
    figure_file: ClassVar[str] = "pipeline.png"

    @cached_property
    def details(self) -> PipelineDetails:
        """What the referee measured of the result's stages."""
        return details_of(self.problem, self.solution)

    def rows(self) -> list[Row]:
        """Add the number of stages."""
        rows = super().rows()
        if self.result.solution is not None:
            rows.append(("stages", f"{len(self.details.stages)} on {len(self.problem.cluster.devices)} devices"))
        return rows

    def sentences(self) -> Iterator[str]:
        """Say whether splitting pays, what the bottleneck is, and what is proved."""
        details = self.details
        if not details.stages:
            yield "The model has no operators, so there is nothing to run."
            return
        used, there = len(details.stages), len(self.problem.cluster.devices)
        rate = details.inputs_per_second
        speed = "" if rate is None else f", {readable_rate(rate)} inputs per second"
        pause = precise_seconds(details.bottleneck_seconds)
        yield f"The pipeline has {counted(used, 'stage')} on {there} devices and gives a result every {pause}{speed}."
        yield self._split()
        if used > 1:
            yield self._bottleneck()
            yield f"A single input takes {precise_seconds(details.latency_seconds)} from end to end."
        yield from memory_binds(self.uses)
        yield proof_sentence(self.result, "better", "pipeline")

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
            takes = f"Splitting pays: {alone.device!r} alone takes {precise_seconds(alone.seconds)} for each input"
            if details.inputs_per_second is None:
                return f"{takes}; the pipeline takes no time."
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
                use.device,
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
        return exports_of(self.problem, self.solution, self.details)

    def plan(self) -> dict[str, object]:
        """Write every stage with its operators, times and transfers."""
        details = self.details.model_dump(mode="json", exclude={"simulated_ends"})
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

    def figure(self) -> Figure:
        """Draw the model's stages, the devices with their links, and several inputs in the pipeline."""
        from opweave.adapters.report.pipeline.figure import pipeline_figure

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
