"""Rules about devices, without any expression: what they read, and which choices of devices they refuse.

While a rule judges, it is noted what it reads. If it reads nothing but devices, it can be asked about any choice of
devices without a plan. A rule about few operators, or a small problem, has few choices: then all of them are tried, and
the rule is written as rows at once. Each row forbids a *core*: devices of some operators that the rule refuses whatever
the others have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations, product
from typing import Any, TypeVar

import numpy as np

from opweave.problems.constraints import Constraint, PlacesOperators
from opweave.problems.problem import Problem
from opweave.problems.solution import Solution

ValueT = TypeVar("ValueT")

Devices = Mapping[str, frozenset[str]]
"""The devices of some operators."""

WHOLE = ("placement", "pipeline")
"""Problems in which every operator has one device."""

MOST_CHOICES = 100_000
"""Most choices of devices that a rule is asked about."""

MOST_CORES = 2_000
"""Most rows by which a rule is written; what they leave open is refused plan by plan."""

ASKED = 256
"""Choices between two looks at the time."""


class _ReadsMoreError(Exception):
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


def _judged(rule: Constraint, problem: Problem[Any, Any], like: Solution, where: Devices) -> tuple[bool, set[str]]:
    """Whether a rule refuses a choice of devices, and the operators whose devices it reads for that.

    Raises
    ------
    _ReadsMoreError
        If it reads anything else; ``args`` holds the operators read until then.
    """
    read = set[str]()
    try:
        return any(True for _ in rule.violations(problem, _Devices(like, where, read))), read
    except Exception as error:  # a rule of its own kind, which needs the solution itself
        raise _ReadsMoreError(read) from error


def devices_read(rule: Constraint, problem: Problem[Any, Any], solution: Solution) -> frozenset[str] | None:
    """The operators whose devices a rule reads when it refuses a solution; None if it reads anything else."""
    if not isinstance(solution, PlacesOperators):
        return None
    try:
        refuses, read = _judged(rule, problem, solution, solution.devices_by_operator())
    except _ReadsMoreError:
        return None
    return frozenset(read) if refuses else None


def cores_of(
    rule: Constraint,
    problem: Problem[Any, Any],
    like: Solution,
    ops: frozenset[str],
    keep_going: Callable[[], bool] = lambda: True,
) -> list[dict[str, frozenset[str]]]:
    """Devices of some operators that a rule refuses whatever the others have; empty where there are too many choices.

    Parameters
    ----------
    like
        Any solution of the problem.
    ops
        Operators whose devices the rule reads; others are added as it reads them.
    """
    options = _options(problem)
    while len(options) ** len(ops) <= MOST_CHOICES:
        names = sorted(ops)
        refused = np.zeros((len(options),) * len(names), dtype=bool)
        try:
            for number, choice in enumerate(product(range(len(options)), repeat=len(names))):
                if number % ASKED == 0 and not keep_going():
                    return []
                where = {op: options[k] for op, k in zip(names, choice, strict=True)}
                refused[choice], _ = _judged(rule, problem, like, where)
        except _ReadsMoreError as error:
            more = frozenset(error.args[0]) - ops
            if not more:
                return []
            ops |= more
            continue
        return [{names[axis]: options[k] for axis, k in core.items()} for core in _cover(refused, keep_going)]
    return []


def _options(problem: Any) -> list[frozenset[str]]:
    """The sets of devices that an operator may have."""
    names = [device.name for device in problem.cluster.devices]
    most = 1 if problem.kind in WHOLE else len(names)
    return [frozenset(some) for size in range(1, most + 1) for some in combinations(names, size)]


def _cover(refused: np.ndarray[Any, np.dtype[np.bool_]], keep_going: Callable[[], bool]) -> Iterator[dict[int, int]]:
    """Cores that together forbid exactly what is refused, unless there are too many of them."""
    left = refused.copy()
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
