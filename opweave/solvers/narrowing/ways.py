"""Ways to obey a rule by simpler ones: side constraints written for the target ``"narrowed"``.

The function of a rule yields tuples of constraints. Whoever obeys all constraints of one tuple obeys the rule. There
may be solutions that obey the rule and none of the tuples. The most promising tuples come first.

``MaxDevices`` is obeyed by forbidding all other devices, ``Colocate`` by pinning all of its operators to one device,
``Separate`` by pinning each of its operators to a device of its own.

Source of the ranking of assignments: K. G. Murty, "An algorithm for ranking all the assignments in order of increasing
cost", Operations Research 16(3), 1968, doi:10.1287/opre.16.3.682.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import combinations, count, islice
from typing import Any

import numpy as np

from opweave.formulations.expressions import express
from opweave.formulations.on_cluster import left_to_run_on, tied
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.cluster import Device
from opweave.problems.constraints import Colocate, Constraint, Forbid, MaxDevices, MeasuresMemory, Pin, Separate
from opweave.problems.problem import Problem

NARROWED = "narrowed"
"""The target of expressions that put a constraint as simpler ones."""

AnyProblem = Problem[Any, Any]
Way = tuple[Constraint, ...]
"""Constraints that together imply a rule."""

MOST_SETS = 500
"""Most sets of devices among which the best are chosen."""

LEAST_SECONDS = 1e-30
"""Operators that take no time count as taking this long, so that speeds stay finite."""


def seconds_left(problem: AnyProblem) -> FloatArray:
    """Seconds of every operator for one input on every device; inf where it cannot or may not run.

    Returns
    -------
    array
        Shape (operators, devices). A problem without costs takes one second for each operator.

    Raises
    ------
    ContradictionError
        If the constraints leave an operator no device.
    """
    names, devices = _names(problem)
    costs = getattr(problem, "costs", None)
    seconds = np.ones((len(names), len(devices)))
    if costs is not None:
        most = getattr(problem, "batch", 1)
        sizes = [size for size in costs.batches if size <= most]
        known = np.stack([costs.array(names, devices, size) / size for size in sizes or costs.batches[:1]])
        seconds = np.where(np.isfinite(known), known, np.inf).min(axis=0)
    group = tied(problem.graph, problem.constraints)
    allowed = left_to_run_on(problem.graph, devices, np.isfinite(seconds), group, problem.constraints)
    return np.where(allowed, seconds, np.inf)


def devices_of(problem: AnyProblem) -> tuple[Device, ...]:
    """The devices of a problem with rules about devices, which check that it has some."""
    assert isinstance(problem, MeasuresMemory)
    return problem.cluster.devices


def _names(problem: AnyProblem) -> tuple[list[str], list[str]]:
    return [op.id for op in problem.graph.operators], [device.name for device in devices_of(problem)]


@express(MaxDevices, NARROWED)
def device_sets(problem: AnyProblem, constraint: MaxDevices) -> Iterator[Way]:
    """Forbid all devices outside a set, the fastest sets first; second comes the set with the most memory."""
    names, devices = _names(problem)
    if constraint.count >= len(devices):
        yield ()
        return
    seconds = seconds_left(problem)
    choices = np.isfinite(seconds)
    needed = choices[choices.sum(axis=1) == 1].any(axis=0)
    speed = 1.0 / np.maximum(seconds, LEAST_SECONDS)
    ranked = np.lexsort((-speed.sum(axis=0), ~needed)).tolist()
    memory = [device.memory_bytes for device in devices_of(problem)]
    room = np.asarray([np.inf if each is None else float(each) for each in memory])
    largest = tuple(np.lexsort((-speed.sum(axis=0), -room, ~needed))[: constraint.count].tolist())
    sets = dict.fromkeys([largest, *islice(combinations(ranked, constraint.count), MOST_SETS)])
    usable = [each for each in sets if choices[:, list(each)].any(axis=1).all()]
    usable.sort(key=lambda each: float((1.0 / speed[:, list(each)].sum(axis=1)).sum()))
    if largest in usable[2:]:
        usable.remove(largest)
        usable.insert(1, largest)
    for chosen in usable:
        others = [name for k, name in enumerate(devices) if k not in chosen]
        yield tuple(Forbid(op=op, device=device) for op in names for device in others)


@express(Colocate, NARROWED)
def common_devices(problem: AnyProblem, constraint: Colocate) -> Iterator[Way]:
    """Pin all operators to one device, that with the least total time first."""
    devices = _names(problem)[1]
    rows = [problem.graph.operator_index[op] for op in constraint.ops]
    total = seconds_left(problem)[rows].sum(axis=0)
    for k in np.argsort(total, kind="stable")[: np.isfinite(total).sum()].tolist():
        yield tuple(Pin(op=op, device=devices[k]) for op in constraint.ops)


@express(Separate, NARROWED)
def devices_apart(problem: AnyProblem, constraint: Separate) -> Iterator[Way]:
    """Pin every operator to a device of its own, by increasing sum of times."""
    devices = _names(problem)[1]
    rows = [problem.graph.operator_index[op] for op in constraint.ops]
    for chosen in ranked_assignments(seconds_left(problem)[rows]):
        yield tuple(Pin(op=op, device=devices[k]) for op, k in zip(constraint.ops, chosen.tolist(), strict=True))


def ranked_assignments(cost: FloatArray) -> Iterator[IntArray]:
    """All assignments of rows to different columns by increasing total cost (Murty's algorithm).

    Parameters
    ----------
    cost
        Shape (rows, columns); inf where a row may not take a column.

    Examples
    --------
    >>> [chosen.tolist() for chosen in ranked_assignments(np.asarray([[1.0, 2.0], [1.0, 5.0]]))]
    [[1, 0], [0, 1]]
    """
    numbers = count()
    heap: list[tuple[float, int, FloatArray, IntArray]] = []

    def add(part: FloatArray) -> None:
        chosen = _cheapest(part)
        if chosen is not None:
            value = float(part[np.arange(len(part)), chosen].sum())
            heappush(heap, (value, next(numbers), part, chosen))

    add(cost)
    while heap:
        _, _, part, chosen = heappop(heap)
        yield chosen
        fixed = part.copy()
        for row, column in enumerate(chosen.tolist()):  # the rows before keep their columns, and this one must not
            other = fixed.copy()
            other[row, column] = np.inf
            add(other)
            keeps = fixed[row, column]
            fixed[row], fixed[row, column] = np.inf, keeps


def _cheapest(cost: FloatArray) -> IntArray | None:
    """The columns of the cheapest assignment; None without one."""
    from scipy.optimize import linear_sum_assignment  # importing takes a quarter of a second, and few problems need it

    if len(cost) > cost.shape[1]:
        return None
    try:
        return np.asarray(linear_sum_assignment(cost)[1], dtype=np.int64)
    except ValueError:  # no assignment without an infinite cost
        return None
