"""``opweave demo``: a real model that ships with the package, ordered and cut into stages by several solvers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from opweave.adapters import clusters
from opweave.adapters.cli.output import name_files, stdout
from opweave.adapters.cli.settings import JsonOption
from opweave.adapters.cli.solving import NOTHING_FOUND, VERIFIED
from opweave.adapters.costs.default_costs import missing_costs
from opweave.adapters.files import check_folder_writable
from opweave.adapters.load import AnyProblem, load
from opweave.adapters.report.baselines import baselines
from opweave.adapters.report.tables import Entry
from opweave.problems.errors import OpweaveError
from opweave.problems.memory_ordering.spec import MemoryOrdering
from opweave.problems.pipeline.spec import Pipeline
from opweave.problems.result import Result
from opweave.solvers.run import Observer
from opweave.solvers.solve import solve

MODEL = "nasnetmobile.json.gz"
"""keras.applications.NASNetMobile as exported to ONNX, 224 x 224, batch 1. Its many branches make the order matter."""

BOARDS = "boards"
"""The cluster of the second part."""

ENGINE = "highs"
ENGINE_SECONDS = 6.0
PLAN_SECONDS = 60.0
"""The search needs less than a second with compiled loops; the first run on a machine compiles them."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One solver of the demonstration; ``label`` describes it."""

    solver: str
    label: str
    seconds: float = PLAN_SECONDS


@dataclass(frozen=True, slots=True)
class Part:
    """One question of the demonstration: a problem, and who answers it."""

    name: str
    question: str
    problem: AnyProblem
    stages: tuple[Stage, ...]


LABELS = {
    "definition": "as the model file lists them",
    "rpo": "reverse post order",
    "lpmf": "least peak memory first",
    "bfs": "breadth first",
    "dfs": "depth first, by size",
    "reverse": "greedy from the end",
    "one_device": "the fastest board alone",
    "by_memory": "in proportion to memory",
    "random": "random parts that fit",
    "kpath": "SEIFER's matching of cuts to links",
    "greedy": "one cut after another",
    "auto": "opweave's own search",
    "highs": "the embedded HiGHS on an ILP",
}


def demo_parts() -> tuple[Part, ...]:
    """Load the model that ships with the package, and ask two questions about it."""
    with resources.as_file(resources.files("opweave.adapters") / "data" / MODEL) as path:
        graph = load(path)
    size = f"{graph.name}, {len(graph.operators)} operators"
    boards = clusters.load(BOARDS)
    ordering = MemoryOrdering(graph=graph)
    pipeline = Pipeline.model_validate({"graph": graph, "cluster": boards, **missing_costs(graph, {"cluster": boards})})
    engine = Stage(ENGINE, LABELS[ENGINE], ENGINE_SECONDS)
    return (
        Part("ordering", f"{size}: which order needs the least memory?", ordering, (*_stages(ordering), engine)),
        Part("pipeline", f"{size}: where to cut it for four Raspberry Pis?", pipeline, _stages(pipeline)),
    )


def _stages(problem: AnyProblem) -> tuple[Stage, ...]:
    """The baselines, then opweave's own search."""
    return tuple(Stage(name, LABELS.get(name, "")) for name in (*baselines(problem), "auto"))


def demo_command(
    out: Annotated[Path, typer.Option("--out", help="Folder for the report files.")] = Path("opweave-report"),
    *,
    as_json: JsonOption = False,
) -> int:
    """Plan a real model that ships with opweave, in order and in stages, and write a report about each."""
    check_folder_writable(out)
    found = [_shown(part, out / part.name, as_json=as_json) for part in demo_parts()]
    return VERIFIED if all(found) else NOTHING_FOUND


def _shown(part: Part, folder: Path, *, as_json: bool) -> bool:
    """Answer one question, show who found what, and write its report."""
    from opweave.adapters.report.progress_line import live_progress
    from opweave.adapters.report.report import write_report
    from opweave.adapters.report.tables import comparison_table, result_table
    from opweave.adapters.report.views import show

    console, errors, problem = stdout(), Console(stderr=True), part.problem
    if not as_json:
        console.print(part.question, highlight=False)
    entries = []
    for stage in part.stages:
        with live_progress(errors, problem.unit, f"{stage.solver}: {stage.label}") as observer:
            entries.append(run_stage(problem, stage, observer))
    best = best_result(entries, favourite="auto")
    if as_json:
        for entry in entries:
            if entry.result is not None:
                typer.echo(entry.result.model_dump_json())
    else:
        console.print(comparison_table(entries, problem.unit))
    if best is None:
        return False
    view = show(problem, best)
    files = write_report(view, folder, comparison=entries)
    if not as_json:
        console.print(result_table(view))
        name_files(console, files)
    return True


def run_stage(problem: AnyProblem, stage: Stage, progress: Observer | None) -> Entry:
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
