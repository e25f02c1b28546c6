"""A line on the terminal, or in a notebook, that shows the progress of a solve."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from opweave.adapters.error_messages import plain
from opweave.problems.problem import Problem
from opweave.problems.result import Result
from opweave.problems.units import readable, readable_seconds, readable_share
from opweave.solvers.run import Observer, Progress

REFRESHES_PER_SECOND = 8


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
    line = _Line(unit, label)
    with Live(console=console, get_renderable=line.render, refresh_per_second=REFRESHES_PER_SECOND, transient=True):
        yield line.observe


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
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bars(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task(label, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


class _Line:
    """Keeps the latest progress. The display reads it at its own pace, so solvers are not slowed down."""

    def __init__(self, unit: str, label: str) -> None:
        self._unit = unit
        self._label = label
        self._began = time.perf_counter()
        self._last: Progress | None = None

    def observe(self, progress: Progress) -> None:
        self._last = progress

    def render(self) -> Text:
        text = Text(f"{self._label}  ", style="bold")
        last = self._last
        if last is not None:
            text.append(f"best {readable(last.objective, self._unit)}   bound {readable(last.bound, self._unit)}   ")
            text.append(f"gap {readable_share(last.gap)}   ", style="cyan")
        text.append(readable_seconds(time.perf_counter() - self._began))
        if last is not None and last.stage:
            text.append(f"   {plain(last.stage)}", style="dim")
        text.append("   (Ctrl-C keeps the best so far)", style="dim")
        text.no_wrap, text.overflow = True, "ellipsis"
        return text
