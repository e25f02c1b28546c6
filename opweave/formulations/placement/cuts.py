"""Rows that tighten the relaxation of a placement: what must happen in windows of time. Times in units."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opweave.formulations.bulk import Rows, Terms
from opweave.formulations.placement.jobs import Job
from opweave.formulations.placement.program import NEGLIGIBLE, PlacementModel, add
from opweave.problems.arrays import FloatArray

THRESHOLDS = 8
"""Values of heads and of tails that windows of work begin and end at."""


def head_rows(written: PlacementModel) -> Rows:
    """S[v] >= sum over k of head[v, k] x[v, k]."""
    rows, head = Rows(), _finite(written.windows.head) / written.unit
    for v in range(written.instance.operators):
        rows.at_most(add(written.weighted(v, head[v]), {int(written.start[v]): -1.0}), 0.0)
    return rows


def tail_rows(written: PlacementModel, length: int) -> Rows:
    """(4) C_max >= C[v] + sum over k of tail[v, k] x[v, k]."""
    rows, windows = Rows(), written.windows
    after = _finite(written.instance.seconds + windows.tail) / written.unit
    for v in range(written.instance.operators):
        terms = add(written.weighted(v, after[v]), {int(written.start[v]): 1.0, length: -1.0})
        rows.at_most(terms, 0.0)
    return rows


def work_rows(written: PlacementModel, length: int) -> Rows:
    """Operators with head >= a and tail >= b run between a and C_max - b, so no device has more work of theirs.

    With a = b = 0 this is the area row.
    """
    windows, rows = written.windows, Rows()
    head = windows.head.min(axis=1, initial=np.inf) / written.unit
    tail = windows.tail.min(axis=1, initial=np.inf) / written.unit
    seen: set[bytes] = set()
    for a in _thresholds(head):
        for b in _thresholds(tail):
            inside = (head >= a) & (tail >= b)
            key = inside.tobytes()
            if not inside.any() or key in seen:
                continue
            seen.add(key)
            members = np.flatnonzero(inside).tolist()
            begin, end = float(head[inside].min()), float(tail[inside].min())
            for k in range(len(written.instance.devices)):
                rows.at_most(_work(written, members, k) | {length: -1.0}, -(begin + end))
    return rows


def _work(written: PlacementModel, members: Sequence[int], k: int) -> Terms:
    """Seconds that device k works on ``members``, in units."""
    total: Terms = {}
    for v in members:
        if np.isfinite(written.instance.seconds[v, k]):
            total = _into(total, written.runs_on(v, k), float(written.instance.seconds[v, k]) / written.unit)
    return {column: value for column, value in total.items() if value > NEGLIGIBLE}


def port_rows(written: PlacementModel, jobs: Sequence[Job], length: int) -> Rows:
    """What a port carries fits between the first end of a producer and the last start of a reader."""
    rows = Rows()
    ports: dict[int, list[int]] = {}
    for number, job in enumerate(jobs):
        for port in job.uses:
            ports.setdefault(port, []).append(number)
    windows = written.windows
    after = (written.instance.seconds + windows.tail).min(axis=1, initial=np.inf) / written.unit
    for port, members in ports.items():
        begin = min(jobs[number].ready for number in members)
        # over all devices: the row has to hold as well where nothing passes the port
        end = min(float(after[v]) for number in members for v in written.messages[number].readers)
        total: Terms = {}
        for number in members:
            lasts = jobs[number].length
            for column in jobs[number].uses[port]:
                total = _into(total, {column: 1.0}, lasts.get(column, 0.0))
        rows.at_most({c: value for c, value in total.items() if value > NEGLIGIBLE} | {length: -1.0}, -(begin + end))
    return rows


def _into(total: Terms, more: Terms, factor: float) -> Terms:
    for column, coefficient in more.items():
        total[column] = total.get(column, 0.0) + factor * coefficient
    return total


def _thresholds(values: FloatArray) -> list[float]:
    """A few of the values, the smallest among them."""
    distinct = np.unique(values)
    if len(distinct) <= THRESHOLDS:
        return [float(value) for value in distinct]
    chosen = np.linspace(0, len(distinct) - 1, THRESHOLDS).round().astype(int)
    return [float(value) for value in distinct[np.unique(chosen)]]


def _finite(values: FloatArray) -> FloatArray:
    return np.where(np.isfinite(values), values, 0.0)
