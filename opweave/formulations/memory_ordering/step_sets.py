"""The sets and numbers of the paper's program for memory ordering, and what pruning settles in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from opweave.formulations.formulation import BuildContext
from opweave.formulations.memory_ordering.instance import OrderingInstance
from opweave.formulations.modeling.rows import check_rows
from opweave.formulations.precedence import check_closure
from opweave.problems.arrays import IntArray

if TYPE_CHECKING:
    from pyomo.environ import ConcreteModel

ABSENT, FREE, PRESENT = 0, -1, 1
"""What is settled about T[s, j]: its value, or FREE."""


def add_sets(
    m: ConcreteModel,
    instance: OrderingInstance,
    windows: tuple[IntArray, IntArray],
    context: BuildContext,
    formulation: str,
) -> None:
    """Add ``OPS``, ``STEPS``, ``RUNS`` (i, j), ``HELD`` (s, j), ``SAVINGS`` (i, b, j), and the sets of rows.

    The function also adds ``instance``, ``producer[s]``, ``size[s]``, ``extra[i]``, ``most[i, b]`` and
    ``overwritten[i, b]`` (most results of b bytes that i writes over inputs, and those inputs), ``open[j]`` (storages
    with a T in step j), ``known[j]`` (bytes of the others that are live), and ``held(s, j)``, which is T[s, j], or 0 or
    1 where that is settled.

    Raises
    ------
    LimitExceededError
        If the program would have more rows than a model may have.
    """
    from pyomo.environ import Set

    names, steps = instance.names, instance.operators
    check_closure(steps, formulation, context.limits)
    first, last = windows
    held = residence(instance, first, last)
    length = last - first + 1
    touched = length[instance.reads.heads()].sum() + length[instance.writes.heads()].sum()
    free = np.argwhere(held == FREE)
    check_rows(int(3 * steps + touched + len(instance.before.items) + len(free)), formulation, context.limits)
    m.instance = instance
    m.OPS, m.STEPS = Set(initialize=names), Set(initialize=range(1, steps + 1))
    span = [range(low, high + 1) for low, high in zip(first.tolist(), last.tolist(), strict=True)]
    m.RUNS = Set(initialize=[(i, j) for v, i in enumerate(names) for j in span[v]], dimen=2)
    m.HELD = Set(initialize=[(s, j) for s, j in free.tolist()], dimen=2)
    settled = held.tolist()
    m.held = lambda s, j: m.T[s, j] if settled[s][j] == FREE else settled[s][j]
    m.producer = {s: names[p] if p >= 0 else None for s, p in enumerate(instance.producer.tolist())}
    m.size = instance.size.tolist()
    m.open = [np.flatnonzero((column == FREE) & (instance.size > 0)).tolist() for column in held.T]
    m.known = (instance.size[:, None] * (held == PRESENT)).sum(axis=0).tolist()
    m.extra = {i: extra for i, extra in zip(names, instance.workspace.tolist(), strict=True) if extra}
    groups = [(v, *group) for v in range(steps) for group in instance.overwriting(v)]
    m.most = {(names[v], b): min(slots, len(over)) for v, b, slots, over in groups}
    m.overwritten = {(names[v], b): over for v, b, _, over in groups}
    m.SAVINGS = Set(initialize=[(names[v], b, j) for v, b, _, _ in groups for j in span[v]], dimen=3)
    pairs = [(v, s) for v in range(steps) for s in (*instance.reads[v].tolist(), *instance.writes[v].tolist())]
    m.OPERANDS = Set(initialize=[(names[v], s, j) for v, s in pairs for j in span[v] if settled[s][j] == FREE], dimen=3)
    grows = np.argwhere((held[:, 1:-1] != ABSENT) & (held[:, :-2] != PRESENT))
    m.PRODUCED = Set(initialize=[(s, j + 1) for s, j in grows.tolist()], dimen=2)
    makers = [set(instance.producer[instance.reads[v]].tolist()) for v in range(steps)]
    waits = [(names[u], names[v]) for v in range(steps) for u in instance.before[v].tolist() if u not in makers[v]]
    m.ARCS = Set(initialize=waits, dimen=2)


def residence(instance: OrderingInstance, first: IntArray, last: IntArray) -> IntArray:
    """(5), (9)-(10) What is settled about every T[s, j]. Shape (storages, n + 2); step 0 is before the first operator.

    A storage is absent before the producer's first step and after the last step of any reader; the paper's (10) takes
    the earliest reader instead of the latest, which would cut off valid orders. It is present, which the paper leaves
    out, from the producer's last step to the last reader's first. A graph input is present from step 0, and a kept
    storage in step n.
    """
    steps = instance.operators
    held = np.full((instance.storages, steps + 2), FREE, dtype=np.int64)
    step = np.arange(steps + 2)
    for s in range(instance.storages):
        p, readers = int(instance.producer[s]), instance.readers[s]
        begin, sure = (0, 0) if p < 0 else (int(first[p]), int(last[p]))
        if instance.kept[s]:
            end = wanted = steps
        elif readers.size:
            end, wanted = int(last[readers].max()), int(first[readers].max())
        else:
            end, wanted = (-1, -1) if p < 0 else (int(last[p]), sure)
        held[s, (step < begin) | (step > end)] = ABSENT
        if readers.size or instance.kept[s]:
            held[s, (step >= sure) & (step <= wanted)] = PRESENT
    return held


def last_steps(instance: OrderingInstance, step: IntArray) -> IntArray:
    """Last step in which every storage is live, given every operator's; -1 for inputs without a reader."""
    ends = np.full(instance.storages, -1, dtype=np.int64)
    made = instance.producer >= 0
    ends[made] = step[instance.producer[made]]
    np.maximum.at(ends, instance.readers.heads(), step[instance.readers.items])
    ends[instance.kept] = instance.operators
    return ends
