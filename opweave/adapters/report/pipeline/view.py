"""Pipelines as the command line and the reports show them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from opweave.adapters.report.pipeline.explain import best_alone, sentences
from opweave.adapters.report.pipeline.figure import pipeline_figure
from opweave.adapters.report.pipeline.plan import plan_json, stage_table
from opweave.adapters.report.replayed import details_of
from opweave.adapters.report.units import precise_seconds, readable_rate
from opweave.adapters.report.views import Row, Section, View
from opweave.adapters.report.wording import Alone, alone_cell
from opweave.adapters.runtimes.pipeline_exports import exports_of
from opweave.formulations.pipeline.shortage import shortage
from opweave.problems.pipeline.spec import Pipeline, PipelineDetails, Stages

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class PipelineView(View[Pipeline, Stages]):
    """Bottleneck, throughput, latency, and what every stage does."""

    word: ClassVar[str] = "pipeline"
    problem_type = Pipeline
    floors: ClassVar[tuple[str, ...]] = ("one_device", "by_memory", "greedy", "kpath", "random")
    noun: ClassVar[str] = "pipeline"
    plan_file: ClassVar[str] = "stages.json"
    figure_file: ClassVar[str] = "pipeline.png"

    @cached_property
    def details(self) -> PipelineDetails:
        """What the result's stages do."""
        return details_of(self.problem, self.solution)

    @cached_property
    def alone(self) -> Alone | None:
        """The best device by itself."""
        return best_alone(self.problem)

    def rows(self) -> list[Row]:
        """One device, number of stages, throughput and latency."""
        rows = [("best single device", alone_cell(self.alone))]
        if self.result.solution is not None:
            details = self.details
            rows.append(("stages", f"{len(details.stages)} on {len(self.problem.cluster.devices)} devices"))
            rows.append(("result every", precise_seconds(details.bottleneck_seconds)))
            if details.inputs_per_second is not None:
                rows.append(("inputs per second", readable_rate(details.inputs_per_second)))
            rows.append(("latency of one input", precise_seconds(details.latency_seconds)))
        return rows

    def sentences(self) -> Iterator[str]:
        """Say whether splitting pays, what the bottleneck is, and what is proved."""
        return sentences(self.problem, self.result, self.details, self.alone)

    def shortage(self) -> str | None:
        """Find a device or operator for which nothing fits."""
        return shortage(self.problem)

    def sections(self) -> list[Section]:
        """Add a table of the stages; the bottleneck has a star."""
        return [] if self.result.solution is None else [Section("Stages", *stage_table(self.details))]

    def exports(self) -> Mapping[str, object]:
        """Add piece boundaries and the settings of runtimes."""
        return exports_of(self.problem, self.solution, self.details)

    def plan(self) -> dict[str, object]:
        """Write every stage with its operators, times and transfers."""
        return plan_json(self.problem, self.solution, self.details)

    def steps(self) -> tuple[Sequence[str], list[Sequence[str]]]:
        """List the operators in their order, with stage and device."""
        kinds = {op.id: op.kind for op in self.problem.graph.operators}
        return ("operator", "kind", "stage", "device"), [
            (name, kinds[name], str(number + 1), stage.device)
            for number, stage in enumerate(self.solution.stages)
            for name in stage.operators
        ]

    def figure(self) -> Figure:
        """Draw the model's stages, the devices with their links, and several inputs in the pipeline."""
        return pipeline_figure(
            self.problem, self.solution, self.details, bound=self.result.bound, headline=self._headline()
        )

    def _headline(self) -> str:
        details, name = self.details, self.problem.graph.name[:40]
        if len(details.stages) == 1:
            return f"{name}: not split, {precise_seconds(details.bottleneck_seconds)} on {details.stages[0].device}"
        pause = precise_seconds(details.bottleneck_seconds)
        return f"{name}: {len(details.stages)} stages, a result every {pause}"
