"""Batched mapping as the command line and the reports show it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from opweave.adapters.report.batched_mapping.explain import best_alone, sentences
from opweave.adapters.report.batched_mapping.figure import batched_figure
from opweave.adapters.report.batched_mapping.plan import (
    BatchedUse,
    device_table,
    device_uses,
    plan_json,
    run_order,
    spans,
)
from opweave.adapters.report.replayed import details_of
from opweave.adapters.report.units import precise_seconds, readable_rate
from opweave.adapters.report.views import Row, Section, View
from opweave.adapters.report.wording import Alone, alone_cell
from opweave.formulations.batched_mapping.shortage import shortage
from opweave.problems.batched_mapping.spec import BatchedDetails, BatchedMapping, BatchedSchedule
from opweave.problems.device_play import critical_rows
from opweave.problems.problem import Problem

if TYPE_CHECKING:
    from typing import Any

    from matplotlib.figure import Figure


class BatchedMappingView(View[BatchedMapping, BatchedSchedule]):
    """Which inputs run where and when, and how many of them a second."""

    word: ClassVar[str] = "batched"
    problem_type: ClassVar[type[Problem[Any, Any]]] = BatchedMapping
    floors: ClassVar[tuple[str, ...]] = ("best_device", "data_parallel", "met", "greedy", "heft", "heft_whole")
    noun: ClassVar[str] = "mapping"
    plan_file: ClassVar[str] = "batches.json"
    figure_file: ClassVar[str] = "batches.png"

    @cached_property
    def details(self) -> BatchedDetails:
        """What the result's schedule does to the devices."""
        return details_of(self.problem, self.solution)

    @cached_property
    def uses(self) -> list[BatchedUse]:
        """A row for each device."""
        return device_uses(self.problem, self.solution, self.details)

    @cached_property
    def alone(self) -> Alone | None:
        """The whole batch on a single device."""
        return best_alone(self.problem)

    def rows(self) -> list[Row]:
        """Throughput, best single device, and the gain against it."""
        rows: list[Row] = [("inputs", f"{self.problem.batch:,}")]
        rows.append(("best single device", alone_cell(self.alone)))
        if self.result.solution is not None:
            if self.details.inputs_per_second is not None:
                rows.append(("inputs per second", readable_rate(self.details.inputs_per_second)))
            if self.result.bound:
                rows.append(("at most", f"{readable_rate(self.problem.batch / self.result.bound)} inputs per second"))
            rows.append(("devices used", f"{sum(use.batches > 0 for use in self.uses)} of {len(self.uses)}"))
            if self.alone is not None and self.details.makespan > 0:
                rows.append(("speed-up by splitting", f"{self.alone.seconds / self.details.makespan:.2f}"))
        return rows

    def sentences(self) -> Iterator[str]:
        """Say what limits the throughput, what splitting gains, and what is proved."""
        return sentences(self.problem, self.result, self.details, self.uses, self.alone)

    def shortage(self) -> str | None:
        """Find a device or operator for which nothing fits."""
        return shortage(self.problem)

    def sections(self) -> list[Section]:
        """Add a table of the devices."""
        return [] if self.result.solution is None else [Section("Devices", *device_table(self.uses))]

    def plan(self) -> dict[str, object]:
        """Write every batch and transfer with its times."""
        return plan_json(self.problem, self.solution, self.details)

    def steps(self) -> tuple[Sequence[str], list[Sequence[str]]]:
        """List the batches by start, with device, inputs and times."""
        return ("operator", "device", "inputs", "start", "end"), [
            (
                batch.operator,
                batch.device,
                spans(batch.inputs),
                precise_seconds(batch.start),
                precise_seconds(batch.end),
            )
            for batch in run_order(self.solution)
        ]

    def notes(self, activity: int) -> Mapping[str, object]:
        """Say which inputs a batch has, and whether it is critical; batches come first, in the plan's order."""
        if activity >= len(self.solution.batches):
            return {}
        return {"inputs": spans(self.solution.batches[activity].inputs), "critical": activity in self._critical}

    @cached_property
    def _critical(self) -> frozenset[int]:
        return frozenset(row for rows, _ in critical_rows(self.timeline) for row in rows)

    def figure(self) -> Figure:
        """Draw what every device runs when, in batches of which size."""
        return batched_figure(
            self.problem,
            self.solution,
            self.details,
            uses=self.uses,
            bound=self.result.bound,
            headline=self._headline(),
        )

    def _headline(self) -> str:
        name, rate = self.problem.graph.name[:40], self.details.inputs_per_second
        text = f"{name}: {self.problem.batch:,} inputs in {precise_seconds(self.details.makespan)}"
        text += "" if rate is None else f", {readable_rate(rate)} a second"
        if self.alone is None or self.details.makespan <= 0:
            return text
        gain = self.alone.seconds / self.details.makespan
        return f"{text}, {gain:.2f} times the best single device" if gain > 1.0 + 1e-6 else text
