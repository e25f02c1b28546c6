"""The smallest single changes that give an infeasible problem a plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import PrivateAttr

from opweave.problems.problem import Problem
from opweave.problems.solution import AnySolution, Solution
from opweave.problems.spec import Count, Number, Spec
from opweave.solvers.questions.draft import Draft
from opweave.solvers.questions.inquiry import Answer, Inquiry
from opweave.solvers.questions.requirements import Measured, Requirement

AnyProblemType = Problem[Any, Any]

WHOLE_COST = 1.0
"""Cost of a change without an amount, such as leaving out a side constraint."""

PRECISION = 1e-3
"""Share of the amount to which the least amount is found, if it cannot be found exactly."""


class Mend(Spec):
    """A single change of the problem that gives it a plan.

    Attributes
    ----------
    requirement
        Name of the requirement that is relaxed.
    words
        The change, such as ``"288 MiB more on 'phone'"``.
    cost
        The share by which an amount grows; 1 for a change without an amount.
    amount
        How much more; None for a change without an amount.
    at_least
        Amounts below this are proved not to be enough. If it equals ``amount``, the mend is the least possible.
    plan
        A solution of the changed problem that the referee accepts.
    """

    requirement: str
    words: str
    cost: Number
    amount: Count | None = None
    at_least: Count | None = None
    plan: AnySolution
    _problem: AnyProblemType | None = PrivateAttr(default=None)

    @property
    def problem(self) -> AnyProblemType | None:
        """The changed problem; None after reading from JSON or a pickle, which do not contain it."""
        return self._problem

    @property
    def least(self) -> bool:
        """Whether less is proved not to be enough; also true of changes without an amount."""
        return self.amount == self.at_least

    def __getstate__(self) -> dict[Any, Any]:
        return {**super().__getstate__(), "__pydantic_private__": {"_problem": None}}


def mends_of(problem: AnyProblemType, items: Iterable[Requirement], inquiry: Inquiry) -> tuple[Mend, ...]:
    """Find the mends of an infeasible problem, cheapest first.

    Parameters
    ----------
    items
        Requirements that cannot hold together; a single change must relax one of them.
    """
    found = [mend for item in items for mend in _mends(problem, item, inquiry)]
    return tuple(sorted(found, key=lambda mend: mend.cost))


def _mends(problem: AnyProblemType, item: Requirement, inquiry: Inquiry) -> Iterator[Mend]:
    if isinstance(item, Measured):
        mend = _least(problem, item, inquiry)
        if mend is not None:
            yield mend
    for change in item.changes(problem):
        changed, answer = inquiry.of(change.draft, f"is there a plan {change.words}?")
        if answer.plan is not None:
            yield _mend(changed, answer.plan, requirement=item.name, words=change.words, cost=WHOLE_COST)


def _mend(changed: AnyProblemType | None, plan: Solution, **fields: Any) -> Mend:
    mend = Mend(plan=plan, **fields)
    mend._problem = changed
    return mend


@dataclass
class _Range:
    """The least sufficient amount lies above ``low`` and at most at ``high``; ``proved`` amounts are not enough."""

    low: int
    high: int
    proved: int = 0
    edge: bool = False

    def next(self) -> int:
        """The amount to try: one less than the least known, which mostly settles it, otherwise the middle."""
        if not self.edge:
            self.edge = True
            return self.high - 1
        return (self.low + self.high) // 2


def _least(problem: AnyProblemType, item: Measured, inquiry: Inquiry) -> Mend | None:
    """Relax by the least amount: between amounts proved too small and amounts with a plan."""
    draft = Draft(problem)
    item.drop(draft)
    without, answer = inquiry.of(draft, f"is there a plan without {item.name}?")
    if without is None or answer.plan is None:
        return None
    best = _accepted(problem, item, without, answer.plan)
    if best is None:
        return None
    found = _Range(0, best.amount or 0)
    while found.high - found.low > 1 and not (found.edge and _is_close(found, item.amount)):
        more = found.next()
        changed, answer = _relaxed(problem, item, more, inquiry)
        better = None if changed is None or answer.plan is None else _accepted(problem, item, changed, answer.plan)
        if better is not None and better.amount is not None and better.amount < found.high:
            best, found.edge = better, found.edge and more < found.high - 1
            found.high = better.amount
        elif answer.infeasible:
            found.low = found.proved = max(more, found.proved)
        elif more < found.high - 1:
            found.low = more  # not decided: the least amount may lie below, but it is not found there
    return best.model_copy(update={"at_least": found.proved + 1})


def _is_close(found: _Range, amount: int) -> bool:
    return found.high - found.low <= PRECISION * (amount + found.high)


def _relaxed(
    problem: AnyProblemType, item: Measured, more: int, inquiry: Inquiry
) -> tuple[AnyProblemType | None, Answer]:
    draft = Draft(problem)
    item.relax(draft, more)
    return inquiry.of(draft, f"is {item.relaxed(more)} enough?")


def _accepted(problem: AnyProblemType, item: Measured, changed: AnyProblemType, plan: Solution) -> Mend | None:
    """The mend by just as much as a plan takes, if the referee accepts the plan for it."""
    more = item.excess(changed, plan)
    if more == 0:
        return None
    draft = Draft(problem)
    item.relax(draft, more)
    mended = draft.build()
    if not mended.evaluate(plan).feasible:
        return None
    cost = more / max(1, item.amount)
    return _mend(mended, plan, requirement=item.name, words=item.relaxed(more), cost=cost, amount=more, at_least=1)
