"""The demonstration: a real model that ships with the package, planned by several solvers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from opweave.adapters.load import load
from opweave.adapters.report.baselines import baselines
from opweave.adapters.report.tables import Entry
from opweave.problems.errors import OpweaveError
from opweave.problems.memory_ordering.spec import MemoryOrdering
from opweave.problems.result import Result
from opweave.solvers.run import Observer
from opweave.solvers.solve import solve

MODEL = "nasnetmobile.json.gz"
"""keras.applications.NASNetMobile as exported to ONNX, 224 x 224, batch 1. Its many branches make the order matter."""

ENGINE = "highs"
ENGINE_SECONDS = 10.0
PLAN_SECONDS = 60.0
"""The search needs less than a second with compiled loops; the first run on a machine compiles them."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One solver of the demonstration; ``label`` describes it."""

    solver: str
    label: str
    seconds: float


LABELS = {
    "definition": "as the model file lists them",
    "rpo": "reverse post order",
    "lpmf": "least peak memory first",
    "bfs": "breadth first",
    "dfs": "depth first, by size",
    "reverse": "greedy from the end",
    "auto": "opweave's own search",
    "highs": "the embedded HiGHS on an ILP",
}


def demo_problem() -> MemoryOrdering:
    """Load the model that ships with the package, as a memory-ordering problem."""
    with resources.as_file(resources.files("opweave.adapters") / "data" / MODEL) as path:
        return MemoryOrdering(graph=load(path))


def demo_stages(problem: MemoryOrdering) -> list[Stage]:
    """List who plans the model: the usual orders, opweave's own search, and the embedded engine."""
    names = [(name, PLAN_SECONDS) for name in (*baselines(problem), "auto")] + [(ENGINE, ENGINE_SECONDS)]
    return [Stage(name, LABELS.get(name, ""), seconds) for name, seconds in names]


def run_stage(problem: MemoryOrdering, stage: Stage, progress: Observer | None) -> Entry:
    """Let one solver plan the model; a solver that cannot run here gets a note instead of a result."""
    try:
        result = solve(problem, solver=stage.solver, time_limit=stage.seconds, progress=progress)
    except OpweaveError as error:
        return Entry(stage.solver, None, str(error))
    return Entry(stage.solver, result, stage.label)


def best_result(entries: Sequence[Entry], favourite: str) -> Result[Any] | None:
    """Pick the verified result with the smallest objective; ties go to the favourite solver."""
    answers = [
        (entry.result.objective, entry.solver != favourite, position, entry.result)
        for position, entry in enumerate(entries)
        if entry.result is not None and entry.result.objective is not None
    ]
    return min(answers)[3] if answers else None
