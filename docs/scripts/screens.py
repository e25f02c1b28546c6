"""Photograph the pages that ``result.report`` writes, and their views: ``python docs/scripts/screens.py [NAME ...]``.

Needs Debian's ``chromium``, and runs in the root of the repository.
"""

from __future__ import annotations

import base64
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from plans import FOLDER, GRAPHS, ROOT, home

import opweave as ow

sys.path.insert(0, str(ROOT))
from tests.adapters.report.workbench.browser import Browser

WIDTH = 1200


def ordering() -> ow.Result[Any]:
    """NASNetMobile in a best order."""
    return ow.solve(
        ow.MemoryOrdering(graph=ow.load(GRAPHS / "keras/NASNetMobile.json.gz")),
        time_limit=20,
    )


def placement() -> ow.Result[Any]:
    """GoogLeNet on four GPUs."""
    graph, cluster = (
        ow.load(GRAPHS / "torch/googlenet.export.json.gz"),
        ow.clusters.load("moirai-intra"),
    )
    costs = ow.Costs.roofline(graph, cluster)
    return ow.solve(
        ow.Placement(graph=graph, cluster=cluster, costs=costs), time_limit=20
    )


def pipeline() -> ow.Result[Any]:
    """ResNet50 over three machines."""
    graph, cluster = ow.load(GRAPHS / "keras/ResNet50.json.gz"), home()
    costs = ow.Costs.roofline(graph, cluster)
    return ow.solve(
        ow.Pipeline(graph=graph, cluster=cluster, costs=costs, memory="parameters"),
        time_limit=20,
    )


def slicing() -> ow.Result[Any]:
    """VGG16 over four boards."""
    from benchmarks.slicing import problem_of

    return ow.solve(problem_of("VGG16", "x1"), time_limit=20)


def layout() -> ow.Result[Any]:
    """DenseNet121 packed."""
    problem = ow.MemoryOrdering(
        graph=ow.load(GRAPHS / "keras/DenseNet121.json.gz"), in_place="any"
    )
    return ow.solve(
        ow.MemoryLayout.of(problem, ow.solve(problem, time_limit=20)), time_limit=20
    )


PEAK = "document.querySelector('#memory [data-key=p]').click()"

SHOWN: dict[str, tuple[Callable[[], ow.Result[Any]], str, str]] = {
    "report_ordering": (ordering, "", ""),
    "report_placement": (placement, "", ""),
    "report_pipeline": (pipeline, "", ""),
    "report_layout": (layout, "", ""),
    "view_schedule": (placement, "schedule", "selectOperator(60)"),
    "view_memory": (ordering, "memory", f"{PEAK}; showTime(0, 60)"),
    "view_addresses": (layout, "addresses", "showTime(0, 60)"),
    "view_stages": (pipeline, "panel-0", ""),
    "view_slices": (slicing, "panel-0", ""),
    "view_model": (placement, "model", "views.model.unfold([0, 4, 6, 7, 8])"),
    "view_search": (placement, "trace", ""),
    "view_table": (placement, "table", ""),
}
"""For each picture: whose page, which view of it (or its first screen), and what is done before."""


def photograph(browser: Browser, page: Path, name: str, view: str, doing: str) -> None:
    """Write a picture of the first screen of a page, or of one view with the details beside it."""
    browser.open(page, width=WIDTH, height=1100)
    if doing:
        browser.js(f"{doing}; 0")
    browser.settle()
    browser.js("document.querySelector('.top').style.position = 'static'")
    browser.settle()
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": 1100, "scale": 1}
    if view:
        card = f"document.getElementById('{view}')"
        browser.js(f"{card}.scrollIntoView({{ behavior: 'instant' }})")
        top, tall = browser.js(
            f"(({{ y, height }}) => [y + scrollY, height])({card}.getBoundingClientRect())"
        )
        clip |= {"y": top - 10, "height": tall + 20}
    found = browser("Page.captureScreenshot", format="png", clip=clip)
    (FOLDER / f"{name}.png").write_bytes(base64.b64decode(found["data"]))


def main(names: list[str]) -> None:
    """Make the pictures with these names, or all."""
    with TemporaryDirectory() as folder:
        browser = Browser(Path(folder) / "profile")
        page_of = functools.cache(
            lambda make: make().report(Path(folder) / make.__name__)
        )
        for name, (make, view, doing) in SHOWN.items():
            if not names or name in names:
                photograph(browser, Path(page_of(make)), name, view, doing)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
