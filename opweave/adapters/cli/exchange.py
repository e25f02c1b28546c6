"""The commands that check and exchange what was planned: ``opweave check | report | verify | model``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from opweave.adapters.archives import fed
from opweave.adapters.cli.options import Settings, dimensions
from opweave.adapters.cli.output import NOTHING_FOUND, VERIFIED, name_files, say, tell
from opweave.adapters.files import check_folder_writable
from opweave.adapters.load import load_problem, load_result
from opweave.problems.errors import InvalidInputError, plain
from opweave.problems.problem import Problem
from opweave.problems.result import Result
from opweave.problems.units import readable
from opweave.solvers.run import agree

BESIDE = ("problem.json", "spec.json")
"""Names under which the problem of a result is looked for."""


def check_command(spec: Path, result: Path, *, as_json: bool = False) -> int:
    """Check a result again with the referee, from the problem alone."""
    problem, claimed = load_problem(spec), load_result(result)
    words = f"{readable(claimed.objective, problem.unit)}, as claimed ({problem.assumptions()})"
    if claimed.bound is not None:
        source = f" ({claimed.bound_source})" if claimed.bound_source else ""
        words += f"\nthe bound of {readable(claimed.bound, problem.unit)} was proved by {claimed.solver}{source}"
    return _verdict(judge(problem, claimed), words, {"objective": claimed.objective}, as_json=as_json)


def _verdict(complaints: Sequence[str], words: str, told: Mapping[str, object], *, as_json: bool) -> int:
    """Say what is wrong, or that nothing is, or write it as JSON; return the exit status."""
    if as_json:
        typer.echo(json.dumps({**told, "valid": not complaints, "complaints": complaints}))
    else:
        lines = [f"not valid: {text}" for text in complaints] or f"valid: {words}".splitlines()
        typer.echo("\n".join(map(plain, lines)))
    return NOTHING_FOUND if complaints else VERIFIED


def judge(problem: Problem[Any, Any], claimed: Result[Any]) -> list[str]:
    """Find everything that is wrong with a result.

    Parameters
    ----------
    problem
        The problem that the result should solve.
    claimed
        Any result; its claims are not trusted. The bound is checked only against the objective, because it cannot be
        recomputed from the problem alone.

    Returns
    -------
    list of str
        Sentences; empty when the solution is valid and has the claimed objective.
    """
    solution = claimed.solution
    if claimed.problem != problem.kind:
        return [f"the result is for a {claimed.problem} problem, the file holds a {problem.kind} problem"]
    if solution is None:
        return [f"the result has no solution (status {claimed.status.value})"]
    if not isinstance(solution, problem.solution_type):
        return [f"the solution is a {solution.kind}, not a {problem.solution_type.kind}"]
    evaluation = problem.evaluate(solution)
    if not evaluation.feasible:
        return [violation.message for violation in evaluation.violations[:10]]
    found, said, bound = evaluation.objective or 0, claimed.objective, claimed.bound
    wrong = []
    if said is None or not agree(found, said):
        claim = "nothing" if said is None else f"{said:,}"
        wrong.append(f"the result claims {claim} {problem.unit}, the referee counts {found:,}")
    if bound is not None and bound > found and not agree(bound, found):
        wrong.append(f"the claimed bound of {bound:,} {problem.unit} lies above the objective of {found:,}")
    return wrong


def verify_command(
    model: Path,
    result: Path,
    *,
    spec: Path | None = None,
    dim: list[str] | None = None,
    example_inputs: Path | None = None,
    settings: Settings,
) -> int:
    """Run the planned model and the original model, and compare outputs, order, memory and times."""
    from opweave.adapters.verify.table import verification_tables
    from opweave.adapters.verify.verify import verify

    problem = None if spec is None else load_problem(spec)
    given = {"seed": settings.seed, "threads": settings.threads, **fed(model, example_inputs)}
    found = verify(model, load_result(result), problem=problem, dims=dimensions(dim), **given)
    tell(found, settings, lambda: verification_tables(found))
    return VERIFIED if found.passed else NOTHING_FOUND


def model_command(spec: Path, *, judge: Path | None = None, settings: Settings) -> int:
    """Write a problem as a model for any solver, or check that solver's solution."""
    from opweave.formulations.build import read_solution
    from opweave.formulations.export.write import write_model

    output, as_json = settings.output, settings.as_json
    if output is None and judge is None:
        raise InvalidInputError("name a file for the model with -o, or a solution file with --judge")
    problem, told = load_problem(spec), dict[str, object]()
    if output is not None:
        file = write_model(problem, output, settings.formulation)
        told = {"file": str(output), "formulation": file.formulation, "columns": file.columns, "rows": file.rows}
        if not as_json:
            say(f"formulation {file.formulation!r}: {file.columns:,} variables, {file.rows:,} constraints")
            name_files([output])
    if judge is None:
        if as_json:
            typer.echo(json.dumps(told))
        return VERIFIED
    judged = problem.evaluate(read_solution(problem, judge, settings.formulation))
    words = f"{readable(judged.objective, problem.unit)} ({problem.assumptions()})"
    complaints = [violation.message for violation in judged.violations]
    return _verdict(complaints, words, told | {"objective": judged.objective}, as_json=as_json)


def report_command(result: Path, *, spec: Path | None = None, out: Path | None = None, as_json: bool = False) -> int:
    """Write the report of a result: one offline page with every view, and further files."""
    from opweave.adapters.report.report import write_report
    from opweave.adapters.report.views import show

    folder = result.parent / f"{result.name.split('.')[0]}-report" if out is None else out
    check_folder_writable(folder)
    problem = load_problem(beside(result) if spec is None else spec)
    files = write_report(show(problem, load_result(result)), folder)
    if as_json:
        typer.echo(json.dumps({"files": [str(file) for file in files]}))
    else:
        name_files(files)
    return VERIFIED


def beside(result: Path) -> Path:
    """The file beside a result that has its problem.

    Raises
    ------
    InvalidInputError
        If there is none.
    """
    for path in map(result.with_name, BESIDE):
        if path.is_file():
            return path
    raise InvalidInputError(
        f"{result}: a result does not contain its problem, and neither problem.json nor spec.json is next to it; "
        "name the problem with --spec, or plan again with --report FOLDER, which writes both"
    )
