"""Predicted and measured, side by side, and what the measured times would change."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from opweave.adapters.cluster.carry import Carried
from opweave.adapters.cluster.parts import Plan
from opweave.adapters.cluster.station import Tensors
from opweave.adapters.files import PathLike
from opweave.problems.cluster import Cluster
from opweave.problems.costs import Costs
from opweave.problems.errors import InvalidInputError
from opweave.problems.pipeline.spec import Pipeline, Stages
from opweave.problems.placement.spec import Placement, Schedule
from opweave.problems.problem import Problem
from opweave.problems.result import Result
from opweave.problems.timeline import ActivityKind, Names, Recorder, Resource, ResourceKind, Timeline

WARMING = 0.25
"""Share of the first inputs that count neither for the throughput nor for the latency: the pipeline fills up."""


@dataclass(frozen=True, slots=True)
class Row:
    """One number, as planned and as measured; None where the plan says nothing of it."""

    what: str
    unit: Literal["s", "1/s", "bytes"]
    predicted: float | None
    measured: float

    @property
    def off(self) -> float | None:
        """By what share the prediction is off."""
        return None if not self.predicted else self.measured / self.predicted - 1.0


@dataclass(frozen=True, slots=True, eq=False)
class ClusterRun:
    """A plan that was carried out.

    Attributes
    ----------
    rows
        Numbers as planned and as measured.
    outputs
        The model's outputs by input.
    difference
        Largest relative difference from the outputs of the whole model; 0 if they agree bit for bit; None if they were
        not compared.
    inputs
        Number of inputs that were asked for.
    moved
        Devices that others took over.
    reason
        Why not all inputs were finished; None if they were.
    timeline
        What happened, for figures, tables and traces.
    better
        A sentence on what the best plan would be with the measured times; None if nothing is known of them.
    planned
        The problem and its result.
    """

    rows: tuple[Row, ...]
    outputs: Mapping[int, Tensors] = field(repr=False)
    difference: float | None
    inputs: int
    moved: Mapping[str, str]
    reason: str | None
    timeline: Timeline
    better: str | None = None
    planned: tuple[Problem[Any, Any], Result[Any]] | None = field(default=None, repr=False)

    def report(self, folder: PathLike) -> list[Path]:
        """Write the page of the plan, on which a switch shows the measured run instead, and the files beside it.

        Raises
        ------
        InvalidInputError
            If the run was made without the problem or its result, or the folder cannot be written to.
        """
        from opweave.adapters.report.report import write_report
        from opweave.adapters.report.views import view_of

        if self.planned is None:
            raise InvalidInputError("a page needs the problem and its result; pass both to run")
        problem, result = self.planned
        of_whole = [row.measured for row in self.rows if row.what in ("seconds between results", "latency")]
        view = view_of(type(problem))(problem, result, (self.timeline, of_whole[0] if of_whole else None))
        return write_report(view, folder)

    def row(self, what: str) -> Row:
        """The row of a name.

        Raises
        ------
        KeyError
            If there is none.
        """
        return {row.what: row for row in self.rows}[what]

    @property
    def worst(self) -> Row | None:
        """The time whose prediction was off most."""
        known = [row for row in self.rows if row.off is not None and row.unit == "s"]
        return max(known, key=lambda row: abs(row.off or 0.0), default=None)

    def to_records(self) -> list[dict[str, object]]:
        """The rows as plain data."""
        return [{**asdict(row), "off": row.off} for row in self.rows]

    def to_pandas(self) -> Any:
        """The rows as a table of pandas."""
        import pandas as pd

        return pd.DataFrame(self.to_records())

    def explain(self) -> str:
        """What was measured, in sentences."""
        done = len(self.outputs)
        first = f"{done} of {self.inputs} inputs were finished"
        equal = {None: "", 0.0: ", with the outputs of the whole model bit for bit"}.get(
            self.difference, f", with the outputs of the whole model within {self.difference or 0.0:.1e}"
        )
        lines = [f"{first}{equal}."]
        lines += [f"{taken} took over from {lost}." for lost, taken in self.moved.items()]
        lines += [f"The run ended early: {self.reason}."] if self.reason else []
        worst = self.worst
        if worst is not None and worst.off is not None:
            lines.append(f"The prediction that was off most: {worst.what}, by {worst.off:+.1%}.")
        return "\n".join([*lines, *([self.better] if self.better else [])])


def steady(moments: Sequence[float]) -> float:
    """Seconds between two results once the pipeline is full.

    Examples
    --------
    >>> steady([0.0, 5.0, 6.0, 7.0, 8.0])
    1.0
    """
    ends = sorted(moments)
    first = min(int(WARMING * len(ends)), max(0, len(ends) - 2))
    return (ends[-1] - ends[first]) / max(1, len(ends) - 1 - first)


def compared(
    carried: Carried, plan: Plan, predicted: Mapping[str, float | None], stages: Sequence[float] | None
) -> tuple[Row, ...]:
    """The rows of a run.

    Parameters
    ----------
    predicted
        ``"seconds between results"``, ``"latency"`` and seconds of ``"link A to B"`` as planned, as far as known.
    stages
        Seconds of every part as planned.
    """
    rows: list[Row] = []
    done = sorted(carried.ended)
    skipped = min(int(WARMING * len(done)), max(0, len(done) - 1))
    latency = [carried.ended[index] - carried.began[index] for index in done]
    if len(done) > 1 and not plan.one_by_one:
        period = steady(list(carried.ended.values()))
        rows.append(Row("seconds between results", "s", predicted.get("seconds between results"), period))
        bottleneck = predicted.get("seconds between results")
        rows.append(Row("inputs per second", "1/s", 1.0 / bottleneck if bottleneck else None, 1.0 / period))
    if latency and plan.one_by_one:
        rows.append(Row("latency", "s", predicted.get("latency"), statistics.median(latency[skipped:])))
    for number, part in enumerate(plan.parts):
        took = [
            event.end - event.begin
            for device in part.devices
            for event in carried.events.get(device, ())
            if event.kind == "run" and event.part == number
        ]
        if took:
            named = f"part {number} on {', '.join(part.devices)}"
            rows.append(Row(named, "s", None if stages is None else stages[number], statistics.median(took)))
    sends: dict[tuple[str, str], list[tuple[float, int]]] = {}
    for device, events in carried.events.items():
        for event in events:
            if event.kind == "send":
                targets = plan.parts[event.target].devices
                key = device, targets[event.index % len(targets)]
                sends.setdefault(key, []).append((event.end - event.begin, event.bytes))
    for (source, target), each in sends.items():
        link = f"link {source} to {target}"
        rows.append(Row(link, "s", predicted.get(link), statistics.median(seconds for seconds, _ in each)))
        rows.append(Row(f"{link}, bytes", "bytes", predicted.get(f"{link}, bytes"), each[0][1]))
    for name, most in carried.memory_bytes.items():
        rows.append(Row(f"memory of {name}", "bytes", predicted.get(f"memory of {name}"), float(most)))
    return tuple(rows)


def measured_timeline(carried: Carried, plan: Plan, planned: Timeline | None) -> Timeline:
    """What happened, from the first event on, with the resources and names of the planned timeline, if there is one."""
    devices = list(carried.events)
    kinds: tuple[ResourceKind, ...] = ("device", "send_port", "receive_port")
    resources = tuple(Resource(name, kind, exclusive=False) for kind in kinds for name in devices)
    names, first = Names(tuple(f"part {part.number}" for part in plan.parts), len(plan.parts), 0), 0
    if planned is not None:
        resources, names = planned.resources, planned.names
        first = len(names.texts) - len(plan.parts) if plan.chain else 0
    where = {(resource.kind, resource.name): row for row, resource in enumerate(resources)}
    ids = {name: row for row, name in enumerate(names.texts)}
    what = [
        first + part.number if planned is None or plan.chain else ids[plan.operators[part.number][0]]
        for part in plan.parts
    ]
    recorder = Recorder()
    origin = min((event.begin for events in carried.events.values() for event in events), default=0.0)
    rows = [(event.begin, event.end, device, event) for device, events in carried.events.items() for event in events]
    for begin, end, device, event in sorted(rows, key=lambda row: row[:2]):
        add = partial(
            recorder.activity, what=what[event.part], start=begin - origin, end=end - origin, number=event.index
        )
        if event.kind == "run":
            add(ActivityKind.RUN, where["device", device])
            continue
        targets = plan.parts[event.target].devices
        ends: tuple[tuple[ResourceKind, str], ...] = (
            ("send_port", device),
            ("receive_port", targets[event.index % len(targets)]),
        )
        if all(each in where for each in ends):
            row = recorder.rows
            add(ActivityKind.SEND, where[ends[0]], size=event.bytes, twin=row + 1)
            add(ActivityKind.RECEIVE, where[ends[1]], size=event.bytes, twin=row)
    return Timeline("seconds", resources, names, recorder.activities(), recorder.lifetimes())


def with_measured_times(
    problem: Pipeline | Placement, solution: Stages | Schedule, rows: Sequence[Row], plan: Plan, seconds: float
) -> str | None:
    """Solve once more, with operators and links as slow as they were measured; say what the best plan would be."""
    from opweave.solvers.solve import solve

    if problem.costs is None:
        return None
    by_name = {row.what: row for row in rows}
    factors: dict[str, list[float]] = {}
    for number, part in enumerate(plan.parts):
        row = by_name.get(f"part {number} on {', '.join(part.devices)}")
        if row is not None and row.predicted:
            for device in part.devices:
                factors.setdefault(device, []).append(row.measured / row.predicted)
    slower = {device: statistics.median(each) for device, each in factors.items()}
    costs = scaled(problem.costs, slower)
    cluster = _relinked(problem.cluster, by_name)
    altered = problem.model_copy(update={"costs": costs, "cluster": cluster})
    changed: Problem[Any, Any] = type(problem).model_validate(altered.model_dump())
    kept = changed.evaluate(solution)
    if not kept.feasible or not kept.objective:
        return None  # a schedule whose times the measured ones do not keep
    found = solve(changed, start=solution, time_limit=seconds)
    if found.objective is None:
        return None
    gain = 1.0 - float(found.objective) / float(kept.objective)
    if gain < 0.01:
        return "With the measured times this plan is still the best that is known, within 1 %."
    if isinstance(found.solution, Stages):
        words = "; ".join(f"{stage.device}: {len(stage.operators)} operators" for stage in found.solution.stages)
    else:
        words = "another placement"
    return f"With the measured times the best plan is {words}: {gain:.0%} faster."


def scaled(costs: Costs, factors: Mapping[str, float]) -> Costs:
    """Costs with every device slower or faster by a factor."""
    batches = len(costs.batches)
    factor = np.repeat([factors.get(device, 1.0) for device in costs.devices], batches)
    table = tuple(
        tuple(None if entry is None else entry * by for entry, by in zip(row, factor.tolist(), strict=True))
        for row in costs.table
    )
    return costs.model_copy(update={"table": table})


def _relinked(cluster: Cluster, rows: Mapping[str, Row]) -> Cluster:
    """The cluster with links as fast as they were measured, where they were used."""
    if cluster.bandwidth is None:
        return cluster
    names = list(cluster.device_index)
    matrix = [list(row) for row in cluster.bandwidth]
    for a, source in enumerate(names):
        for b, target in enumerate(names):
            row = rows.get(f"link {source} to {target}")
            if row is not None and row.predicted and row.measured > 0.0 and matrix[a][b] > 0.0:
                matrix[a][b] *= row.predicted / row.measured
    return Cluster.model_validate({**cluster.model_dump(), "bandwidth": matrix})
