"""Lower bounds of placements with blocking calls: how fast a path can be walked.

Take a path of the graph. A call is contiguous, so its operators on the path are a stretch of it, and with two of them
it runs everything between them. Whatever leaves the stretch before or behind it must be carried: the call cannot run an
operator before the stretch, because then it would also run the one in between. So a stretch from i to j takes at
least the computing of everything between i and j, the transfers of tensors made before i and read between them, and the
transfers of tensors made between them and read behind j. It needs the memory of everything between. Operators
of the path that run on the host take their time there. Calls and host operators of the path follow each other, so
a shortest walk over stretches is a lower bound of the makespan. Where every accelerator has one call, ``Colocate``
brings all of its operators into a stretch that has one of them.

A long path is cut into pieces, whose bounds add up; there ``Colocate`` is left out.

Where the host has a limited number of cores, no accelerator and no core is at work for longer than the makespan; a
linear program shares operators out among them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np

from opweave.formulations.placement.calls import CallInstance
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.graph_arrays import topological_order
from opweave.solvers.linear import LinearProgram, SparseRows, column_alone, proved_minimum
from opweave.solvers.placement.blocking.stretches import Stretch, Stretches, cheapest, own_bytes
from opweave.solvers.rounding import Best
from opweave.solvers.run import Run

LONGEST = 600
"""Most operators of a path, or of a piece of it, that are looked at together."""

MOST_STATES = 256
"""Most combinations of numbers of calls, by class of accelerators; beyond that, their number does not count."""

MOST_EXACT = 60_000
"""Most positions in all rounds in which the stretches of the best walk get an exact choice of what is brought in."""

SOURCE = "paths"


def prove(instance: CallInstance, run: Run) -> None:
    """Report the best bound over some heavy paths."""
    best, seen = Best(run), set[tuple[int, ...]]()
    if not instance.operators:
        best.report(0.0, SOURCE)
        return
    for weigh in (_compute, _bytes, carrying, _length):
        path = heaviest(instance, weigh(instance))
        if tuple(path) in seen or (seen and run.should_stop()):
            continue
        seen.add(tuple(path))
        total = 0.0
        pieces = [path[i : i + LONGEST] for i in range(0, len(path), LONGEST)]
        for piece in pieces:
            if run.should_stop():
                total += float(_compute(instance)[piece].sum())
            else:
                total += walk(instance, piece, run, ties=len(pieces) == 1 and instance.most == 1)
        if math.isfinite(total):
            best.report(total, SOURCE)
    if instance.cores < instance.operators and not run.should_stop():
        best.report(shared_out(instance, run.remaining()), "work of all devices")


def shared_out(instance: CallInstance, seconds: float | None) -> float:
    """Seconds in which accelerators and cores can do all work if operators may be divided; 0 if the time is short."""
    spent = np.column_stack([instance.seconds, instance.host_seconds / instance.cores])
    able = np.isfinite(spent)
    spent = np.where(able, spent, 0.0)
    unit = float(spent.max(axis=1).sum())
    if not unit:
        return 0.0
    count, devices = spent.shape
    column = np.arange(count * devices).reshape(count, devices)
    most, equal = SparseRows(), SparseRows()
    equal.put(equal.open(np.ones(count))[:, None], column, 1.0)
    rows = most.open(np.zeros(devices))
    most.put(rows, column, spent / unit)
    most.put(rows, np.full(devices, count * devices), -1.0)
    upper = np.append(able.ravel().astype(np.float64), 1.0)
    least = proved_minimum(LinearProgram.of(column_alone(count * devices, len(upper)), upper, most, equal), seconds)
    return 0.0 if least is None else max(0.0, least * unit)


def _compute(instance: CallInstance) -> FloatArray:
    return np.asarray(instance.whole.seconds.min(axis=1), dtype=np.float64)


def _bytes(instance: CallInstance) -> FloatArray:
    return own_bytes(instance) + 1.0


def carrying(instance: CallInstance) -> FloatArray:
    """Computing and giving away what each operator makes."""
    give = instance.give.min(axis=1, initial=np.inf)
    weights = _compute(instance)
    np.add.at(weights, instance.producer, np.where(np.isfinite(give), give, 0.0))
    return weights


def _length(instance: CallInstance) -> FloatArray:
    return np.ones(instance.operators)


def heaviest(instance: CallInstance, weights: FloatArray) -> list[int]:
    """The path with the largest sum of weights."""
    before = instance.whole.before
    best, came = weights.copy(), np.full(len(weights), -1, dtype=np.int64)
    for v in topological_order(instance.whole.after).tolist():
        above = before[v]
        if len(above):
            came[v] = above[int(best[above].argmax())]
            best[v] += best[came[v]]
    path, v = [], int(best.argmax())
    while v >= 0:
        path.append(v)
        v = int(came[v])
    return path[::-1]


def walk(instance: CallInstance, path: list[int], run: Run, *, ties: bool) -> float:
    """Least seconds from the begin of a path's first operator to the end of its last.

    Parameters
    ----------
    path
        Operators, each an input of the next.
    ties
        Whether operators of a ``Colocate`` are in one call.
    """
    whole, length = instance.whole, len(path)
    order = topological_order(whole.after).tolist()
    below = _spread(path, order, whole.before.lists(), -1, max)
    above = _spread(path, order[::-1], whole.after.lists(), length, min)
    stretches = Stretches(instance, length, below, above, whole.cluster if ties else None)
    bare = [stretches.seconds(group[0]) for group in instance.classes]
    tables = [table + stretches.beside(group[0]) for group, table in zip(instance.classes, bare, strict=True)]
    calls = [len(group) * instance.most for group in instance.classes]
    most = [None if number >= length else number for number in calls]
    host, exact = instance.host_seconds[path], set[Stretch]()
    if math.prod(number + 1 for number in most if number is not None) > MOST_STATES:
        most = [None] * len(most)
    for _ in range(max(1, MOST_EXACT // length)):
        value, found = cheapest(tables, most, host)
        new = set(found) - exact
        if not new or run.should_stop():
            break
        for c, i, end in new:
            paid = bare[c][i, end - 1] + stretches.beside_exactly(instance.classes[c][0], i, end - 1)
            tables[c][i, end - 1] = max(tables[c][i, end - 1], paid)
        exact |= new
    return value


def _spread(
    path: list[int], order: list[int], near: list[list[int]], none: int, better: Callable[[Iterable[int]], int]
) -> IntArray:
    """Pass positions on the path along the edges. Shape (operators,)."""
    known = [none] * len(near)
    for position, v in enumerate(path):
        known[v] = position
    on = set(path)
    for v in order:
        if v not in on and near[v]:
            known[v] = better([known[u] for u in near[v]])
    return np.array(known, dtype=np.int64)
