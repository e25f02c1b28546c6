"""Memory ordering as the command line and the reports show it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from opweave.adapters.report.memory_ordering.figure import memory_figure
from opweave.adapters.report.memory_ordering.plan import given_order, plan_json
from opweave.adapters.report.replayed import details_of
from opweave.adapters.report.units import readable_bytes, readable_share
from opweave.adapters.report.views import Row, View
from opweave.problems.memory_ordering.spec import MemoryOrdering, MemoryProfile, Ordering
from opweave.problems.result import Status

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class MemoryOrderingView(View[MemoryOrdering, Ordering]):
    """Peak, saving against the given order, and where the peak is."""

    word: ClassVar[str] = "ordering"
    problem_type = MemoryOrdering
    floors: ClassVar[tuple[str, ...]] = ("definition", "rpo", "lpmf", "bfs", "dfs", "reverse")
    noun: ClassVar[str] = "order"
    plan_file: ClassVar[str] = "order.json"
    figure_file: ClassVar[str] = "memory.png"

    @cached_property
    def given(self) -> MemoryProfile:
        """Profile of the order in which the model lists its operators."""
        return details_of(self.problem, given_order(self.problem))

    @cached_property
    def best(self) -> MemoryProfile:
        """Profile of the result's order."""
        return details_of(self.problem, self.solution)

    def rows(self) -> list[Row]:
        """Given order, saving, busiest operator."""
        before = _measure(self.problem, self.given)
        exact = f" ({before:,} bytes)" if before >= 1024 else ""
        rows = [("given order", readable_bytes(before) + exact)]
        if self.result.solution is None:
            return rows
        if before:
            saved = 1 - _measure(self.problem, self.best) / before
            worse = "more than the given order" if saved < 0 else "of the given order"
            rows.append(("saved", f"{readable_share(abs(saved))} {worse}"))
        if self.best.peak_operator is not None:
            rows.append(("busiest operator", f"{self.best.peak_operator} (step {self.best.peak_step})"))
        return rows

    def sentences(self) -> Iterator[str]:
        """Say where the peak is, what the order saves, and what is proved."""
        needed = _measure(self.problem, self.best)
        where = f"; the peak is at {self.best.peak_operator}" if self.best.peak_operator is not None else ""
        summed = " summed over its steps" if self.problem.objective == "total" else ""
        yield f"The order needs {readable_bytes(needed)}{summed}{where}."
        before = _measure(self.problem, self.given)
        if before > needed:
            share = readable_share(1 - needed / before)
            yield f"The given order needs {readable_bytes(before)}, so {share} is saved."
        result = self.result
        if result.status is Status.OPTIMAL:
            yield "It is proved that no order needs less."
        elif result.gap is None:
            yield "Nothing is proved about how much less an order could need."
        else:
            yield f"No order can need more than {readable_share(result.gap)} less."

    def plan(self) -> dict[str, object]:
        """Write every step with its bytes."""
        return plan_json(self.problem, self.solution, self.best)

    def steps(self) -> tuple[Sequence[str], list[Sequence[str]]]:
        """List operator and live bytes of every step."""
        kinds = {op.id: op.kind for op in self.problem.graph.operators}
        return ("step", "operator", "kind", "live while it runs", "live after it"), [
            (str(step), name, kinds[name], readable_bytes(stable), readable_bytes(transient))
            for step, (name, stable, transient) in enumerate(
                zip(self.solution.order, self.best.stable, self.best.transient, strict=True)
            )
        ]

    def figure(self) -> Figure:
        """Draw the memory profile against the given order's."""
        return memory_figure(self.problem, self.result, self.given, self.best)


def _measure(problem: MemoryOrdering, profile: MemoryProfile) -> int:
    return profile.peak_bytes if problem.objective == "peak" else profile.total_bytes
