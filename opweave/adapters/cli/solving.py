"""Solving one problem for a command: progress, table, files and exit status."""

from __future__ import annotations

import typer
from rich.console import Console

from opweave.adapters.cli.output import name_files, stdout
from opweave.adapters.cli.settings import Settings
from opweave.adapters.error_messages import plain
from opweave.adapters.load import AnyProblem, save
from opweave.adapters.report.views import view_of

VERIFIED, NOTHING_FOUND = 0, 1
"""Exit statuses of commands that look for a plan."""


def solve_and_tell(problem: AnyProblem, settings: Settings) -> int:
    """Solve a problem, write the files that are asked for, and show the plan."""
    from opweave.adapters.report.progress_line import live_progress
    from opweave.adapters.report.report import write_report
    from opweave.adapters.report.tables import result_table, section_table
    from opweave.solvers.solve import solve

    showing = view_of(type(problem))  # before time is spent: an answer that cannot be shown is refused now
    with live_progress(Console(stderr=True), problem.unit, settings.solver) as observer:
        result = solve(problem, **settings.of_solve, progress=observer)
    view = showing(problem, result)
    files = []
    if settings.output is not None:
        save(result, settings.output)
        files.append(settings.output)
    if settings.report is not None:
        files += write_report(view, settings.report)
    if settings.as_json:
        typer.echo(result.model_dump_json())
    else:
        console = stdout()
        console.print(result_table(view))
        for section in view.sections():
            console.print(section_table(section))
        console.print(plain(view.explain()), markup=False, highlight=False)
        name_files(console, files)
    return VERIFIED if result.verified else NOTHING_FOUND
