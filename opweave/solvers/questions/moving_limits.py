"""The epsilon-constraint method: one measure is minimised, the others are limited, and the limits move.

A plan with a measure of v, optimal under a limit of v or more, is optimal for every limit in between, so the next limit
is below v. Between two neighbouring limits lies a box that may hold further points; the widest is looked into first.

Source: Haimes, Lasdon, Wismer, "On a bicriterion formulation of the problems of integrated system identification and
system optimization", IEEE Trans. Systems, Man and Cybernetics 1(3), 1971; the boxes: Laumanns, Thiele, Zitzler, "An
efficient, adaptive parameter variation scheme for metaheuristics based on the epsilon-constraint method", European J.
Operational Research 169(3), 2006, doi:10.1016/j.ejor.2004.08.029.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

from opweave.problems.batched_mapping.spec import BatchedMapping
from opweave.problems.constraints import Constraint, MaxDevices, MemoryCap
from opweave.problems.errors import InvalidInputError
from opweave.problems.memory_ordering.spec import MemoryOrdering
from opweave.problems.pipeline.spec import Pipeline
from opweave.problems.placement.spec import Placement
from opweave.problems.problem import Problem
from opweave.problems.result import Result, Status, Termination
from opweave.problems.slicing.spec import Slicing
from opweave.problems.words import did_you_mean
from opweave.solvers.questions.answers import Report
from opweave.solvers.questions.changes import rebuilt
from opweave.solvers.questions.relaxation import Case, Series
from opweave.solvers.run import agree

AnyProblem = Problem[Any, Any]

Values = tuple[int | float, ...]
"""The measures of a plan, the minimised one first."""

Limits = Mapping[str, int]
"""The limits of a solve by measure; a measure that is not named has none."""

MEASURES: Mapping[type, tuple[tuple[str, ...], tuple[str, ...]]] = {
    MemoryOrdering: (("total",), ("peak",)),
    Placement: (("makespan",), ("peak", "devices")),
    BatchedMapping: (("makespan",), ("peak", "devices")),
    Pipeline: (("bottleneck", "latency", "transfers"), ("peak", "devices")),
    Slicing: (("latency",), ("peak",)),
}
"""Measures that a problem can minimise, and those that it can limit, which are whole numbers."""

ALSO = {"peak_bytes": "peak", "total_bytes": "total"}
"""Names of the same measures of timelines."""

LEAST_SECONDS = 0.05
"""No solve begins with less time than this."""


@dataclass(frozen=True, slots=True)
class Tradeoff:
    """The measures of a question by the names that the user gave them.

    ``problem`` minimises the first one; the limit of the second one moves; the third one can only be "devices".
    """

    problem: AnyProblem
    names: tuple[str, ...]

    def limited(self, limits: Limits) -> AnyProblem:
        """The problem whose plans have at most these values."""
        problem: Any = self.problem
        rules: list[Constraint] = []
        for name, limit in limits.items():
            if isinstance(problem, MemoryOrdering):
                problem = rebuilt(problem, limit_bytes=limit)
            elif name == "devices":
                rules.append(MaxDevices(count=limit))
            else:
                rules += [MemoryCap(device=each.name, bytes=limit) for each in problem.cluster.devices]
        made: AnyProblem = rebuilt(problem, constraints=[*problem.constraints, *rules])
        return made

    def read(self, result: Result[Any]) -> Values | None:
        """The measures of a plan; None without one."""
        plan, values = result.solution, list[Any]([result.objective])
        problem: Any = self.problem
        if plan is None or result.objective is None:
            return None
        for name in self.names[1:]:
            if name == "devices":
                values.append(len(frozenset[str]().union(*plan.devices_by_operator().values())))
            elif isinstance(problem, MemoryOrdering):
                values.append(rebuilt(problem, objective="peak").evaluate(plan).objective)
            else:
                values.append(max(problem.memory_by_device(plan).values(), default=0))
        return tuple(values)


def tradeoff(problem: AnyProblem, measures: tuple[str, ...]) -> Tradeoff:
    """Tell the measure that is minimised from those that are limited.

    Raises
    ------
    InvalidInputError
        When the problem has no such pair; the message lists those that it has.

    Examples
    --------
    >>> from opweave.problems.graph import Operator, OpGraph
    >>> problem = MemoryOrdering(graph=OpGraph(tensors=[], operators=[Operator(id="p")]))
    >>> tradeoff(problem, ("peak", "total")).names
    ('total', 'peak')
    """
    goals, caps = MEASURES.get(type(problem), ((), ()))
    if isinstance(problem, Slicing) and problem.dimension == "rule":
        caps = ()  # the rule cuts by the memory there is, so a limit would ask for other cuts, not for less memory
    names = {given: ALSO.get(given, given) for given in measures}
    wanted = [given for given, name in names.items() if name in goals]
    limited = [given for given, name in names.items() if name in caps]
    differ = len(set(names.values())) == len(measures)
    if differ and len(wanted) == 1 and 1 <= len(limited) == len(measures) - 1:
        own = {"objective": names[wanted[0]]} if "objective" in type(problem).model_fields else {}
        return Tradeoff(rebuilt(problem, **own), (*wanted, *sorted(limited, key=lambda name: name == "devices")))
    sets: list[tuple[str, ...]] = list(product(goals, caps))
    if len(caps) > 1:
        sets += [(goal, *caps) for goal in goals]
    known = {*goals, *caps}
    near = "".join(did_you_mean(given, known) for given, name in names.items() if name not in known)
    raise InvalidInputError(
        f"{type(problem).__name__} has no exact front over {' and '.join(map(repr, measures)):.120}{near}; it has "
        f"{', '.join(map(repr, sets)) or 'none'}; ow.pymoo_problem searches any metrics, without proofs"
    )


@dataclass(slots=True, eq=False)
class Step:
    """One solve: its limits, its answer, and the measures of its plan, None without one."""

    limits: Limits
    case: Case
    values: Values | None

    @property
    def proved(self) -> bool:
        """Whether the plan is optimal within the limits, or there is none."""
        return self.case.result.status in (Status.OPTIMAL, Status.INFEASIBLE)


class _Box(NamedTuple):
    """Limits that may hold further points: above ``least``, and below the moving measure of the looser step's plan.

    At ``edge``, the next limit is just below that plan, because there was nothing new in the middle.
    """

    fixed: Limits
    loose: Step
    tight: Step | None
    least: int
    edge: bool = False


@dataclass(slots=True)
class MovingLimits:
    """A front while it is found; ``steps`` has every solve, ``complete`` says whether no other compromise exists."""

    question: Tradeoff
    series: Series
    points: int
    end: float
    progress: Report | None
    steps: list[Step] = field(default_factory=list)
    stopped: bool = False
    complete: bool = False

    def run(self) -> None:
        """Find the points, spend what time is left on unproved ones, and carry bounds and plans over."""
        least = 0 if self.question.names[1] == "devices" else -1
        problem: Any = self.question.problem
        counts = range(len(problem.cluster.devices), 0, -1) if len(self.question.names) > 2 else ()
        fixed: list[Limits] = [{"devices": count} for count in counts] or [{}]
        boxes = self._open([_Box(each, self._ask(each), None, least) for each in fixed if not self.stopped])
        while boxes and not self.stopped and len(self.undominated()) < self.points:
            box = max(boxes, key=lambda box: self._moving(box.loose) - box.least)
            boxes = self._open([*(other for other in boxes if other is not box), *self._split(box)])
        found_all = not boxes and not self.stopped
        unproved = [] if self.end == math.inf else [step for step in self.undominated() if not step.proved]
        for number, step in enumerate(unproved):
            if not self.stopped:
                self._ask(step.limits, share=1.0 / (len(unproved) - number))
        for step in self.steps:
            step.case.learn()
            step.values = self.question.read(step.case.result)
        self.complete = found_all and all(step.proved for step in self.steps)

    def _open(self, boxes: list[_Box]) -> list[_Box]:
        """The boxes in which something may lie: a whole number is left, and the tighter plan is worse."""
        found = []
        for box in boxes:
            bound = box.loose.case.result.bound
            equal = box.tight is not None and bound is not None and agree(bound, box.tight.case.objective)
            if box.loose.values is not None and self._moving(box.loose) - 1 > box.least and not equal:
                found.append(box)
        return found

    def _split(self, box: _Box) -> list[_Box]:
        """Solve in the middle of a box, or at its edge."""
        value = self._moving(box.loose)
        middle = (box.least + value) // 2
        limit = value - 1 if box.edge or middle <= box.least else middle
        found = self._ask({**box.fixed, self.question.names[1]: limit})
        if found.values is None:
            return [box._replace(least=limit, edge=True)]
        edge = box.edge or (box.tight is not None and found.case.objective >= box.tight.case.objective)
        return [box._replace(tight=found, least=limit, edge=edge), box._replace(loose=found, edge=False)]

    def _ask(self, limits: Limits, share: float | None = None) -> Step:
        """Solve under some limits, from the best plan known, if nothing known settles it."""
        label = ", ".join(f"{name} at most {limit:,}" for name, limit in limits.items()) or "no limit"
        case, left = self.series.add(self.question.limited(limits), label), self.end - time.perf_counter()
        if left >= LEAST_SECONDS:
            share = share or 1.0 / (1 + max(1, self.points - len(self.undominated())))
            self.series.solve(case, None if left == math.inf else left * share)
        interrupted = case.result.termination is Termination.INTERRUPTED
        self.stopped = interrupted or self.end - time.perf_counter() < LEAST_SECONDS
        self.steps.append(Step(limits, case, self.question.read(case.result)))
        if self.progress is not None:
            self.progress(min(self.points, len(self.undominated())), self.points)
        return self.steps[-1]

    def _moving(self, step: Step) -> int:
        """The moving measure of a step with a plan."""
        assert step.values is not None
        return int(step.values[1])

    def undominated(self) -> list[Step]:
        """The steps whose plans no other plan beats, by the minimised measure."""
        found = [step for step in self.steps if step.values is not None]
        return [found[k] for k in undominated([step.values or () for step in found])]


def undominated(found: Sequence[Values]) -> list[int]:
    """Numbers of the entries that no other one equals or beats in all measures, up to rounding of the first; in order.

    Examples
    --------
    >>> undominated([(2, 5), (1, 5), (2, 3), (2, 3)])
    [1, 2]
    """
    kept: list[int] = []
    for own in sorted(range(len(found)), key=found.__getitem__):
        if any(_no_more(found[other][1:], found[own][1:]) for other in kept):
            continue
        equal = [other for other in kept if agree(found[own][0], found[other][0])]
        beaten = {other for other in equal if _no_more(found[own][1:], found[other][1:])}
        kept = [*(other for other in kept if other not in beaten), own]
    return kept


def _no_more(values: Values, others: Values) -> bool:
    return all(a <= b for a, b in zip(values, others, strict=True))
