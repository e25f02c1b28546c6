"""Plans that some rules have accepted already: the referee need not ask these again, which may take long.

A user's own rule may look at every operator of a plan. A solver that does not know the rule asks it about each plan
that it finds; the referee would ask the same question about the same plan once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from opweave.problems.constraints import Constraint
from opweave.problems.problem import Problem
from opweave.problems.solution import Solution
from opweave.solvers.run import Run

KEPT_AS = "approval"


@dataclass(frozen=True, slots=True)
class _Approval:
    """The last plan that rules of a problem have accepted."""

    problem: Problem[Any, Any]
    solution: Solution
    rules: tuple[Constraint, ...]


def note_approval(run: Run, problem: Problem[Any, Any], solution: Solution, rules: Sequence[Constraint]) -> None:
    """Note that a plan obeys rules of a problem, each of which was asked about it."""
    run.kept[KEPT_AS] = _Approval(problem, solution, tuple(rules))


def left_to_ask(run: Run, problem: Problem[Any, Any], solution: Solution) -> tuple[Constraint, ...]:
    """The rules of a problem without those that have accepted this very plan of this very problem.

    They have to be asked about the whole problem: what they say may depend on the others.
    """
    approval = run.kept.get(KEPT_AS)
    if not isinstance(approval, _Approval) or approval.problem is not problem or approval.solution is not solution:
        return problem.constraints
    asked = {id(rule) for rule in approval.rules}
    return tuple(rule for rule in problem.constraints if id(rule) not in asked)
