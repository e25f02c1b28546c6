"""Predicted and measured, side by side, and what the measured times would change."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from opweave.adapters.cluster.carry import Carried
from opweave.adapters.cluster.parts import ClusterPlan
from opweave.adapters.cluster.station import Tensors
from opweave.adapters.files import PathLike
from opweave.problems.costs import Costs
from opweave.problems.errors import InvalidInputError
from opweave.problems.measures import busy_seconds, moved_bytes
from opweave.problems.pipeline.referee import PipelineDetails
from opweave.problems.pipeline.spec import Pipeline, Stages
from opweave.problems.placement.spec import Placement, Schedule
from opweave.problems.problem import Problem
from opweave.problems.result import Result
from opweave.problems.timeline import ActivityKind, Names, Recorder, Timeline

BETWEEN, PER_SECOND, LATENCY = "seconds between results", "inputs per second", "latency"
"""Rows of the whole."""

COMPUTES, SENDS, BYTES, MEMORY = " computes", " sends", ", bytes", "memory of "
"""Ends and beginnings of the rows of a device."""

WARMING = 0.25
"""Share of the first inputs that count neither for the throughput nor for the latency: the pipeline fills up."""


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """One number, as planned and as measured; None where the plan says nothing of it."""

    what: str
    predicted: float | None
    measured: float

    @property
    def unit(self) -> str:
        """The unit of both."""
        if self.what == PER_SECOND:
            return "1/s"
        return "bytes" if self.what.startswith(MEMORY) or self.what.endswith(BYTES) else "s"

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
        Largest difference from the outputs of the whole model; 0 if they agree bit for bit; infinite if they are not
        even close; None if they were not compared.
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

    rows: tuple[ComparedRow, ...]
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
        of_whole = [row.measured for row in self.rows if row.what in (BETWEEN, LATENCY)]
        view = view_of(type(problem))(problem, result, (self.timeline, of_whole[0] if of_whole else None))
        return write_report(view, folder)

    def row(self, what: str) -> ComparedRow:
        """The row of a name.

        Raises
        ------
        KeyError
            If there is none.
        """
        return {row.what: row for row in self.rows}[what]

    @property
    def worst(self) -> ComparedRow | None:
        """The time whose prediction was off most."""
        known = [row for row in self.rows if row.off is not None and row.unit == "s"]
        return max(known, key=lambda row: abs(row.off or 0.0), default=None)

    def to_records(self) -> list[dict[str, object]]:
        """The rows as plain data."""
        return [{**asdict(row), "unit": row.unit, "off": row.off} for row in self.rows]

    def explain(self) -> str:
        """What was measured, in sentences."""
        apart = "not even closely" if self.difference == math.inf else f"within {self.difference or 0.0:.1e}"
        within = apart if self.difference else "bit for bit"
        equal = "" if self.difference is None else f", with the outputs of the whole model {within}"
        lines = [f"{len(self.outputs)} of {self.inputs} inputs were finished{equal}."]
        lines += [f"{taken} took over from {lost}." for lost, taken in self.moved.items()]
        lines += [f"The run ended early: {self.reason}."] if self.reason else []
        if (worst := self.worst) is not None:
            lines.append(f"The prediction that was off most: {worst.what}, by {worst.off or 0.0:+.1%}.")
        return "\n".join([*lines, *([self.better] if self.better else [])])


def per_input(timeline: Timeline, *, together: bool = False) -> dict[str, float]:
    """Seconds for which every device computes and sends for an input, and the bytes that it sends, as rows.

    Parameters
    ----------
    together
        Whether devices compute, send and receive one after the other, so that only all of it can be measured.
    """
    inputs = max(1, len(np.unique(timeline.activities.round)))
    found: dict[str, float] = {}
    seconds, size = busy_seconds(timeline) / inputs, moved_bytes(timeline)
    for row, resource in enumerate(timeline.resources):
        what = f"{resource.name}{COMPUTES}"
        if resource.kind == "device" or together:
            found[what] = found.get(what, 0.0) + float(seconds[row])
        elif resource.kind != "receive_port":
            found[f"{resource.name}{SENDS}"] = float(seconds[row])
            found[f"{resource.name}{SENDS}{BYTES}"] = size[row] / inputs
    return found


def compared(
    problem: Pipeline | Placement, solution: Stages | Schedule, timeline: Timeline, carried: Carried, plan: ClusterPlan
) -> tuple[ComparedRow, ...]:
    """The rows of a run, of which the timeline says what happened."""
    judged = problem.evaluate(solution)  # type: ignore[arg-type]
    predicted: dict[str, float | None] = {}
    if judged.timeline is not None:
        predicted |= per_input(judged.timeline, together=plan.links is None and getattr(problem, "load", "") == "sum")
        predicted |= {f"{MEMORY}{name}": float(most) for name, most in problem.memory_by_device(solution).items()}
        predicted[LATENCY] = judged.timeline.end
    if isinstance(details := judged.details, PipelineDetails):
        predicted |= {LATENCY: details.latency_seconds, PER_SECOND: details.inputs_per_second}
        predicted[BETWEEN] = details.bottleneck_seconds
    measured: dict[str, float] = {}
    numbers, place = np.unique(timeline.activities.round, return_inverse=True)
    begins, ends = np.full(len(numbers), np.inf), np.zeros(len(numbers))
    np.minimum.at(begins, place, timeline.activities.start)
    np.maximum.at(ends, place, timeline.activities.end)
    full = int(WARMING * len(numbers))
    if len(numbers) > 1 and not plan.one_by_one:
        measured[BETWEEN] = float(np.mean(np.diff(np.sort(ends)[full:])))
        measured[PER_SECOND] = 1.0 / measured[BETWEEN]
    elif len(numbers):
        measured[LATENCY] = float(np.median((ends - begins)[full:]))
    measured |= {what: value for what, value in per_input(timeline).items() if value > 0.0}
    measured |= {f"{MEMORY}{name}": float(most) for name, most in carried.memory_bytes.items()}
    return tuple(ComparedRow(what, predicted.get(what), value) for what, value in measured.items())


def measured_timeline(carried: Carried, plan: ClusterPlan, planned: Timeline) -> Timeline:
    """What happened, from the first event on, with the resources of the planned timeline."""
    resources, names = planned.resources, planned.names
    texts = (*names.texts, *(f"part {part.number + 1}" for part in plan.parts))
    where = {(resource.kind, resource.name): row for row, resource in enumerate(resources)}
    recorder, first = Recorder(), min((event.begin for _, event in carried.events), default=0.0)
    for device, event in sorted(carried.events, key=lambda row: row[1].begin):
        begin, end, what, number = event.begin - first, event.end - first, len(names.texts) + event.part, event.index
        if event.target is None:
            recorder.activity(ActivityKind.RUN, where["device", device], what, begin, end, number=number)
            continue
        port = where.get(("channel", "channel"), where["send_port", device])
        receive = where["receive_port", plan.parts[event.target].turn(number)]
        size, row = event.bytes, recorder.rows
        recorder.activity(ActivityKind.SEND, port, what, begin, end, size=size, number=number, twin=row + 1)
        recorder.activity(ActivityKind.RECEIVE, receive, what, begin, end, size=size, number=number, twin=row)
    names = Names(texts, names.operators, names.tensors)
    return Timeline("seconds", resources, names, recorder.activities(), recorder.lifetimes())


def with_measured_times(
    problem: Pipeline | Placement, solution: Stages | Schedule, rows: Sequence[ComparedRow], seconds: float
) -> str | None:
    """Solve once more, with operators and links as slow as they were measured; say what the best plan would be."""
    from opweave.solvers.questions.changes import rebuilt
    from opweave.solvers.solve import solve

    if problem.costs is None:
        return None
    slower = {row.what: row.measured / row.predicted for row in rows if row.predicted and row.measured}
    # devices that did nothing are taken to be as far off as the others
    computes, sends = (
        median([by for what, by in slower.items() if what.endswith(end)] or [1.0]) for end in (COMPUTES, SENDS)
    )
    table = {
        operator: {device: took * slower.get(f"{device}{COMPUTES}", computes) for device, took in times.items()}
        for operator, times in problem.known_seconds.items()
    }
    cluster, names = problem.cluster, list(problem.cluster.device_index)
    if len(names) > 1:
        rates = cluster.direct_bandwidth / [[slower.get(f"{name}{SENDS}", sends)] for name in names]
        cluster = rebuilt(cluster, bandwidth=rates.tolist(), rates=None, shared=None)
    changed: Problem[Any, Any] = rebuilt(problem, costs=Costs.from_table(table), cluster=cluster)
    kept = changed.evaluate(solution)
    if not kept.feasible or not kept.objective:
        return None  # a schedule whose times the measured ones do not keep
    found = solve(changed, start=solution, time_limit=seconds)
    gain = 1.0 - float(found.objective or kept.objective) / float(kept.objective)
    if gain < 0.01:
        return "With the measured times this plan is still the best that is known, within 1 %."
    counts = Counter(device for devices in found.plan.devices_by_operator().values() for device in devices)
    words = ", ".join(f"{count} operators on {device}" for device, count in counts.items())
    return f"With the measured times the best plan has {words}: {gain:.0%} faster."
