"""What notebooks and shells show of graphs, clusters, problems, solutions and results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from opweave.adapters.files import PathLike
from opweave.adapters.load import save as save_json
from opweave.adapters.report.figures import save_figure
from opweave.adapters.report.html import table
from opweave.adapters.report.report import write_report
from opweave.adapters.report.tables import summary_rows
from opweave.adapters.report.views import view_alone
from opweave.problems.cluster import Cluster, Device
from opweave.problems.costs import Costs
from opweave.problems.graph import OpGraph
from opweave.problems.problem import Problem
from opweave.problems.result import Result
from opweave.problems.shown import brief_fields, changed_fields, data_frame
from opweave.problems.solution import Evaluation, Solution
from opweave.problems.timeline import ActivityKind, Timeline
from opweave.problems.units import precise_seconds, readable_bytes
from opweave.problems.words import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame
    from pydantic import BaseModel

VIEWS = {
    ("Result", "plot"): f"{__name__}:plot",
    ("Result", "to_pandas"): f"{__name__}:to_pandas",
    ("Result", "report"): f"{__name__}:report",
    ("Result", "explain"): f"{__name__}:explain",
    ("Result", "html"): f"{__name__}:result_html",
    ("Problem", "html"): f"{__name__}:problem_html",
    ("OpGraph", "html"): f"{__name__}:graph_html",
    ("Cluster", "html"): f"{__name__}:cluster_html",
    ("Solution", "html"): f"{__name__}:solution_html",
    ("Device", "html"): f"{__name__}:device_html",
    ("Costs", "html"): f"{__name__}:costs_html",
    ("Evaluation", "html"): f"{__name__}:evaluation_html",
    ("Timeline", "html"): f"{__name__}:timeline_html",
    **{(name, "save"): f"{__name__}:save" for name in ("OpGraph", "Cluster", "Problem", "Solution", "Result")},
    ("solve", "progress"): "opweave.adapters.report.progress_line:watched",
}
"""The functions for each class and verb; see :func:`~opweave.problems.shown.shown_by`."""

MOST_ROWS, MOST_NAMES = 12, 3
"""Most rows that a table in a notebook shows of a graph or a solution."""

MOST_LETTERS = 300
"""Most letters of a measurement that a notebook shows."""


def plot(result: Result[Any], path: PathLike | None = None) -> Figure:
    """Draw the plan, and write it to a file."""
    figure = view_alone(result).figure()
    if path is not None:
        save_figure(figure, path)
    return figure


def to_pandas(result: Result[Any]) -> DataFrame:
    """The plan by start, one row for each run of an operator, each stage of a pipeline, or each step of an order."""
    plan = view_alone(result).plan()
    rows = next(plan[name] for name in ("operators", "stages", "steps") if name in plan)
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
        return _titled(
            result, [(name, text) for name, text in brief_fields(result) if text not in ("None", "()", "{}")]
        )
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


def solution_html(solution: Solution) -> str:
    """The fields of a solution; long ones are cut."""
    return _titled(solution, list(brief_fields(solution)))


def device_html(device: Device) -> str:
    """The fields of a device that are known."""
    rows = [(name, _cell(name, getattr(device, name))) for name, _ in changed_fields(device)]
    return _titled(device, rows)


def costs_html(costs: Costs) -> str:
    """Seconds of the first operators on the first devices."""
    labels = [(device, size) for device in costs.devices for size in costs.batches][:MOST_ROWS]
    headings = [device if costs.batches == (1,) else f"{device}, batch {size}" for device, size in labels]
    cells = [
        [op, *("-" if seconds is None else precise_seconds(seconds) for seconds in row[:MOST_ROWS])]
        for op, row in zip(costs.operators[:MOST_ROWS], costs.table, strict=False)
    ]
    return _listing(repr(costs), ("operator", *headings), cells, len(costs.operators))


def evaluation_html(judged: Evaluation[Any]) -> str:
    """The objective, the rules that are broken, and what was measured."""
    rows = [("objective", repr(judged.objective)), ("feasible", str(judged.feasible))]
    rows += [(each.rule, each.message) for each in judged.violations[:MOST_ROWS]]
    if judged.details is not None:
        measured = [(name, text) for name, text in brief_fields(judged.details) if text not in ("None", "()", "{}")]
        rows += [(name, text) for name, text in measured if len(text) <= MOST_LETTERS]
    more = len(judged.violations) - MOST_ROWS
    return _titled(judged, rows, f"{more:,} more violations" if more > 0 else "")


def timeline_html(timeline: Timeline) -> str:
    """What happens first."""
    acts = timeline.activities
    cells = [
        (
            f"{acts.start[row]:.4g}",
            f"{acts.end[row]:.4g}",
            timeline.resources[acts.resource[row]].name,
            ActivityKind(int(acts.kind[row])).name.lower(),
            timeline.name(int(acts.what[row])),
        )
        for row in np.lexsort((acts.end, acts.start))[:MOST_ROWS].tolist()
    ]
    headings = (f"start ({timeline.unit})", "end", "where", "does", "what")
    return _listing(repr(timeline), headings, cells, len(acts))


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
