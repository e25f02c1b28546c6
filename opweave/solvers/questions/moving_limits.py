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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from opweave.problems.problem import Problem
from opweave.problems.result import Result, Status
from opweave.problems.solution import Solution
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

AnyProblem = Problem[Any, Any]
Values = tuple[int | float, ...]
"""The measures of a plan, the minimised one first."""

Limits = Mapping[str, int]
"""The limits of a solve by measure; a measure that is not named has none."""

SOLVES_PER_POINT = 4
"""Most solves for each point asked for: some only prove that nothing lies between two points."""

LEAST_SECONDS = 0.05
"""No solve begins with less time than this."""


@dataclass(frozen=True, slots=True, eq=False)
class _Box:
    """Two neighbouring limits of the moving measure: the looser answer, and the tighter one or the proved least.

    Limits from ``least`` + 1 to ``value`` - 1 may hold further points. The ``fixed`` limits hold for all of them.
    """

    fixed: Limits
    loose: Solved
    value: int
    tight: Solved | None
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
    """A front while it is found.

    ``solved``, ``limits`` and ``values`` have every solve, its limits and measures; ``least`` is a lower bound on the
    moving measure of any plan.
    """

    problem: AnyProblem
    question: Asked
    solver: str
    points: int
    time_limit: float | None
    arguments: Mapping[str, Any]
    progress: Report | None
    solved: list[Solved] = field(default_factory=list)
    limits: list[Limits] = field(default_factory=list)
    values: list[Values | None] = field(default_factory=list)
    least: int = 0
    stopped: bool = False
    began: float = field(default_factory=time.perf_counter)

    def run(self) -> None:
        """Find the points, spend what time is left on unproved ones, and carry bounds and plans over."""
        self._look_into_boxes([box for fixed in self._fixed() for box in self._whole(fixed)])
        self._solve_again()
        carried_over(self.solved)
        self.values = [self._read(each.result) for each in self.solved]

    @property
    def moving(self) -> str:
        """The measure whose limit moves in small steps: bytes, if they are limited."""
        caps = self.question.caps
        return next((name for name, cap in caps.items() if cap.unit != "devices"), next(iter(caps)))

    def _fixed(self) -> list[Limits]:
        """The limits of the third measure, the number of devices: all that there are."""
        other = next((name for name in self.question.caps if name != self.moving), None)
        if other is None:
            return [{}]
        devices = len(self.problem.cluster.devices)  # type: ignore[attr-defined]  # it has some, since they are counted
        return [{other: count} for count in range(devices, 0, -1)]

    def _whole(self, fixed: Limits) -> Iterator[_Box]:
        """The box of all limits of the moving measure, between a solve without one and, if it can be, its minimum."""
        if self.stopped:
            return
        first = self._ask(fixed)
        if first.result.solution is None:
            return
        cap, value = self.question.caps[self.moving], self._value(first)
        self.least = max(self.least, cap.least(self.problem))
        if cap.minimised is not None and not self.stopped:
            lowest = self._solve(cap.minimised(self.problem), first.result.solution)
            self.least = max(self.least, math.ceil(lowest.bound or 0))
            limit = value if lowest.objective is None else int(lowest.objective)
            if limit < value and lowest.solution is not None:
                last = self._ask({**fixed, self.moving: limit}, plan=lowest.solution)
                yield _Box(fixed, last, limit, None, self.least - 1)
                yield _Box(fixed, first, value, last, limit)
                return
        yield _Box(fixed, first, value, None, self.least - 1)

    def _look_into_boxes(self, boxes: list[_Box]) -> None:
        tried: set[int] = set()
        for _ in range(SOLVES_PER_POINT * self.points):
            boxes = [box for box in boxes if not box.empty]
            if self.stopped or not boxes or len(self.undominated()) >= self.points:
                return
            box = max(boxes, key=self._worth)
            boxes.remove(box)
            middle = (box.least + box.value) // 2
            limit = box.value - 1 if id(box.loose) in tried or middle <= box.least else middle
            boxes += self._split(box, self._ask({**box.fixed, self.moving: limit}), limit, tried)

    def _split(self, box: _Box, found: Solved, limit: int, tried: set[int]) -> Iterator[_Box]:
        """The boxes that are left of one after a solve at a limit in it."""
        if found.result.objective is None:
            tried.add(id(box.loose))
            yield replace(box, least=limit)
            return
        other = None if box.tight is None else box.tight.result.objective
        if other is not None and found.result.objective >= other:
            tried.add(id(box.loose))  # no new point in the middle: the next limit is just below the looser plan
        yield replace(box, tight=found, least=limit)
        yield replace(box, loose=found, value=self._value(found))

    def _worth(self, box: _Box) -> float:
        """The area of a box, relative to those of the whole front: how much a point in it may bring."""
        goals = [each.result.objective for each in self.solved if each.result.objective is not None]
        span = float(max(goals) - min(goals)) or 1.0
        below = None if box.tight is None else box.tight.result.objective
        height = 1.0 if below is None else max(0.0, below - (box.loose.result.objective or 0)) / span
        return (box.value - box.least) * height

    def _solve_again(self) -> None:
        """Solve points that are not proved again, from the best plan known, in the time that is left."""
        if self.time_limit is None:
            return
        pairs = list(zip(self.limits, self.solved, strict=True))
        kept = [result for _, result in self.undominated()]
        again = [limits for limits, each in pairs if each.result in kept and each.result.status is not Status.OPTIMAL]
        for number, limits in enumerate(again):
            if self.stopped or self._left() < LEAST_SECONDS:
                return
            self._ask(limits, share=1.0 / (len(again) - number))

    def _ask(self, limits: Limits, share: float | None = None, plan: Solution | None = None) -> Solved:
        """Solve under some limits, from the best plan known or another one, if nothing known settles it."""
        problem = self.problem
        for name, limit in limits.items():
            problem = self.question.caps[name].limited(problem, limit)
        label = ", ".join(f"{name} at most {limit:,}" for name, limit in limits.items())
        fitting = self._fitting(limits)
        if plan is not None and not fitting:
            known = Lesson(plan, problem.evaluate(plan))
            fitting = [Solved(problem, label, improved(problem, unsolved(problem, self.solver, 0), known))]
        learnt = lesson(problem, self.solved, fitting)
        result = unsolved(problem, self.solver, self.arguments["seed"])
        if not learnt.settles and self._left() >= LEAST_SECONDS:
            result = self._solve(problem, learnt.plan, share)
        self.stopped = was_interrupted(result) or self._left() < LEAST_SECONDS
        found = Solved(problem, label or "no limit", improved(problem, result, learnt), learnt.settles)
        self.solved.append(found)
        self.limits.append(limits)
        self.values.append(self._read(found.result))
        if self.progress is not None:
            self.progress(min(self.points, len(self.undominated())), self.points)
        return found

    def _solve(self, problem: AnyProblem, start: Solution | None, share: float | None = None) -> Result[Any]:
        """Solve in a share of the time left."""
        takes = Feature.START in find_solver(problem, self.solver).features
        seconds = None if self.time_limit is None else max(0.001, self._left() * (share or self._share()))
        start = start if takes else None
        return solve(problem, solver=self.solver, time_limit=seconds, start=start, **self.arguments)

    def _left(self) -> float:
        return math.inf if self.time_limit is None else self.time_limit - (time.perf_counter() - self.began)

    def _share(self) -> float:
        """The share of the time left that the next solve gets."""
        return 1.0 / (1 + max(1, self.points - len(self.undominated())))

    def _fitting(self, limits: Limits) -> list[Solved]:
        """The answer with the best plan that keeps the limits, if there is one."""
        pairs = zip(self.solved, self.values, strict=True)
        kept = [each for each, values in pairs if values is not None and self._keeps(values, limits)]
        best = min(kept, key=lambda each: each.result.objective or 0, default=None)
        return [] if best is None else [best]

    def _keeps(self, values: Values, limits: Limits) -> bool:
        names = list(self.question.caps)
        return all(values[1 + names.index(name)] <= limit for name, limit in limits.items())

    def _value(self, solved: Solved) -> int:
        """The moving measure of an answer with a plan."""
        values = self.values[self.solved.index(solved)]
        assert values is not None
        return int(values[1 + list(self.question.caps).index(self.moving)])

    def _read(self, result: Result[Any]) -> Values | None:
        """The measures of a plan, the minimised one first; None without a plan."""
        if result.solution is None or result.objective is None:
            return None
        timeline = result.timeline or self.problem.play(result.solution)
        assert timeline is not None
        caps = self.question.caps.values()
        return (result.objective, *(cap.read(self.problem, result.solution, timeline) for cap in caps))

    def undominated(self) -> list[tuple[Values, Result[Any]]]:
        """The plans that no other plan beats, by the minimised measure, and their measures."""
        pairs = zip(self.values, self.solved, strict=True)
        return undominated([(values, each.result) for values, each in pairs if values is not None])

    def bound_at(self, limits: Limits) -> Lesson:
        """The best bound on plans within some limits, or the proof that there are none: of solves no tighter."""
        bounding = [
            each.result
            for each, known in zip(self.solved, self.limits, strict=True)
            if all(name in limits and limit >= limits[name] for name, limit in known.items())
        ]
        if any(result.status is Status.INFEASIBLE for result in bounding):
            return Lesson(infeasible="proved")
        best = max(
            (each for each in bounding if each.bound is not None), key=lambda each: each.bound or 0, default=None
        )
        return Lesson() if best is None else Lesson(bound=best.bound, source=best.bound_source)

    def complete(self) -> bool:
        """Whether it is proved that no other compromise exists: between two points, the tighter plan is optimal."""
        return all(self._complete_under(fixed) for fixed in self._fixed())

    def _complete_under(self, fixed: Limits) -> bool:
        place = 1 + list(self.question.caps).index(self.moving)
        best: dict[int, int | float] = {}
        for values, _ in self.undominated():
            if self._keeps(values, fixed):
                best[int(values[place])] = min(values[0], best.get(int(values[place]), math.inf))
        reached = math.inf
        for edge in [*sorted(best), None]:  # just below each point, and without a limit
            known = self.bound_at(fixed if edge is None else {**fixed, self.moving: edge - 1})
            none = known.infeasible is not None or (edge is not None and edge <= self.least)
            if not (none if math.isinf(reached) else known.bound is not None and agree(known.bound, reached)):
                return False
            reached = reached if edge is None else min(reached, best[edge])
        return True


def undominated(found: Sequence[tuple[Values, Result[Any]]]) -> list[tuple[Values, Result[Any]]]:
    """Drop every entry that another one equals or beats in all measures, up to rounding of the first.

    Examples
    --------
    >>> [values for values, _ in undominated([((1, 5), None), ((2, 5), None), ((2, 3), None), ((2, 3), None)])]
    [(1, 5), (2, 3)]
    """
    ordered = sorted(found, key=lambda entry: entry[0])

    def beats(other: int, own: int) -> bool:
        (goal, *caps), (mine, *kept) = ordered[other][0], ordered[own][0]
        as_good = all(a <= b for a, b in zip(caps, kept, strict=True)) and (goal <= mine or agree(goal, mine))
        return as_good and (caps != kept or other < own)

    count = range(len(ordered))
    return [ordered[own] for own in count if not any(other != own and beats(other, own) for other in count)]
