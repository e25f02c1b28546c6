"""The smallest single changes that give an infeasible problem a plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import PrivateAttr

from opweave.problems.problem import Problem
from opweave.problems.solution import AnySolution, Solution
from opweave.problems.spec import Count, Number, Spec
from opweave.solvers.questions.draft import Draft
from opweave.solvers.questions.inquiry import Answer, Inquiry
from opweave.solvers.questions.requirement import Measured, Requirement

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


def mends_of(problem: AnyProblemType, items: Sequence[Requirement], inquiry: Inquiry) -> tuple[Mend, ...]:
    """Find the mends of an infeasible problem, cheapest first.

    Parameters
    ----------
    items
        Requirements that cannot hold together; a single change must relax one of them.
    """
    found: list[Mend] = []
    for number, item in enumerate(items):
        with inquiry.stage(1 / (len(items) - number)):
            found += _mends(problem, item, inquiry)
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
    """The least sufficient amount lies above ``low`` and at most at ``high``; up to ``proved``, none is enough.

    One less than the least known amount mostly settles the matter. If it does not, the middle is tried first.
    """

    high: int
    low: int = 0
    proved: int = 0
    tried: int = 0
    halving: bool = False

    def is_open(self, precision: float) -> bool:
        """Whether to go on: the range is wide, or nothing just below its end has been tried."""
        return self.high - self.low > 1 and (self.high - self.low > precision or self.tried < self.high - 1)

    def next(self) -> int:
        """The amount to try."""
        edge, middle = self.high - 1, (self.low + self.high) // 2
        self.tried = middle if self.halving or self.tried == edge else edge
        self.halving = False
        return self.tried

    def enough(self, more: int) -> None:
        """Learn that an amount is enough."""
        self.halving = self.tried == self.high - 1
        self.high = more

    def not_enough(self, proved: bool) -> None:
        """Learn that the amount tried is not, or probably not, enough."""
        if proved:
            self.proved = max(self.proved, self.tried)
        if proved or self.tried <= (self.low + self.high) // 2:
            self.low = max(self.low, self.tried)


def _least(problem: AnyProblemType, item: Measured, inquiry: Inquiry) -> Mend | None:
    """Relax by the least amount: between amounts proved too small and amounts with a plan."""
    draft = Draft(problem)
    item.drop(draft)
    about = f"is there a plan without {item.name}?"
    first = inquiry.of(draft, about) if item.spared is None else inquiry.sparing(draft, item.spared, about)
    best = _accepted(problem, item, *first)
    if best is None or best.amount is None:
        return None
    found = _Range(best.amount)
    while found.is_open(PRECISION * (item.amount + found.high)) and not inquiry.is_over:
        more = found.next()
        draft = Draft(problem)
        item.relax(draft, more)
        changed, answer = inquiry.of(draft, f"is {item.relaxed(more)} enough?")
        better = _accepted(problem, item, changed, answer)
        if better is not None and better.amount is not None and better.amount < found.high:
            best = better
            found.enough(better.amount)
        else:
            found.not_enough(answer.infeasible)
    return best.model_copy(update={"at_least": found.proved + 1}) if item.monotone(problem) else best


def _accepted(problem: AnyProblemType, item: Measured, changed: AnyProblemType | None, answer: Answer) -> Mend | None:
    """The mend by just as much as a plan of the changed problem takes, if the referee accepts the plan for it."""
    plan = answer.plan
    more = 0 if changed is None or plan is None else item.excess(changed, plan)
    if more == 0 or plan is None:
        return None
    draft = Draft(problem)
    item.relax(draft, more)
    mended = draft.build()
    if not mended.evaluate(plan).feasible:
        return None
    cost = more / max(1, item.amount)
    return _mend(mended, plan, requirement=item.name, words=item.relaxed(more), cost=cost, amount=more, at_least=1)
