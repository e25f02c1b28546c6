"""The command line: ``opweave solve``, ``plan``, ``compare``, ``conflict``, ``check`` and others."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, ParamSpec

import typer
from pydantic import ValidationError
from rich.console import Console

from opweave.adapters.cli.check import judge
from opweave.adapters.cli.flags import fields_of, with_flags
from opweave.adapters.cli.layouts import layout_problem
from opweave.adapters.cli.llm import llm_command
from opweave.adapters.cli.models import formulations_command, job_shop_problem, model_command, runtime_problem
from opweave.adapters.cli.output import name_files as _name_files
from opweave.adapters.cli.output import stdout as _stdout
from opweave.adapters.cli.questions import compare_command, pareto_command, sweep_command
from opweave.adapters.cli.settings import (
    DimOption,
    JsonOption,
    OutputOption,
    Settings,
    dimensions,
    with_settings,
)
from opweave.adapters.costs.default_costs import missing_costs
from opweave.adapters.error_messages import one_sentence, plain, validated
from opweave.adapters.files import check_folder_writable, check_writable
from opweave.adapters.load import AnyProblem, family_of, geometry, load, load_problem, load_result, save
from opweave.adapters.report.views import show, view_for, view_of
from opweave.problems.errors import InvalidInputError, OpweaveError
from opweave.problems.plugins import import_own
from opweave.problems.units import readable

app = typer.Typer(
    help="Plans how a deep-learning model runs on limited hardware, with a proved lower bound.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

VERIFIED, NOTHING_FOUND, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
"""Exit statuses."""

Args = ParamSpec("Args")

PROBLEMS = "ordering, placement, batched, pipeline, slicing, layout"
"""Values of ``--problem``."""


def polite(command: Callable[Args, int]) -> Callable[Args, None]:
    """Turn a command that returns its exit status into one that exits, and shows expected errors without tracebacks."""

    @functools.wraps(command)
    def wrapped(*args: Args.args, **kwargs: Args.kwargs) -> None:
        try:
            status = command(*args, **kwargs)
        except BrokenPipeError:
            raise  # the reader of our output is gone; typer ends quietly
        except (OpweaveError, ValidationError, OSError) as error:
            sys.stderr.write(f"opweave: {one_sentence(error)}\n")
            raise typer.Exit(BAD_INPUT) from None
        except KeyboardInterrupt:
            sys.stderr.write("opweave: interrupted\n")
            raise typer.Exit(INTERRUPTED) from None
        raise typer.Exit(status)

    return wrapped


def _version(wanted: bool) -> None:
    if wanted:
        from opweave import __version__

        typer.echo(f"opweave {__version__}")
        raise typer.Exit


@app.callback()
def _opweave(
    *,
    _version_asked: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    own: Annotated[
        list[str] | None,
        typer.Option(
            "--import", help="A module, or a .py file, with problems or solvers of your own.", metavar="MODULE"
        ),
    ] = None,
) -> None:
    for module in own or ():
        try:
            import_own(module)
        except InvalidInputError as error:
            typer.echo(f"opweave: {one_sentence(error)}", err=True)
            raise typer.Exit(BAD_INPUT) from None


@app.command("solve")
@polite
@with_settings
def solve_command(
    spec: Annotated[Path, typer.Argument(help="A problem as JSON.", show_default=False)],
    *,
    settings: Settings,
) -> int:
    """Solve a problem written as JSON."""
    return _solve_and_tell(load_problem(spec), settings)


@app.command("plan")
@polite
@with_settings
@with_flags
def plan_command(
    model: Annotated[
        Path,
        typer.Argument(
            help="A model: .onnx, .pt2, .json or .json.gz; a job shop: .fjs; for layout also a .csv.",
            show_default=False,
        ),
    ],
    *,
    problem: Annotated[
        str | None,
        typer.Option(
            "--problem", "-p", help=f"What to plan: {PROBLEMS}. By default the first; of a job shop, placement."
        ),
    ] = None,
    dim: DimOption = None,
    as_is: Annotated[
        bool, typer.Option("--as-is", help="Order the file's operators, not those of ONNX Runtime's optimiser.")
    ] = False,
    flags: Mapping[str, object],
    settings: Settings,
) -> int:
    """Plan a model file in one step: load it, solve the problem, verify and show the plan.

    For an order of an ONNX file, the operators are those that ONNX Runtime's optimiser leaves, if it is installed.
    """
    if family_of(model) == "job shop":
        return _solve_and_tell(job_shop_problem(model, problem, flags), settings)
    view = view_for(problem or "ordering")
    fields = fields_of(view, flags)
    if view.word == "layout":
        return _solve_and_tell(layout_problem(model, dimensions(dim), fields), settings)
    counted = None if as_is or view.word != "ordering" else runtime_problem(model, dimensions(dim))
    if counted is not None:
        return _solve_and_tell(validated(view.problem_type, counted | fields, f"problem {view.word}"), settings)
    graph = load(model, dims=dimensions(dim))
    fields |= missing_costs(graph, fields)
    if "geometry" in view.problem_type.model_fields and "geometry" not in fields:
        fields["geometry"] = geometry(model, graph=graph, dims=dimensions(dim))
    built = validated(view.problem_type, {"graph": graph, **fields}, f"problem {view.word}")
    return _solve_and_tell(built, settings)


@app.command("check")
@polite
def check_command(
    spec: Annotated[Path, typer.Argument(help="The problem as JSON.", show_default=False)],
    result: Annotated[Path, typer.Argument(help="The result to judge.", show_default=False)],
) -> int:
    """Let the referee judge a result again, from the problem alone."""
    problem, claimed = load_problem(spec), load_result(result)
    complaints = judge(problem, claimed)
    for text in complaints:
        typer.echo(f"not valid: {plain(text)}")
    if complaints:
        return NOTHING_FOUND
    typer.echo(f"valid: {readable(claimed.objective, problem.unit)}, as claimed ({problem.assumptions()})")
    if claimed.bound is not None:
        source = f" ({claimed.bound_source})" if claimed.bound_source else ""
        typer.echo(
            plain(f"the bound of {readable(claimed.bound, problem.unit)} was proved by {claimed.solver}{source}")
        )
    return VERIFIED


@app.command("conflict")
@polite
def conflict_command(
    spec: Annotated[Path, typer.Argument(help="A problem as JSON.", show_default=False)],
    *,
    solver: Annotated[str, typer.Option("--solver", "-s", help="Who is asked whether there is a plan.")] = "auto",
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
    if output is not None:
        save(found, output)
    if as_json:
        typer.echo(found.model_dump_json())
    else:
        console = _stdout()
        for line in found.explain().splitlines():
            console.print(plain(line), markup=False, highlight=False)
        _name_files(console, [] if output is None else [output])
    return VERIFIED if found.status == "feasible" else NOTHING_FOUND


@app.command("verify")
@polite
def verify_command(
    model: Annotated[Path, typer.Argument(help="The model that was planned: .onnx or .pt2.", show_default=False)],
    result: Annotated[Path, typer.Argument(help="Its result.", show_default=False)],
    *,
    spec: Annotated[
        Path | None, typer.Option("--spec", help="The problem as JSON; its costs are the predicted times.")
    ] = None,
    dim: DimOption = None,
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
    found = verify(model, load_result(result), problem=problem, dims=dimensions(dim), seed=seed, threads=threads)
    if output is not None:
        save(found, output)
    if as_json:
        typer.echo(found.model_dump_json())
    else:
        console = _stdout()
        for table in verification_tables(found):
            console.print(table)
        _name_files(console, [] if output is None else [output])
    return VERIFIED if found.passed else NOTHING_FOUND


@app.command("solvers")
@polite
def solvers_command(
    problem: Annotated[str | None, typer.Option("--problem", "-p", help="Only solvers for this problem.")] = None,
    constraints: Annotated[
        bool, typer.Option("--constraints", help="Show which side constraints each solver honours.")
    ] = False,
) -> int:
    """List the solvers: what they prove, which constraints they honour, and how to install missing packages."""
    from opweave.adapters.report.tables import constraints_table, solvers_table
    from opweave.solvers.constraint_table import constraint_table
    from opweave.solvers.registry import list_solvers

    kind = None if problem is None else view_for(problem).problem_type.kind
    if constraints:
        _stdout().print(constraints_table(constraint_table(kind)))
        return VERIFIED
    _stdout().print(solvers_table(list_solvers(kind)))
    return VERIFIED


@app.command("warm")
@polite
def warm_command(
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Number of processes that compile.")] = 2,
) -> int:
    """Compile the solvers' loops in advance, once for each machine; otherwise the first solves compile them."""
    from opweave.adapters.report.progress_line import counted
    from opweave.problems.units import readable_seconds
    from opweave.solvers.compiling.warm import expected_seconds, missing_kernels, warm

    console, missing = _stdout(), missing_kernels()
    if missing:
        least, most = map(readable_seconds, expected_seconds(missing, jobs))
        console.print(f"{len(missing)} loops to compile, about {least} to {most} on {jobs} idle cores", highlight=False)
    with counted(Console(stderr=True), "compiling loops") as observer:
        found = warm(jobs, observer)
    told = f"{len(found.compiled)} loops compiled in {readable_seconds(found.seconds)}, {found.ready} were ready"
    console.print(plain(f"{told}: {found.folder}"), markup=False, highlight=False)
    for name in found.failed:
        console.print(plain(f"not compiled, will run slowly: {name}"), markup=False, highlight=False)
    return NOTHING_FOUND if found.failed else VERIFIED


