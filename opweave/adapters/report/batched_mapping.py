"""Batched mapping as the command line and the reports show it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import ClassVar

from opweave.adapters.report.view import Row, View
from opweave.formulations.batched_mapping.shortage import shortage
from opweave.problems.batched_mapping.spec import BatchedDetails, BatchedMapping, BatchedSchedule
from opweave.problems.measures import throughput
from opweave.problems.timeline import ActivityKind
from opweave.problems.units import precise_seconds, readable_rate


class BatchedMappingView(View[BatchedMapping, BatchedSchedule, BatchedDetails]):
    """Which inputs run where and when, and the throughput."""

    word: ClassVar[str] = "batched"
    problem_type = BatchedMapping
    baseline: ClassVar[str | None] = "best_device"
    noun: ClassVar[str] = "mapping"
    better: ClassVar[str] = "shorter"
    plan_file: ClassVar[str] = "batches.json"
    figure_file: ClassVar[str] = "batches.png"

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

    def sentences(self) -> Iterator[str]:
        """Add how many operators split their batch."""
        yield from super().sentences()
        devices = self.solution.devices_by_operator()
        split = sum(len(names) > 1 for names in devices.values())
        if self.problem.batch == 1:
            yield "There is one input, so that only the model is split."
        elif not split:
            yield "No operator splits its batch."
        else:
            yield f"{split:,} of {len(devices):,} operators split their batch over several devices."

    def shortage(self) -> str | None:
        """Find a device or operator for which nothing fits."""
        return shortage(self.problem)

    def notes(self, activity: int) -> Mapping[str, object]:
        """Give the inputs of a batch or a transfer. Batches come first, in the plan's order."""
        batches, acts = self.solution.batches, self.timeline.activities
        if activity < len(batches):
            return {"inputs": spans(batches[activity].inputs)}
        row = activity if acts.kind[activity] == ActivityKind.RECEIVE else int(acts.twin[activity])
        ends = [*acts.causes[row].tolist(), *self._readers.get(row, ())]
        carried = [frozenset(batches[end].inputs) for end in ends if end < len(batches)]
        return {"inputs": spans(sorted(frozenset.intersection(*carried)))} if carried else {}

    @cached_property
    def _readers(self) -> dict[int, list[int]]:
        """The runs that wait for each activity."""
        causes = self.timeline.activities.causes
        found: dict[int, list[int]] = {}
        for effect, cause in zip(causes.heads().tolist(), causes.items.tolist(), strict=True):
            found.setdefault(cause, []).append(effect)
        return found

    def headline(self) -> str:
        """The inputs, the time, the throughput, and the gain against one device."""
        name, rate = self.problem.graph.name[:40], throughput(self.timeline)
        text = f"{name}: {self.problem.batch:,} inputs in {precise_seconds(self.timeline.end)}"
        text += "" if rate is None else f", {readable_rate(rate)} a second"
        if self.alone is None or self.timeline.end <= 0:
            return text
        gain = self.alone.seconds / self.timeline.end
        return f"{text}, {gain:.2f} times the best single device" if gain > 1.0 + 1e-6 else text

    def subtitle(self) -> str:
        """Put the number of batches first."""
        return f"{len(self.solution.batches):,} batches of {super().subtitle()}"


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
