"""Lower bounds of placements with blocking calls: how fast a path can be walked.

Take a path of the graph. A call is contiguous, so its operators on the path are a stretch of it, and with two of them
it runs everything between them. Whatever leaves the stretch before or behind it must be carried: the call cannot run an
operator before the stretch, because then it would also run the one in between. So a stretch from i to j takes at
least the computing of everything between i and j, the transfers of tensors made before i and read between them, and the
transfers of tensors made between them and read behind j. It needs the memory of everything between. Operators
of the path that run on the host take their time there. Calls and host operators of the path follow each other, so
a shortest walk over stretches is a lower bound of the makespan.

A long path is cut into pieces, whose bounds add up.

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
from opweave.solvers.placement.blocking.stretches import Stretches, cheapest, numbers
from opweave.solvers.rounding import Best
from opweave.solvers.run import Run

LONGEST = 600
"""Most operators of a path, or of a piece of it, that are looked at together."""

SOURCE = "paths"


def prove(instance: CallInstance, run: Run) -> None:
    """Report the best bound over two heavy paths, and what the devices' work requires."""
    best = Best(run)
    if not instance.operators:
        best.report(0.0, SOURCE)
        return
    for weights in (_compute(instance), carrying(instance)):
        path, total = heaviest(instance, weights), 0.0
        for piece in (path[i : i + LONGEST] for i in range(0, len(path), LONGEST)):
            total += float(_compute(instance)[piece].sum()) if run.should_stop() else walk(instance, piece)
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


def carrying(instance: CallInstance) -> FloatArray:
    """Computing and giving away what each operator makes."""
    give = instance.give.min(axis=1, initial=np.inf)
    weights = _compute(instance)
    np.add.at(weights, instance.producer, np.where(np.isfinite(give), give, 0.0))
    return weights


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


def walk(instance: CallInstance, path: list[int]) -> float:
    """Least seconds from the begin of a path's first operator to the end of its last; each is an input of the next."""
    whole, length = instance.whole, len(path)
    order = topological_order(whole.after).tolist()
    below = _spread(path, order, whole.before.lists(), -1, max)
    above = _spread(path, order[::-1], whole.after.lists(), length, min)
    stretches = Stretches(instance, length, below, above)
    tables = [stretches.seconds(group[0]) for group in instance.classes]
    most = numbers([len(group) * instance.most for group in instance.classes], length)
    return cheapest(tables, most, instance.host_seconds[path])[0]


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
