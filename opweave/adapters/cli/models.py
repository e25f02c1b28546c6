"""The commands about models: which formulations there are, a problem as a file, and what another solver made of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from opweave.adapters.cli.flags import fields_of
from opweave.adapters.cli.output import name_files, stdout
from opweave.adapters.error_messages import plain, validated
from opweave.adapters.files import check_writable
from opweave.adapters.graphs.job_shop import load_job_shop
from opweave.adapters.load import family_of, load_problem
from opweave.adapters.report.views import view_for
from opweave.problems.errors import InvalidInputError
from opweave.problems.placement.spec import Placement
from opweave.problems.units import readable


def formulations_command(
    problem: Annotated[str | None, typer.Option("--problem", "-p", help="Only formulations of this problem.")] = None,
) -> int:
    """List the formulations: who solves them, the words for rows of your own, and where they come from."""
    from opweave.adapters.report.tables import formulations_table
    from opweave.solvers.engines.listed import list_formulations

    kind = None if problem is None else view_for(problem).problem_type.kind
    stdout().print(formulations_table(list_formulations(kind)))
    return 0


def runtime_problem(model: Path, dims: Mapping[str, int]) -> dict[str, object] | None:
    """Fields of the problem of ordering an ONNX file as ONNX Runtime will run it; None for what it cannot run."""
    if family_of(model) != "onnx":
        return None
    from opweave.adapters.onnx.optimizer import runtime_form

    found = runtime_form(model, dims)
    return (
        None if found is None else {name: getattr(found, name) for name in ("graph", "in_place", "inputs", "outputs")}
    )


def job_shop_problem(path: Path, word: str | None, flags: Mapping[str, object]) -> Placement:
    """The problem of ``opweave plan`` for a flexible job shop, whose file states machines and times.

    Raises
    ------
    InvalidInputError
        For a problem other than a placement, and for flags that contradict the file.
    """
    view = view_for(word or "placement")
    if view.problem_type is not Placement:
        raise InvalidInputError(f"{path}: a job shop is a placement; leave out --problem {word}")
    fields = fields_of(view, flags, stated=("cluster", "costs"))
    problem = load_job_shop(path)
    stated = {name: getattr(problem, name) for name in ("graph", "cluster", "costs", "transfers")}
    return validated(Placement, {**stated, **fields}, "problem placement")


def model_command(
    spec: Annotated[Path, typer.Argument(help="A problem as JSON.", show_default=False)],
    *,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the model here: .mps, .lp, .nl, .pb or .pbtxt.")
    ] = None,
    formulation: Annotated[str | None, typer.Option("--formulation", help="See 'opweave formulations'.")] = None,
    judge: Annotated[
        Path | None, typer.Option("--judge", help="Read this solution file of HiGHS, CBC, SCIP or Gurobi and judge it.")
    ] = None,
) -> int:
    """Write a problem as a model for any solver, or judge what that solver found."""
    from opweave.formulations.build import read_solution
    from opweave.formulations.export.write import write_model

    if output is None and judge is None:
        raise InvalidInputError("name a file for the model with -o, or a solution file with --judge")
    problem = load_problem(spec)
    if output is not None:
        check_writable(output)
        file = write_model(problem, output, formulation)
        console = stdout()
        size = f"formulation {file.formulation!r}: {file.columns:,} columns, {file.rows:,} rows"
        console.print(plain(size), markup=False, highlight=False)
        name_files(console, [output])
    if judge is None:
        return 0
    judged = problem.evaluate(read_solution(problem, judge, formulation))
    for violation in judged.violations:
        typer.echo(f"not valid: {plain(violation.message)}")
    if not judged.feasible:
        return 1
    typer.echo(f"valid: {readable(judged.objective, problem.unit)} ({problem.assumptions()})")
    return 0
