"""The rules of slicing: they judge cuts, parts and memory, and whether the solution obeys the paper's rule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from opweave.problems.slicing.details import SlicingDetails
from opweave.problems.slicing.paper_rule import rulings
from opweave.problems.slicing.usable import unusable
from opweave.problems.solution import Evaluation, Violation

if TYPE_CHECKING:
    from opweave.problems.slicing.spec import Slices, Slicing
from opweave.problems.slicing.play import Playing


def judge(problem: Slicing, solution: Slices) -> Evaluation[SlicingDetails]:
    """Judge a solution against all rules except the side constraints."""
    wrong = tuple(unusable(problem, solution))
    if wrong:
        return Evaluation(objective=None, violations=wrong)
    played = Playing(problem, solution)
    details = played.run()
    broken = tuple(_violations(problem, solution, played))
    judged = Evaluation(objective=details.latency, violations=broken, details=details)
    return judged.with_timeline(played.timeline())


def _violations(problem: Slicing, solution: Slices, played: Playing) -> Iterator[Violation]:
    if problem.order is not None and problem.order != solution.order:
        yield Violation(rule="order", message="the plan runs the operators in another order than the problem's")
    if problem.dimension == "rule":
        yield from _against_rule(problem, solution)
    for device, limit in problem.memory_limits.items():
        used = played.peak[device]
        if limit is not None and used > limit:
            when = "before the first operator" if played.peak_at[device] is None else f"at {played.peak_at[device]!r}"
            message = f"device {device!r} holds {used:,} bytes {when}: {used - limit:,} over its memory of {limit:,}"
            yield Violation(rule="memory", message=message, excess=float(used - limit))


def _against_rule(problem: Slicing, solution: Slices) -> Iterator[Violation]:
    """Check the dimension that the rule prescribes, and (cv6) that there are no more parts than it allows."""
    for name, ruling in rulings(problem, solution.order).items():
        cut = solution.slices[name]
        if cut.dimension != ruling.dimension:
            message = f"{name!r} is cut along {cut.dimension!r}, but the rule says {ruling.dimension!r}"
            yield Violation(rule="dimension", message=message)
        parts = sum(first < end for first, end in zip(cut.cuts, cut.cuts[1:], strict=False))
        if ruling.most_parts is not None and parts > ruling.most_parts:
            message = f"{name!r} has {parts} parts; memory allows {ruling.most_parts} by the rule"
            yield Violation(rule="parts", message=message, excess=float(parts - ruling.most_parts))
