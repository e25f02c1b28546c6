"""Slicing as the command line and the reports show it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from opweave.adapters.report.replayed import details_of
from opweave.adapters.report.units import precise_seconds, readable_share
from opweave.adapters.report.views import Row, View
from opweave.formulations.slicing.shortage import shortage
from opweave.problems.slicing.details import SlicedStep
from opweave.problems.slicing.spec import Slices, Slicing, SlicingDetails
from opweave.problems.timeline import ActivityKind

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class SlicingView(View[Slicing, Slices]):
    """The latency, the gain against one device, and which device computes which part of every operator."""

    word: ClassVar[str] = "slicing"
    problem_type = Slicing
    baseline: ClassVar[str | None] = "one_device"
    better: ClassVar[str] = "faster"
    plan_file: ClassVar[str] = "slices.json"
    figure_file: ClassVar[str] = "slices.png"

    @cached_property
    def details(self) -> SlicingDetails:
        """What the referee measured of the result's solution."""
        return details_of(self.problem, self.solution)

    def rows(self) -> list[Row]:
        """Add how many operators cannot be cut."""
        whole = sum(not cutting.lengths for cutting in self.problem.cuttings.values())
        return [*super().rows(), ("operators that stay whole", f"{whole:,} of {len(self.problem.cuttings):,}")]

    def opening(self) -> str:
        """Say how long an input takes."""
        used = sum(use.runs > 0 for use in self.uses)
        return f"One input takes {precise_seconds(self.details.latency)} on {used} of {len(self.uses)} devices."

    def sentences(self) -> Iterator[str]:
        """Add how operators are cut, where the time goes, and which operators stay whole."""
        yield from super().sentences()
        details, steps = self.details, self.details.steps
        if details.latency > 0:
            shared = self.problem.channel == "shared"
            wait = sum(s.airtime if shared else s.transfer_seconds[s.slowest] for s in steps) + details.gather_seconds
            rows, channels = (
                sum(s.dimension == each and len(s.shares) > 1 for s in steps) for each in ("rows", "channels")
            )
            yield f"{rows:,} operators are cut along the rows and {channels:,} along the channels."
            yield f"{readable_share(wait / details.latency)} of the time is waiting for data."
        kept = [(name, cutting.why_whole) for name, cutting in self.problem.cuttings.items() if not cutting.lengths]
        if kept:
            name, why = kept[0]
            yield f"{len(kept):,} of {len(self.problem.cuttings):,} operators stay whole; of {name!r}, {why}."

    def shortage(self) -> str | None:
        """Find a device or operator for which nothing fits."""
        return shortage(self.problem)

    def notes(self, activity: int) -> Mapping[str, object]:
        """Say which part of its operator a device computes."""
        acts = self.timeline.activities
        step = self._steps.get(int(acts.what[activity]))
        row = int(acts.resource[activity])
        device = self.timeline.resources[row].name
        if step is None or acts.kind[activity] != ActivityKind.RUN:
            return {}
        cuts = self.solution.slices[step.operator].cuts
        return {
            "share": step.shares[device],
            "dimension": step.dimension,
            "part": f"{cuts[row]} to {cuts[row + 1]}",
            "slowest": device == step.slowest,
        }

    @cached_property
    def _steps(self) -> dict[int, SlicedStep]:
        index = self.problem.graph.operator_index
        return {index[step.operator]: step for step in self.details.steps}

    def figure(self) -> Figure:
        """Draw the shares and times of every operator."""
        from opweave.adapters.report.slicing.figure import slicing_figure

        text, bound = self.subtitle(), self.result.bound
        text += "" if bound is None else f"; no plan takes less than {precise_seconds(bound)}"
        return slicing_figure(self.problem, self.details, headline=self.headline(), subtitle=text)

    def figures(self) -> dict[str, Figure]:
        """Add a Gantt chart of every device."""
        return {**super().figures(), "schedule.png": self.gantt_figure()}
