"""Tables, words and pages for the answers to several solves: comparisons, sweeps, fronts and conflicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from opweave.adapters.report.html import table, text
from opweave.adapters.report.progress_line import counted as progress_bar
from opweave.adapters.report.tables import text_table
from opweave.problems.errors import plain
from opweave.problems.result import OptionValue, Status
from opweave.problems.shown import Rows, data_frame
from opweave.problems.units import readable, readable_seconds, readable_share
from opweave.problems.words import counted
from opweave.solvers.questions.answers import Answer, readable_value
from opweave.solvers.questions.compare import Comparison
from opweave.solvers.questions.conflict import Conflict
from opweave.solvers.questions.pareto import Front
from opweave.solvers.questions.sweep import Sweep
from opweave.solvers.run import agree

if TYPE_CHECKING:
    from pandas import DataFrame

Answered = Comparison | Sweep | Front

VIEWS: dict[tuple[str, str], str] = {
    (name, verb): f"{__name__}:{verb}"
    for name in ("Comparison", "Sweep", "Front")
    for verb in ("to_pandas", "html", "rows_of", "explain")
}
VIEWS |= {(name, "plot"): "opweave.adapters.report.curves:plot" for name in ("Comparison", "Sweep", "Front")}
VIEWS |= {("Conflict", verb): f"{__name__}:conflict_{verb}" for verb in ("to_pandas", "html")}
VIEWS |= {(name, "save"): "opweave.adapters.report.shown:save" for name in ("Comparison", "Sweep", "Front", "Conflict")}
VIEWS |= {("questions", "progress"): f"{__name__}:bar"}
"""What shows them, by class and verb; see :func:`~opweave.problems.shown.shown_by`."""


def cells_of(found: Answered) -> tuple[Sequence[str], list[Sequence[str]]]:
    """The rows as text."""
    unit, least = (
        (found.units[0], f"{found.measures[0]} at least") if isinstance(found, Front) else (found.unit, "bound")
    )
    rows: list[Sequence[str]] = []
    for row in found.rows:
        took = "-" if row.seconds is None else readable_seconds(row.seconds)
        status = row.status.value if row.status else "-"
        source = None if row.result is None else row.result.bound_source
        note = row.reason if row.solution is None else source
        proof = (readable(row.bound, unit), readable_share(row.gap), status, took, note or "")
        rows.append((*_answer(found, row), *proof))
    return (*_headings(found), least, "gap", "status", "time", ""), rows


def rows_of(found: Answered) -> Rows[dict[str, str]]:
    """The rows as a plain text, without columns in which nothing stands."""
    headings, rows = cells_of(found)
    return Rows([dict(zip(headings, row, strict=True)) for row in rows])


def _headings(found: Answered) -> tuple[str, ...]:
    if isinstance(found, Comparison):
        return "solver", "objective", f"against {found.baseline}" if found.baseline else "against"
    return (*found.axes, "objective") if isinstance(found, Sweep) else tuple(found.measures)


def _answer(found: Answered, row: Answer) -> tuple[str, ...]:
    if isinstance(found, Comparison):
        share = found.relative(row.solver)
        return row.solver, readable(row.objective, found.unit), "-" if share is None else signed(share - 1)
    if isinstance(found, Sweep):
        values = (readable_value(axis, row.values.get(axis)) for axis in found.axes)
        return *values, readable(row.objective, found.unit)
    units = zip(found.measures, found.units, strict=True)
    return tuple(readable_measure(row.values[name], unit) for name, unit in units)


def signed(share: float) -> str:
    """Write a difference as a share, with its sign."""
    text = readable_share(abs(share))
    return text if text == "0 %" else f"{'+' if share > 0 else '-'}{text}"


def readable_measure(value: OptionValue, unit: str) -> str:
    """Write a measure with its unit."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return "-"
    return f"{value:,g}" if unit == "devices" else readable(value, unit)


def table_of(found: Answered) -> Table:
    """The rows as a table for the terminal; the best objective and unproved rows stand out."""
    headings, rows = cells_of(found)
    best = found.best if isinstance(found, Comparison) else None
    styles = []
    for answer in found.rows:
        leads = best is not None and answer.objective is not None and answer.objective == best.objective
        styles.append("bold green" if leads else "dim" if answer.solution is None else "")
    words = (*(found.axes if isinstance(found, Sweep) else ()), "solver", "status", "")
    return text_table(headings, rows, words=words, styles=styles)


def explain(found: Answered) -> str:
    """Say in a few sentences what was found."""
    if isinstance(found, Comparison):
        return plain(_explained_comparison(found))
    return plain(_explained_sweep(found) if isinstance(found, Sweep) else _explained_front(found))


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


POINTS = {
    Status.OPTIMAL: "proved optimal",
    Status.FEASIBLE: "with a plan and a bound",
    Status.INFEASIBLE: "proved infeasible",
    Status.UNKNOWN: "without a plan",
}


def counts_of(found: Sweep) -> str:
    """Say how many points have what."""
    counts = Counter(row.status or Status.UNKNOWN for row in found.rows)
    words = ", ".join(f"{counts[status]:,} {what}" for status, what in POINTS.items() if counts[status])
    return f"{counted(len(found.rows), 'point')}: {words}."


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
    return f"{text} It is proved that there are no others." if found.complete else text


def to_pandas(found: Answered) -> DataFrame:
    """The rows as a pandas table, with one column for each value or measure."""
    rows = []
    for row in found.rows:
        known = {name: getattr(row, name) for name in ("objective", "bound", "gap", "status", "seconds")}
        known["status"] = row.status and row.status.value
        relative = {"relative": found.relative(row.solver)} if isinstance(found, Comparison) else {}
        rows.append({"solver": row.solver, **row.values, **known, **relative, "reason": row.reason})
    return data_frame(rows)


def html(found: Answered) -> str:
    """The rows as a table for notebooks, and the words below it."""
    return f"{table(*cells_of(found))}<p>{text(explain(found))}</p>"


def bar(label: str) -> AbstractContextManager[Callable[[int, int], None]]:
    """Show a progress bar on standard error."""
    return progress_bar(Console(stderr=True), label)


def conflict_to_pandas(found: Conflict) -> DataFrame:
    """The repairs as a pandas table, cheapest first."""
    fields = ["words", "requirement", "cost", "amount", "at_least", "least"]
    return data_frame([{name: getattr(repair, name) for name in fields} for repair in found.repairs], fields)


def conflict_html(found: Conflict) -> str:
    """What cannot hold together, the proof, and the repairs."""
    return "".join(f"<p>{text(line)}</p>" for line in found.explain().splitlines())
