"""The epsilon-constraint method: one measure is minimised, the others are limited, and the limits move.

A plan with a measure of v, optimal under a limit of v or more, is optimal for every limit in between, so the next limit
is below v. Between two neighbouring limits lies a box that may hold further points; the largest is looked into first.

Source: Haimes, Lasdon, Wismer, "On a bicriterion formulation of the problems of integrated system identification and
system optimization", IEEE Trans. Systems, Man and Cybernetics 1(3), 1971; the boxes: Laumanns, Thiele, Zitzler, "An
efficient, adaptive parameter variation scheme for metaheuristics based on the epsilon-constraint method", European J.
Operational Research 169(3), 2006, doi:10.1016/j.ejor.2004.08.029.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from opweave.problems.result import Result, Status
from opweave.solvers.questions.answers import (
    Lesson,
    Report,
    Solved,
    carried_over,
    improved,
    lesson,
    unsolved,
    was_interrupted,
)
from opweave.solvers.questions.measured import Asked
from opweave.solvers.registry import Feature, find_solver
from opweave.solvers.run import agree
from opweave.solvers.solve import solve

Values = tuple[int | float, ...]
"""The measures of a plan, the minimised one first."""

Limits = Mapping[str, int]
"""The limits of a solve by measure; a measure that is not named has none."""

SOLVES_PER_POINT = 4
"""Most solves for each point asked for: some only prove that nothing lies between two points."""

LEAST_SECONDS = 0.05
"""No solve begins with less time than this."""


@dataclass(slots=True, eq=False)
class Step:
    """One solve: its limits, its answer, and the measures of its plan, None without one."""

    limits: Limits
    solved: Solved
    values: Values | None

    @property
    def result(self) -> Result[Any]:
        """What was found."""
        return self.solved.result


@dataclass(frozen=True, slots=True, eq=False)
class _Box:
    """Two neighbouring limits of the moving measure, under the ``fixed`` ones: the looser step, and the tighter one.

    Limits above ``least`` and below the ``value`` of the looser plan may hold further points.
    """

    fixed: Limits
    loose: Step
    value: int
    tight: Step | None
    least: int

    @property
    def empty(self) -> bool:
        """Whether nothing can lie in between: no whole number is left, or the tighter plan is as good."""
        if self.value - 1 <= self.least:
            return True
        bound, other = self.loose.result.bound, None if self.tight is None else self.tight.result.objective
        return bound is not None and other is not None and agree(bound, other)


@dataclass(slots=True)
class MovingLimits:
    """A front while it is found; ``steps`` has every solve."""

    question: Asked
    solver: str
    points: int
    time_limit: float | None
    arguments: Mapping[str, Any]
    progress: Report | None
    steps: list[Step] = field(default_factory=list)
    stopped: bool = False
    began: float = field(default_factory=time.perf_counter)

    def run(self) -> None:
        """Find the points, spend what time is left on unproved ones, and carry bounds and plans over."""
        self._look_into_boxes()
        self._solve_again()
        carried_over([step.solved for step in self.steps])
        for step in self.steps:
            step.values = self._read(step.result)

    def _fixed(self) -> list[Limits]:
        """The limits of the third measure, the number of devices: all that there are."""
        if len(self.question.names) == 2:
            return [{}]
        problem: Any = self.question.problem
        return [{"devices": count} for count in range(len(problem.cluster.devices), 0, -1)]

    @property
    def _below(self) -> int:
        """One less than the least limit of the moving measure."""
        return 0 if self.question.moving == "devices" else -1

    def _look_into_boxes(self) -> None:
        boxes, tried = [], set[int]()
        for fixed in self._fixed():
            first = None if self.stopped else self._ask(fixed)
            if first is not None and first.values is not None:
                boxes.append(_Box(fixed, first, self._moving(first.values), None, self._below))
        for _ in range(SOLVES_PER_POINT * self.points):
            boxes = [box for box in boxes if not box.empty]
            if self.stopped or not boxes or len(self.undominated()) >= self.points:
                return
            box = max(boxes, key=self._worth)
            boxes.remove(box)
            middle = (box.least + box.value) // 2
            limit = box.value - 1 if id(box.loose) in tried or middle <= box.least else middle
            found = self._ask({**box.fixed, self.question.moving: limit})
            other = None if box.tight is None else box.tight.values
            if found.values is None or (other is not None and found.values[0] >= other[0]):
                tried.add(id(box.loose))  # no new point in the middle: the next limit is just below the looser plan
            boxes.append(replace(box, tight=found if found.values else box.tight, least=limit))
            if found.values is not None:
                boxes.append(replace(box, loose=found, value=self._moving(found.values)))

    def _worth(self, box: _Box) -> float:
        """The area of a box, relative to those of the whole front: how much a point in it may bring."""
        goals = [step.values[0] for step in self.steps if step.values is not None]
        span = float(max(goals) - min(goals)) or 1.0
        assert box.loose.values is not None
        below = None if box.tight is None or box.tight.values is None else box.tight.values[0]
        height = 1.0 if below is None else max(0.0, below - box.loose.values[0]) / span
        return (box.value - box.least) * height

    def _solve_again(self) -> None:
        """Solve points that are not proved again, from the best plan known, in the time that is left."""
        if self.time_limit is None:
            return
        again = [step.limits for step in self.undominated() if step.result.status is not Status.OPTIMAL]
        for number, limits in enumerate(again):
            if self.stopped or self._left() < LEAST_SECONDS:
                return
            self._ask(limits, share=1.0 / (len(again) - number))

    def _ask(self, limits: Limits, share: float | None = None) -> Step:
        """Solve under some limits, from the best plan known, if nothing known settles it."""
        problem = self.question.limited(limits)
        fitting = [step for step in self.steps if step.values is not None and self._keeps(step.values, limits)]
        best = min(fitting, key=lambda step: step.values or (), default=None)
        learnt = lesson(problem, [step.solved for step in self.steps], [] if best is None else [best.solved])
        result = unsolved(problem, self.solver, self.arguments["seed"])
        if not learnt.settles and self._left() >= LEAST_SECONDS:
            takes = Feature.START in find_solver(problem, self.solver).features
            share = share or 1.0 / (1 + max(1, self.points - len(self.undominated())))
            seconds = None if self.time_limit is None else max(0.001, self._left() * share)
            start = learnt.plan if takes else None
            result = solve(problem, solver=self.solver, time_limit=seconds, start=start, **self.arguments)
        self.stopped = was_interrupted(result) or self._left() < LEAST_SECONDS
        label = ", ".join(f"{name} at most {limit:,}" for name, limit in limits.items()) or "no limit"
        solved = Solved(problem, label, improved(problem, result, learnt), learnt.settles)
        self.steps.append(Step(limits, solved, self._read(solved.result)))
        if self.progress is not None:
            self.progress(min(self.points, len(self.undominated())), self.points)
        return self.steps[-1]

    def _left(self) -> float:
        return math.inf if self.time_limit is None else self.time_limit - (time.perf_counter() - self.began)

    def _keeps(self, values: Values, limits: Limits) -> bool:
        return all(values[self.question.names.index(name)] <= limit for name, limit in limits.items())

    def _moving(self, values: Values) -> int:
        """The moving measure."""
        return int(values[self.question.names.index(self.question.moving)])

    def _read(self, result: Result[Any]) -> Values | None:
        """The measures of a plan, the minimised one first; None without a plan."""
        if result.solution is None or result.objective is None:
            return None
        timeline = result.timeline or self.question.problem.play(result.solution)
        assert timeline is not None
        return (result.objective, *self.question.read(result.solution, timeline))

    def undominated(self) -> list[Step]:
        """The steps whose plans no other plan beats, by the minimised measure."""
        found = [step for step in self.steps if step.values is not None]
        values = [step.values or () for step in found]
        return [found[k] for k in undominated(values)]

    def bound_at(self, limits: Limits) -> Lesson:
        """The best bound on plans within some limits, or the proof that there are none."""
        return lesson(self.question.limited(limits), [step.solved for step in self.steps], [])

    def complete(self) -> bool:
        """Whether it is proved that no other compromise exists: between two points, the tighter plan is optimal."""
        return all(self._complete_under(fixed) for fixed in self._fixed())

    def _complete_under(self, fixed: Limits) -> bool:
        kept = [step.values for step in self.undominated() if step.values and self._keeps(step.values, fixed)]
        best: dict[int, int | float] = {}
        for values in kept:
            best[self._moving(values)] = min(values[0], best.get(self._moving(values), math.inf))
        reached = math.inf
        for edge in [*sorted(best), None]:  # just below each point, and without a limit
            nothing = edge is not None and edge - 1 <= self._below
            known = (
                Lesson()
                if nothing
                else self.bound_at(fixed if edge is None else {**fixed, self.question.moving: edge - 1})
            )
            none = nothing or known.infeasible is not None
            if not (none if math.isinf(reached) else known.bound is not None and agree(known.bound, reached)):
                return False
            reached = reached if edge is None else min(reached, best[edge])
        return True


def undominated(found: Sequence[Values]) -> list[int]:
    """Numbers of the entries that no other one equals or beats in all measures, up to rounding of the first; in order.

    Examples
    --------
    >>> undominated([(2, 5), (1, 5), (2, 3), (2, 3)])
    [1, 2]
    """
    kept: list[int] = []
    for own in sorted(range(len(found)), key=found.__getitem__):
        goal, caps = found[own][0], found[own][1:]
        kept = [
            other
            for other in kept
            if caps == found[other][1:] or not (agree(goal, found[other][0]) and _no_more(caps, found[other][1:]))
        ]
        if not any(_no_more(found[other][1:], caps) for other in kept):
            kept.append(own)
    return kept


def _no_more(values: Values, others: Values) -> bool:
    return all(a <= b for a, b in zip(values, others, strict=True))
