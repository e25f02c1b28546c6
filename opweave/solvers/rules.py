"""Rules: plain methods that build one plan without a search, registered by name in the same form for every problem."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar

from opweave.problems.problem import Problem
from opweave.solvers.registry import Solver, register
from opweave.solvers.run import Outcome, Run

PlanT = TypeVar("PlanT")

CarryOut = Callable[[Any, Run], None]
"""Builds the plan of a rule for a problem and reports it to the run, or raises :class:`NoPlanError`."""


class NoPlanError(Exception):
    """A rule found no plan; the message says where it failed."""


def solve_by(carry_out: CarryOut, problem: Problem[Any, Any], run: Run) -> Outcome:
    """Report the plan that a rule builds; if it builds none, the outcome says why."""
    try:
        carry_out(problem, run)
    except NoPlanError as error:
        return Outcome(run.termination(), reason=str(error))
    return Outcome(run.termination())


def register_rule(problem: type[Problem[Any, Any]], name: str, carry_out: CarryOut, about: str, **fields: Any) -> None:
    """Make a rule available by name.

    Parameters
    ----------
    problem
        The class of problems that it supports.
    carry_out
        Builds its plan and reports it.
    name, about, fields
        As in :class:`~opweave.solvers.registry.Solver`.
    """
    register(Solver(name, problem.kind, "algorithm", partial(solve_by, carry_out), about, **fields))


def plans_of(builders: Iterable[Callable[[], PlanT]]) -> Iterator[PlanT]:
    """The plans of the builders that find one; each is built when it is requested."""
    for build in builders:
        try:
            yield build()
        except NoPlanError:
            continue
