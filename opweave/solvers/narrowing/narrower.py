"""Narrower problems: rules that a solver does not know are replaced by simpler ones that imply them.

A side constraint is written for the target ``"narrowed"`` by a function ``(problem, constraint)`` that
yields tuples of constraints. Whoever obeys all constraints of one tuple obeys the rule. There may be solutions that
obey the rule and none of the tuples. The most promising tuples come first.

``MaxDevices`` is obeyed by forbidding all other devices, ``Colocate`` by pinning all of its operators to one device,
``Separate`` by pinning each of its operators to a device of its own.

Source of the ranking of assignments: K. G. Murty, "An algorithm for ranking all the assignments in order of increasing
cost", Operations Research 16(3), 1968, doi:10.1287/opre.16.3.682.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from heapq import heappop, heappush
from itertools import combinations, count, islice
from typing import Any, TypeVar

import numpy as np

from opweave.formulations.expressions import NARROWED, express, expressible, expression
from opweave.formulations.on_cluster import left_to_run_on, tied
from opweave.formulations.order_arcs import ContradictionError
from opweave.problems.arrays import FloatArray, IntArray
from opweave.problems.cluster import Device
from opweave.problems.constraints import (
    Colocate,
    Constraint,
    Forbid,
    MaxDevices,
    MeasuresMemory,
    Pin,
    PlacesOperators,
    Separate,
    means,
)
from opweave.problems.errors import blaming
from opweave.problems.problem import Problem
from opweave.problems.solution import Solution

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
        yield tuple(Forbid.model_construct(op=op, device=device) for op in names for device in others)


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
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    rows, columns = np.nonzero(np.isfinite(cost))
    if len(cost) > cost.shape[1] or len(np.unique(rows)) < len(cost):
        return None
    weights = 1.0 + cost[rows, columns]  # a weight of zero would mean that there is no edge
    try:
        matched = min_weight_full_bipartite_matching(csr_array((weights, (rows, columns)), shape=cost.shape))
    except ValueError:  # no assignment without an infinite cost
        return None
    return np.asarray(matched[1], dtype=np.int64)


Build = TypeVar("Build", bound=Callable[[Any], Solution | None])

MOST_WAYS = 12
"""Most ways of one rule that are tried in one narrower problem."""

MOST_STRAYS = 12
"""How far the choices of a narrower problem may be from the first ways, summed over all rules."""

MOST_BUILT = 200
"""Most choices of ways that are built, where few of them go together."""

HEAD_STARTS = 8
"""Narrower problems that are tried for a head start."""

ORDER: tuple[type[Constraint], ...] = (MaxDevices, Colocate, Separate)
"""Rules that are replaced first, because the others choose among the devices that they leave."""


def unknown_rules(problem: AnyProblem, supports: Iterable[str]) -> tuple[Constraint, ...]:
    """The side constraints that a solver knows only by simpler ones, in the order in which they are replaced."""
    known = [target for target in supports if target != NARROWED]
    rules = [
        rule
        for rule in problem.constraints
        if expression(type(rule), NARROWED) is not None and not expressible(type(rule), known)
    ]
    place = {kind: number for number, kind in enumerate(ORDER)}
    return tuple(
        sorted(rules, key=lambda rule: next((place[base] for base in type(rule).__mro__ if base in place), len(place)))
    )


def without(problem: AnyProblem, rules: Sequence[Constraint]) -> AnyProblem:
    """The problem without these side constraints."""
    return problem.under(each for each in problem.constraints if not any(each is rule for rule in rules))


def narrower(problem: AnyProblem, rules: Sequence[Constraint], near: Solution | None = None) -> Iterator[AnyProblem]:
    """Problems in which simpler constraints imply ``rules``, the most promising first.

    Parameters
    ----------
    problem
        A problem with these rules among its constraints.
    rules
        See :func:`unknown_rules`.
    near
        A solution of the problem without the rules. Narrower problems that leave more of its operators where they are
        come first.

    Yields
    ------
    Problem
        Every solution is one of ``problem``, with the same objective. Their bounds and contradictions say nothing about
        ``problem``.
    """
    tree = _Tree(rules, near.devices_by_operator() if isinstance(near, PlacesOperators) else {})
    for strays in range(MOST_STRAYS):
        yield from tree.leaves(without(problem, rules), (), strays)


def or_narrower(supports: Sequence[str]) -> Callable[[Build], Build]:
    """Let a builder of head starts obey more constraints than it knows.

    Parameters
    ----------
    supports
        The targets that the builder understands.

    Returns
    -------
    Callable
        A decorator. Where the builder has no solution because of rules that it does not know, the best one of some
        narrower problems is taken.
    """

    def decorate(build: Build) -> Build:
        @wraps(build)
        def widened(problem: AnyProblem) -> Solution | None:
            found = build(problem)
            rules = unknown_rules(problem, supports)
            if found is not None or not rules:
                return found
            near = build(without(problem, rules))
            others = (build(each) for each in islice(narrower(problem, rules, near), HEAD_STARTS))
            judged = [(problem.evaluate(each), each) for each in others if each is not None]
            valued = [(seen.objective, number) for number, (seen, _) in enumerate(judged) if seen.objective is not None]
            return judged[min(valued)[1]][1] if valued else None

        return widened  # type: ignore[return-value]  # it takes and returns what the builder does

    return decorate


class _Tree:
    """Choices of ways, one rule after the other; what was built is kept."""

    def __init__(self, rules: Sequence[Constraint], where: Mapping[str, frozenset[str]]) -> None:
        self._rules, self._where = rules, where
        self._built: dict[tuple[int, ...], list[AnyProblem]] = {}

    def leaves(self, problem: AnyProblem, path: tuple[int, ...], strays: int) -> Iterator[AnyProblem]:
        """Problems below one in which the numbers of the remaining ways add up to ``strays``."""
        if len(path) == len(self._rules):
            if strays == 0:
                yield problem
            return
        if path not in self._built:
            if len(self._built) >= MOST_BUILT:
                return
            self._built[path] = _choices(problem, self._rules[len(path)], self._where)
        for number, child in enumerate(self._built[path][: strays + 1]):
            yield from self.leaves(child, (*path, number), strays - number)


def _choices(problem: AnyProblem, rule: Constraint, where: Mapping[str, frozenset[str]]) -> list[AnyProblem]:
    """The problem under each of the first ways to obey a rule; none if its constraints contradict each other."""
    write = expression(type(rule), NARROWED)
    assert write is not None
    try:
        with blaming(f"the expression of {type(rule).__name__} for {NARROWED!r}"):
            ways = list(islice(write(problem, rule), MOST_WAYS))
    except ContradictionError:
        return []
    ways.sort(key=lambda way: -_kept(way, where))
    return [problem.under((*problem.constraints, *way)) for way in ways]


def _kept(way: Way, where: Mapping[str, frozenset[str]]) -> int:
    """How many of the simpler constraints hold already, if operators run on the devices ``where``."""
    kept = 0
    for each in way:
        if means(each, Pin):
            kept += where.get(each.op) == frozenset({each.device})
        elif means(each, Forbid):
            kept += each.device not in where.get(each.op, ())
    return kept
