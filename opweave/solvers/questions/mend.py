"""The smallest single changes that give an infeasible problem a plan."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import PrivateAttr

from opweave.problems.batched_mapping.spec import BatchedMapping
from opweave.problems.problem import Problem
from opweave.problems.solution import AnySolution, Solution
from opweave.problems.spec import Count, Number, Spec
from opweave.solvers.questions.draft import Draft
from opweave.solvers.questions.inquiry import Answer, Inquiry
from opweave.solvers.questions.requirements import Requirement

AnyProblemType = Problem[Any, Any]

WHOLE_COST = 1.0
"""Cost of a change without an amount, such as leaving out a side constraint."""

PRECISION = 1e-3
"""Share of the amount to which the least amount is found, if it cannot be found exactly."""

MOST = 2**53
"""No amount is larger."""


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
    if item.amount is not None:
        yield from _least(problem, item, inquiry)
    for words, draft in item.changes(problem):
        changed, answer = inquiry.of(draft, f"is there a plan {words}?")
        if answer.plan is not None:
            mend = Mend(plan=answer.plan, requirement=item.name, words=words, cost=WHOLE_COST)
            mend._problem = changed
            yield mend


def _least(problem: AnyProblemType, item: Requirement, inquiry: Inquiry) -> Iterator[Mend]:
    """Relax by the least amount, by bisection between amounts proved too small and amounts with a plan.

    One less than the least known amount mostly settles the matter, so it is tried first, and again where it is close.
    """
    draft = Draft(problem)
    item.drop(draft)
    best = _needed(problem, item, *inquiry.of(draft, f"is there a plan without {item.name}?"))
    if best is None:
        return
    low, proved, tried, edge = 0, 0, 0, True
    while best[0] - low > 1 and not inquiry.is_over:
        narrow = best[0] - low <= PRECISION * ((item.amount or 0) + best[0])
        if narrow and tried == best[0] - 1:
            break
        tried = best[0] - 1 if narrow or edge else (low + best[0]) // 2
        changed, answer = inquiry.of(_relaxed(problem, item, tried), f"is {item.relaxed(tried)} enough?")
        better = _needed(problem, item, changed, answer)
        if better is not None and better[0] < best[0]:
            best, edge = better, not edge
            continue
        proved = max(proved, tried) if answer.infeasible else proved
        low, edge = max(low, tried if answer.infeasible or not edge else 0), False
    amount, changed, plan = best
    at_least = proved + 1 if item.monotone(problem) else 1
    cost = amount / max(1, item.amount or 0)
    words = item.relaxed(amount)
    mend = Mend(plan=plan, requirement=item.name, words=words, cost=cost, amount=amount, at_least=at_least)
    mend._problem = changed
    yield mend


def _relaxed(problem: AnyProblemType, item: Requirement, more: int) -> Draft:
    draft = Draft(problem)
    item.relax(draft, more)
    return draft


def _needed(
    problem: AnyProblemType, item: Requirement, changed: AnyProblemType | None, answer: Answer
) -> tuple[int, AnyProblemType, Solution] | None:
    """The least amount with which the referee accepts the plan of a changed problem, and the problem so relaxed."""
    plan = answer.plan
    if changed is None or plan is None:
        return None
    if item.sort == "batch" and isinstance(changed, BatchedMapping):
        return (item.amount or 0) - changed.batch, changed, plan
    excess = max((math.ceil(each.excess or 0) for each in problem.evaluate(plan).violations), default=0)
    high = max(1, min(excess, MOST))
    while not (fits := _relaxed(problem, item, high).build()).evaluate(plan).feasible:
        high *= 2
        if high > MOST:
            return None
    low = 0 if high > excess else high - 1  # the referee says by how much the limit is exceeded, unless it is a count
    while high - low > 1:
        middle = (low + high) // 2
        other = _relaxed(problem, item, middle).build()
        if other.evaluate(plan).feasible:
            high, fits = middle, other
        else:
            low = middle
    return high, fits, plan
