"""The workers of pipelines, which "auto" runs as a portfolio: the exact search has no equal."""

from __future__ import annotations

from opweave.formulations.pipeline.instance import SUPPORTS
from opweave.problems.on_cluster import MEMORY
from opweave.problems.pipeline.spec import Pipeline
from opweave.solvers.auto import register_auto
from opweave.solvers.pipeline.exact import solve_exact
from opweave.solvers.run import Run
from opweave.solvers.workers import Steps, Worker


def workers(problem: Pipeline, _run: Run) -> list[Worker]:
    """The exact search."""
    return [Steps("exact", solve_exact, problem)]


register_auto(
    Pipeline,
    workers,
    "simple splits, then cuts and devices together, proved",
    supports=SUPPORTS,
    readings=(None, MEMORY),
)
