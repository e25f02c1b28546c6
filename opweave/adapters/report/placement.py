"""Placement as the command line and the reports show it; everything comes from its timeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from opweave.adapters.report.view import View
from opweave.adapters.runtimes.plan_exports import device_map
from opweave.formulations.placement.shortage import shortage
from opweave.problems.placement.spec import Placement, PlacementDetails, Schedule


class PlacementView(View[Placement, Schedule, PlacementDetails]):
    """The makespan, the gain against one device, and the work of every device."""

    word: ClassVar[str] = "placement"
    problem_type = Placement
    baseline: ClassVar[str | None] = "one_device"
    noun: ClassVar[str] = "placement"
    better: ClassVar[str] = "shorter"
    plan_file: ClassVar[str] = "schedule.json"
    figure_file: ClassVar[str] = "schedule.png"

    def shortage(self) -> str | None:
        """Find a device or operator for which nothing fits."""
        return shortage(self.problem)

    def exports(self) -> Mapping[str, object]:
        """Add the device map."""
        return {"device_map.json": device_map(self.problem.graph, self.solution)}