app.command("llm")(polite(with_settings(llm_command)))
app.command("formulations")(polite(formulations_command))
app.command("model")(polite(model_command))
app.command("compare")(polite(compare_command))
app.command("sweep")(polite(with_settings(sweep_command)))
app.command("pareto")(polite(with_settings(pareto_command)))


@app.command("demo")
@polite
def demo_command(
    out: Annotated[Path, typer.Option("--out", help="Folder for the report files.")] = Path("opweave-report"),
) -> int:
    """Plan a real model that ships with opweave, and write a report about it."""
    from opweave.adapters.cli.demo import best_result, demo_problem, demo_stages, run_stage
    from opweave.adapters.report.progress_line import live_progress
    from opweave.adapters.report.report import write_report
    from opweave.adapters.report.tables import comparison_table, result_table

    check_folder_writable(out)
    problem = demo_problem()
    console, errors = _stdout(), Console(stderr=True)
    size = len(problem.graph.operators)
    console.print(f"{problem.graph.name}, {size} operators: which order needs the least memory?", highlight=False)
    entries = []
    for stage in demo_stages(problem):
        with live_progress(errors, problem.unit, f"{stage.solver}: {stage.label}") as observer:
            entries.append(run_stage(problem, stage, observer))
    console.print(comparison_table(entries, problem.unit))
    best = best_result(entries, favourite="auto")
    if best is None:
        return NOTHING_FOUND
    view = show(problem, best)
    console.print(result_table(view))
    _name_files(console, write_report(view, out, comparison=entries))
    return VERIFIED


def _solve_and_tell(problem: AnyProblem, settings: Settings) -> int:
    from opweave.adapters.report.progress_line import live_progress
    from opweave.adapters.report.report import write_report
    from opweave.adapters.report.tables import result_table, section_table
    from opweave.solvers.solve import solve

    showing = view_of(type(problem))  # before time is spent: an answer that cannot be shown is refused now
    with live_progress(Console(stderr=True), problem.unit, settings.solver) as observer:
        result = solve(
            problem,
            solver=settings.solver,
            time_limit=settings.time_limit,
            gap=settings.gap,
            seed=settings.seed,
            threads=settings.threads,
            formulation=settings.formulation,
            options=settings.options,
            progress=observer,
        )
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
        console = _stdout()
        console.print(result_table(view))
        for section in view.sections():
            console.print(section_table(section))
        console.print(plain(view.explain()), markup=False, highlight=False)
        _name_files(console, files)
    return VERIFIED if result.verified else NOTHING_FOUND


def main() -> None:
    """Run the command line; the exit status is 0 for a verified solution, 1 for none, 2 for bad input."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
