"""Tables for the terminal: one result, and the available solvers, formulations and constraints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from opweave.adapters.error_messages import plain
from opweave.adapters.report.timeline_tables import measure_rows
from opweave.adapters.report.view import AnyView, Row, Section
from opweave.adapters.report.views import view_for
from opweave.problems.constraints import BUILT_IN
from opweave.problems.result import Status
from opweave.problems.units import exact_bytes, readable, readable_seconds, readable_share
from opweave.problems.words import counted
from opweave.solvers.loops import LOAD_SECONDS

if TYPE_CHECKING:
    from opweave.solvers.constraint_table import HonouredConstraints
    from opweave.solvers.engines.registration import FormulationInfo
    from opweave.solvers.registry import SolverInfo

_STYLE = {
    Status.OPTIMAL: "bold green",
    Status.FEASIBLE: "bold yellow",
    Status.INFEASIBLE: "bold red",
    Status.UNKNOWN: "bold red",
}


def text_table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    words: Sequence[str] = (),
    styles: Sequence[str] | None = None,
    title: str | None = None,
) -> Table:
    """Make a table of texts from anywhere.

    Parameters
    ----------
    words
        The columns that are aligned to the left; the others hold numbers.
    styles
        The style of every row; None for plain rows.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    for heading in headings:
        short = heading in words and heading not in ("", "about", "about, source", "honours")
        table.add_column(heading, justify="left" if heading in words else "right", no_wrap=short, overflow="fold")
    for number, row in enumerate(rows):
        style = "" if styles is None else styles[number]
        table.add_row(*(Text("\n".join(map(plain, cell.split("\n"))), style=style) for cell in row))
    return table


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
    table = text_table(section.headings, section.rows, words=section.headings[:1], title=section.title)
    table.columns[0].no_wrap = False
    return table


def constraints_table(rows: Sequence[HonouredConstraints]) -> Table:
    """List which side constraints each solver honours."""
    named = dict.fromkeys(name for row in rows for name in (*row.honoured, *row.refused))
    own = [kind.__name__ for kind in BUILT_IN]
    names = sorted(named, key=lambda name: own.index(name) if name in own else len(own))
    headings = ("problem", "solver", *names)
    cells = []
    for row in rows:
        words = dict.fromkeys(row.honoured, "yes") | dict.fromkeys(row.refused, "no")
        cells.append((view_for(row.problem).word, row.solver, *(words.get(name, "") for name in names)))
    table = text_table(headings, cells, words=headings, styles=["" if row.available else "dim" for row in rows])
    table.caption = "yes: honoured; no: refused"
    return table


def solvers_table(infos: Sequence[SolverInfo]) -> Table:
    """List the solvers, and how to install the missing ones."""
    headings, cells = ("problem", "solver", "kind", "proves", "honours", "about"), []
    for info in infos:
        about = info.about if info.available else f"not installed; to get it: {info.install}"
        honours = ", ".join(sorted(feature.value for feature in info.features))
        cells.append((view_for(info.problem).word, info.name, info.kind, info.proves, honours, about))
    return text_table(headings, cells, words=headings, styles=["" if info.available else "dim" for info in infos])


def formulations_table(infos: Iterable[FormulationInfo]) -> Table:
    """List the formulations; a star marks the defaults of each problem."""
    headings, cells = ("problem", "formulation", "solvers here", "words for rows", "about, source"), []
    for info in infos:
        name, word = f"{info.name} *" if info.default else info.name, view_for(info.problem).word
        about = f"{info.about} Needs {info.requires}." if info.requires else info.about
        source = f"{about}\n{info.source}"
        cells.append((word, name, ", ".join(info.available), ", ".join(info.handles), source))
    table = text_table(headings, cells, words=headings)
    for column in table.columns[2:]:
        column.no_wrap = False
    return table
