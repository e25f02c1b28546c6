"""Pipelines and serving flows as the command line and the reports show them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from opweave.adapters.report.timeline_tables import Columns, Section, section_of
from opweave.adapters.report.view import Row, View
from opweave.adapters.report.wording import memory_binds
from opweave.adapters.report.workbench.data import Box, Panel
from opweave.adapters.runtimes.plan_exports import stage_exports
from opweave.problems.pipeline.spec import Pipeline, PipelineDetails, Stages
from opweave.problems.serving_flow.spec import LayerBlocks, ServingDetails, ServingFlow
from opweave.problems.units import precise_seconds, readable_bytes, readable_rate, readable_share
from opweave.problems.words import counted

NAMED_LIMITS = 3
"""Devices and links of the narrowest cut that are named."""


class PipelineView(View[Pipeline, Stages, PipelineDetails]):
    """The bottleneck, the throughput, the latency, and the work of every stage."""

    problem_type = Pipeline

    def rows(self) -> list[Row]:
        """Add the number of stages."""
        rows = super().rows()
        if self.result.solution is not None:
            rows.append(("stages", f"{len(self.details.stages)} on {self._devices()}"))
        return rows

    def opening(self) -> str:
        """Say how many stages there are, and how fast they are together."""
        details = self.details
        rate = details.inputs_per_second
        speed = "" if rate is None else f", {readable_rate(rate)} inputs per second"
        stages, pause = counted(len(details.stages), "stage"), precise_seconds(details.bottleneck_seconds)
        said = f"The pipeline has {stages} on {self._devices()} and gives a result every {pause}{speed}."
        return said if self.problem.unit == "seconds" else f"{super().opening()} {said}"

    def _devices(self) -> str:
        """How many devices have stages, and of how many."""
        used, there = len(self.used), len(self.uses)
        return counted(there, "device") if used == there else f"{used} of {there} devices"

    def binding(self) -> Iterator[str]:
        """Say what the bottleneck is, and how long an input takes."""
        if len(self.details.stages) > 1:
            yield self._bottleneck()
            yield f"A single input takes {precise_seconds(self.details.latency_seconds)} from end to end."
        yield from memory_binds(self.uses)

    def _bottleneck(self) -> str:
        details, number = self.details, self.details.bottleneck_stage
        if details.bottleneck == "channel":
            return "The bottleneck is the shared channel, which carries every transfer."
        if number is None:
            return "Nothing takes any time."
        use, size = details.stages[number], readable_bytes(details.stages[number].sent_bytes)
        where = f"stage {number + 1} on {use.device!r}"
        if details.bottleneck == "transfer":
            where = f"{size} from {use.device!r} to {details.stages[number + 1].device!r} (after stage {number + 1})"
        words = {"compute": "computing in {}", "stage": "{}: what it computes, receives and sends"}
        return f"The bottleneck is {words.get(details.bottleneck, 'the transfer of {}').format(where)}."

    def sections(self) -> list[Section]:
        """Put a table of the stages first; a star marks the bottleneck."""
        if self.result.solution is None:
            return []
        slowest, stages = self.details.bottleneck_stage, list(enumerate(self.details.stages))
        between = dict(stages[:-1])
        stage: Columns = {
            "stage": lambda each: f"{each[0] + 1}{'*' * (slowest == each[0])}",
            "device": lambda each: ", ".join((each[1].device, *each[1].replicas)),
            "operators": lambda each: f"{each[1].operators:,}",
            "computes": lambda each: precise_seconds(each[1].compute_seconds),
            "sends": lambda each: readable_bytes(each[1].sent_bytes) if each[0] in between else "-",
            "takes": lambda each: precise_seconds(each[1].send_seconds) if each[0] in between else "-",
        }
        return [section_of("Stages", stages, stage), *super().sections()]

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
            sent = (readable_bytes(use.sent_bytes), precise_seconds(use.send_seconds))
            boxes.append(
                Box(
                    title=", ".join((use.device, *use.replicas)),
                    lines=lines,
                    place=rows[use.device],
                    filled=use.memory_bytes / use.memory_limit if use.memory_limit else None,
                    operators=[index[name] for name in stage.operators],
                    link=sent if number < last else (),
                    width=use.send_seconds / pause,
                    limits=slowest and details.bottleneck != "transfer",
                    link_limits=slowest and details.bottleneck == "transfer",
                )
            )
        about = "Each box is a device with its operators; its bar shows how full its memory is. Arrows are transfers."
        return [Panel("Stages", about, boxes)]

    def amount(self) -> str:
        """The number of stages, and the time between two results."""
        details = self.details
        return f"{counted(len(details.stages), 'stage')}, a result every {precise_seconds(details.bottleneck_seconds)}"


class ServingFlowView(View[ServingFlow, LayerBlocks, ServingDetails]):
    """Tokens per second, who holds which layers, and what is narrowest."""

    problem_type = ServingFlow

    def rows(self) -> list[Row]:
        """Add tokens per second."""
        if self.result.solution is None:
            return super().rows()
        return [*super().rows(), ("tokens per second", readable_rate(self.details.tokens_per_second))]

    def opening(self) -> str:
        """Say how many tokens flow, and through which devices."""
        details, layers = self.details, counted(len(self.problem.layers), "layer")
        flowing = [use for use in details.devices if use.tokens_per_second]
        return (
            f"{readable_rate(details.tokens_per_second)} tokens per second flow through {layers} on "
            f"{counted(len(flowing), 'device')}: one every {precise_seconds(1 / details.tokens_per_second)}."
        )

    def comparison(self) -> Iterator[str]:
        """Say how many tokens the baseline serves."""
        if self.reference is not None and self.reference.objective:
            yield f"The {self.reference.name} serves {readable_rate(1 / self.reference.objective)} tokens per second."

    def binding(self) -> Iterator[str]:
        """Say what is narrowest."""
        named = ", ".join(map(repr, self.details.limits[:NAMED_LIMITS]))
        more = len(self.details.limits) - NAMED_LIMITS
        yield f"The narrowest cut is {named}{f' and {more} more' if more > 0 else ''}."

    def amount(self) -> str:
        """Tokens per second."""
        return f"{readable_rate(self.details.tokens_per_second)} tokens per second"

    def sections(self) -> list[Section]:
        """Put the layers of every device first."""
        columns: Columns = {
            "device": lambda use: use.device,
            "layers": lambda use: f"{use.first} to {use.first + use.layers - 1}",
            "tokens/s": lambda use: readable_rate(use.tokens_per_second),
            "at most": lambda use: readable_rate(use.most_per_second),
            "used": lambda use: readable_share(use.share),
            "parameters": lambda use: readable_bytes(use.memory_bytes),
        }
        return [section_of("Layers", self.details.devices, columns), *super().sections()]
