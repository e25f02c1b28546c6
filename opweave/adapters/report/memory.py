"""Memory orderings and layouts as the command line and the reports show them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from opweave.adapters.report.memory_figures import Before
from opweave.adapters.report.timeline_tables import Columns, Limits, Section, section_of
from opweave.adapters.report.view import Row, View, exact
from opweave.adapters.runtimes.layout_exports import exports_of
from opweave.problems.measures import peak_bytes, total_bytes
from opweave.problems.memory_layout.spec import Layout, LayoutDetails, MemoryLayout
from opweave.problems.memory_ordering.spec import MemoryOrdering, MemoryProfile, Ordering, given_order
from opweave.problems.units import precise_seconds, readable, readable_bytes, readable_share
from opweave.problems.words import counted


class MemoryOrderingView(View[MemoryOrdering, Ordering, MemoryProfile]):
    """The peak, where it is, and the saving against the given order."""

    problem_type = MemoryOrdering

    @cached_property
    def reference(self) -> Before:
        """The order in which the model lists its operators."""
        timeline = self.problem.play(given_order(self.problem))
        assert timeline is not None  # it is valid by construction: every operator once
        needed = peak_bytes(timeline) if self.problem.objective == "peak" else total_bytes(timeline)
        return Before("given order", timeline, needed)

    @cached_property
    def limits(self) -> Limits:
        """Bytes that may be live."""
        return {"memory": self.problem.limit_bytes}

    def rows(self) -> list[Row]:
        """Add the busiest operator."""
        rows = super().rows()
        if self.result.solution is not None and self.details.peak_operator is not None:
            rows.append(("busiest operator", f"{self.details.peak_operator} (step {self.details.peak_step})"))
        return rows

    def opening(self) -> str:
        """Say where the peak is."""
        where = "" if self.details.peak_operator is None else f"; the peak is at {self.details.peak_operator}"
        summed = " summed over its steps" if self.problem.objective == "total" else ""
        return f"The order needs {readable_bytes(self.result.objective or 0)}{summed}{where}{self.problem.uncounted}."

    def comparison(self) -> Iterator[str]:
        """Say what is saved, if anything is."""
        if self.gain is not None and self.gain > 1:
            yield from super().comparison()


class MemoryLayoutView(View[MemoryLayout, Layout, LayoutDetails]):
    """The arena, the live peak and the pools."""

    problem_type = MemoryLayout

    def rows(self) -> list[Row]:
        """Add the live peak and what lies above it."""
        if self.result.solution is None:
            return []
        peak, arena = self.details.live_peak, self.details.arena_bytes
        rows = [("storages", f"{len(self.problem.lifetimes):,}"), ("live peak", exact(peak, "bytes"))]
        if self.problem.unit == "seconds":
            rows.append(("reserved", exact(arena, "bytes")))
        elif peak:
            rows.append(("above the live peak", readable_share(arena / peak - 1)))
        return rows + super().rows()

    def opening(self) -> str:
        """Say what the arena is, and how it compares with what lives in it."""
        if self.problem.unit == "seconds":
            return f"The traffic takes {precise_seconds(self.details.traffic_seconds)}."
        arena, peak = self.details.arena_bytes, self.details.live_peak
        over = "as much as" if arena == peak else f"{readable_share(arena / max(1, peak) - 1)} more than"
        return f"The layout needs {readable_bytes(arena)}, {over} its live peak."

    @cached_property
    def limits(self) -> Limits:
        """Bytes of the pools."""
        return {pool.name: pool.bytes for pool in self.problem.pools}

    def sections(self) -> list[Section]:
        """The pools, if there are several."""
        if self.result.solution is None or len(self.problem.pools) < 2:
            return []
        columns: Columns = {
            "pool": lambda use: use.name,
            "reserved": lambda use: readable_bytes(use.bytes),
            "of": lambda use: readable(self.limits[use.name], "bytes"),
            "live peak": lambda use: readable_bytes(use.live_peak),
            "storages": lambda use: f"{use.storages:,}",
            "traffic": lambda use: precise_seconds(use.traffic_seconds),
        }
        return [section_of("Pools", self.details.pools, columns)]

    def exports(self) -> Mapping[str, object]:
        """Offsets for runtimes, as plain data and as a C header."""
        return exports_of(self.problem, self.solution)

    def goal(self) -> str:
        """What the offsets need."""
        return "reserved" if self.problem.unit == "bytes" else "traffic of the slow pools"

    def subtitle(self) -> str:
        """The line below the headline."""
        return f"{counted(len(self.problem.lifetimes), 'storage')}; {self.problem.assumptions()}"
