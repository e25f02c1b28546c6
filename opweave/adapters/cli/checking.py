"""The commands that check what was planned: ``opweave check | conflict | verify``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from opweave.adapters.cli.check import judge
from opweave.adapters.cli.completion import solver_names
from opweave.adapters.cli.output import say, tell
from opweave.adapters.cli.settings import DimOption, ExampleOption, JsonOption, OutputOption, dimensions
from opweave.adapters.cli.solving import NOTHING_FOUND, VERIFIED
from opweave.adapters.error_messages import plain
from opweave.adapters.example_inputs import fed
from opweave.adapters.files import check_writable
from opweave.adapters.load import load_problem, load_result
from opweave.problems.units import readable


def check_command(
    spec: Annotated[Path, typer.Argument(help="The problem as JSON.", show_default=False)],
    result: Annotated[Path, typer.Argument(help="The result to judge.", show_default=False)],
    *,
    as_json: JsonOption = False,
) -> int:
    """Let the referee judge a result again, from the problem alone."""
    problem, claimed = load_problem(spec), load_result(result)
    complaints = judge(problem, claimed)
    status = NOTHING_FOUND if complaints else VERIFIED
    if as_json:
        typer.echo(json.dumps({"valid": not complaints, "complaints": complaints, "objective": claimed.objective}))
        return status
    for text in complaints:
        typer.echo(f"not valid: {plain(text)}")
    if complaints:
        return status
    typer.echo(f"valid: {readable(claimed.objective, problem.unit)}, as claimed ({problem.assumptions()})")
    if claimed.bound is not None:
        source = f" ({claimed.bound_source})" if claimed.bound_source else ""
        typer.echo(
            plain(f"the bound of {readable(claimed.bound, problem.unit)} was proved by {claimed.solver}{source}")
        )
    return status


def conflict_command(
    spec: Annotated[Path, typer.Argument(help="A problem as JSON.", show_default=False)],
    *,
    solver: Annotated[
        str,
        typer.Option("--solver", "-s", help="Who is asked whether there is a plan.", autocompletion=solver_names),
    ] = "auto",
    time_limit: Annotated[
        float | None, typer.Option("--time-limit", "-t", help="Seconds; by default, 10 for each question on the way.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of everything random.")] = 0,
    output: OutputOption = None,
    as_json: JsonOption = False,
) -> int:
    """Say which requirements of a problem cannot hold together, and what would mend it.

    Exit status 0: there is a plan. 1: there is none, and the requirements in conflict are listed, or neither was
    proved in time. 2: bad input.
    """
    from opweave.adapters.report.progress_line import live_progress
    from opweave.solvers.questions.conflict import conflict

    if output is not None:
        check_writable(output)
    problem = load_problem(spec)
    with live_progress(Console(stderr=True), problem.unit, "conflict") as observer:
        found = conflict(problem, time_limit=time_limit, solver=solver, seed=seed, progress=observer)
    tell(found, output, lambda console: say(console, found.explain()), as_json=as_json)
    return VERIFIED if found.status == "feasible" else NOTHING_FOUND


def verify_command(
    model: Annotated[Path, typer.Argument(help="The model that was planned: .onnx or .pt2.", show_default=False)],
    result: Annotated[Path, typer.Argument(help="Its result.", show_default=False)],
    *,
    spec: Annotated[
        Path | None, typer.Option("--spec", help="The problem as JSON; its costs are the predicted times.")
    ] = None,
    dim: DimOption = None,
    example_inputs: ExampleOption = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed for generated inputs.")] = 0,
    threads: Annotated[int, typer.Option("--threads", min=1, help="Threads within an operator.")] = 1,
    output: OutputOption = None,
    as_json: JsonOption = False,
) -> int:
    """Run the planned model and the original model, and compare outputs, order, memory and times."""
    from opweave.adapters.verify.table import verification_tables
    from opweave.adapters.verify.verify import verify

    if output is not None:
        check_writable(output)
    problem = None if spec is None else load_problem(spec)
    given = fed(model, example_inputs)
    found = verify(
        model, load_result(result), problem=problem, dims=dimensions(dim), seed=seed, threads=threads, **given
    )
    tell(found, output, lambda console: console.print(*verification_tables(found), sep="\n"), as_json=as_json)
    return VERIFIED if found.passed else NOTHING_FOUND
