"""A line on the terminal, or in a notebook, that shows the progress of a solve."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from opweave.problems.errors import plain
from opweave.problems.problem import Problem
from opweave.problems.result import Result
from opweave.problems.units import readable, readable_share
from opweave.solvers.run import Observer
from opweave.solvers.run import Progress as Now


@contextmanager
def live_progress(console: Console, unit: str, label: str) -> Iterator[Observer | None]:
    """Show objective, bound, gap and elapsed time while the body runs, on a terminal or in a notebook.

    Parameters
    ----------
    console
        Where the line is shown; standard error, so that results can be piped.
    unit
        Unit of the objective.
    label
        Name of the solver.

    Yields
    ------
    Observer or None
        Pass it to ``solve(progress=...)``.
    """
    if not (console.is_terminal or (console.is_jupyter and find_spec("ipywidgets") is not None)):
        yield None  # without ipywidgets, a notebook would show a warning in place of the line
        return
    hint = TextColumn("(Ctrl-C keeps the best so far)", style="dim")
    words = TextColumn("{task.description}", markup=False)
    with Progress(words, TimeElapsedColumn(), hint, console=console, transient=True) as line:
        task = line.add_task(label)

        def observe(now: Now) -> None:
            best, bound = readable(now.objective, unit), readable(now.bound, unit)
            found = f"{label}  best {best}   bound {bound}   gap {readable_share(now.gap)}"
            line.update(task, description=f"{found}   {plain(now.stage)}" if now.stage else found)

        yield observe


def watched(problem: Problem[Any, Any], solver: str, work: Callable[[Observer | None], Result[Any]]) -> Result[Any]:
    """Show the progress of a solve on standard error, and one line at its end; ``solve(..., progress=True)``.

    Parameters
    ----------
    problem, solver
        What is solved, and the name of the solver.
    work
        Solves it, given an observer.
    """
    console = Console(stderr=True)
    with live_progress(console, problem.unit, solver) as observer:
        result = work(observer)
    console.print(Text(plain(result.headline)))
    return result


@contextmanager
def counted(console: Console, label: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar while the body runs, if the console is a terminal.

    Yields
    ------
    Callable[[int, int], None]
        Call it with the number of steps done and the number of all steps.
    """
    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task(label, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)
