"""Tables for the terminal: one result, and the available solvers, formulations and constraints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from opweave.adapters.report.timeline_tables import Section, measure_rows
from opweave.adapters.report.view import AnyView, Row, exact
from opweave.problems.errors import plain
from opweave.problems.result import Status
from opweave.problems.shown import Rows
from opweave.problems.units import readable_seconds, readable_share
from opweave.problems.words import counted
from opweave.solvers.loops import LOAD_SECONDS

SHORT = frozenset({"solver", "name", "problem", "status"})
"""Columns of words that are never broken into lines."""

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
        short = heading in words and heading in SHORT
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
        ("objective", exact(result.objective, unit)),
        ("lower bound", exact(result.bound, unit) + (f", {result.bound_source}" if result.bound_source else "")),
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


def rows_table(rows: Rows[Any], *columns: str) -> Table:
    """Show the named columns of rows."""
    headings, *cells = rows.cells(*columns)
    return text_table(headings, cells, words=headings)
