"""What the page's script draws, as plain data in columns: the same for every problem."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from opweave.adapters.report.timeline_tables import lanes, rows_of
from opweave.adapters.report.workbench.levels import CELL, Drawing
from opweave.problems.arrays import FloatArray
from opweave.problems.errors import plain
from opweave.problems.graph import OpGraph
from opweave.problems.measures import bytes_held, bytes_over_time, critical_rows, peak_bytes
from opweave.problems.timeline import NEVER, Timeline

if TYPE_CHECKING:
    from opweave.adapters.report.view import AnyView

LONGEST_NAME = 160
"""Letters of a name that the page knows; the middle of a longer one is left out."""

DIGITS = 12
"""Significant digits of times; more would only make the page larger."""

MOST_MEMORIES, MOST_DEVICES, MOST_LANES = 6, 48, 4
"""Most memories, rows for devices, and lanes of a row that are drawn."""

MOST_EXACT = 2**53
"""Largest integer that a script counts exactly."""


@dataclass(frozen=True, slots=True)
class Box:
    """A box in a chain.

    Attributes
    ----------
    title, lines
        What it says.
    place
        The device that it stands for, by its position in the timeline's resources; it gives the colour.
    filled
        Share of the box that is filled, such as the memory in use; None for no filling.
    operators
        The operators in it, by position in the graph.
    link
        What the arrow to the next box says; empty without an arrow.
    width
        Share of the bottleneck that the link takes; it gives the arrow's width.
    limits, link_limits
        Whether the box, or its link, is what limits the plan.
    """

    title: str
    lines: Sequence[str]
    place: int
    filled: float | None = None
    operators: Sequence[int] = ()
    link: Sequence[str] = ()
    width: float = 0.0
    limits: bool = False
    link_limits: bool = False


class Panel(NamedTuple):
    """A view of a problem's own: boxes one after the other, such as the stages of a pipeline, or a table of parts.

    Attributes
    ----------
    columns
        One row per operator, how it is divided among devices, and how long the parts take: ``operators`` by position in
        the graph, ``shares`` of every device, ``words`` such as the dimension of a cut, and the seconds that the
        slowest device ``waits`` and ``works``.
    """

    title: str
    about: str
    boxes: Sequence[Box] = ()
    columns: Mapping[str, Sequence[Any]] = {}


def packed(document: object) -> str:
    """Write data so that it can stand in a page: JSON, compressed, in letters without a meaning in HTML."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode("ascii"), 9)).decode("ascii")


def document(view: AnyView, drawn: Drawing) -> dict[str, object]:
    """Gather everything that the page draws; ``drawn`` is the drawing of the model's graph."""
    problem, result = view.problem, view.result
    found: dict[str, object] = {
        "noun": view.noun,
        "graph": _graph(problem.graph, drawn),
        "names": {"operators": 0, "tensors": 0, "of_graph": 0, "more": []},
        "resources": [],
        "devices": [[] for _ in problem.graph.operators],
        "notes": {},
        "panels": [],
    }
    if result.solution is None:
        return found
    timeline, before = view.timeline, view.before()
    resources = [
        {"name": short(each.name), "kind": each.kind, "limit": view.limits.get(each.name)}
        for each in timeline.resources
    ]
    return {
        **found,
        "steps": timeline.unit == "steps" and len(timeline.activities) > 0,
        "time": timeline.unit if len(timeline.activities) else "moments",
        "resources": resources,
        "names": _names(timeline, problem.graph),
        "plan": _story(timeline),
        "before": None if before is None else {"name": before.name, **_story(before.timeline)},
        # what is proved of the end of the schedule, and of the bytes
        "ends": result.bound if problem.unit == "seconds" and result.objective == timeline.end else None,
        "holds": least_bytes(view),
        "memories": memories(timeline),
        "rows": [{"resource": row, "title": short(title)} for row, title in rows_of(timeline, MOST_DEVICES)],
        "devices": _devices(view),
        "notes": _notes(view),
        "panels": [
            {"boxes": [{"operators": list(box.operators)} for box in panel.boxes], **panel.columns}
            for panel in view.panels()
        ],
    }


def memories(timeline: Timeline) -> list[int]:
    """The devices whose memory changes over time, so that there is something to draw: at most the fullest ones."""
    devices = [row for row, each in enumerate(timeline.resources) if each.kind == "device"]
    if timeline.unit != "steps" or not len(timeline.lifetimes):
        devices = [row for row in devices if len(set(bytes_over_time(timeline, row)[1].tolist())) > 2]
    held = bytes_held(timeline)
    return sorted(sorted(devices, key=lambda row: -held[row])[:MOST_MEMORIES])


def least_bytes(view: AnyView) -> float | None:
    """The lower bound, if it is one on the bytes of the memory that is drawn; None otherwise."""
    drawn, bound = memories(view.timeline), view.result.bound
    if view.problem.unit != "bytes" or bound is None or len(drawn) > 1:
        return None
    return bound if bound < 2 * peak_bytes(view.timeline) else None


def short(name: str) -> str:
    """A name on one line, without its middle if it is long.

    Examples
    --------
    >>> len(short("x" * 10_000)), short("conv1")
    (160, 'conv1')
    """
    if len(name) <= LONGEST_NAME and len(text := plain(name)) <= LONGEST_NAME:
        return text
    half = LONGEST_NAME // 2
    return f"{plain(name[:half])[: half - 1]}…{plain(name[-half:])[-half:]}"


