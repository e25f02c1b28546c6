"""Memory ordering as the command line and the reports show it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import ClassVar

from opweave.adapters.report.figures import shortened
from opweave.adapters.report.timeline_tables import Limits
from opweave.adapters.report.view import Before, Row, View
from opweave.problems.measures import peak_bytes, total_bytes
from opweave.problems.memory_ordering.spec import MemoryOrdering, MemoryProfile, Ordering, given_order
from opweave.problems.result import Status
from opweave.problems.timeline import Timeline
from opweave.problems.units import exact_bytes, readable_bytes, readable_share


class MemoryOrderingView(View[MemoryOrdering, Ordering, MemoryProfile]):
    """The peak, where it is, and the saving against the given order."""

    word: ClassVar[str] = "ordering"
    problem_type = MemoryOrdering
    noun: ClassVar[str] = "order"
    better: ClassVar[str] = "less"
    verb: ClassVar[tuple[str, str]] = ("needs", "need")
    plan_file: ClassVar[str] = "order.json"
    figure_file: ClassVar[str] = "memory.png"

    @cached_property
    def given(self) -> Timeline:
        """The timeline of the order in which the model lists its operators."""
        timeline = self.problem.play(given_order(self.problem))
        assert timeline is not None  # it is valid by construction: every operator once
        return timeline

    @cached_property
    def limits(self) -> Limits:
        """Bytes that may be live."""
        return {"memory": self.problem.limit_bytes}

    def rows(self) -> list[Row]:
        """Add the given order, the saving and the busiest operator."""
        before = self._measure(self.given)
        rows = [("given order", exact_bytes(before))]
        if self.result.solution is None:
            return rows
        if before:
            saved = 1 - self._measure(self.timeline) / before
            worse = "more than the given order" if saved < 0 else "of the given order"
            rows.append(("saved", f"{readable_share(abs(saved))} {worse}"))
        if self.details.peak_operator is not None:
            rows.append(("busiest operator", f"{self.details.peak_operator} (step {self.details.peak_step})"))
        return rows

    def sentences(self) -> Iterator[str]:
        """Say where the peak is, what the order saves, and what is proved."""
        needed, before = self._measure(self.timeline), self._measure(self.given)
        where = "" if self.details.peak_operator is None else f"; the peak is at {self.details.peak_operator}"
        summed = " summed over its steps" if self.problem.objective == "total" else ""
        yield f"The order needs {readable_bytes(needed)}{summed}{where}."
        if before > needed:
            share = readable_share(1 - needed / before)
            yield f"The given order needs {readable_bytes(before)}, so {share} is saved."
        elif before == needed and self.solution.order != tuple(op.id for op in self.problem.graph.operators):
            yield "The given order needs as much."
        yield self.proof()

    def plan(self) -> dict[str, object]:
        """Write every step with the bytes that are live while it runs and after it."""
        kinds, profile = {op.id: op.kind for op in self.problem.graph.operators}, self.details
        return {
            "model": self.problem.graph.name,
            "assumptions": self.problem.assumptions(),
            "peak_bytes": profile.peak_bytes,
            "peak_operator": profile.peak_operator,
            "peak_tensors": list(profile.peak_tensors),
            "total_bytes": profile.total_bytes,
            "order": list(self.solution.order),
            "steps": [
                {"operator": name, "kind": kinds[name], "stable_bytes": stable, "transient_bytes": transient}
                for name, stable, transient in zip(self.solution.order, profile.stable, profile.transient, strict=True)
            ],
        }

    def headline(self) -> str:
        """What the order saves."""
        name, before, after = shortened(self.problem.graph.name, 40), *map(self._measure, (self.given, self.timeline))
        if before > after:
            what = "peak memory" if self.problem.objective == "peak" else "memory summed over steps"
            return f"{name}: {what} {readable_share(1 - after / before)} below the given order"
        proved = self.result.status is Status.OPTIMAL
        return f"{name}: the given order is {'already the best' if proved else 'as good as the best found'}"

    def given_timeline(self) -> Timeline | None:
        """The timeline of the given order."""
        return self.given

    def before(self) -> Before:
        """The given order."""
        return Before("given order", self.given)

    def objective_of(self, before: Before) -> float | None:
        """The bytes of the given order."""
        return self._measure(before.timeline)

    def _measure(self, timeline: Timeline) -> int:
        return peak_bytes(timeline) if self.problem.objective == "peak" else total_bytes(timeline) or 0
