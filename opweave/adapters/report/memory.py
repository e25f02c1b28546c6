"""Memory orderings and layouts as the command line and the reports show them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import ClassVar

from opweave.adapters.report.figures import shortened
from opweave.adapters.report.memory_figures import Before
from opweave.adapters.report.timeline_tables import Limits
from opweave.adapters.report.view import Row, Section, View
from opweave.adapters.runtimes.layout_exports import exports_of
from opweave.problems.measures import peak_bytes, total_bytes
from opweave.problems.memory_layout.spec import Layout, LayoutDetails, MemoryLayout
from opweave.problems.memory_ordering.spec import MemoryOrdering, MemoryProfile, Ordering, given_order
from opweave.problems.result import Status
from opweave.problems.timeline import Timeline
from opweave.problems.units import exact_bytes, precise_seconds, readable, readable_bytes, readable_share
from opweave.problems.words import counted


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
        steps = zip(self.solution.order, profile.stable, profile.transient, strict=True)
        return {
            "model": self.problem.graph.name,
            "assumptions": self.problem.assumptions(),
            **profile.model_dump(mode="json", exclude={"stable", "transient"}),
            "order": list(self.solution.order),
            "steps": [
                {"operator": name, "kind": kinds[name], "stable_bytes": stable, "transient_bytes": transient}
                for name, stable, transient in steps
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

    def before(self) -> Before:
        """The given order."""
        return Before("given order", self.given)

    def objective_of(self, before: Before) -> float | None:
        """The bytes of the given order."""
        return self._measure(before.timeline)

    def _measure(self, timeline: Timeline) -> int:
        return peak_bytes(timeline) if self.problem.objective == "peak" else total_bytes(timeline) or 0


class MemoryLayoutView(View[MemoryLayout, Layout, LayoutDetails]):
    """The arena, the live peak and the pools."""

    word: ClassVar[str] = "layout"
    problem_type = MemoryLayout
    noun: ClassVar[str] = "layout"
    better: ClassVar[str] = "smaller"
    plan_file: ClassVar[str] = "layout.json"
    figure_file: ClassVar[str] = "layout.png"

    def rows(self) -> list[Row]:
        """Add the live peak and what lies above it."""
        rows: list[Row] = [("storages", f"{len(self.problem.lifetimes):,}")] if self.result.solution else []
        if self.result.solution is None:
            return rows
        peak, arena = self.details.live_peak, self.details.arena_bytes
        rows.append(("live peak", exact_bytes(peak)))
        if self.problem.unit == "seconds":
            rows.append(("reserved", exact_bytes(arena)))
        elif peak:
            rows.append(("above the live peak", readable_share(arena / peak - 1)))
        if self.reference is not None:
            rows.append(self._baseline_row())
        return rows

    def sentences(self) -> Iterator[str]:
        """Say what the arena is, how it compares with what lives in it, and what is proved."""
        details = self.details
        if self.problem.unit == "seconds":
            yield f"The traffic takes {precise_seconds(details.traffic_seconds)}."
        else:
            over = (
                "as much as lives at once"
                if details.arena_bytes == details.live_peak
                else (f"{readable_share(details.arena_bytes / max(1, details.live_peak) - 1)} more than lives at once")
            )
            yield f"The layout needs {readable_bytes(details.arena_bytes)}, {over}."
        if self.reference is not None:
            needed = readable(self.reference.objective, self.problem.unit)
            yield f"The baseline {self.reference.solver!r} needs {needed}."
        yield self.proof()

    @cached_property
    def limits(self) -> Limits:
        """Bytes of the pools."""
        return {pool.name: pool.bytes for pool in self.problem.pools}

    def sections(self) -> list[Section]:
        """The pools, if there are several."""
        if self.result.solution is None or len(self.problem.pools) < 2:
            return []
        rows: list[Sequence[str]] = []
        for pool, use in zip(self.problem.pools, self.details.pools, strict=True):
            size = "no limit" if pool.bytes is None else readable_bytes(pool.bytes)
            cells = (readable_bytes(use.bytes), size, readable_bytes(use.live_peak), f"{use.storages:,}")
            rows.append((pool.name, *cells, precise_seconds(use.traffic_seconds)))
        return [Section("Pools", ("pool", "reserved", "of", "live peak", "storages", "traffic"), rows)]

    def plan(self) -> dict[str, object]:
        """Write the address of every storage."""
        offsets, steps = self._offsets(), []
        for each in self.problem.lifetimes:
            pool, offset = offsets[each.id]
            stands = {"storage": each.id, "pool": pool, "offset": offset}
            steps.append(stands | {"bytes": each.bytes, "begin": each.begin, "end": each.end})
        return {
            "model": self.problem.graph.name,
            "assumptions": self.problem.assumptions(),
            **self.details.model_dump(mode="json", include={"arena_bytes", "live_peak", "pools"}),
            "steps": steps,
        }

    def _offsets(self) -> Mapping[str, tuple[str, int]]:
        plan = self.solution
        return {
            each.id: (self.problem.pool_of(plan, each.id) or "", plan.offset[each.id])
            for each in self.problem.lifetimes
        }

    def exports(self) -> Mapping[str, object]:
        """Offsets for runtimes, as plain data."""
        return exports_of(self.problem, self._offsets())

    def goal(self) -> str:
        """What the offsets need."""
        return "reserved" if self.problem.unit == "bytes" else "traffic of the slow pools"

    def headline(self) -> str:
        """The arena beside the live peak."""
        details = self.details
        name = self.problem.graph.name[:40]
        if self.problem.unit == "seconds":
            return f"{name}: {precise_seconds(details.traffic_seconds)} of traffic"
        over = details.arena_bytes / max(1, details.live_peak) - 1
        what = (
            "the arena is as large as the live peak"
            if over == 0
            else f"the arena is {readable_share(over)} above the live peak"
        )
        return f"{name}: {what}" if name else what.capitalize()

    def subtitle(self) -> str:
        """The line below the headline."""
        return f"{counted(len(self.problem.lifetimes), 'storage')}; {self.problem.assumptions()}"
