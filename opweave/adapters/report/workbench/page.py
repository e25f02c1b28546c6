"""The page of a report: the verdict and the tables as HTML; in the same file, the data and the script of the views."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib import resources

from opweave.adapters.report.html import table, text
from opweave.adapters.report.questions import cells_of
from opweave.adapters.report.tables import summary_rows
from opweave.adapters.report.timeline_tables import SHOWN
from opweave.adapters.report.view import AnyView
from opweave.adapters.report.workbench.cards import cards
from opweave.adapters.report.workbench.data import document, packed, short
from opweave.adapters.report.workbench.levels import drawing
from opweave.problems.measures import MEASURES
from opweave.problems.result import Status
from opweave.problems.timeline import Timeline
from opweave.problems.units import readable, readable_share
from opweave.problems.words import counted
from opweave.solvers.questions.compare import Comparison

SCRIPTS = ("base", "plan", "chart", "schedule", "memory", "model", "details", "lists", "main")
"""The parts of the script, in the order in which the page has them."""

_UNIT = re.compile(r"(\d) (?=(?:[KMGTP]?i?B|[mµn]?s|%|min|J|steps?|bytes)\b|%)")
"""The space between a number and its unit."""


def page(view: AnyView, files: Iterable[str], comparison: Comparison | None = None) -> str:
    """Write the page.

    Parameters
    ----------
    view
        The view of a problem and its result.
    files
        Names of the files that stand beside the page.
    comparison
        Answers of several solvers.
    """
    from opweave import __version__

    problem, result = view.problem, view.result
    name = short(problem.graph.name)
    devices = [] if result.solution is None else [each for each in view.timeline.resources if each.kind == "device"]
    about = [view.word.replace("_", " "), counted(len(problem.graph.operators), "operator")]
    about += [counted(len(devices), "device")] if len(devices) > 1 else []
    about.append(f"solver {result.solver}")
    drawn = drawing(problem.graph)
    frames = list(cards(view, drawn))
    return _part("page.html").format(
        title=text(f"{name}: {view.word}, {result.status.value}"),
        eyebrow=_written(" · ".join(about)),
        name=text(name or "unnamed"),
        places="".join(f'<a href="#{place}">{text(title)}</a>' for place, title, _ in frames),
        choice=_choice(view),
        verdict=_verdict(view),
        explanation=_written(view.explain()),
        views="\n".join(_together(frame) for _, _, frame in frames),
        facts=_table((), summary_rows(view), css="plain facts"),
        sections="".join(_sections(view, comparison)),
        version=text(__version__),
        files=_files(files),
        style=_part("style.css"),
        script=script(),
        data=packed(document(view, drawn)),
    )


def script() -> str:
    """The script, without its indents and comments; the files in this folder have them."""
    lines = (line.strip() for part in SCRIPTS for line in _part(f"{part}.js").splitlines())
    return "\n".join(line.split(" // ")[0] for line in lines if line and not line.startswith(("//", "/**")))


def _choice(view: AnyView) -> str:
    """Buttons for the plan, for what it is compared with, and for both."""
    before = None if view.result.solution is None else view.before()
    if before is None:
        return ""
    words = {"plan": f"this {view.noun}", "before": before.name, "both": "both"}
    buttons = "".join(
        f'<button type="button" data-shown="{shown}" aria-pressed="{str(shown == "plan").lower()}">'
        f"{text(word[0].upper() + word[1:])}</button>"
        for shown, word in words.items()
    )
    return f'<div class="choice" role="group" aria-label="What the views show">{buttons}</div>'


def _part(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _written(value: str) -> str:
    """A text as HTML."""
    return _together(text(value))


def _together(html: str) -> str:
    """Put a fixed space in front of every unit."""
    return _UNIT.sub("\\1\u00a0", html)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, css: str = "plain") -> str:
    width = "wrap" if headings else "wrap two"
    return f'<div class="{width}">{_together(table(headings, rows, css=css))}</div>'


def _verdict(view: AnyView) -> str:
    """The objective, what is proved of it, and bars that compare it with the baseline and the bound."""
    result, unit = view.result, view.problem.unit
    words = {
        Status.OPTIMAL: "proved optimal",
        Status.FEASIBLE: "nothing proved" if result.gap is None else f"within {readable_share(result.gap)} of the best",
        Status.INFEASIBLE: "no plan can exist",
        Status.UNKNOWN: "no plan found",
    }
    status = f'<span class="status {result.status.value}">{_written(words[result.status])}</span>'
    if result.objective is None:
        return f'<div class="figures"><div>{status}</div></div>'
    figure = (
        f'<p class="what">{text(view.goal())}</p><p class="objective">{_written(readable(result.objective, unit))}</p>'
    )
    return f'<div class="figures"><div>{figure}{status}</div><div class="scale">{"".join(_bars(view))}</div></div>'


def _bars(view: AnyView) -> Iterable[str]:
    result, before = view.result, view.before()
    rows = [] if before is None else [(before.name, "before", before.objective)]
    rows += [(f"this {view.noun}", "plan", result.objective), ("lower bound", "bound", result.bound)]
    known = [(name, look, value) for name, look, value in rows if value is not None and value >= 0]
    largest = max((value for _, _, value in known), default=0.0) or 1.0
    for name, look, value in known:
        yield (
            f'<div><span title="{text(name)}">{text(name)}</span><i class="{look}" style="width: '
            f'{100 * value / largest:.2f}%"></i><b>{_written(readable(value, view.problem.unit))}</b></div>'
        )


def _sections(view: AnyView, comparison: Comparison | None) -> Iterable[str]:
    before = None if view.result.solution is None else view.before()
    if before is not None:
        rows = list(_beside(before.timeline, view.timeline))
        if rows:
            yield f"<h3>{text(before.name.capitalize())}, and this {text(view.noun)}</h3>"
            yield _table(("metric", before.name, f"this {view.noun}", "change"), rows)
    for section in view.sections():
        yield f"<h3>{text(section.title)}</h3>{_table(section.headings, section.rows)}"
    if comparison is not None:
        yield "<h3>Solvers side by side</h3>" + _table(*cells_of(comparison))


def _beside(before: Timeline, after: Timeline) -> Iterable[Sequence[str]]:
    """Every measure of both timelines."""
    for name, (label, write) in SHOWN.items():
        old, new = MEASURES[name](before), MEASURES[name](after)
        if old is None or new is None or (old == 0 and new == 0):
            continue
        change = (
            "-" if old == 0 else f"{'+' if new > old else '-' if new < old else ''}{readable_share(abs(new / old - 1))}"
        )
        yield label, write(old), write(new), change


def _files(files: Iterable[str]) -> str:
    named = ", ".join(f'<a href="{text(name)}">{text(name)}</a>' for name in files)
    return (
        f'Beside this page: {named}. <a href="https://ui.perfetto.dev">Perfetto</a> opens trace.json.' if named else ""
    )
