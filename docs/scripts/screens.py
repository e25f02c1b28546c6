"""Photograph the pages that ``result.report`` writes: ``python docs/scripts/screens.py [NAME ...]``. Needs chromium."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from tempfile import TemporaryDirectory

from plans import FOLDER, GRAPHS, home

import opweave as ow

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--run-all-compositor-stages-before-draw",
    "--virtual-time-budget=10000",
)


def report_ordering() -> ow.Result:
    """NASNetMobile in a best order."""
    return ow.solve(
        ow.MemoryOrdering(graph=ow.load(GRAPHS / "keras/NASNetMobile.json.gz")),
        time_limit=20,
    )


def report_placement() -> ow.Result:
    """GoogLeNet on four GPUs."""
    graph, cluster = (
        ow.load(GRAPHS / "torch/googlenet.export.json.gz"),
        ow.clusters.load("moirai-intra"),
    )
    costs = ow.Costs.roofline(graph, cluster)
    return ow.solve(
        ow.Placement(graph=graph, cluster=cluster, costs=costs), time_limit=20
    )


def report_pipeline() -> ow.Result:
    """ResNet50 over three machines."""
    graph, cluster = ow.load(GRAPHS / "keras/ResNet50.json.gz"), home()
    costs = ow.Costs.roofline(graph, cluster)
    return ow.solve(
        ow.Pipeline(graph=graph, cluster=cluster, costs=costs, memory="parameters"),
        time_limit=20,
    )


def report_layout() -> ow.Result:
    """DenseNet121 packed."""
    problem = ow.MemoryOrdering(
        graph=ow.load(GRAPHS / "keras/DenseNet121.json.gz"), in_place="any"
    )
    return ow.solve(
        ow.layout_of(problem, ow.solve(problem, time_limit=20)), time_limit=20
    )


SHOWN: tuple[tuple[Callable[[], ow.Result], int], ...] = (
    (report_ordering, 1480),
    (report_placement, 1100),
    (report_pipeline, 1100),
    (report_layout, 1100),
)

if __name__ == "__main__":
    for solved, height in SHOWN:
        if solved.__name__ in sys.argv[1:] or len(sys.argv) == 1:
            with TemporaryDirectory() as folder:
                page = solved().report(folder)
                picture = FOLDER / f"{solved.__name__}.png"
                size = [
                    f"--window-size=1200,{height}",
                    f"--user-data-dir={folder}/profile",
                ]
                call = [
                    "chromium",
                    *FLAGS,
                    *size,
                    f"--screenshot={picture}",
                    page.absolute().as_uri(),
                ]
                subprocess.run(call, check=True, capture_output=True)
