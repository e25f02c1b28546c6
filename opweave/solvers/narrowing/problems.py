"""Narrower problems: the rules that a solver does not know are replaced by simpler ones that imply them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from itertools import islice
from typing import Any, TypeVar

from opweave.formulations.expressions import expressible, expression
from opweave.formulations.order_arcs import ContradictionError
from opweave.problems.constraints import Colocate, Constraint, Forbid, MaxDevices, Pin, PlacesOperators, Separate, means
from opweave.problems.solution import Solution
from opweave.solvers.narrowing.ways import NARROWED, AnyProblem, Way

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
    kept = tuple(each for each in problem.constraints if not any(each is rule for rule in rules))
    return problem.model_copy(update={"constraints": kept})


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
        ways = list(islice(write(problem, rule), MOST_WAYS))
    except ContradictionError:
        return []
    ways.sort(key=lambda way: -_kept(way, where))
    return [problem.model_copy(update={"constraints": (*problem.constraints, *way)}) for way in ways]


def _kept(way: Way, where: Mapping[str, frozenset[str]]) -> int:
    """How many of the simpler constraints hold already, if operators run on the devices ``where``."""
    kept = 0
    for each in way:
        if means(each, Pin):
            kept += where.get(each.op) == frozenset({each.device})
        elif means(each, Forbid):
            kept += each.device not in where.get(each.op, ())
    return kept
