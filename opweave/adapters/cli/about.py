"""The commands about opweave itself: ``opweave solvers | formulations | warm``."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console

from opweave.adapters.cli.completion import problem_words
from opweave.adapters.cli.output import print_rows, stdout
from opweave.adapters.cli.settings import JsonOption
from opweave.adapters.cli.solving import VERIFIED
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


def warm_command(*, as_json: JsonOption = False) -> int:
    """Compile the solvers' loops in advance, once for each machine; otherwise the first solves compile them."""
    from opweave.adapters.report.progress_line import counted
    from opweave.problems.units import readable_seconds
    from opweave.solvers.loops import warm

    with counted(Console(stderr=True), "compiling loops") as observer:
        seconds = warm(observer)
    if as_json:
        typer.echo(json.dumps(seconds))
    else:
        told = f"{len(seconds)} loops compiled or loaded in {readable_seconds(sum(seconds.values()))}"
        stdout().print(plain(told), markup=False, highlight=False)
    return VERIFIED
