"""Placements, batched mappings and slicings as the command line and the reports show them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from opweave.adapters.report.view import Row, View
from opweave.adapters.report.workbench.data import Panel
from opweave.adapters.runtimes.plan_exports import device_map
from opweave.problems.batched_mapping.spec import BatchedDetails, BatchedMapping, BatchedSchedule
from opweave.problems.device_play import DeviceDetails
from opweave.problems.measures import throughput
from opweave.problems.placement.spec import Placement, Schedule
from opweave.problems.slicing.play import SlicedStep
from opweave.problems.slicing.spec import Slices, Slicing, SlicingDetails
from opweave.problems.timeline import ActivityKind
from opweave.problems.units import precise_seconds, readable_rate, readable_share
from opweave.problems.words import counted


class PlacementView(View[Placement, Schedule, DeviceDetails]):
    """The makespan, the gain against one device, and the work of every device."""

    problem_type = Placement

    def exports(self) -> Mapping[str, object]:
        """Add the device map."""
        return {"device_map.json": device_map(self.problem.graph, self.solution)}


class BatchedMappingView(View[BatchedMapping, BatchedSchedule, BatchedDetails]):
    """Which inputs run where and when, and the throughput."""

    problem_type = BatchedMapping

    def rows(self) -> list[Row]:
        """Add the inputs, the best single device, the gain against it, and the upper bound of the throughput."""
        rows = [("inputs", f"{self.problem.batch:,}"), *super().rows()]
        if self.result.bound:
            rows.append(("at most", f"{readable_rate(self.problem.batch / self.result.bound)} inputs per second"))
        return rows

    def opening(self) -> str:
        """Say how long the batch takes, and how many inputs per second that is."""
        rate = throughput(self.timeline)
        speed = "" if rate is None else f", {readable_rate(rate)} inputs per second"
        took = precise_seconds(self.timeline.end)
        takes = "One input takes" if self.problem.batch == 1 else f"{self.problem.batch:,} inputs take"
        return f"{takes} {took}{speed}, on {len(self.used)} of {len(self.uses)} devices."

    def binding(self) -> Iterator[str]:
        """Add how many operators split their batch."""
        yield from super().binding()
        devices = self.solution.devices_by_operator()
        split = sum(len(names) > 1 for names in devices.values())
        if self.problem.batch == 1:
            yield "There is one input, so that only the model is split."
        elif not split:
            yield "No operator splits its batch."
        else:
            yield f"{split:,} of {len(devices):,} operators split their batch over several devices."

    def notes(self, activity: int) -> Mapping[str, object]:
        """Give the inputs of a batch. Batches come first, in the plan's order."""
        batches = self.solution.batches
        return {"inputs": spans(batches[activity].inputs)} if activity < len(batches) else {}

    def amount(self) -> str:
        """The inputs and their time."""
        return f"{counted(self.problem.batch, 'input')} in {precise_seconds(self.timeline.end)}"


def spans(inputs: Sequence[int]) -> str:
    """Write input numbers as ranges.

    Examples
    --------
    >>> spans([0, 1, 2, 5, 7, 8])
    '0-2, 5, 7-8'
    """
    parts: list[list[int]] = []
    for number in sorted(inputs):
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


class SlicingView(View[Slicing, Slices, SlicingDetails]):
    """The latency, the gain against one device, and which device computes which part of every operator."""

    problem_type = Slicing

    def rows(self) -> list[Row]:
        """Add how many operators cannot be cut."""
        whole = sum(not cutting.lengths for cutting in self.problem.cuttings.values())
        return [*super().rows(), ("operators that cannot be cut", f"{whole:,} of {len(self.problem.cuttings):,}")]

    def binding(self) -> Iterator[str]:
        """Add how operators are cut, where the time goes, and which operators stay whole."""
        yield from super().binding()
        steps = self.details.steps
        rows, channels = (
            sum(s.dimension == each and len(s.shares) > 1 for s in steps) for each in ("rows", "channels")
        )
        if self.details.latency > 0 and rows + channels:
            wait = sum(step.transfer_seconds[step.slowest] for step in steps)
            yield f"{rows:,} operators are cut along the rows and {channels:,} along the channels."
            yield f"{readable_share(wait / self.details.latency)} of the time is waiting for data."
        elif self.details.latency > 0:
            yield "No operator is cut."
        kept = [(name, cutting.why_whole) for name, cutting in self.problem.cuttings.items() if not cutting.lengths]
        if kept:
            name, why = kept[0]
            yield f"{len(kept):,} of {len(self.problem.cuttings):,} operators cannot be cut; of {name!r}, {why}."

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

    def panels(self) -> Sequence[Panel]:
        """Who computes which part of every operator, and what the parts wait for."""
        index, steps = self.problem.graph.operator_index, self.details.steps
        devices = [device.name for device in self.problem.cluster.devices]
        columns: dict[str, Sequence[Any]] = {
            "operators": [index[step.operator] for step in steps],
            "shares": [[round(step.shares.get(name, 0.0), 5) for name in devices] for step in steps],
            "words": [step.dimension for step in steps],
            "waits": [step.transfer_seconds[step.slowest] for step in steps],
            "works": [step.compute_seconds[step.slowest] for step in steps],
        }
        about = "One row for each operator, in running order: its parts by device, and its time."
        return [Panel("Slices", about, columns=columns)]
