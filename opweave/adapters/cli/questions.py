"""The commands that ask something of a problem: ``opweave solve | compare | sweep | pareto | conflict``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from opweave.adapters.cli.output import NOTHING_FOUND, VERIFIED, say, solve_and_tell, tell
from opweave.adapters.cli.settings import Settings, option_value, pairs
from opweave.adapters.files import check_writable
from opweave.adapters.load import load_problem
from opweave.problems.errors import InvalidInputError
from opweave.problems.result import OptionValue
from opweave.problems.units import parse_bytes, read_rate

if TYPE_CHECKING:
    from opweave.adapters.report.questions import Answered


def solve_command(spec: Path, *, settings: Settings) -> int:
    """Solve a problem written as JSON."""
    return solve_and_tell(load_problem(spec), settings)


def compare_command(spec: Path, *, solvers: str | None = None, plot: Path | None = None, settings: Settings) -> int:
    """Solve one problem with several solvers, side by side."""
    from opweave.solvers.questions.compare import compare

    names = None if solvers is None else _split(solvers)
    shared = {name: getattr(settings, name) for name in ("time_limit", "gap", "seed", "threads")}
    return _answered(lambda **more: compare(load_problem(spec), names, **shared, **more), "solvers", plot, settings)


def sweep_command(
    spec: Path, *, flags: Mapping[str, str], vary: list[str] | None = None, plot: Path | None = None, settings: Settings
) -> int:
    """Solve a problem at every point of a grid, such as --memory 1GiB,2GiB --bandwidth 0.5x,1x,2x."""
    from opweave.solvers.questions.sweep import sweep

    texts = {**flags, **pairs(vary, "--vary")}
    axes = {axis: [axis_value(axis, each) for each in _split(text)] for axis, text in texts.items()}
    if not axes:
        raise InvalidInputError("name at least one axis, such as --memory 1GiB,2GiB or --vary compression=1,2")
    return _answered(
        lambda **more: sweep(load_problem(spec), axes, **settings.of_solve, **more), "points", plot, settings
    )


def pareto_command(
    spec: Path,
    measures: list[str],
    *,
    points: int = 10,
    plot: Path | None = None,
    settings: Settings,
) -> int:
    """Find plans that trade one measure against others, each with its bound; the time limit is for all together."""
    from opweave.solvers.questions.pareto import pareto

    front: dict[str, Any] = {"points": points, **settings.of_solve}
    return _answered(lambda **more: pareto(load_problem(spec), measures, **front, **more), "points", plot, settings)


def conflict_command(spec: Path, *, settings: Settings) -> int:
    """Say which requirements of a problem cannot hold together, and what would mend it.

    Exit status 0: there is a plan. 1: there is none, and the requirements in conflict are listed, or neither was
    proved in time. 2: bad input.
    """
    from opweave.adapters.report.progress_line import live_progress
    from opweave.solvers.questions.conflict import conflict

    problem = load_problem(spec)
    with live_progress(Console(stderr=True), problem.unit, "conflict") as observer:
        asked = {name: getattr(settings, name) for name in ("time_limit", "solver", "seed")}
        found = conflict(problem, **asked, progress=observer)
    tell(found, settings.output, lambda console: say(console, found.explain()), as_json=settings.as_json)
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


def _answered(ask: Callable[..., Answered], steps: str, plot: Path | None, settings: Settings) -> int:
    """Ask, write the files and show the table; the exit status says whether any solution was found."""
    from opweave.adapters.report.progress_line import counted
    from opweave.adapters.report.questions import explain, table_of

    if plot is not None:
        check_writable(plot)
    with counted(Console(stderr=True), steps) as observer:
        found = ask(progress=observer)

    def show(console: Console) -> None:
        console.print(table_of(found))
        say(console, explain(found))

    def write() -> Sequence[Path | None]:
        if plot is not None:
            found.plot(plot)
        return (plot,)

    tell(found, settings.output, show, write, as_json=settings.as_json)
    return VERIFIED if any(row.solution is not None for row in found.rows) else NOTHING_FOUND
