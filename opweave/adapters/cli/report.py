"""``opweave report``: the page of a result that was solved before."""

from __future__ import annotations

import json
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from opweave.adapters.cli.output import name_files, stdout
from opweave.adapters.files import check_folder_writable
from opweave.adapters.load import load_problem, load_result
from opweave.problems.errors import InvalidInputError

BESIDE = ("problem.json", "spec.json")
"""Names under which the problem of a result is looked for."""


def report_command(
    result: Annotated[Path, typer.Argument(help="A result as JSON.", show_default=False)],
    *,
    spec: Annotated[
        Path | None, typer.Option("--spec", help="Its problem as JSON; by default problem.json or spec.json beside it.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for the files; by default named like the result.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the names of the files as JSON.")] = False,
    show_it: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> int:
    """Write the report of a result: one page with every view, which works offline, and the files beside it."""
    from opweave.adapters.report.report import write_report
    from opweave.adapters.report.views import show

    folder = result.parent / f"{result.name.split('.')[0]}-report" if out is None else out
    check_folder_writable(folder)
    found = load_result(result)
    problem = load_problem(_spec_of(result) if spec is None else spec)
    files = write_report(show(problem, found), folder)
    if as_json:
        typer.echo(json.dumps({"files": [str(file) for file in files]}))
    else:
        name_files(stdout(), files)
    if show_it:
        webbrowser.open(files[-1].resolve().as_uri())
    return 0


def _spec_of(result: Path) -> Path:
    """The file beside a result that has its problem.

    Raises
    ------
    InvalidInputError
        If there is none.
    """
    for name in BESIDE:
        if (result.parent / name).is_file():
            return result.parent / name
    raise InvalidInputError(
        f"{result}: a result does not contain its problem, and neither problem.json nor spec.json is beside it; "
        "name the problem with --spec, or plan again with --report FOLDER, which writes both"
    )
