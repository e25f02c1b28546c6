"""The command line: ``opweave solve | plan | check | solvers | demo``."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError
from rich.console import Console

from opweave.adapters.check import judge
from opweave.adapters.cli_errors import INTERRUPTED, NOTHING_FOUND, VERIFIED, polite
from opweave.adapters.complaints import complaint, plain
from opweave.adapters.files import check_folder_writable, check_writable
from opweave.adapters.hardware import check_hardware, hardware, pins
from opweave.adapters.load import AnyProblem, load, load_problem, load_result, save
from opweave.adapters.units import parse_bytes, readable
from opweave.adapters.views import show, view_for, view_of
from opweave.problems.errors import InvalidInputError
from opweave.problems.result import OptionValue

app = typer.Typer(
    help="Plans how a deep-learning model runs on limited hardware, with a proved lower bound.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

PIPED_WIDTH = 120
"""Columns of a table that does not go to a terminal."""

SolverOption = Annotated[str, typer.Option("--solver", "-s", help="A name that 'opweave solvers' lists.")]
TimeOption = Annotated[float | None, typer.Option("--time-limit", "-t", help="Seconds; no limit by default.")]
GapOption = Annotated[float, typer.Option("--gap", help="Stop within this fraction of the bound.")]
SeedOption = Annotated[int, typer.Option("--seed", help="Same seed, same answer.")]
ThreadsOption = Annotated[int, typer.Option("--threads", help="Threads of an engine.")]
FormulationOption = Annotated[str | None, typer.Option("--formulation", help="For engines: which model to run.")]
OptionOption = Annotated[list[str] | None, typer.Option("--option", help="An option of the solver, as name=value.")]
OutputOption = Annotated[Path | None, typer.Option("--output", "-o", help="Write the result here, as JSON.")]
ReportOption = Annotated[Path | None, typer.Option("--report", help="Write a report into this folder.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON instead of a table.")]


@dataclass(frozen=True, slots=True)
class Settings:
    """How to solve, and where the answer goes."""

    solver: str
    time_limit: float | None
    gap: float
    seed: int
    threads: int
    formulation: str | None
    options: Mapping[str, OptionValue]
    output: Path | None
    report: Path | None
    json: bool

    def check_places(self) -> None:
        """Refuse places that cannot be written to before time is spent on solving."""
        if self.output is not None:
            check_writable(self.output)
        if self.report is not None:
            check_folder_writable(self.report)


def _version(wanted: bool) -> None:
    if wanted:
        from opweave import __version__

        typer.echo(f"opweave {__version__}")
        raise typer.Exit


@app.callback()
def _opweave(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@app.command("solve")
@polite
def solve_command(
    spec: Annotated[Path, typer.Argument(help="A problem as JSON.", show_default=False)],
    *,
    solver: SolverOption = "auto",
    time_limit: TimeOption = None,
    gap: GapOption = 0.0,
    seed: SeedOption = 0,
    threads: ThreadsOption = 1,
    formulation: FormulationOption = None,
    option: OptionOption = None,
    output: OutputOption = None,
    report: ReportOption = None,
    as_json: JsonOption = False,
) -> int:
    """Solve a problem written as JSON."""
    options = {name: _option_value(text) for name, text in _pairs(option, "--option").items()}
    settings = Settings(solver, time_limit, gap, seed, threads, formulation, options, output, report, as_json)
    settings.check_places()
    return _solve_and_tell(load_problem(spec), settings)


@app.command("plan")
@polite
def plan_command(
    model: Annotated[Path, typer.Argument(help="A model: .onnx, .json or .json.gz.", show_default=False)],
    *,
    problem: Annotated[str, typer.Option("--problem", "-p", help="What to plan: ordering, placement.")] = "ordering",
    objective: Annotated[str | None, typer.Option("--objective", help="ordering: peak or total.")] = None,
    in_place: Annotated[str | None, typer.Option("--in-place", help="ordering: none, first or any.")] = None,
    inputs: Annotated[str | None, typer.Option("--inputs", help="ordering: freed, kept or excluded.")] = None,
    outputs: Annotated[str | None, typer.Option("--outputs", help="ordering: kept or excluded.")] = None,
    limit: Annotated[str | None, typer.Option("--limit", help="ordering: bytes not to exceed, as 6MiB.")] = None,
    cluster: Annotated[str | None, typer.Option("--cluster", help="placement: a file, or a preset's name.")] = None,
    costs: Annotated[str | None, typer.Option("--costs", help="placement: a file, or roofline (the default).")] = None,
    transfers: Annotated[
        str | None, typer.Option("--transfers", help="placement: one_port_tensor, one_port_edge or delay.")
    ] = None,
    memory: Annotated[str | None, typer.Option("--memory-model", help="placement: additive or parameters.")] = None,
    pin: Annotated[list[str] | None, typer.Option("--pin", help="placement: OP=DEVICE, may be repeated.")] = None,
    dim: Annotated[list[str] | None, typer.Option("--dim", help="Size of an ONNX dimension, as batch=1.")] = None,
    solver: SolverOption = "auto",
    time_limit: TimeOption = None,
    gap: GapOption = 0.0,
    seed: SeedOption = 0,
    threads: ThreadsOption = 1,
    formulation: FormulationOption = None,
    option: OptionOption = None,
    output: OutputOption = None,
    report: ReportOption = None,
    as_json: JsonOption = False,
) -> int:
    """Plan a model file in one go: load it, solve, verify, and show the plan."""
    options = {name: _option_value(text) for name, text in _pairs(option, "--option").items()}
    settings = Settings(solver, time_limit, gap, seed, threads, formulation, options, output, report, as_json)
    fields: dict[str, object] = {
        "objective": objective,
        "in_place": in_place,
        "inputs": inputs,
        "outputs": outputs,
        "limit_bytes": None if limit is None else parse_bytes(limit),
        "transfers": transfers,
        "memory": memory,
        "constraints": pins(pin) or None,
    }
    view = view_for(problem)
    check_hardware(view, cluster=cluster, costs=costs, pin=pin)
    settings.check_places()
    graph = load(model, dims={name: _dimension(name, text) for name, text in _pairs(dim, "--dim").items()})
    fields |= hardware(graph, cluster, costs)
    asked = {name: value for name, value in fields.items() if value is not None}
    try:
        built = view.problem_type.model_validate({"graph": graph, **asked})
    except ValidationError as error:
        raise complaint(error, f"problem {view.word}", asked) from None
    return _solve_and_tell(built, settings)


@app.command("check")
@polite
def check_command(
    spec: Annotated[Path, typer.Argument(help="The problem as JSON.", show_default=False)],
    result: Annotated[Path, typer.Argument(help="The result to judge.", show_default=False)],
) -> int:
    """Let the referee judge a result anew, from the problem alone."""
    problem, claimed = load_problem(spec), load_result(result)
    complaints = judge(problem, claimed)
    for text in complaints:
        typer.echo(f"not valid: {plain(text)}")
    if complaints:
        return NOTHING_FOUND
    typer.echo(f"valid: {readable(claimed.objective, problem.unit)}, as claimed ({problem.reading()})")
    if claimed.bound is not None:
        source = f" ({claimed.bound_source})" if claimed.bound_source else ""
        typer.echo(
            plain(f"its bound of {readable(claimed.bound, problem.unit)} is what {claimed.solver} proved{source}")
        )
    return VERIFIED


@app.command("solvers")
@polite
def solvers_command(
    problem: Annotated[str | None, typer.Option("--problem", "-p", help="Only those for this problem.")] = None,
) -> int:
    """List the solvers: what they prove, what they honour, and how to install what is missing."""
    from opweave.adapters.tables import solvers_table
    from opweave.solvers.registry import solvers

    kind = None if problem is None else view_for(problem).problem_type.kind
    _stdout().print(solvers_table(solvers(kind)))
    return VERIFIED


@app.command("demo")
@polite
def demo_command(
    out: Annotated[Path, typer.Option("--out", help="Folder for the report files.")] = Path("opweave-report"),
) -> int:
    """Plan a real model that ships with opweave, and write a report about it."""
    from opweave.adapters.demo import best_result, demo_problem, demo_stages, run_stage
    from opweave.adapters.progress import live_progress
    from opweave.adapters.report import write_report
    from opweave.adapters.tables import comparison_table, result_table

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
    from opweave.adapters.progress import live_progress
    from opweave.adapters.report import write_report
    from opweave.adapters.tables import result_table, section_table
    from opweave.solvers.solve import solve

    showing = view_of(problem)  # before time is spent: an answer that cannot be shown is refused now
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
    if settings.json:
        typer.echo(result.model_dump_json())
    else:
        console = _stdout()
        console.print(result_table(view))
        for section in view.sections():
            console.print(section_table(section))
        console.print(plain(view.explain()), markup=False, highlight=False)
        _name_files(console, files)
    return VERIFIED if result.verified else NOTHING_FOUND


def _pairs(texts: Sequence[str] | None, flag: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name or name in found:
            raise InvalidInputError(f"{flag} {text!r:.80}: write it as name=value, every name once")
        found[name] = value
    return found


def _option_value(text: str) -> OptionValue:
    words: dict[str, OptionValue] = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def _dimension(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise InvalidInputError(f"--dim {name}={text:.40}: a dimension is a whole number, 0 or more")
    return int(text)


def _stdout() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=PIPED_WIDTH)


def _name_files(console: Console, files: Sequence[Path]) -> None:
    if files:
        console.print("written: " + "  ".join(plain(str(file)) for file in files), markup=False, highlight=False)


def main() -> None:
    """Run the command line; the exit status is 0 for a verified solution, 1 for none, 2 for bad input."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
