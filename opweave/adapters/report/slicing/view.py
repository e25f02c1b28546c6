"""Slicing as the command line and the reports show it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from opweave.adapters.report.replayed import details_of
from opweave.adapters.report.slicing.explain import best_alone, sentences
from opweave.adapters.report.slicing.figure import headline_of, slicing_figure
from opweave.adapters.report.slicing.plan import device_table, plan_json
from opweave.adapters.report.units import precise_seconds, readable_share
from opweave.adapters.report.views import Row, Section, View
from opweave.adapters.report.wording import Alone, alone_cell
from opweave.formulations.slicing.shortage import shortage
from opweave.problems.slicing.details import SlicedStep
from opweave.problems.slicing.spec import Slices, Slicing, SlicingDetails
from opweave.problems.timeline import ActivityKind

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class SlicingView(View[Slicing, Slices]):
    """Latency, gain against one device, and what every device does."""

    word: ClassVar[str] = "slicing"
    problem_type = Slicing
    floors: ClassVar[tuple[str, ...]] = ("one_device", "uniform", "proportional", "all_rows")
    plan_file: ClassVar[str] = "slices.json"
    figure_file: ClassVar[str] = "slices.png"

    @cached_property
    def details(self) -> SlicingDetails:
        """What the result's plan does to the devices."""
        return details_of(self.problem, self.solution)

    @cached_property
    def alone(self) -> Alone | None:
        """The best device by itself, and its seconds."""
        return best_alone(self.problem)

    def rows(self) -> list[Row]:
        """Best single device, and the gain against it."""
        rows = [("best single device", alone_cell(self.alone))]
        whole = sum(not cutting.lengths for cutting in self.problem.cuttings.values())
        rows.append(("operators that stay whole", f"{whole:,} of {len(self.problem.cuttings):,}"))
        if self.result.solution is not None and self.alone is not None and self.details.latency > 0:
            rows.append(("speed-up by cutting", f"{self.alone.seconds / self.details.latency:.2f}"))
        return rows

    def sentences(self) -> Iterator[str]:
        """Say what cutting gains, where the time goes, and what is proved."""
        return sentences(self.problem, self.result, self.details, self.alone)

    def shortage(self) -> str | None:
        """Find a device or operator for which nothing fits."""
        return shortage(self.problem)

    def sections(self) -> list[Section]:
        """Add a table of the devices."""
        return [] if self.result.solution is None else [Section("Devices", *device_table(self.details))]

    def plan(self) -> dict[str, object]:
        """Write every operator with its parts and times."""
        return plan_json(self.problem, self.solution, self.details)

    def steps(self) -> tuple[Sequence[str], list[Sequence[str]]]:
        """List the operators in running order, with dimension, shares and times."""
        return ("operator", "cut along", "shares", "slowest", "start", "end"), [
            (
                step.operator,
                step.dimension,
                ", ".join(f"{name} {readable_share(share)}" for name, share in step.shares.items()),
                step.slowest,
                precise_seconds(step.start),
                precise_seconds(step.end),
            )
            for step in self.details.steps
        ]

    def notes(self, activity: int) -> Mapping[str, object]:
        """Say which part of its operator a device computes."""
        acts = self.timeline.activities
        step = self._steps.get(int(acts.what[activity]))
        device = self.timeline.resources[acts.resource[activity]].name
        if step is None or acts.kind[activity] != ActivityKind.RUN:
            return {}
        return {"share": step.shares[device], "dimension": step.dimension, "slowest": device == step.slowest}

    @cached_property
    def _steps(self) -> dict[int, SlicedStep]:
        index = self.problem.graph.operator_index
        return {index[step.operator]: step for step in self.details.steps}

    def figure(self) -> Figure:
        """Draw shares and times of every operator."""
        alone = None if self.alone is None else self.alone.seconds
        headline = headline_of(self.problem, self.solution, self.details, alone)
        return slicing_figure(self.problem, self.details, bound=self.result.bound, headline=headline)
