"""Tables and words for the answers to several solves: comparisons, sweeps and fronts."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from opweave.adapters.error_messages import plain
from opweave.adapters.files import PathLike, make_folder, write_bytes, write_text
from opweave.adapters.load import save as save_json
from opweave.adapters.report.html import table, text
from opweave.adapters.report.progress_line import counted as progress_bar
from opweave.problems.result import OptionValue, Status
from opweave.problems.shown import data_frame
from opweave.problems.units import readable, readable_seconds, readable_share
from opweave.problems.words import counted
from opweave.solvers.questions.answers import Answer, readable_value
from opweave.solvers.questions.compare import Comparison
from opweave.solvers.questions.pareto import Front
from opweave.solvers.questions.sweep import Sweep
from opweave.solvers.run import agree

if TYPE_CHECKING:
    from pandas import DataFrame

Answered = Comparison | Sweep | Front
Cells = tuple[Sequence[str], list[Sequence[str]]]
"""Headings and rows."""

_HERE = "opweave.adapters.report.questions"
VIEWS: dict[tuple[str, str], str] = {
    (name, verb): f"{_HERE}{module}:{function}"
    for name in ("Comparison", "Sweep", "Front")
    for verb, module, function in (
        ("plot", "_figures", "plot"),
        ("to_pandas", "", "to_pandas"),
        ("html", "", "to_html"),
        ("explain", "", "explain"),
        ("save", "", "save"),
        ("report", "", "report"),
    )
}
VIEWS["questions", "progress"] = f"{_HERE}:bar"
"""What shows them, by class and verb; see :func:`~opweave.problems.shown.shown_by`."""


def cells_of(answered: Answered) -> Cells:
    """The rows as text."""
    if isinstance(answered, Comparison):
        return _compared(answered)
    return _swept(answered) if isinstance(answered, Sweep) else _front(answered)


def _compared(found: Comparison) -> Cells:
    rows: list[Sequence[str]] = []
    for row in found.rows:
        share = found.relative(row.solver)
        against = "-" if share is None else _signed(share - 1)
        rows.append((row.solver, readable(row.objective, found.unit), against, *_proof(row, found.unit), _note(row)))
    headings = ("solver", "objective", f"against {found.baseline}" if found.baseline else "against", *_PROOF, "")
    return headings, rows


def _signed(share: float) -> str:
    text = readable_share(abs(share))
    return text if text == "0 %" else f"{'+' if share > 0 else '-'}{text}"


_PROOF = ("bound", "gap", "status", "time")


def _proof(row: Answer, unit: str) -> tuple[str, str, str, str]:
    took = "-" if row.seconds is None else readable_seconds(row.seconds)
    return readable(row.bound, unit), readable_share(row.gap), row.status.value if row.status else "-", took


def _note(row: Answer) -> str:
    """Why there is no solution, or who proved the bound."""
    source = None if row.result is None else row.result.bound_source
    return (row.reason or "") if row.solution is None else (source or "")


def _swept(found: Sweep) -> Cells:
    rows: list[Sequence[str]] = [
        (
            *(readable_value(axis, row.values.get(axis)) for axis in found.axes),
            readable(row.objective, found.unit),
            *_proof(row, found.unit),
            _note(row),
        )
        for row in found.rows
    ]
    return (*found.axes, "objective", *_PROOF, ""), rows


def _front(found: Front) -> Cells:
    units = dict(zip(found.measures, found.units, strict=True))
    rows: list[Sequence[str]] = [
        (
            *(readable_measure(row.values[name], units[name]) for name in found.measures),
            readable(row.bound, found.units[0]),
            readable_share(row.gap),
            row.status.value if row.status else "-",
            _note(row),
        )
        for row in found.rows
    ]
    return (*found.measures, f"{found.measures[0]} at least", "gap", "status", ""), rows


def readable_measure(value: OptionValue, unit: str) -> str:
    """Write a measure with its unit."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return "-"
    return f"{value:,g}" if unit == "devices" else readable(value, unit)


def table_of(answered: Answered) -> Table:
    """The rows as a table for the terminal; the best objective and unproved rows stand out."""
    headings, rows = cells_of(answered)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    words = (*(answered.axes if isinstance(answered, Sweep) else ()), "solver", "status", "")
    for heading in headings:
        right = heading not in words
        table.add_column(heading, justify="right" if right else "left", no_wrap=bool(heading), overflow="fold")
    best = answered.best if isinstance(answered, Comparison) else None
    for answer, cells in zip(answered.rows, rows, strict=True):
        style = "dim" if answer.solution is None else ""
        if best is not None and answer.objective is not None and answer.objective == best.objective:
            style = "bold green"
        table.add_row(*(Text(plain(cell), style=style) for cell in cells))
    return table


