"""The commands that ask something of a problem: ``opweave solve | compare | sweep | pareto | conflict``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from opweave.adapters.cli.output import NOTHING_FOUND, VERIFIED, say, solve_and_tell, tell
from opweave.adapters.cli.settings import (
    JsonOption,
    OutputOption,
    Settings,
    SpecArgument,
    option_value,
    pairs,
    solver_names,
    with_settings,
)
from opweave.adapters.files import check_writable
from opweave.adapters.load import load_problem
from opweave.problems.errors import InvalidInputError
from opweave.problems.result import OptionValue
from opweave.problems.units import parse_bytes, read_rate

if TYPE_CHECKING:
    from opweave.adapters.report.questions import Answered

PlotOption = Annotated[Path | None, typer.Option("--plot", help="Draw a picture into this file (.png).")]
Values = str | None


@with_settings
def solve_command(spec: SpecArgument, *, settings: Settings) -> int:
    """Solve a problem written as JSON."""
    return solve_and_tell(load_problem(spec), settings)


def compare_command(
    spec: SpecArgument,
    *,
    solvers: Annotated[
        str | None, typer.Option("--solvers", help="Names, as in auto,heft; by default auto and the baselines.")
    ] = None,
    time_limit: Annotated[float | None, typer.Option("--time-limit", "-t", help="Seconds for each solver.")] = None,
    gap: Annotated[float, typer.Option("--gap", help="Stop within this fraction of the bound.")] = 0.0,
    seed: Annotated[int, typer.Option("--seed", help="Same seed, same result.")] = 0,
    threads: Annotated[int, typer.Option("--threads", help="Cores, for solvers that use several.")] = 1,
    output: OutputOption = None,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> int:
    """Solve one problem with several solvers, side by side."""
    from opweave.adapters.report.progress_line import counted
    from opweave.solvers.questions.compare import compare

    _check([output, plot])
    problem = load_problem(spec)
    names = None if solvers is None else _split(solvers)
    with counted(Console(stderr=True), "solvers") as observer:
        found = compare(problem, names, time_limit=time_limit, gap=gap, seed=seed, threads=threads, progress=observer)
    return _tell(found, output, plot, None, as_json=as_json)


@with_settings
def sweep_command(
    spec: SpecArgument,
    *,
    memory: Annotated[Values, typer.Option("--memory", help="Of every device: 1GiB,2GiB,none or 0.5x,1x,2x.")] = None,
    bandwidth: Annotated[Values, typer.Option("--bandwidth", help="Of all links: 1GB/s,10GB/s or 0.5x,1x.")] = None,
    latency: Annotated[Values, typer.Option("--latency", help="Of all links, in seconds.")] = None,
    devices: Annotated[Values, typer.Option("--devices", help="Most devices that may be used: 1,2,4.")] = None,
    batch: Annotated[Values, typer.Option("--batch", help="Numbers of inputs: 1,8,32.")] = None,
    stages: Annotated[Values, typer.Option("--stages", help="Most stages of a pipeline: 1,2,4.")] = None,
    limit: Annotated[Values, typer.Option("--limit", help="Most bytes of an ordering: 4MiB,8MiB,none.")] = None,
    vary: Annotated[list[str] | None, typer.Option("--vary", help="Any other field, as name=value,value.")] = None,
    plot: PlotOption = None,
    settings: Settings,
) -> int:
    """Solve a problem at every point of a grid, such as --memory 1GiB,2GiB --bandwidth 0.5x,1x,2x."""
    from opweave.adapters.report.progress_line import counted
    from opweave.solvers.questions.sweep import sweep

    _check([plot])
    given = {
        "memory": memory,
        "bandwidth": bandwidth,
        "latency": latency,
        "devices": devices,
        "batch": batch,
        "stages": stages,
        "limit": limit,
        **pairs(vary, "--vary"),
    }
    grid = {axis: [axis_value(axis, each) for each in _split(text)] for axis, text in given.items() if text is not None}
    if not grid:
        raise InvalidInputError("name at least one axis, such as --memory 1GiB,2GiB or --vary compression=1,2")
    with counted(Console(stderr=True), "points") as observer:
        found = sweep(load_problem(spec), grid, **settings.of_solve, progress=observer)
    return _tell(found, settings.output, plot, settings.report, as_json=settings.as_json)


@with_settings
def pareto_command(
    spec: SpecArgument,
    measures: Annotated[list[str], typer.Argument(help="Two or three, as in: makespan peak.", show_default=False)],
    *,
    points: Annotated[int, typer.Option("--points", help="Most points of the front.")] = 10,
    plot: PlotOption = None,
    settings: Settings,
) -> int:
    """Find plans that trade one measure against others, each with its bound; the time limit is for all together."""
    from opweave.adapters.report.progress_line import counted
    from opweave.solvers.questions.pareto import pareto

    _check([plot])
    with counted(Console(stderr=True), "points") as observer:
        found = pareto(load_problem(spec), measures, points=points, **settings.of_solve, progress=observer)
    return _tell(found, settings.output, plot, settings.report, as_json=settings.as_json)


def conflict_command(
    spec: SpecArgument,
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


def axis_value(axis: str, text: str) -> OptionValue:
    """Read a value of an axis.

    Examples
    --------
    >>> axis_value("memory", "1GiB"), axis_value("memory", "0.5x"), axis_value("limit", "none")
    (1073741824, '0.5x', None)
    """
    if text.lower() == "none":
        return None
    if re.fullmatch(r"[0-9.]+x", text):
        return text
    name = axis.partition(":")[0]
    if name in ("memory", "limit") or name.endswith("_bytes"):
        return parse_bytes(text)
    plain_value = option_value(text)
    return read_rate(text) if name == "bandwidth" and isinstance(plain_value, str) else plain_value


def _split(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _check(files: Sequence[Path | None]) -> None:
    for file in files:
        if file is not None:
            check_writable(file)


def _tell(found: Answered, output: Path | None, plot: Path | None, report: Path | None, *, as_json: bool) -> int:
    """Write the files and show the table; the exit status says whether any solution was found."""
    from opweave.adapters.report.questions import explain, table_of

    def show(console: Console) -> None:
        console.print(table_of(found))
        say(console, explain(found))

    def write() -> Sequence[Path | None]:
        if plot is not None:
            found.plot(plot)
        return plot, None if report is None else found.report(report)

    tell(found, output, show, write, as_json=as_json)
    return VERIFIED if any(row.solution is not None for row in found.rows) else NOTHING_FOUND
