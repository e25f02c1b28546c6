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
from opweave.problems.units import readable_bytes
from opweave.problems.words import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

VIEWS = {
    ("Result", "plot"): f"{__name__}:plot",
    ("Result", "to_pandas"): f"{__name__}:to_pandas",
    ("Result", "report"): f"{__name__}:report",
    ("Result", "explain"): f"{__name__}:explain",
    ("Result", "html"): f"{__name__}:result_html",
    ("Problem", "html"): f"{__name__}:problem_html",
    ("OpGraph", "html"): f"{__name__}:graph_html",
    ("Cluster", "html"): f"{__name__}:cluster_html",
    **{(name, "html"): f"{__name__}:fields_html" for name in ("Solution", "Device", "Costs", "Timeline")},
    ("Evaluation", "html"): f"{__name__}:evaluation_html",
    **{(name, "save"): f"{__name__}:save" for name in ("OpGraph", "Cluster", "Problem", "Solution", "Result")},
    ("solve", "progress"): "opweave.adapters.report.progress_line:watched",
}
"""The functions for each class and verb; see :func:`~opweave.problems.shown.shown_by`."""

MOST_ROWS, MOST_NAMES = 12, 3
"""Most rows that a table in a notebook shows of a graph or a solution."""

NOTHING = ("None", "()", "{}")
"""Fields that say nothing."""

MOST_LETTERS = 300
"""Most letters of a measurement that a notebook shows."""


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


def explain(result: Result[Any]) -> str:
    """Say what the result means."""
    return view_alone(result).explain()


def save(value: BaseModel, path: PathLike) -> Path:
    """Write it as JSON."""
    save_json(value, path)
    return Path(path)


def result_html(result: Result[Any]) -> str:
    """The rows of the command line's table, and what they mean."""
    if result.answers is None:
        return _titled(result, [(name, text) for name, text in brief_fields(result) if text not in NOTHING])
    shown = view_alone(result)
    return _titled(result, summary_rows(shown), shown.explain())


def problem_html(problem: Problem[Any, Any]) -> str:
    """The graph, the cluster, the constraints, and the choices that are not the defaults."""
    rows = [("graph", repr(problem.graph))]
    cluster = getattr(problem, "cluster", None)
    if isinstance(cluster, Cluster):
        rows.append(("cluster", repr(cluster)))
    rows += [
        (name, text) for name, text in changed_fields(problem, without=frozenset({"graph", "cluster", "constraints"}))
    ]
    shown = [repr(constraint) for constraint in problem.constraints[:MOST_ROWS]]
    more = [f"... {len(problem.constraints):,} in all"] if len(problem.constraints) > len(shown) else []
    rows += [("constraint", text) for text in (*shown, *more)]
    return _titled(problem, [*rows, ("counted", problem.assumptions())])


def graph_html(graph: OpGraph) -> str:
    """The size of the graph, and its first operators."""
    size = {tensor.id: tensor.bytes for tensor in graph.tensors}
    cells = [
        (op.id, op.kind, _few(op.inputs), _few(op.outputs), readable_bytes(sum(size[name] for name in op.outputs)))
        for op in graph.operators[:MOST_ROWS]
    ]
    return _listing(repr(graph), ("operator", "kind", "inputs", "outputs", "bytes out"), cells, len(graph.operators))


def cluster_html(cluster: Cluster) -> str:
    """The devices, with every field that one of them has."""
    fields = ("name", "memory_bytes", "flops_per_second", "memory_bandwidth", "launch_seconds", "group")
    used = [name for name in fields if any(getattr(device, name) for device in cluster.devices)]
    cells = [[_cell(name, getattr(device, name)) for name in used] for device in cluster.devices[:MOST_ROWS]]
    return _listing(repr(cluster), used, cells, len(cluster.devices))


def fields_html(value: object) -> str:
    """The fields of anything; long ones are cut."""
    return _titled(value, list(brief_fields(value)) if isinstance(value, BaseModel) else [("", repr(value))])


def evaluation_html(judged: Evaluation[Any]) -> str:
    """The objective, the rules that are broken, and what was measured."""
    rows = [("objective", repr(judged.objective)), ("feasible", str(judged.feasible))]
    rows += [(each.rule, each.message) for each in judged.violations[:MOST_ROWS]]
    if judged.details is not None:
        measured = [(name, text) for name, text in brief_fields(judged.details) if text not in NOTHING]
        rows += [(name, text) for name, text in measured if len(text) <= MOST_LETTERS]
    more = len(judged.violations) - MOST_ROWS
    return _titled(judged, rows, f"{more:,} more violations" if more > 0 else "")


def _few(names: Sequence[str]) -> str:
    more = f", ... {len(names):,} in all" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def _cell(name: str, value: object) -> str:
    if not isinstance(value, int | float):
        return "-" if value is None else str(value)
    giga = {"flops_per_second": "GFLOP/s", "memory_bandwidth": "GB/s"}
    if name in giga:
        return f"{value / 1e9:,.4g} {giga[name]}"
    return readable_bytes(value) if name == "memory_bytes" else f"{value:,.4g}"


def _titled(what: object, rows: Sequence[Sequence[str]], words: str = "") -> str:
    title = type(what).__name__.partition("[")[0]
    return table((title, ""), rows, caption=words)


def _listing(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], count: int) -> str:
    more = f"; the first {len(rows):,} of {counted(count, 'row')}" if count > len(rows) else ""
    return table(headings, rows, caption=title + more)
