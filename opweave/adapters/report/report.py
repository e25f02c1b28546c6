"""The report folder: problem, result, plan, trace, pictures, and one page that shows them all."""

from __future__ import annotations

import json
from pathlib import Path

from opweave.adapters.files import PathLike, make_folder, write_bytes
from opweave.adapters.report.figures import rendered
from opweave.adapters.report.view import AnyView
from opweave.adapters.report.workbench.page import page
from opweave.solvers.questions.compare import Comparison


def write_report(view: AnyView, folder: PathLike, *, comparison: Comparison | None = None) -> list[Path]:
    """Write a report folder. All files are made before the first is written, and each is written whole or not at all.

    Parameters
    ----------
    view
        The view that :func:`~opweave.adapters.report.views.show` made of a problem and its result.
    folder
        The folder; it is created if missing, and files of the same names are replaced.
    comparison
        Answers of several solvers, shown beside this one.

    Returns
    -------
    list of Path
        ``problem.json``, ``result.json`` and ``report.html``. If there is a solution, also the plan, ``trace.json``,
        the problem's exports (for placement ``device_map.json``, for a layout ``arena.h``), and the pictures as PNG and
        SVG.

    Raises
    ------
    InvalidInputError
        If the folder cannot be written to.
    """
    files = {f"{name}.json": _written(getattr(view, name).model_dump_json()) for name in ("problem", "result")}
    if view.result.solution is not None:
        files[f"{view.file}.json"] = _written(view.plan())
        files["trace.json"] = _written(json.dumps(view.trace(), ensure_ascii=False))
        files |= {name: _written(data) for name, data in view.exports().items()}
        figure = view.figure()
        files |= {f"{view.file}.{kind}": rendered(figure, kind) for kind in ("png", "svg")}
    files["report.html"] = page(view, files, comparison).encode("utf-8", "backslashreplace")
    place = make_folder(folder)
    for name, data in files.items():
        write_bytes(place / name, data)
    return [place / name for name in files]


def _written(data: object) -> bytes:
    """A text as it is, other data as JSON."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, indent=1)
    return (text + "\n").encode("utf-8")
