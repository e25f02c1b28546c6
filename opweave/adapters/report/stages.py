"""Pipelines and serving flows as the command line and the reports show them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from opweave.adapters.report.view import Row, Section, View
from opweave.adapters.report.wording import LITTLE, SAME, memory_binds
from opweave.adapters.report.workbench.panels import Box, Chain, Panel
from opweave.adapters.runtimes.plan_exports import stage_exports
from opweave.formulations.pipeline.instance import shortage
from opweave.formulations.serving_flow.instance import lower
from opweave.problems.pipeline.spec import Pipeline, PipelineDetails, Stages
from opweave.problems.result import Status
from opweave.problems.serving_flow.spec import LayerBlocks, ServingDetails, ServingFlow
from opweave.problems.units import precise_seconds, readable_bytes, readable_rate, readable_share
from opweave.problems.words import counted

NAMED_LIMITS = 3
"""Devices and links of the narrowest cut that are named."""


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


class ServingFlowView(View[ServingFlow, LayerBlocks, ServingDetails]):
    """Tokens per second, who holds which layers, and what is narrowest."""

    word: ClassVar[str] = "serving"
    problem_type = ServingFlow
    better: ClassVar[str] = "faster"
    plan_file: ClassVar[str] = "blocks.json"
    figure_file: ClassVar[str] = "serving.png"

    def rows(self) -> list[Row]:
        """Add tokens per second."""
        if self.result.solution is None:
            return super().rows()
        return [*super().rows(), ("tokens per second", readable_rate(self.details.tokens_per_second))]

    def sentences(self) -> Iterator[str]:
        """Say how many tokens flow, through which devices, what is narrowest, and what is proved."""
        details, layers = self.details, len(self.problem.layers)
        flowing = [use for use in details.devices if use.tokens_per_second]
        yield (
            f"{readable_rate(details.tokens_per_second)} tokens per second flow through {counted(layers, 'layer')} on "
            f"{counted(len(flowing), 'device')}: one every {precise_seconds(1 / details.tokens_per_second)}."
        )
        named = ", ".join(map(repr, details.limits[:NAMED_LIMITS]))
        more = len(details.limits) - NAMED_LIMITS
        yield f"The narrowest cut is {named}{f' and {more} more' if more > 0 else ''}."
        if self.reference is not None and self.reference.objective > 0:
            rate = readable_rate(1 / self.reference.objective)
            yield f"The baseline {self.reference.solver!r} serves {rate} tokens per second."
        yield self.proof()

    def shortage(self) -> str | None:
        """Say whether the devices together can hold too few layers."""
        return lower(self.problem).short()

    def sections(self) -> list[Section]:
        """Put the layers of every device first."""
        rows: list[Sequence[str]] = [
            (
                use.device,
                f"{use.first} to {use.first + use.layers - 1}",
                readable_rate(use.tokens_per_second),
                readable_rate(use.most_per_second),
                readable_share(use.share),
                readable_bytes(use.memory_bytes),
            )
            for use in self.details.devices
        ]
        header = ("device", "layers", "tokens/s", "at most", "used", "parameters")
        return [Section("Layers", header, rows), *super().sections()]
