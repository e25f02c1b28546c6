"""Rows that tighten the relaxation of a placement: work and traffic within time windows. Times are in units."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from opweave.formulations.modeling.linear import Linear, Row, total
from opweave.formulations.placement.jobs import Job
from opweave.formulations.placement.model import NEGLIGIBLE, PlacementModel
from opweave.problems.arrays import FloatArray

THRESHOLDS = 8
"""Number of values of heads, and of tails, at which windows of work begin and end."""


def work_rows(model: PlacementModel) -> Iterator[Row]:
    """Operators with head >= a and tail >= b run between a and C_max - b, which limits their work on each device.

    For a = b = 0 this is the area row.
    """
    windows = model.windows
    head = windows.head.min(axis=1, initial=np.inf) / model.tick
    tail = windows.tail.min(axis=1, initial=np.inf) / model.tick
    seen: set[bytes] = set()
    for a in _thresholds(head):
        for b in _thresholds(tail):
            inside = (head >= a) & (tail >= b)
            key = inside.tobytes()
            if not inside.any() or key in seen:
                continue
            seen.add(key)
            members = np.flatnonzero(inside).tolist()
            outside = float(head[inside].min()) + float(tail[inside].min())
            for k in range(len(model.instance.devices)):
                yield _felt(_work(model, members, k)) + outside <= Linear.of(model.length)


def _work(model: PlacementModel, members: Sequence[int], k: int) -> Linear:
    """Seconds that device k spends on ``members``, in units."""
    seconds = model.instance.seconds[:, k] / model.tick
    return total(model.runs_on(v, k) * float(seconds[v]) for v in members if np.isfinite(seconds[v]))


def port_rows(model: PlacementModel, jobs: Sequence[Job]) -> Iterator[Row]:
    """The traffic of a port fits between the first end of a producer and the last start of a reader."""
    ports: dict[int, list[int]] = {}
    for number, job in enumerate(jobs):
        for port in job.uses:
            ports.setdefault(port, []).append(number)
    after = (model.instance.seconds + model.windows.tail).min(axis=1, initial=np.inf) / model.tick
    for port, members in ports.items():
        begin = min(jobs[number].ready for number in members)
        # over all devices, because the row must also hold if nothing passes the port
        end = min(float(after[v]) for number in members for v in model.messages[number].readers)
        work = total(
            Linear.of(column, jobs[number].length.terms.get(column, 0.0))
            for number in members
            for column in jobs[number].uses[port].terms
        )
        yield _felt(work) + (begin + end) <= Linear.of(model.length)


def _felt(work: Linear) -> Linear:
    """Leave out terms whose time counts as 0."""
    return Linear(work.constant, {column: value for column, value in work.terms.items() if value > NEGLIGIBLE})


def _thresholds(values: FloatArray) -> list[float]:
    """A few of the values, including the smallest."""
    distinct = np.unique(values)
    if len(distinct) <= THRESHOLDS:
        return [float(value) for value in distinct]
    chosen = np.linspace(0, len(distinct) - 1, THRESHOLDS).round().astype(int)
    return [float(value) for value in distinct[np.unique(chosen)]]
