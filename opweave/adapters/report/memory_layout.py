"""Memory layout as the command line and the reports show it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from opweave.adapters.report.layout_figure import layout_figure
from opweave.adapters.report.timeline_tables import Cells
from opweave.adapters.report.view import Row, Section, View
from opweave.adapters.runtimes.layout_exports import exports_of
from opweave.problems.memory_layout.spec import Layout, LayoutDetails, MemoryLayout
from opweave.problems.units import exact_bytes, precise_seconds, readable, readable_bytes, readable_share
from opweave.problems.words import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
        details = self.details
        return {
            "model": self.problem.graph.name,
            "assumptions": self.problem.assumptions(),
            "arena_bytes": details.arena_bytes,
            "live_peak": details.live_peak,
            "pools": [use.model_dump() for use in details.pools],
            "steps": self._storages(),
        }

    def _storages(self) -> list[dict[str, object]]:
        offsets, found = self._offsets(), []
        for each in self.problem.lifetimes:
            pool, offset = offsets[each.id]
            found.append(
                {
                    "storage": each.id,
                    "pool": pool,
                    "offset": offset,
                    "bytes": each.bytes,
                    "begin": each.begin,
                    "end": each.end,
                }
            )
        return found

    def _offsets(self) -> Mapping[str, tuple[str, int]]:
        plan = self.solution
        return {
            each.id: (self.problem.pool_of(plan, each.id) or "", plan.offset[each.id])
            for each in self.problem.lifetimes
        }

    def steps(self) -> Cells:
        """List the storages by pool and address."""
        rows = sorted(self._storages(), key=lambda row: (str(row["pool"]), row["offset"], row["begin"]))
        numbers = ("offset", "bytes", "begin", "end")
        cells: list[Sequence[str]] = [
            (str(row["storage"]), str(row["pool"]), *(f"{row[name]:,}" for name in numbers)) for row in rows
        ]
        return ("storage", "pool", *numbers), cells

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

    def figure(self) -> Figure:
        """Time by address."""
        capacities = [pool.bytes for pool in self.problem.pools]
        bound = self.result.bound if self.problem.unit == "bytes" else None
        return layout_figure(self.timeline, capacities, bound, headline=self.headline(), subtitle=self.subtitle())

    def figures(self) -> dict[str, Figure]:
        """The one picture."""
        return {self.figure_file: self.figure()}
