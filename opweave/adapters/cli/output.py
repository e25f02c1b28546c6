"""What commands have in common: exit statuses, tables on standard output, files, and solving one problem."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from opweave.adapters.cli.settings import Settings
from opweave.adapters.error_messages import plain
from opweave.adapters.load import AnyProblem, save
from opweave.adapters.report.view import AnyView
from opweave.adapters.report.views import view_of

if TYPE_CHECKING:
    from pydantic import BaseModel

    from opweave.problems.shown import Rows

VERIFIED, NOTHING_FOUND = 0, 1
"""Exit statuses of commands that look for a plan."""

PIPED_WIDTH = 120
"""Columns of a table that is not written to a terminal."""


def stdout() -> Console:
    """Standard output, of a fixed width if it is not a terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=PIPED_WIDTH)


def name_files(console: Console, files: Sequence[Path]) -> None:
    """Name the files that were written, if any."""
    if files:
        console.print("written: " + "  ".join(plain(str(file)) for file in files), markup=False, highlight=False)


def tell(
    found: BaseModel,
    output: Path | None,
    show: Callable[[Console], None],
    write: Callable[[], Sequence[Path | None]] = tuple,
    *,
    as_json: bool,
) -> None:
    """Write what was found to a file, then other files, then standard output: as JSON, or as ``show`` does."""
    if output is not None:
        save(found, output)
    more = write()
    if as_json:
        typer.echo(found.model_dump_json())
        return
    console = stdout()
    show(console)
    name_files(console, [file for file in (output, *more) if file is not None])


def note(text: str) -> None:
    """Print a line on standard output."""
    say(stdout(), text)


def say(console: Console, text: str) -> None:
    """Print text as it is, line by line."""
    for line in text.splitlines():
        console.print(plain(line), markup=False, highlight=False)


def show_view(console: Console, view: AnyView) -> None:
    """Print a result: its table, the further tables, and what it means."""
    from opweave.adapters.report.tables import result_table, section_table

    console.print(result_table(view))
    for section in view.sections():
        console.print(section_table(section))
    say(console, view.explain())


def print_rows(rows: Rows[Any], *columns: str, as_json: bool) -> int:
    """Print some columns of rows, or the rows as a JSON list of objects; return the exit status."""
    from opweave.adapters.report.tables import rows_table

    if as_json:
        records = [{each.name: getattr(row, each.name) for each in fields(row)} for row in rows]
        typer.echo(json.dumps(records, default=_plain))
    else:
        stdout().print(rows_table(rows, *columns))
    return VERIFIED


def _plain(value: object) -> object:
    """What JSON does not know: mappings and sets of this package."""
    if isinstance(value, Mapping):
        return dict(value)
    return sorted(map(str, value)) if isinstance(value, Set) else str(value)


def solve_and_tell(problem: AnyProblem, settings: Settings) -> int:
    """Solve a problem, write the files that are asked for, and show the plan."""
    from opweave.adapters.report.progress_line import live_progress
    from opweave.adapters.report.report import write_report
    from opweave.solvers.solve import solve

    showing = view_of(type(problem))  # before time is spent: an answer that cannot be shown is refused now
    with live_progress(Console(stderr=True), problem.unit, settings.solver) as observer:
        result = solve(problem, **settings.of_solve, progress=observer)
    view = showing(problem, result)

    def write() -> Sequence[Path | None]:
        return () if settings.report is None else write_report(view, settings.report)

    tell(result, settings.output, partial(show_view, view=view), write, as_json=settings.as_json)
    return VERIFIED if result.verified else NOTHING_FOUND
