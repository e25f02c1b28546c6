"""Serving flows as the command line and the reports show them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from opweave.adapters.report.view import Row, Section, View
from opweave.formulations.serving_flow.instance import lower
from opweave.problems.serving_flow.spec import LayerBlocks, ServingDetails, ServingFlow
from opweave.problems.units import precise_seconds, readable_bytes, readable_rate, readable_share
from opweave.problems.words import counted

NAMED_LIMITS = 3
"""Devices and links of the narrowest cut that are named."""


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