def explain(answered: Answered) -> str:
    """Say in a few sentences what was found."""
    if isinstance(answered, Comparison):
        return plain(_explained_comparison(answered))
    return plain(_explained_sweep(answered) if isinstance(answered, Sweep) else _explained_front(answered))


def _explained_comparison(found: Comparison) -> str:
    best = found.best
    if best is None or best.objective is None:
        return "No solver found a plan."
    equal = [row.solver for row in found.rows if row.objective is not None and agree(row.objective, best.objective)]
    text = f"The best plan needs {readable(best.objective, found.unit)} (found by {', '.join(equal)})."
    bounds = [row.bound for row in found.rows if row.bound is not None]
    if any(row.status is Status.OPTIMAL for row in found.rows):
        return f"{text} It is proved that none is better."
    return text if not bounds else f"{text} No plan needs less than {readable(max(bounds), found.unit)}."


def counts_of(found: Sweep) -> str:
    """Say how many points have what."""
    status = [row.status for row in found.rows]
    kinds = (
        (status.count(Status.OPTIMAL), "proved optimal"),
        (status.count(Status.FEASIBLE), "with a plan and a bound"),
        (status.count(Status.INFEASIBLE), "proved infeasible"),
        (status.count(Status.UNKNOWN) + status.count(None), "without a plan"),
    )
    counts = ", ".join(f"{number:,} {what}" for number, what in kinds if number)
    return f"{counted(len(found.rows), 'point')}: {counts}."


def _explained_sweep(found: Sweep) -> str:
    text, planned = counts_of(found), [row for row in found.rows if row.objective is not None]
    if not planned:
        return text
    best = min(planned, key=lambda row: row.objective or 0)
    where = ", ".join(f"{axis} {readable_value(axis, value)}" for axis, value in best.values.items())
    return f"{text} Best: {readable(best.objective, found.unit)} at {where}."


def _explained_front(found: Front) -> str:
    goal, *others = found.measures
    if not found.rows:
        why = next((row.reason for row in found.steps if row.reason), None)
        return f"There is no plan{f': {why}' if why else ''}."
    proved = sum(row.status is Status.OPTIMAL for row in found.rows)
    text = f"{counted(len(found.rows), 'compromise')} of {goal} against {' and '.join(others)}, {proved:,} proved."
    if found.complete:
        return f"{text} It is proved that there are no others."
    return text


def to_pandas(answered: Answered) -> DataFrame:
    """The rows as a pandas table, with one column for each value or measure."""
    return data_frame(
        [
            {
                "solver": row.solver,
                **dict(row.values),
                "objective": row.objective,
                "bound": row.bound,
                "gap": row.gap,
                "status": None if row.status is None else row.status.value,
                "seconds": row.seconds,
                **({"relative": answered.relative(row.solver)} if isinstance(answered, Comparison) else {}),
                "reason": row.reason,
            }
            for row in answered.rows
        ]
    )


def to_html(answered: Answered) -> str:
    """The rows as a table for notebooks, and the words below it."""
    headings, rows = cells_of(answered)
    return f"{table(headings, rows)}<p>{text(explain(answered))}</p>"


def bar(label: str) -> AbstractContextManager[Callable[[int, int], None]]:
    """Show a progress bar on standard error."""
    return progress_bar(Console(stderr=True), label)


def save(answered: Answered, path: PathLike) -> Path:
    """Write it as JSON, with all plans."""
    save_json(answered, path)
    return Path(path)


def report(answered: Answered, folder: PathLike) -> Path:
    """Write a folder: everything as JSON, the rows as CSV, a picture, and a page that shows them; return the page."""
    from opweave.adapters.report.figures import png
    from opweave.adapters.report.questions_figures import figure_of

    headings, rows = cells_of(answered)
    lines = io.StringIO()
    csv.writer(lines).writerows([headings, *rows])
    title = type(answered).__name__
    page = PAGE.format(title=title, table=to_html(answered))
    place = make_folder(folder)
    write_bytes(place / "picture.png", png(figure_of(answered)))
    write_text(place / "rows.csv", lines.getvalue())
    save_json(answered, place / f"{title.lower()}.json")
    write_text(place / "report.html", page)
    return place / "report.html"


PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }}
img {{ width: 100%; }} th, td {{ text-align: left; padding: 0.2rem 1rem 0.2rem 0; }}</style></head>
<body><h1>{title}</h1><p><img alt="{title}" src="picture.png"></p>{table}</body></html>
"""
