"""The commands that check and exchange what was planned: ``opweave check | report | verify | model``."""

from __future__ import annotations

import json
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from opweave.adapters.archives import fed
from opweave.adapters.cli.output import NOTHING_FOUND, VERIFIED, name_files, note, stdout, tell
from opweave.adapters.cli.settings import Settings, dimensions
from opweave.adapters.error_messages import plain
from opweave.adapters.files import check_folder_writable
from opweave.adapters.load import load_problem, load_result
from opweave.problems.errors import InvalidInputError
from opweave.problems.problem import Problem
from opweave.problems.result import Result
from opweave.problems.units import readable
from opweave.solvers.run import agree

SHOWN_VIOLATIONS = 10

BESIDE = ("problem.json", "spec.json")
"""Names under which the problem of a result is looked for."""


def check_command(spec: Path, result: Path, *, as_json: bool = False) -> int:
    """Let the referee judge a result again, from the problem alone."""
    problem, claimed = load_problem(spec), load_result(result)
    complaints = judge(problem, claimed)
    words = f"{readable(claimed.objective, problem.unit)}, as claimed ({problem.assumptions()})"
    if claimed.bound is not None:
        source = f" ({claimed.bound_source})" if claimed.bound_source else ""
        words += f"\nthe bound of {readable(claimed.bound, problem.unit)} was proved by {claimed.solver}{source}"
    if as_json:
        typer.echo(json.dumps({"valid": not complaints, "complaints": complaints, "objective": claimed.objective}))
    return _verdict(complaints, words, quiet=as_json)


def _verdict(complaints: Sequence[str], words: str, *, quiet: bool) -> int:
    """Say what is wrong, or that nothing is; return the exit status."""
    lines = [f"not valid: {text}" for text in complaints] or f"valid: {words}".splitlines()
    for line in () if quiet else lines:
        typer.echo(plain(line))
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
    misfit = _misfit(problem, claimed)
    if misfit is not None:
        return [misfit]
    evaluation = problem.evaluate(claimed.solution)
    if not evaluation.feasible:
        return [violation.message for violation in evaluation.violations[:SHOWN_VIOLATIONS]]
    found, said, bound = evaluation.objective, claimed.objective, claimed.bound
    wrong = []
    if found is None or said is None or not agree(found, said):
        wrong.append(f"the result claims {_count(said)} {problem.unit}, the referee counts {_count(found)}")
    if bound is not None and found is not None and bound > found and not agree(bound, found):
        wrong.append(f"the claimed bound of {_count(bound)} {problem.unit} lies above the objective of {_count(found)}")
    return wrong


def _misfit(problem: Problem[Any, Any], claimed: Result[Any]) -> str | None:
    if claimed.problem != problem.kind:
        return f"the result is for a {claimed.problem} problem, the file holds a {problem.kind} problem"
    if claimed.solution is None:
        return f"the result has no solution (status {claimed.status.value})"
    if not isinstance(claimed.solution, problem.solution_type):
        return f"the solution is a {claimed.solution.kind}, not a {problem.solution_type.kind}"
    return None


def _count(value: float | None) -> str:
    return "nothing" if value is None else f"{value:,}"


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

    given = {
        "problem": None if spec is None else load_problem(spec),
        "dims": dimensions(dim),
        **fed(model, example_inputs),
    }
    found = verify(model, load_result(result), seed=settings.seed, threads=settings.threads, **given)

    def show(console: Console) -> None:
        console.print(*verification_tables(found), sep="\n")

    tell(found, settings.output, show, as_json=settings.as_json)
    return VERIFIED if found.passed else NOTHING_FOUND


def model_command(spec: Path, *, judge: Path | None = None, settings: Settings) -> int:
    """Write a problem as a model for any solver, or judge what that solver found."""
    from opweave.formulations.build import read_solution
    from opweave.formulations.export.write import write_model

    output, quiet = settings.output, settings.as_json
    if output is None and judge is None:
        raise InvalidInputError("name a file for the model with -o, or a solution file with --judge")
    problem = load_problem(spec)
    told: dict[str, object] = {}
    if output is not None:
        file = write_model(problem, output, settings.formulation)
        told = {"file": str(output), "formulation": file.formulation, "columns": file.columns, "rows": file.rows}
        if not quiet:
            note(f"formulation {file.formulation!r}: {file.columns:,} columns, {file.rows:,} rows")
            name_files(stdout(), [output])
    status = VERIFIED
    if judge is not None:
        judged = problem.evaluate(read_solution(problem, judge, settings.formulation))
        complaints = [violation.message for violation in judged.violations]
        told |= {"valid": judged.feasible, "objective": judged.objective, "complaints": complaints}
        status = _verdict(
            complaints, f"{readable(judged.objective, problem.unit)} ({problem.assumptions()})", quiet=quiet
        )
    if quiet:
        typer.echo(json.dumps(told))
    return status


def report_command(
    result: Path,
    *,
    spec: Path | None = None,
    out: Path | None = None,
    as_json: bool = False,
    show_it: bool = False,
) -> int:
    """Write the report of a result: one page with every view, which works offline, and the files beside it."""
    from opweave.adapters.report.report import write_report
    from opweave.adapters.report.views import show

    folder = result.parent / f"{result.name.split('.')[0]}-report" if out is None else out
    check_folder_writable(folder)
    found = load_result(result)
    problem = load_problem(beside(result) if spec is None else spec)
    files = write_report(show(problem, found), folder)
    if as_json:
        typer.echo(json.dumps({"files": [str(file) for file in files]}))
    else:
        name_files(stdout(), files)
    if show_it:
        webbrowser.open(files[-1].resolve().as_uri())
    return 0


def beside(result: Path) -> Path:
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
