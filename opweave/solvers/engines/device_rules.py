"""Rules about devices, without any expression: what they read, and which choices of devices they refuse.

While a rule judges, it is noted what it reads. If it reads nothing but devices, it can be asked about any choice of
devices without a plan. A rule about few operators, or a small problem, has few choices: then all of them are tried, and
the rule is written as rows at once. A row limits the number of operators on a device, or forbids a *core*: devices of
some operators that the rule refuses whatever the others have.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, product
from typing import Any, TypeVar

import numpy as np

from opweave.problems.arrays import BoolArray, IntArray
from opweave.problems.constraints import Constraint, Forbid, Pin, PlacesOperators, objections
from opweave.problems.errors import Interruption
from opweave.problems.problem import Problem
from opweave.problems.solution import Solution

ValueT = TypeVar("ValueT")

Devices = Mapping[str, frozenset[str]]
"""The devices of some operators."""

Choices = BoolArray
"""One entry for every choice of devices, with an axis for each operator and a place on it for each set of devices."""

WHOLE = ("placement", "pipeline")
"""Problems in which every operator has one device."""

MOST_CHOICES = 100_000
"""Most choices of devices that a rule is asked about."""

MOST_CORES = 5_000
"""Most rows by which a rule is written; what they leave open is refused plan by plan."""

MOST_STEPS = 5_000
"""Most steps of the walk to a choice that the rules allow."""

ASKED = 256
"""Choices between two looks at the time."""


@dataclass(frozen=True, slots=True)
class Count:
    """From ``least`` to ``most`` of the operators have a part on the device."""

    ops: tuple[str, ...]
    device: str
    least: int
    most: int


class _ReadsMoreError(Interruption):
    """A rule reads something that is not about devices, or devices of operators that are not known."""


class _Noting(Mapping[str, ValueT]):
    """A mapping from operators that notes which of them are read."""

    def __init__(self, known: Mapping[str, ValueT], read: set[str], all_of: frozenset[str]) -> None:
        self._known, self._read, self._all = known, read, all_of

    def __getitem__(self, op: str) -> ValueT:
        if op in self._all:
            self._read.add(op)
            if op not in self._known:
                raise _ReadsMoreError
        return self._known[op]

    def __iter__(self) -> Iterator[str]:
        self._read.update(self._all)
        if len(self._known) < len(self._all):
            raise _ReadsMoreError
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._all)


class _Devices:
    """A stand-in for a solution of which only the devices are known; it notes of which operators they are read."""

    def __init__(self, like: Solution, where: Devices, read: set[str]) -> None:
        assert isinstance(like, PlacesOperators)
        object.__setattr__(self, "_known", (like, where, read, frozenset(like.devices_by_operator())))

    def __getattribute__(self, name: str) -> Any:
        like, where, read, all_of = object.__getattribute__(self, "_known")
        if name == "__class__":
            return type(like)
        if name == "devices_by_operator":
            return lambda: _Noting(where, read, all_of)
        if name == "device" and _says_devices(like):
            return _Noting({op: next(iter(devices)) for op, devices in where.items()}, read, all_of)
        raise _ReadsMoreError

    def __eq__(self, _other: object) -> bool:
        raise _ReadsMoreError

    def __hash__(self) -> int:
        raise _ReadsMoreError

    def __repr__(self) -> str:
        raise _ReadsMoreError


def _says_devices(solution: Any) -> bool:
    """Whether the attribute ``device`` of a solution is the one device of every operator."""
    named, where = getattr(solution, "device", None), solution.devices_by_operator()
    return isinstance(named, Mapping) and {op: frozenset((named[op],)) for op in named} == dict(where)


def _judged(
    rule: Constraint, problem: Problem[Any, Any], like: Solution, where: Devices, most: int | None = None
) -> tuple[int, set[str]]:
    """How often, but at ``most``, a rule objects to devices, and the operators whose devices it reads for that.

    Raises
    ------
    _ReadsMoreError
        If it reads anything else; ``args`` holds the operators read until then.
    """
    read = set[str]()
    try:
        return sum(1 for _ in islice(objections(rule, problem, _Devices(like, where, read)), most)), read
    except Exception as error:  # a rule of its own kind, which needs the solution itself
        raise _ReadsMoreError(read) from error


def devices_read(rule: Constraint, problem: Problem[Any, Any], solution: Solution) -> frozenset[str] | None:
    """The operators whose devices a rule reads when it refuses a solution; None if it reads anything else."""
    if not isinstance(solution, PlacesOperators):
        return None
    try:
        objections, read = _judged(rule, problem, solution, solution.devices_by_operator())
    except _ReadsMoreError:
        return None
    return frozenset(read) if objections else None


def rows_of(
    rule: Constraint,
    problem: Problem[Any, Any],
    like: Solution,
    ops: frozenset[str],
    keep_going: Callable[[], bool] = lambda: True,
) -> list[Count | Devices]:
    """A rule as counts and cores, which exclude nothing but what it refuses; empty if there are too many choices.

    Parameters
    ----------
    like
        Any solution of the problem.
    ops
        Operators whose devices the rule reads; others are added as it reads them.
    """
    options = _options(problem, 1 if problem.kind in WHOLE else sys.maxsize)
    while len(options) ** len(ops) <= MOST_CHOICES:
        names = sorted(ops)
        refused = np.zeros((len(options),) * len(names), dtype=bool)
        try:
            for number, choice in enumerate(product(range(len(options)), repeat=len(names))):
                if number % ASKED == 0 and not keep_going():
                    return []
                where = {op: options[k] for op, k in zip(names, choice, strict=True)}
                objections, _ = _judged(rule, problem, like, where, most=1)
                refused[choice] = objections > 0
        except _ReadsMoreError as error:
            more = frozenset(error.args[0]) - ops
            if not more:
                return []
            ops |= more
            continue
        counts = list(_counts(refused, names, options))
        left = refused & np.logical_and.reduce([_within(each, refused.shape, options) for each in counts] or [refused])
        cores = _cover(refused, left, keep_going)
        return [*counts, *({names[axis]: options[k] for axis, k in core.items()} for core in cores)]
    return []


def _options(problem: Any, most: int) -> list[frozenset[str]]:
    """The sets of devices up to a given size."""
    names = [device.name for device in problem.cluster.devices]
    return [frozenset(some) for size in range(1, min(most, len(names)) + 1) for some in combinations(names, size)]


def _counts(refused: Choices, names: list[str], options: list[frozenset[str]]) -> Iterator[Count]:
    """The numbers of operators on each device that occur among the choices that are not refused."""
    for device in sorted(frozenset().union(*options)) if not refused.all() else ():
        found = _number(device, refused.shape, options)[~refused]
        least, most = int(found.min()), int(found.max())
        if least > 0 or most < len(names):
            yield Count(tuple(names), device, least, most)


def _number(device: str, shape: tuple[int, ...], options: list[frozenset[str]]) -> IntArray:
    """How many operators are on a device, for every choice."""
    there = np.asarray([device in each for each in options], dtype=np.int64)
    number = np.zeros(shape, dtype=np.int64)
    for axis in range(len(shape)):
        number += there.reshape([-1 if other == axis else 1 for other in range(len(shape))])
    return number


def _within(count: Count, shape: tuple[int, ...], options: list[frozenset[str]]) -> Choices:
    """Whether every choice obeys a count."""
    number = _number(count.device, shape, options)
    return (number >= count.least) & (number <= count.most)


def _cover(refused: Choices, left: Choices, keep_going: Callable[[], bool]) -> Iterator[dict[int, int]]:
    """Cores that forbid what is ``left`` to forbid, and nothing that is not refused, unless there are too many."""
    refused, left = np.asarray(refused), np.array(left)  # operations on arrays without axes return scalars
    for _ in range(MOST_CORES):
        if not left.any() or not keep_going():
            return
        choice = np.unravel_index(int(left.argmax()), left.shape) if left.ndim else ()
        core: list[int | slice] = [int(k) for k in choice]
        for axis in range(left.ndim):
            tried = [*core[:axis], slice(None), *core[axis + 1 :]]
            if refused[tuple(tried)].all():
                core = tried
        left[tuple(core)] = False
        yield {axis: k for axis, k in enumerate(core) if isinstance(k, int)}


def simple_ways(
    problem: Problem[Any, Any], rules: Sequence[Constraint], like: Solution
) -> Iterator[tuple[Pin | Forbid, ...]]:
    """Pins and forbids under which a rule may hold, for all rules that refuse a solution; the nearest to it first.

    What a rule reads is kept off one device, or is put on one. A rule that still objects to the devices of the solution
    after that is not helped, so these ways are left out. Nothing is said of what else a plan may violate.
    """
    found = []
    for rule in rules:
        read = devices_read(rule, problem, like)
        if read:
            found.append(list(_ways(rule, problem, like, read)))
    for ways in product(*found) if found else ():
        yield tuple(each for way in ways for each in way)


def _ways(
    rule: Constraint, problem: Problem[Any, Any], like: Solution, read: frozenset[str]
) -> Iterator[tuple[Pin | Forbid, ...]]:
    assert isinstance(like, PlacesOperators)
    where = {op: frozenset((min(devices),)) for op, devices in like.devices_by_operator().items()}
    names = [min(device) for device in _options(problem, 1)]
    used = {name: [op for op in sorted(read) if name in where[op]] for name in names}
    pins = [(len(read) - len(used[name]), name, name, sorted(read)) for name in names]
    forbids = [(len(ops), name, other, ops) for name, ops in used.items() for other in names if ops and other != name]
    ways: list[tuple[type[Pin | Forbid], int, str, str, list[str]]]
    ways = [*((Forbid, *each) for each in forbids), *((Pin, *each) for each in pins)]
    for kind, _, device, target, moved in sorted(ways, key=lambda way: way[1]):
        try:
            if not _judged(rule, problem, like, {**where, **dict.fromkeys(moved, frozenset((target,)))}, most=1)[0]:
                yield tuple(kind(op=op, device=device) for op in sorted(read))
        except _ReadsMoreError:
            return


def allowed_devices(
    problem: Problem[Any, Any],
    rules: Sequence[Constraint],
    like: Solution,
    seed: int,
    keep_going: Callable[[], bool] = lambda: True,
) -> dict[str, str] | None:
    """One device for every operator that the rules read, such that no rule objects; close to those of a solution.

    Returns
    -------
    dict or None
        None if the rules read more than devices, or no such choice was found by a random walk.
    """
    if not isinstance(like, PlacesOperators):
        return None
    where = {op: frozenset((min(devices),)) for op, devices in like.devices_by_operator().items()}
    options, draw = _options(problem, 1), random.Random(seed)
    try:
        objections, read = _asked(problem, rules, like, where)
        before = dict(where)
        for _ in range(MOST_STEPS):
            if not objections or not read or not keep_going():
                break
            changed = {**where, draw.choice(sorted(read)): draw.choice(options)}
            count, also_read = _asked(problem, rules, like, changed)
            if count <= objections:
                where, objections, read = changed, count, read | also_read
        for op in () if objections else sorted(read):
            restored = {**where, op: before[op]}
            if restored != where and keep_going() and not _asked(problem, rules, like, restored)[0]:
                where = restored
    except _ReadsMoreError:
        return None
    return None if objections else {op: next(iter(where[op])) for op in sorted(read)}


def _asked(
    problem: Problem[Any, Any], rules: Sequence[Constraint], like: Solution, where: Devices
) -> tuple[int, frozenset[str]]:
    """How often the rules object to a choice of devices, and the operators whose devices they read."""
    judged = [_judged(rule, problem, like, where) for rule in rules]
    return sum(count for count, _ in judged), frozenset().union(*(read for _, read in judged))
