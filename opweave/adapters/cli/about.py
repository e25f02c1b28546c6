"""The commands about opweave itself: ``opweave solvers | formulations | warm``."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated

import typer
from rich.console import Console

from opweave.adapters.cli.completion import problem_words
from opweave.adapters.cli.output import print_rows, stdout
from opweave.adapters.cli.settings import JsonOption
from opweave.adapters.cli.solving import NOTHING_FOUND, VERIFIED
from opweave.adapters.error_messages import plain
from opweave.adapters.report.views import view_for

ProblemOption = Annotated[
    str | None,
    typer.Option("--problem", "-p", help="Only those of this problem.", autocompletion=problem_words),
]


def solvers_command(
    problem: ProblemOption = None,
    *,
    constraints: Annotated[
        bool, typer.Option("--constraints", help="Show which side constraints each solver honours.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """List the solvers: what they prove, which constraints they honour, and how to install missing packages."""
    from opweave.adapters.report.tables import constraints_table, solvers_table
    from opweave.solvers.constraint_table import constraint_table
    from opweave.solvers.registry import list_solvers

    kind = _kind(problem)
    if constraints:
        honoured = constraint_table(kind)
        print_rows(honoured, constraints_table(honoured), as_json=as_json)
        return VERIFIED
    rows = list_solvers(kind)
    print_rows(rows, solvers_table(rows), as_json=as_json)
    return VERIFIED


def formulations_command(problem: ProblemOption = None, *, as_json: JsonOption = False) -> int:
    """List the formulations: who solves them, the words for rows of your own, and where they come from."""
    from opweave.adapters.report.tables import formulations_table
    from opweave.solvers.engines.listed import list_formulations

    rows = list_formulations(_kind(problem))
    print_rows(rows, formulations_table(rows), as_json=as_json)
    return VERIFIED


def _kind(problem: str | None) -> str | None:
    return None if problem is None else view_for(problem).problem_type.kind


def warm_command(
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Number of processes that compile.")] = 2,
    *,
    as_json: JsonOption = False,
) -> int:
    """Compile the solvers' loops in advance, once for each machine; otherwise the first solves compile them."""
    from opweave.adapters.report.progress_line import counted
    from opweave.problems.units import readable_seconds
    from opweave.solvers.compiling.warm import expected_seconds, missing_kernels, warm

    console, missing = stdout(), missing_kernels()
    if missing and not as_json:
        least, most = map(readable_seconds, expected_seconds(missing, jobs))
        console.print(f"{len(missing)} loops to compile, about {least} to {most} on {jobs} idle cores", highlight=False)
    with counted(Console(stderr=True), "compiling loops") as observer:
        found = warm(jobs, observer)
    if as_json:
        typer.echo(json.dumps(dataclasses.asdict(found), default=str))
        return NOTHING_FOUND if found.failed else VERIFIED
    told = f"{len(found.compiled)} loops compiled in {readable_seconds(found.seconds)}, {found.ready} were ready"
    console.print(plain(f"{told}: {found.folder}"), markup=False, highlight=False)
    for name in found.failed:
        console.print(plain(f"not compiled, will run slowly: {name}"), markup=False, highlight=False)
    return NOTHING_FOUND if found.failed else VERIFIED
