"""The commands about opweave itself: ``opweave solvers | formulations | warm | demo``."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from rich.console import Console

from opweave.adapters import clusters
from opweave.adapters.cli.output import NOTHING_FOUND, VERIFIED, name_files, print_rows, say
from opweave.adapters.costs.default_costs import missing_costs
from opweave.adapters.files import check_folder_writable
from opweave.adapters.load import AnyProblem, load
from opweave.adapters.report.views import show, view_for
from opweave.problems.memory_ordering.spec import MemoryOrdering
from opweave.problems.pipeline.spec import Pipeline
from opweave.problems.units import readable_seconds
from opweave.solvers.questions.compare import compare

MODEL = "nasnetmobile.json.gz"
"""keras.applications.NASNetMobile as exported to ONNX, 224 x 224, batch 1. Its many branches make the order matter."""

PLAN_SECONDS = 60.0
"""The search needs less than a second with compiled loops; the first run on a machine compiles them."""


def solvers_command(*, problem: str | None = None, constraints: bool = False, as_json: bool = False) -> int:
    """List the solvers: what they prove, which constraints they honour, and how to install missing packages."""
    from opweave.solvers.constraint_table import constraint_table
    from opweave.solvers.registry import list_solvers

    if constraints:
        return print_rows(constraint_table(_kind(problem)), "problem", "solver", "honoured", "refused", as_json=as_json)
    columns = ("problem", "name", "proves", "install", "about")
    return print_rows(list_solvers(_kind(problem)), *columns, as_json=as_json)


def formulations_command(*, problem: str | None = None, as_json: bool = False) -> int:
    """List the formulations: their engines, model variables and sources."""
    from opweave.solvers.engines.registration import list_formulations

    columns = ("problem", "name", "default", "available", "handles", "source")
    return print_rows(list_formulations(_kind(problem)), *columns, as_json=as_json)


def _kind(problem: str | None) -> str | None:
    return None if problem is None else view_for(problem).problem_type.kind


def warm_command() -> int:
    """Compile the solvers' loops in advance, once for each machine; otherwise the first solves compile them."""
    from opweave.adapters.report.progress_line import counted
    from opweave.solvers.loops import warm

    with counted(Console(stderr=True), "compiling loops") as observer:
        seconds = warm(observer)
    say(f"{len(seconds)} loops compiled or loaded in {readable_seconds(sum(seconds.values()))}")
    return VERIFIED


def demo_parts() -> Mapping[str, tuple[str, AnyProblem]]:
    """Load the model that ships with the package, and ask two questions about it."""
    with resources.as_file(resources.files("opweave.adapters") / "data" / MODEL) as path:
        graph = load(path)
    size, boards = f"{graph.name}, {len(graph.operators)} operators", clusters.load("boards")
    pipeline = Pipeline.model_validate({"graph": graph, "cluster": boards, **missing_costs(graph, {"cluster": boards})})
    return {
        "ordering": (f"{size}: which order needs the least memory?", MemoryOrdering(graph=graph)),
        "pipeline": (f"{size}: where to cut it for four Raspberry Pis?", pipeline),
    }


def demo_command(*, out: Path = Path("opweave-report")) -> int:
    """Plan a real model that ships with opweave, in order and in stages, and write a report about each."""
    from opweave.adapters.report.progress_line import counted
    from opweave.adapters.report.questions import table_of
    from opweave.adapters.report.report import write_report
    from opweave.adapters.report.tables import result_table

    check_folder_writable(out)
    for name, (question, problem) in demo_parts().items():
        say(question)
        with counted(Console(stderr=True), "solvers") as observer:
            found = compare(problem, time_limit=PLAN_SECONDS, progress=observer)
        best = found["auto"].result
        if best is None or best.solution is None:
            return NOTHING_FOUND
        view = show(problem, best)
        files = write_report(view, out / name, comparison=found)
        say(table_of(found), result_table(view))
        name_files(files)
    return VERIFIED
