"""Tables for the terminal: one result, several solvers side by side, and the available solvers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rich import box
from rich.table import Table
from rich.text import Text

from opweave.adapters.error_messages import plain
from opweave.adapters.report.timeline_tables import measure_rows
from opweave.adapters.report.view import AnyView, Row, Section
from opweave.adapters.report.views import view_for
from opweave.problems.constraints import BUILT_IN
from opweave.problems.result import Result, Status
from opweave.problems.units import exact_bytes, readable, readable_seconds, readable_share
from opweave.problems.words import counted
from opweave.solvers.loops import LOAD_SECONDS

if TYPE_CHECKING:
    from opweave.solvers.constraint_table import HonouredConstraints
    from opweave.solvers.engines.listed import FormulationInfo
    from opweave.solvers.registry import SolverInfo

_STYLE = {
    Status.OPTIMAL: "bold green",
    Status.FEASIBLE: "bold yellow",
    Status.INFEASIBLE: "bold red",
    Status.UNKNOWN: "bold red",
}


class Entry(NamedTuple):
    """One solver's answer in a comparison; if it could not run, ``result`` is None and ``note`` says why."""

    solver: str
    result: Result[Any] | None
    note: str = ""


def summary_rows(view: AnyView) -> list[Row]:
    """List a result as labels and values, the most important first."""
    problem, result = view.problem, view.result
    unit = problem.unit
    graph = problem.graph
    status = result.status.value + ("" if result.verified else ", nothing verified")
    size = f"{counted(len(graph.operators), 'operator')}, {counted(len(graph.tensors), 'tensor')}"
    rows = [
        ("model", f"{graph.name}: {size}" if graph.tensors or graph.operators else graph.name),  # lifetimes have none
        ("status", f"{status} ({result.termination.value.replace('_', ' ')})"),
        ("objective", _exact(result.objective, unit)),
        ("lower bound", _exact(result.bound, unit) + (f", {result.bound_source}" if result.bound_source else "")),
        ("gap", readable_share(result.gap)),
        *view.rows(),
        *(measure_rows(view.timeline, result.objective) if result.solution is not None else ()),
        ("counted", result.assumptions),
        ("solver", " ".join(filter(None, (result.solver, result.solver_version))) + f", seed {result.seed}"),
        ("time", readable_seconds(result.timings.total)),
    ]
    if result.timings.compile >= LOAD_SECONDS:
        rows.append(("compiling loops", readable_seconds(result.timings.compile)))
    if result.reason:
        rows.append(("reason", result.reason))
    rows += [("broken rule", violation.message) for violation in result.violations[:3]]
    return rows


def _exact(value: float | None, unit: str) -> str:
    return exact_bytes(value) if value is not None and unit == "bytes" else readable(value, unit)


def facts_table(rows: Iterable[Row], styles: Mapping[str, str]) -> Table:
    """Show labels and values; ``styles`` has those of values by label."""
    table = Table(box=box.SIMPLE, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in rows:
        table.add_row(label, Text(plain(value), style=styles.get(label, "")))
    return table


def result_table(view: AnyView) -> Table:
    """Show one result."""
    return facts_table(summary_rows(view), {"status": _STYLE[view.result.status], "objective": "bold"})


def section_table(section: Section) -> Table:
    """Show one of a view's further tables; all columns but the first are numbers."""
    table = Table(title=section.title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for position, heading in enumerate(section.headings):
        table.add_column(heading, justify="right" if position else "left", overflow="fold")
    for row in section.rows:
        table.add_row(*(Text(plain(cell)) for cell in row))
    return table


def comparison_cells(entries: Sequence[Entry], unit: str) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Put several answers side by side, as headings and rows. The first entry is the reference for the others."""
    base = entries[0].result.objective if entries and entries[0].result else None
    rows: list[Sequence[str]] = []
    for solver, result, note in entries:
        if result is None:
            rows.append((solver, *["-"] * 5, note))
            continue
        against = "-"
        if base and result.objective is not None:
            change = result.objective / base - 1
            against = "0 %" if change == 0 else f"{'+' if change > 0 else '-'}{readable_share(abs(change))}"
        objective, bound = (readable(value, unit) for value in (result.objective, result.bound))
        took = readable_seconds(result.timings.total)
        rows.append((solver, objective, against, bound, result.status.value, took, note or result.bound_source or ""))
    headings = ("solver", "objective", f"against {entries[0].solver}" if entries else "", "bound", "status", "time", "")
    return headings, rows


def comparison_table(entries: Sequence[Entry], unit: str) -> Table:
    """Show several solvers' answers to one problem; the best objective is highlighted."""
    headings, rows = comparison_cells(entries, unit)
    objectives = [entry.result.objective if entry.result else None for entry in entries]
    best = min((value for value in objectives if value is not None), default=None)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for position, heading in enumerate(headings):
        right = 1 <= position <= 3 or heading == "time"
        table.add_column(heading, justify="right" if right else "left", no_wrap=bool(heading), overflow="fold")
    for row, objective in zip(rows, objectives, strict=True):
        style = "bold green" if objective is not None and objective == best else ""
        table.add_row(*(Text(plain(cell), style=style) for cell in row))
    return table


def constraints_table(rows: Sequence[HonouredConstraints]) -> Table:
    """List which side constraints each solver honours."""
    named = dict.fromkeys(name for row in rows for name in (*row.honoured, *row.refused))
    own = [kind.__name__ for kind in BUILT_IN]
    names = sorted(named, key=lambda name: own.index(name) if name in own else len(own))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.caption = "yes: honoured; no: refused"
    for heading in ("problem", "solver", *names):
        table.add_column(heading, no_wrap=True)
    for row in rows:
        words = dict.fromkeys(row.honoured, "yes") | dict.fromkeys(row.refused, "no")
        cells = (view_for(row.problem).word, row.solver, *(words.get(name, "") for name in names))
        table.add_row(*(Text(plain(cell), style="" if row.available else "dim") for cell in cells))
    return table


def solvers_table(infos: Iterable[SolverInfo]) -> Table:
    """List the solvers, and how to install the missing ones."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("problem", "solver", "kind", "proves", "honours", "about"):
        table.add_column(heading, overflow="fold", no_wrap=heading in ("solver", "kind", "proves"))
    for info in infos:
        about = info.about if info.available else f"not installed; to get it: {info.install}"
        honours = ", ".join(sorted(feature.value for feature in info.features))
        cells = (view_for(info.problem).word, info.name, info.kind, info.proves, honours, about)
        table.add_row(*(Text(plain(cell), style="" if info.available else "dim") for cell in cells))
    return table


def formulations_table(infos: Iterable[FormulationInfo]) -> Table:
    """List the formulations; a star marks the defaults of each problem."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("problem", "formulation", "solvers here", "words for rows", "about, source"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "formulation")
    for info in infos:
        name, word = f"{info.name} *" if info.default else info.name, view_for(info.problem).word
        about = f"{info.about} Needs {info.requires}." if info.requires else info.about
        cells = (word, name, ", ".join(info.available), ", ".join(info.handles))
        table.add_row(*(Text(plain(cell)) for cell in cells), Text(f"{plain(about)}\n{plain(info.source)}"))
    return table
