"""Things that occupy devices or ports one at a time: the rows that keep them apart, and rows on work in windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from opweave.formulations.modeling.linear import Linear, Row, total
from opweave.formulations.modeling.model import Key
from opweave.formulations.modeling.rows import Rows, check_rows
from opweave.formulations.order_arcs import check_closure, transposed
from opweave.formulations.placement.model import NEGLIGIBLE, PlacementModel
from opweave.formulations.placement.windows import FIT
from opweave.problems.arrays import BoolArray, FloatArray, IntArray
from opweave.problems.limits import Limits


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """An operator or a message; times are in units of the model.

    Attributes
    ----------
    start
        Column of the job's start.
    length
        The job's duration.
    uses
        For every device or port (numbered) that it may occupy: 1 if it does.
    ready, due
        Earliest start; latest end if the job happens.
    shortest
        Least duration if the job happens.
    latest
        Largest value of start + length, also if the job does not happen.
    """

    start: int
    length: Linear
    uses: dict[int, Linear]
    ready: float
    due: float
    shortest: float
    latest: float


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Pairs of jobs that might meet, and the columns that decide which comes first.

    Attributes
    ----------
    first, second
        The jobs of every pair.
    forward, backward
        Column of "first before second" and "second before first"; -1 if the windows exclude it.
    """

    first: IntArray
    second: IntArray
    forward: IntArray
    backward: IntArray


def meeting(
    uses: BoolArray, windows: tuple[FloatArray, FloatArray], implied: BoolArray, name: str, limits: Limits
) -> tuple[IntArray, IntArray]:
    """Pairs of jobs that can occupy the same thing at the same time, with neither implied to be before the other.

    Parameters
    ----------
    uses
        What every job may use. Shape (jobs, things).
    windows
        Earliest start and latest end of every job.
    implied
        ``implied[b, a]`` says that a always ends before b starts.
    name, limits
        Name of the formulation, and limits of the model's size.

    Raises
    ------
    LimitExceededError
        If the pairs need more rows than a model may have.
    """
    check_closure(len(uses), name, limits)
    counts, (ready, due) = uses.astype(np.float32), windows
    shared = counts @ counts.T
    before = implied | (due[None, :] <= ready[:, None])  # before[b, a]: a ends before b starts
    open_pairs = np.triu((shared > 0) & ~(before | transposed(before)), 1)
    pairs = int(np.count_nonzero(open_pairs))
    check_rows(2 * pairs + int(shared.sum(where=open_pairs, dtype=np.float64)), name, limits)
    first, second = np.nonzero(open_pairs)
    return first.astype(np.int64), second.astype(np.int64)


def users(jobs: Sequence[Job]) -> BoolArray:
    """What every job may use. Shape (jobs, things)."""
    width = 1 + max((resource for job in jobs for resource in job.uses), default=0)
    uses = np.zeros((len(jobs), width), dtype=bool)
    for number, job in enumerate(jobs):
        uses[number, list(job.uses)] = True
    return uses


def order_columns(
    model: PlacementModel,
    name: str,
    keys: Sequence[tuple[str, ...]],
    jobs: Sequence[Job],
    pairs: tuple[IntArray, IntArray],
) -> Pairs:
    """One 0/1 column for each direction of each pair that the windows allow; ``keys`` are the jobs' names."""
    first, second = pairs

    def fits(a: int, b: int) -> bool:
        return jobs[a].ready + jobs[a].shortest + jobs[b].shortest <= jobs[b].due * (1 + FIT)

    each = list(zip(first.tolist(), second.tolist(), strict=True))
    room = np.asarray([(fits(a, b), fits(b, a)) for a, b in each]).reshape(len(each), 2).astype(bool)
    named: list[Key] = [(*keys[a], *keys[b]) for pair in each for a, b in (pair, pair[::-1])]
    columns = np.full(room.shape, -1, dtype=np.int64)
    columns[room] = model.binaries(
        name, [key for key, there in zip(named, room.ravel().tolist(), strict=True) if there]
    )
    return Pairs(first, second, columns[:, 0], columns[:, 1])


def apart_rows(rows: Rows, jobs: Sequence[Job], pairs: Pairs) -> None:
    """Keep the jobs of every pair apart.

    Without big M: one of the two directions is chosen if both jobs occupy the same thing. With a big M that depends
    only on the two windows: the later job starts after the earlier one has ended.
    """
    for a, b, forward, backward in zip(
        pairs.first.tolist(), pairs.second.tolist(), pairs.forward.tolist(), pairs.backward.tolist(), strict=True
    ):
        chosen = Linear.over(column for column in (forward, backward) if column >= 0)
        for resource, use in jobs[a].uses.items():
            if resource in jobs[b].uses:
                rows.add(use + jobs[b].uses[resource] - chosen <= 1)
        if len(chosen.terms) == 2:
            rows.add(chosen <= 1)
        if forward >= 0:
            _after(rows, jobs[a], jobs[b], forward)
        if backward >= 0:
            _after(rows, jobs[b], jobs[a], backward)


def _after(rows: Rows, early: Job, late: Job, chosen: int) -> None:
    """If chosen: start[late] >= start[early] + length[early]."""
    big = early.latest - late.ready
    if big > NEGLIGIBLE:
        rows.add(total((Linear(0, {early.start: 1, late.start: -1, chosen: big}), early.length)) <= big)


def set_orders(values: FloatArray, pairs: Pairs, occupied: Sequence[set[int]], middle: Sequence[float]) -> None:
    """Set the direction that a schedule takes: 0/1 for both columns of every pair; 0 if the two share nothing."""
    columns = (pairs.first.tolist(), pairs.second.tolist(), pairs.forward.tolist(), pairs.backward.tolist())
    for a, b, forward, backward in zip(*columns, strict=True):
        shared = bool(occupied[a] & occupied[b])
        if forward >= 0:
            values[forward] = shared and middle[a] <= middle[b]
        if backward >= 0:
            values[backward] = shared and middle[a] > middle[b]


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
