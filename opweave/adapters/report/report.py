"""The report folder: problem, result, plan, trace, picture, and one page that shows them all."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path

from opweave.adapters.files import PathLike, make_folder, write_bytes
from opweave.adapters.report.figures import png
from opweave.adapters.report.html import table, text
from opweave.adapters.report.tables import Entry, comparison_cells, summary_rows
from opweave.adapters.report.view import AnyView

SHOWN_STEPS = 1000
"""Number of the plan's steps that the page shows; the plan file has all of them."""

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }}
h1 {{ font-size: 1.5rem; margin-bottom: 0.2rem; }}
h2 {{ font-size: 1.15rem; margin-top: 2rem; }}
img {{ width: 100%; height: auto; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
th, td {{ text-align: left; padding: 0.2rem 1.2rem 0.2rem 0; border-bottom: 1px solid #e3e3e3; vertical-align: top; }}
td {{ overflow-wrap: anywhere; }}
th {{ font-weight: 600; }}
.facts td:first-child {{ color: #666; white-space: nowrap; }}
.best {{ font-weight: 700; color: #00573f; }}
summary {{ cursor: pointer; font-weight: 600; margin-top: 2rem; }}
footer {{ color: #666; font-size: 0.85rem; margin-top: 2rem; }}
</style>
</head>
<body>
<h1>{title}</h1>
{picture}
<p>{explanation}</p>
<h2>Result</h2>
{facts}
{sections}
{comparison}
{plan}
<footer>Made by opweave {version}. Files beside this page: {files}. Open trace.json in https://ui.perfetto.dev.</footer>
</body>
</html>
"""


def write_report(view: AnyView, folder: PathLike, *, comparison: Sequence[Entry] = ()) -> list[Path]:
    """Write a report folder. All files are made before the first is written, and each is written whole or not at all.

    Parameters
    ----------
    view
        The view that :func:`~opweave.adapters.report.views.show` made of a problem and its result.
    folder
        The folder; it is created if missing, and files of the same names are replaced.
    comparison
        Results of other solvers, shown beside this one.

    Returns
    -------
    list of Path
        ``problem.json``, ``result.json`` and ``report.html``. If there is a solution, also the plan, ``trace.json``,
        the problem's exports (for placement, ``device_map.json``) and the picture.

    Raises
    ------
    InvalidInputError
        If the folder cannot be written to.
    """
    files = {"problem.json": _json(view.problem.model_dump_json()), "result.json": _json(view.result.model_dump_json())}
    if view.result.solution is not None:
        files[view.plan_file] = _json(json.dumps(view.plan(), ensure_ascii=False, indent=1))
        files["trace.json"] = _json(json.dumps(view.trace(), ensure_ascii=False))
        files |= {name: _json(json.dumps(data, ensure_ascii=False, indent=1)) for name, data in view.exports().items()}
        files |= {name: png(figure) for name, figure in view.figures().items()}
    page = _page(view, files, comparison)
    files["report.html"] = page.encode("utf-8", "backslashreplace")
    place = make_folder(folder)
    for name, data in files.items():
        write_bytes(place / name, data)
    return [place / name for name in files]


def _json(text: str) -> bytes:
    return (text + "\n").encode("utf-8")


def _page(view: AnyView, files: dict[str, bytes], comparison: Sequence[Entry]) -> str:
    from opweave import __version__

    picture = plan = side_by_side = ""
    if view.result.solution is not None:
        picture = "".join(_picture(name, data) for name, data in files.items() if name.endswith(".png"))
        headings, rows = view.steps()
        more = f" (the first {SHOWN_STEPS:,} of {len(rows):,} steps)" if len(rows) > SHOWN_STEPS else ""
        plan = f"<details><summary>The plan{more}</summary>{table(headings, rows[:SHOWN_STEPS])}</details>"
    if comparison:
        side_by_side = "<h2>Side by side</h2>" + table(*comparison_cells(comparison, view.problem.unit))
    return _PAGE.format(
        title=text(f"{view.problem.graph.name}: {view.word}, {view.result.status.value}"),
        picture=picture,
        explanation=text(view.explain()),
        facts=table((), summary_rows(view), css="facts"),
        sections="".join(f"<h2>{text(one.title)}</h2>{table(one.headings, one.rows)}" for one in view.sections()),
        comparison=side_by_side,
        plan=plan,
        version=text(__version__),
        files=text(", ".join(files)),
    )


def _picture(name: str, data: bytes) -> str:
    encoded = base64.b64encode(data).decode("ascii")
    return f'<p><img alt="The plan: {text(name.removesuffix(".png"))}" src="data:image/png;base64,{encoded}"></p>'
