"""What notebooks and shells show of graphs, clusters, problems, solutions and results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel

from opweave.adapters.files import PathLike
from opweave.adapters.load import save as save_json
from opweave.adapters.report.figures import save_figure
from opweave.adapters.report.html import table
from opweave.adapters.report.report import write_report
from opweave.adapters.report.tables import summary_rows
from opweave.adapters.report.views import view_alone
from opweave.problems.cluster import Cluster
from opweave.problems.graph import OpGraph
from opweave.problems.problem import Problem
from opweave.problems.result import Result
from opweave.problems.shown import brief_fields, changed_fields, data_frame
from opweave.problems.solution import Evaluation
from opweave.problems.words import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

VIEWS = {
    ("Result", "plot"): f"{__name__}:plot",
    ("Result", "to_pandas"): f"{__name__}:to_pandas",
    ("Result", "report"): f"{__name__}:report",
    ("Result", "explain"): "opweave.adapters.report.views:explain",
    ("Result", "html"): f"{__name__}:result_html",
    ("Problem", "html"): f"{__name__}:problem_html",
    ("OpGraph", "html"): f"{__name__}:graph_html",
    ("Cluster", "html"): f"{__name__}:cluster_html",
    **{(name, "html"): f"{__name__}:fields_html" for name in ("Solution", "Device", "Costs", "Timeline")},
    ("Evaluation", "html"): f"{__name__}:evaluation_html",
    **{(name, "save"): f"{__name__}:save" for name in ("OpGraph", "Cluster", "Costs", "Problem", "Solution", "Result")},
    ("MemoryLayout", "from_csv"): "opweave.adapters.graphs.lifetimes:load_lifetimes",
    ("solve", "progress"): "opweave.adapters.report.progress_line:watched",
}
"""The functions for each class and verb; see :func:`~opweave.problems.shown.shown_by`."""

MOST_ROWS = 12
"""Most rows that a table in a notebook shows of a graph or a solution."""

NOTHING = ("None", "()", "{}")
"""Fields that say nothing."""


def plot(result: Result[Any], path: PathLike | None = None) -> Figure:
    """Draw the plan, and write it to a file."""
    figure = view_alone(result).figure()
    if path is not None:
        save_figure(figure, path)
    return figure


def to_pandas(result: Result[Any]) -> DataFrame:
    """The plan, one row for each run of an operator by start, each stage of a pipeline, or each storage of a layout."""
    plan = view_alone(result).plan()
    rows = next(plan[name] for name in ("stages", "storages", "operators") if name in plan)
    return data_frame(cast("list[dict[str, object]]", rows))


def report(result: Result[Any], folder: PathLike) -> Path:
    """Write a report folder; return its page."""
    return write_report(view_alone(result), folder)[-1]


def save(value: BaseModel, path: PathLike) -> Path:
    """Write it as JSON."""
    save_json(value, path)
    return Path(path)


def result_html(result: Result[Any]) -> str:
    """The rows of the command line's table, and what they mean."""
    if result.answers is None:
        return _titled(result, _known(result))
    shown = view_alone(result)
    return _titled(result, summary_rows(shown), shown.explain())


def problem_html(problem: Problem[Any, Any]) -> str:
    """The graph, the cluster, the constraints, and the choices that are not the defaults."""
    return _titled(problem, [*changed_fields(problem), ("counted", problem.assumptions())])


def graph_html(graph: OpGraph) -> str:
    """The size of the graph, and its first operators."""
    return _listing(graph, graph.operators)


def cluster_html(cluster: Cluster) -> str:
    """The devices, with every field that one of them has."""
    return _listing(cluster, cluster.devices)


def fields_html(value: object) -> str:
    """The fields of anything; long ones are cut."""
    return _titled(value, list(brief_fields(value)) if isinstance(value, BaseModel) else [("", repr(value))])


def evaluation_html(judged: Evaluation[Any]) -> str:
    """The objective, the rules that are broken, and what was measured."""
    rows = [("objective", repr(judged.objective)), ("feasible", str(judged.feasible))]
    rows += [(each.rule, each.message) for each in judged.violations[:MOST_ROWS]]
    if judged.details is not None:
        rows += _known(judged.details)
    more = len(judged.violations) - MOST_ROWS
    return _titled(judged, rows, f"{more:,} more violations" if more > 0 else "")


def _known(value: BaseModel) -> list[tuple[str, str]]:
    return [(name, words) for name, words in brief_fields(value) if words not in NOTHING]


def _titled(what: object, rows: Sequence[Sequence[str]], words: str = "") -> str:
    title = type(what).__name__.partition("[")[0]
    return table((title, ""), rows, caption=words)


def _listing(what: object, items: Sequence[BaseModel]) -> str:
    """The first items as a table, with every field that one of them has."""
    rows = [dict(_known(each)) for each in items[:MOST_ROWS]]
    names = list(dict.fromkeys(name for row in rows for name in row))
    more = f"; the first {len(rows):,} of {counted(len(items), 'row')}" if len(items) > len(rows) else ""
    return table(names, [[row.get(name, "") for name in names] for row in rows], caption=repr(what) + more)
