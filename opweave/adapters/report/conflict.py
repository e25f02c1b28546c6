"""What shows a conflict: words, tables, a picture of its mends, and a page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from opweave.adapters.error_messages import plain
from opweave.adapters.files import PathLike, make_folder, write_bytes, write_text
from opweave.adapters.load import save as save_json
from opweave.adapters.report.figures import BEST, GIVEN, entitle, new_figure, png, safe_text, save_figure, shortened
from opweave.adapters.report.html import text
from opweave.adapters.report.questions import PAGE
from opweave.problems.shown import data_frame
from opweave.solvers.questions.conflict import Conflict
from opweave.solvers.questions.mend import Mend

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

_HERE = "opweave.adapters.report.conflict"
VIEWS: Mapping[tuple[str, str], str] = {
    ("Conflict", verb): f"{_HERE}:{function}"
    for verb, function in (
        ("plot", "plot"),
        ("to_pandas", "to_pandas"),
        ("html", "to_html"),
        ("save", "save"),
        ("report", "report"),
    )
}
"""What shows it, by verb; see :func:`~opweave.problems.shown.shown_by`."""

MOST_LETTERS = 60


def plot(found: Conflict, path: PathLike | None = None) -> Figure:
    """Draw what the mends cost; ``path`` also writes the picture to a file."""
    figure, axes = new_figure(9.0, 1.7 + 0.42 * max(1, len(found.mends)))
    for place, mend in enumerate(found.mends):
        axes.barh(place, mend.cost, color=GIVEN if mend.amount is None else BEST, height=0.6)
    axes.set_yticks(
        range(len(found.mends)), [safe_text(shortened(plain(_words(m)), MOST_LETTERS)) for m in found.mends]
    )
    axes.invert_yaxis()
    axes.set_xlabel("share by which an amount grows; 1 for a change without an amount")
    entitle(axes, "What would mend it", safe_text(shortened(plain(found.explain().splitlines()[0]), 2 * MOST_LETTERS)))
    if path is not None:
        save_figure(figure, path)
    return figure


def _words(mend: Mend) -> str:
    return mend.words if mend.least else f"{mend.words} (perhaps less)"


def to_pandas(found: Conflict) -> DataFrame:
    """The mends as a pandas table, cheapest first."""
    fields = ["words", "requirement", "cost", "amount", "at_least", "least"]
    return data_frame([{name: getattr(mend, name) for name in fields} for mend in found.mends], fields)


def to_html(found: Conflict) -> str:
    """What cannot hold together, the proof, and the mends, for notebooks."""
    if found.status != "conflict":
        return f"<p>{text(found.reason)}</p>"
    items = "".join(f"<li>{text(item.name)}</li>" for item in found.items)
    mends = "".join(f"<li>{text(_words(mend))}</li>" for mend in found.mends) or "<li>no single change</li>"
    return (
        f"<p><b>These cannot hold together:</b></p><ul>{items}</ul><p>Proof: {text(found.reason)}</p>"
        f"<p><b>What would mend it:</b></p><ol>{mends}</ol>"
    )


def save(found: Conflict, path: PathLike) -> Path:
    """Write it as JSON, with all plans."""
    save_json(found, path)
    return Path(path)


def report(found: Conflict, folder: PathLike) -> Path:
    """Write a folder: everything as JSON, a picture, and a page that shows them; return the page."""
    place = make_folder(folder)
    write_bytes(place / "picture.png", png(plot(found)))
    save_json(found, place / "conflict.json")
    write_text(place / "report.html", PAGE.format(title="Conflict", table=to_html(found)))
    return place / "report.html"
