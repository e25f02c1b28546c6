"""Placement as the command line and the reports show it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from opweave.adapters.report.placement.explain import best_alone, sentences
from opweave.adapters.report.placement.figure import placement_figure
from opweave.adapters.report.placement.plan import (
    DeviceUse,
    device_table,
    device_uses,
    plan_json,
    run_order,
    transfers_of,
)
from opweave.adapters.report.replayed import details_of
from opweave.adapters.report.units import precise_seconds
from opweave.adapters.report.views import Row, Section, View
from opweave.adapters.report.wording import SAME, Alone, alone_cell
from opweave.adapters.runtimes.device_map import device_map
from opweave.formulations.placement.shortage import shortage
from opweave.problems.device_play import critical_rows
from opweave.problems.placement.spec import Placement, PlacementDetails, Schedule
from opweave.problems.timeline import ActivityKind

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class PlacementView(View[Placement, Schedule]):
    """Makespan, gain against one device, and what every device does."""

    word: ClassVar[str] = "placement"
    problem_type = Placement
    floors: ClassVar[tuple[str, ...]] = ("one_device", "fill", "heft", "cpop", "peft", "etf")
    noun: ClassVar[str] = "placement"
    plan_file: ClassVar[str] = "schedule.json"
    figure_file: ClassVar[str] = "schedule.png"

    @cached_property
    def details(self) -> PlacementDetails:
        """What the result's schedule does to the devices."""
        return details_of(self.problem, self.solution)

    @cached_property
    def uses(self) -> list[DeviceUse]:
        """A row for each device."""
        return device_uses(self.problem, self.solution, self.details)

    @cached_property
    def alone(self) -> Alone | None:
        """The best plan on a single device."""
        return best_alone(self.problem)

    def rows(self) -> list[Row]:
        """Best single device, and the gain against it."""
        rows = [("best single device", alone_cell(self.alone))]
        if self.result.solution is not None:
            rows.append(("devices used", f"{sum(use.operators > 0 for use in self.uses)} of {len(self.uses)}"))
            if self.alone is not None and self.details.makespan > 0:
                rows.append(("speed-up by splitting", f"{self.alone.seconds / self.details.makespan:.2f}"))
        return rows

    def sentences(self) -> Iterator[str]:
        """Say what the bottleneck is, whether splitting pays, and what is proved."""
        return sentences(self.result, self.details, self.uses, self.alone)

    def shortage(self) -> str | None:
        """Find a device or operator for which nothing fits."""
        return shortage(self.problem)

    def sections(self) -> list[Section]:
        """Add a table of the devices."""
        return [] if self.result.solution is None else [Section("Devices", *device_table(self.uses))]

    def exports(self) -> Mapping[str, object]:
        """Add the device map."""
        return {"device_map.json": device_map(self.problem.graph, self.solution)}

    def plan(self) -> dict[str, object]:
        """Write every operator and transfer with its times."""
        return plan_json(self.problem, self.solution, self.details)

    def steps(self) -> tuple[Sequence[str], list[Sequence[str]]]:
        """List the operators by start, with device and times."""
        kinds = {op.id: op.kind for op in self.problem.graph.operators}
        schedule, ends = self.solution, self.details.ends
        return ("operator", "kind", "device", "start", "end"), [
            (
                name,
                kinds[name],
                schedule.device[name],
                precise_seconds(schedule.start[name]),
                precise_seconds(ends[name]),
            )
            for name in run_order(schedule, self.details)
        ]

    def notes(self, activity: int) -> Mapping[str, object]:
        """Say which operators are critical."""
        run = self.timeline.activities.kind[activity] == ActivityKind.RUN
        return {"critical": activity in self._critical} if run else {}

    @cached_property
    def _critical(self) -> frozenset[int]:
        return frozenset(row for rows, _ in critical_rows(self.timeline) for row in rows)

    def figure(self) -> Figure:
        """Draw what every device and port does when."""
        return placement_figure(
            self.problem,
            self.solution,
            self.details,
            uses=self.uses,
            sent=transfers_of(self.problem, self.solution, self.details),
            bound=self.result.bound,
            headline=self._headline(),
        )

    def _headline(self) -> str:
        name = self.problem.graph.name
        used = [use.name for use in self.uses if use.operators]
        where = f"on {used[0]} alone" if len(used) == 1 else f"on {len(used)} of {len(self.uses)} devices"
        if not used:
            return f"{name[:40]}: nothing to place"
        text = f"{name[:40]}: {precise_seconds(self.details.makespan)} {where}"
        if self.alone is None:
            return f"{text}; no single device may run it"
        gain = self.alone.seconds / self.details.makespan if self.details.makespan > 0 else 1.0
        if len(used) > 1 and gain > 1 + SAME:
            return f"{text}, {gain:.2f} times as fast as the best single one"
        return f"{text}, the best single device" if gain >= 1 - SAME else f"{text}; {self.alone.device} alone is faster"
