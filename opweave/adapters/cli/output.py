"""What commands have in common: exit statuses, tables on standard output, files, and solving one problem."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console, RenderableType
from rich.text import Text

from opweave.adapters.cli.options import Settings
from opweave.adapters.load import AnyProblem, save
from opweave.adapters.report.view import AnyView
from opweave.adapters.report.views import view_of
from opweave.problems.errors import plain

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


def say(*parts: RenderableType) -> None:
    """Print tables, sentences line by line, and rich's texts without breaks, so that they can be copied."""
    console = stdout()
    for part in parts:
        if isinstance(part, str):
            for line in part.splitlines():
                console.print(plain(line), markup=False, highlight=False)
        else:
            console.print(part, soft_wrap=isinstance(part, Text))


def name_files(files: Iterable[Path | None]) -> None:
    """Name the files that were written, if any."""
    names = [plain(str(file)) for file in files if file is not None]
    if names:
        say("written: " + "  ".join(names))


def tell(
    found: BaseModel,
    settings: Settings,
    show: Callable[[], Iterable[RenderableType]],
    write: Callable[[], Sequence[Path]] = tuple,
) -> None:
    """Write what was found to a file, then other files, then standard output: as JSON, or what ``show`` returns."""
    if settings.output is not None:
        save(found, settings.output)
    more = write()
    if settings.as_json:
        typer.echo(found.model_dump_json())
        return
    say(*show())
    name_files([settings.output, *more])


def shown(view: AnyView) -> list[RenderableType]:
    """A result for the terminal: its table, the further tables, and what it means."""
    from opweave.adapters.report.tables import result_table, section_table

    return [result_table(view), *map(section_table, view.sections()), view.explain()]


def tell_result(view: AnyView, settings: Settings, show: Callable[[], Iterable[RenderableType]]) -> int:
    """Write a result, its report and what ``show`` returns; return the exit status."""
    from opweave.adapters.report.report import write_report

    report = settings.report
    tell(view.result, settings, show, lambda: () if report is None else write_report(view, report))
    return VERIFIED if view.result.verified else NOTHING_FOUND


def solve_and_tell(problem: AnyProblem, settings: Settings, more: Callable[[], Sequence[str]] = tuple) -> int:
    """Solve a problem, write the files that are asked for, and show the plan, with more sentences below."""
    from opweave.adapters.report.progress_line import live_progress
    from opweave.solvers.solve import solve

    showing = view_of(type(problem))  # before time is spent: an answer that cannot be shown is refused now
    with live_progress(Console(stderr=True), problem.unit, settings.solver) as observer:
        view = showing(problem, solve(problem, **settings.of_solve, progress=observer))
    return tell_result(view, settings, lambda: [*shown(view), *more()])


def print_rows(rows: Rows[Any], *columns: str, as_json: bool) -> int:
    """Print some columns of rows, or the rows as a JSON list of objects; return the exit status."""
    from opweave.adapters.report.tables import rows_table

    if as_json:
        records = [{each.name: getattr(row, each.name) for each in fields(row)} for row in rows]
        typer.echo(json.dumps(records, default=_plain))
    else:
        say(rows_table(rows, *columns))
    return VERIFIED


def _plain(value: object) -> object:
    """What JSON does not know: mappings and sets of this package."""
    if isinstance(value, Mapping):
        return dict(value)
    return sorted(map(str, value)) if isinstance(value, Set) else str(value)
