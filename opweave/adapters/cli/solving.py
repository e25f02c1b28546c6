"""Solving one problem for a command: progress, table, files and exit status."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from opweave.adapters.cli.output import say, tell
from opweave.adapters.cli.settings import Settings
from opweave.adapters.load import AnyProblem
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

    def show(console: Console) -> None:
        console.print(result_table(view))
        for section in view.sections():
            console.print(section_table(section))
        say(console, view.explain())

    def write() -> Sequence[Path | None]:
        return () if settings.report is None else write_report(view, settings.report)

    tell(result, settings.output, show, write, as_json=settings.as_json)
    return VERIFIED if result.verified else NOTHING_FOUND