def _short(value: float) -> float | int:
    number = float(f"{value:.{DIGITS}g}")
    return int(number) if number.is_integer() else number


def _times(values: FloatArray) -> list[float | int | None]:
    """Times as short numbers; None for the end of what stays."""
    return [None if value == NEVER else _short(value) for value in values.tolist()]


def _steps(values: Iterable[int]) -> list[int]:
    """Differences between neighbours, which compress better than the values."""
    found: list[int] = np.diff(np.fromiter(values, dtype=np.int64), prepend=0).tolist()
    return found


def _positions(texts: Iterable[str]) -> tuple[list[str], list[int]]:
    """Different texts, and for each text its position among them."""
    known: dict[str, int] = {}
    rows = [known.setdefault(text, len(known)) for text in texts]
    return list(known), rows


def _graph(graph: OpGraph, drawn: Drawing) -> dict[str, object]:
    """Operators, tensors, what reads and writes what, and the drawings."""
    kinds, kind = _positions(short(op.kind) for op in graph.operators)
    paths, path = _positions(short(op.module) for op in graph.operators)
    arrays, weights = graph.arrays, graph.parameter_bytes
    return {
        "name": short(graph.name),
        "operators": [short(op.id) for op in graph.operators],
        "kinds": kinds,
        "kind": kind,
        "paths": paths,
        "path": path,
        "flops": [_short(op.flops) for op in graph.operators],
        "weights": [sum(weights[name] for name in op.parameters) for op in graph.operators],
        "tensors": [short(tensor.id) for tensor in graph.tensors],
        "bytes": arrays.tensor_bytes.tolist(),
        "storage": _steps(arrays.storage.tolist()),
        # as differences from the operator's position, which compress better
        "reads": [[tensor - op for tensor in row] for op, row in enumerate(arrays.reads.lists())],
        "writes": [[tensor - op for tensor in row] for op, row in enumerate(arrays.writes.lists())],
        "cell": CELL,
        "modules": [short(name) for name in drawn.names],
        "inside": _steps(drawn.inside),
        "column": _steps(drawn.column),
        "row": _steps(int(4 * row) for row in drawn.row),
    }


def _names(timeline: Timeline, graph: OpGraph) -> dict[str, object]:
    """The timeline's names; those that are the graph's own are not repeated."""
    texts = timeline.names.texts
    same = timeline.names.operators == len(graph.operators) and timeline.names.tensors == len(graph.tensors)
    known = timeline.names.operators + timeline.names.tensors if same else 0
    return {
        "operators": timeline.names.operators,
        "tensors": timeline.names.tensors,
        "of_graph": known,
        "more": [short(text) for text in texts[known:]],
    }


def _story(timeline: Timeline) -> dict[str, object]:
    """Activities and lifetimes in columns, and the critical path."""
    acts, lives = timeline.activities, timeline.lifetimes
    ends = timeline.period is None and timeline.unit == "seconds"
    path = [rows[0] for rows, _ in critical_rows(timeline)] if ends else []
    return {
        "end": _short(timeline.end),
        "period": timeline.period,
        "kind": acts.kind.tolist(),
        "resource": acts.resource.tolist(),
        "start": _times(acts.start),
        "ends": _times(acts.end),
        "what": _steps(acts.what),
        "twin": np.where(acts.twin >= 0, acts.twin - np.arange(len(acts)), 0).tolist(),
        "bytes": acts.bytes.tolist(),
        "count": acts.count.tolist(),
        "round": acts.round.tolist(),
        "lane": np.minimum(lanes(timeline), MOST_LANES - 1).tolist(),
        "path": _steps(path),
        "lives": {
            "storage": _steps(lives.storage),
            "resource": lives.resource.tolist(),
            "begin": _times(lives.begin),
            "end": _times(lives.end),
            "bytes": np.minimum(lives.bytes, MOST_EXACT).tolist(),
            "offset": None if lives.offset is None else lives.offset.tolist(),
        },
    }


def _devices(view: AnyView) -> list[list[int]]:
    """The devices of every operator, by position in the timeline's resources; empty if nothing says so."""
    graph, timeline = view.problem.graph, view.timeline
    devices = {each.name: row for row, each in enumerate(timeline.resources) if each.kind == "device"}
    says = getattr(view.solution, "devices_by_operator", None)
    if says is not None:
        by_name = says()
        return [sorted(devices[name] for name in by_name.get(op.id, ()) if name in devices) for op in graph.operators]
    found: list[list[int]] = [[] for _ in graph.operators]
    acts = timeline.activities
    for what, row in zip(acts.what.tolist(), acts.resource.tolist(), strict=True):
        if what < min(timeline.names.operators, len(found)) and row in devices.values() and row not in found[what]:
            found[what].append(row)
    return found


def _notes(view: AnyView) -> dict[str, object]:
    """What the problem notes about its activities, as texts: for each word, the rows and their texts."""
    columns: dict[str, tuple[list[int], list[str]]] = {}
    for row in range(len(view.timeline.activities)):
        for word, value in view.notes(row).items():
            rows, texts = columns.setdefault(word, ([], []))
            rows.append(row)
            texts.append(_noted(value))
    written: dict[str, object] = {}
    for word, (rows, texts) in columns.items():
        different, positions = _positions(texts)
        written[word] = {"rows": _steps(rows), "texts": different, "text": positions}
    return written


def _noted(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return short(f"{100 * value:.3g} %" if isinstance(value, float) else str(value))
