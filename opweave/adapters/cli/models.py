"""The command about models: a problem as a file, and what another solver made of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from opweave.adapters.cli.output import name_files, stdout
from opweave.adapters.cli.settings import JsonOption
from opweave.adapters.cli.solving import NOTHING_FOUND, VERIFIED
from opweave.adapters.error_messages import plain
from opweave.adapters.example_inputs import Arrays
from opweave.adapters.files import check_writable
from opweave.adapters.formats import family_of
from opweave.adapters.load import load_problem
from opweave.problems.errors import InvalidInputError
from opweave.problems.units import readable


def runtime_problem(model: Path, dims: Mapping[str, int], inputs: Arrays | None) -> dict[str, object] | None:
    """Fields of the problem of ordering an ONNX file as ONNX Runtime will run it; None for what it cannot run."""
    if family_of(model) != "onnx":
        return None
    from opweave.adapters.onnx.optimizer import runtime_form

    found = runtime_form(model, dims, inputs)
    return (
        None if found is None else {name: getattr(found, name) for name in ("graph", "in_place", "inputs", "outputs")}
    )


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
    as_json: JsonOption = False,
) -> int:
    """Write a problem as a model for any solver, or judge what that solver found."""
    from opweave.formulations.build import read_solution
    from opweave.formulations.export.write import write_model

    if output is None and judge is None:
        raise InvalidInputError("name a file for the model with -o, or a solution file with --judge")
    problem = load_problem(spec)
    told: dict[str, object] = {}
    if output is not None:
        check_writable(output)
        file = write_model(problem, output, formulation)
        told = {"file": str(output), "formulation": file.formulation, "columns": file.columns, "rows": file.rows}
        if not as_json:
            console = stdout()
            size = f"formulation {file.formulation!r}: {file.columns:,} columns, {file.rows:,} rows"
            console.print(plain(size), markup=False, highlight=False)
            name_files(console, [output])
    judged = None if judge is None else problem.evaluate(read_solution(problem, judge, formulation))
    if judged is not None:
        told |= {
            "valid": judged.feasible,
            "objective": judged.objective,
            "complaints": [violation.message for violation in judged.violations],
        }
    if as_json:
        typer.echo(json.dumps(told))
    elif judged is not None:
        for violation in judged.violations:
            typer.echo(f"not valid: {plain(violation.message)}")
        if judged.feasible:
            typer.echo(f"valid: {readable(judged.objective, problem.unit)} ({problem.assumptions()})")
    return VERIFIED if judged is None or judged.feasible else NOTHING_FOUND
