"""Which compromise? Fronts over two or three measures, each point with its bound.

One measure is minimised, the others are limited, and the limits move (the epsilon-constraint method). A plan with a
measure of v, optimal under a limit of v or more, is optimal for every limit in between, so the next limit is below v.

Source: Haimes, Lasdon, Wismer, "On a bicriterion formulation of the problems of integrated system identification and
system optimization", IEEE Trans. Systems, Man and Cybernetics 1(3), 1971; the boxes between points: Laumanns, Thiele,
Zitzler, "An efficient, adaptive parameter variation scheme for metaheuristics based on the epsilon-constraint method",
European J. Operational Research 169(3), 2006, doi:10.1016/j.ejor.2004.08.029.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from opweave.problems.errors import InvalidInputError
from opweave.problems.problem import Problem
from opweave.problems.result import OptionValue, Result, Status
from opweave.problems.shown import Shown
from opweave.problems.slicing.spec import Slicing
from opweave.problems.spec import SCHEMA_VERSION, Many, Spec
from opweave.solvers.arguments import checked_time_limit, checked_whole
from opweave.solvers.questions.answers import (
    Answer,
    Lesson,
    Report,
    Solved,
    carried_over,
    improved,
    lesson,
    unsolved,
    was_interrupted,
)
from opweave.solvers.questions.measured import Asked, asked
from opweave.solvers.registry import Feature, find_solver
from opweave.solvers.run import agree
from opweave.solvers.solve import solve
from opweave.solvers.trivial import trivial_bound

AnyProblem = Problem[Any, Any]
Method = Literal["epsilon", "nsga2"]
Values = tuple[int | float, ...]
"""The measures of a plan, the minimised one first."""

SOLVES_PER_POINT = 4
"""Most solves for each point asked for: some only prove that nothing lies between two points."""

LEAST_SECONDS = 0.05
"""No solve begins with less time than this."""


class Front(Shown, Spec):
    """Plans of which none is better than another in all measures.

    Attributes
    ----------
    problem
        The problem's kind.
    measures, units
        The measures, the minimised one first, and their units.
    method
        "epsilon" or "nsga2".
    rows
        The points, by the minimised measure; ``values`` has the measures of each. The bound of a row is proved: no plan
        whose other measures are at most those of the row is below it in the minimised measure.
    steps
        Every solve: ``values`` has its limits, None for no limit.
    complete
        Whether it is proved that no other compromise exists.
    """

    schema_version: Literal[1] = SCHEMA_VERSION
    problem: str
    measures: Many[str]
    units: Many[str]
    method: Method
    rows: Many[Answer]
    steps: Many[Answer] = ()
    complete: bool = False


def pareto(
    problem: AnyProblem,
    measures: Sequence[str],
    *,
    points: int = 10,
    method: Method = "epsilon",
    solver: str = "auto",
    formulation: str | None = None,
    time_limit: float | None = None,
    gap: float = 0.0,
    seed: int = 0,
    threads: int = 1,
    options: Mapping[str, OptionValue] | None = None,
    executor: Executor | None = None,
    progress: Report | None = None,
) -> Front:
    """Find plans that trade one measure against others.

    Parameters
    ----------
    problem
        The problem. All its limits and side constraints hold for all plans.
    measures
        Two or three names. One is minimised: ``"total"`` (ordering), ``"makespan"`` (placement, batched mapping),
        ``"bottleneck"``, ``"latency"`` or ``"transfers"`` (pipeline), ``"latency"`` (slicing). The others are limited:
        ``"peak"``, the most bytes that any device holds at a time, and ``"devices"``, the number of devices in use.
    points
        Most points; there may be fewer.
    method
        ``"epsilon"``: a solve for every point, each with a bound. ``"nsga2"``: one genetic search without proofs, for
        slicing (:func:`~opweave.solvers.slicing.pareto.pareto_front`).
    solver, formulation, gap, threads, executor, options
        As in :func:`~opweave.solvers.solve.solve`, for each solve.
    time_limit
        Seconds for the whole front; None for no limit.
    seed
        Seed of every solve.
    progress
        Called with the number of points that are found and the number asked for.

    Returns
    -------
    Front

    Raises
    ------
    InvalidInputError
        For measures that the problem cannot minimise or limit; the message lists the pairs that it can.
    UnknownSolverError, SolverNotAvailableError, UnsupportedFeatureError, UnsupportedConstraintError
        When the solver does not support a request.

    Examples
    --------
    >>> import opweave as ow
    >>> graph = ow.OpGraph(
    ...     tensors=[ow.Tensor(id=name, bytes=size) for name, size in (("x", 1), ("a", 4), ("b", 4), ("c", 1))],
    ...     operators=[
    ...         ow.Operator(id="a", inputs=["x"], outputs=["a"]),
    ...         ow.Operator(id="b", inputs=["x"], outputs=["b"]),
    ...         ow.Operator(id="c", inputs=["a", "b"], outputs=["c"]),
    ...     ],
    ... )
    >>> cluster = ow.Cluster(devices=[ow.Device(name="p"), ow.Device(name="q")], shared=8.0)
    >>> costs = ow.Costs.from_table({name: {"p": 1.0, "q": 1.0} for name in "abc"})
    >>> front = ow.pareto(ow.Placement(graph=graph, cluster=cluster, costs=costs), ("makespan", "peak"))
    >>> [(row.values["makespan"], row.values["peak"]) for row in front.rows], front.complete
    ([(2.5, 5)], True)
    """
    if isinstance(measures, str) or not all(isinstance(name, str) for name in measures):
        raise InvalidInputError(f"measures is {measures!r:.80}; it must be two or three names of measures")
    checked_whole("points", points, 1)
    checked_time_limit(time_limit)
    if method == "nsga2":
        return _searched(problem, tuple(measures), points, time_limit, seed)
    if method != "epsilon":
        raise InvalidInputError(f"method is {method!r:.60}; it must be 'epsilon' or 'nsga2'")
    question = asked(problem, tuple(measures))
    arguments = {
        "gap": gap,
        "seed": seed,
        "threads": threads,
        "options": options,
        "executor": executor,
        "formulation": formulation,
    }
    work = _Work(question.goal.minimised(problem), question, solver, points, time_limit, arguments, progress)
    work.all_points()
    return work.front()


@dataclass(frozen=True, slots=True, eq=False)
class _Box:
    """Two neighbouring limits of the moving measure: the looser answer, and the tighter one or the proved least.

    Limits from ``least`` + 1 to ``value`` - 1 may hold further points. The ``fixed`` limits hold for all of them.
    """

    fixed: Mapping[str, int]
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
class _Work:
    """A front while it is found. ``solved``, ``limits`` and ``values`` have every solve, its limits and measures."""

    problem: AnyProblem
    question: Asked
    solver: str
    points: int
    time_limit: float | None
    arguments: Mapping[str, Any]
    progress: Report | None
    solved: list[Solved] = field(default_factory=list)
    limits: list[dict[str, int | None]] = field(default_factory=list)
    values: list[Values | None] = field(default_factory=list)
    complete: bool = True
    stopped: bool = False
    began: float = field(default_factory=time.perf_counter)

    def all_points(self) -> None:
        """Move the limit of the bytes; with three measures, for every number of devices."""
        caps = self.question.caps
        moving = next((name for name, cap in caps.items() if cap.unit != "devices"), next(iter(caps)))
        fixed = next((name for name in caps if name != moving), None)
        devices = len(getattr(self.problem, "cluster").devices) if fixed else 0  # noqa: B009  # it has devices
        boxes = []
        for limits in [{fixed: count} for count in range(devices, 0, -1)] if fixed else [{}]:
            first = self._ask(dict(limits))
            if first.result.solution is not None:
                least = caps[moving].least(self.problem) - 1
                boxes.append(_Box(limits, first, self._value(moving, first), None, least))
            elif first.result.status is not Status.INFEASIBLE:
                self.complete = False
            if self.stopped:
                break
        tried: set[int] = set()
        for _ in range(SOLVES_PER_POINT * self.points):
            boxes = [box for box in boxes if not box.empty]
            if self.stopped or not boxes or len(self._undominated()) >= self.points:
                break
            box = max(boxes, key=self._worth)
            boxes.remove(box)
            middle = (box.least + box.value) // 2
            limit = box.value - 1 if id(box.loose) in tried or middle <= box.least else middle
            boxes += self._split(moving, box, self._ask({**box.fixed, moving: limit}), limit, tried)
        self.complete = self.complete and not [box for box in boxes if not box.empty]

    def _split(self, name: str, box: _Box, found: Solved, limit: int, tried: set[int]) -> Iterator[_Box]:
        """The boxes that are left of one after a solve at a limit in it."""
        result = found.result
        if result.solution is None:
            if result.status is not Status.INFEASIBLE:
                self.complete = False  # nothing is known below this limit
            yield replace(box, least=max(box.least, limit))
            tried.add(id(box.loose))
            return
        other = None if box.tight is None else box.tight.result.objective
        if other is not None and result.objective is not None and result.objective >= other:
            tried.add(id(box.loose))  # no new point in the middle: the next limit is just below the looser plan
        yield replace(box, tight=found, least=limit)
        yield replace(box, loose=found, value=self._value(name, found))

    def _worth(self, box: _Box) -> float:
        """The area of a box, relative to those of the whole front: how much a point in it may bring."""
        goals = [each.result.objective for each in self.solved if each.result.objective is not None]
        span = float(max(goals) - min(goals)) or 1.0
        below = None if box.tight is None else box.tight.result.objective
        height = 1.0 if below is None else max(0.0, below - (box.loose.result.objective or 0)) / span
        return (box.value - box.least) * height

    def _ask(self, limits: dict[str, int | None]) -> Solved:
        """Solve under some limits, if what is known from other limits does not settle it."""
        problem = self.problem
        for name, limit in limits.items():
            if limit is not None:
                problem = self.question.caps[name].limited(problem, limit)
        label = ", ".join(f"{name} at most {limit:,}" for name, limit in limits.items() if limit is not None)
        learnt = lesson(problem, self.solved, self._fitting(limits))
        result = unsolved(problem, self.solver, self.arguments["seed"])
        seconds = self._seconds()
        if not learnt.settles and not (seconds is not None and seconds < LEAST_SECONDS):
            takes = Feature.START in find_solver(problem, self.solver).features
            start = learnt.plan if takes else None
            result = solve(problem, solver=self.solver, time_limit=seconds, start=start, **self.arguments)
        self.stopped = was_interrupted(result) or (seconds is not None and self._left() < LEAST_SECONDS)
        found = Solved(problem, label or "no limit", improved(problem, result, learnt), learnt.settles)
        self.solved.append(found)
        self.limits.append(limits)
        self.values.append(self._read(found.result))
        if self.progress is not None:
            self.progress(min(self.points, len(self._undominated())), self.points)
        return found

    def _left(self) -> float:
        return math.inf if self.time_limit is None else self.time_limit - (time.perf_counter() - self.began)

    def _seconds(self) -> float | None:
        """The share of the time that the next solve gets; None without a limit."""
        if self.time_limit is None:
            return None
        return max(0.001, self._left() / max(2.0, 1.5 * (self.points - len(self._undominated()))))

    def _fitting(self, limits: Mapping[str, int | None]) -> list[Solved]:
        """The answer with the best plan that keeps the limits, if there is one."""
        names = list(self.question.caps)
        best: Solved | None = None
        for each, values in zip(self.solved, self.values, strict=True):
            if values is None or any(
                limit is not None and values[1 + names.index(name)] > limit for name, limit in limits.items()
            ):
                continue
            if best is None or (each.result.objective or 0) < (best.result.objective or 0):
                best = each
        return [] if best is None else [best]

    def _value(self, name: str, solved: Solved) -> int:
        """A capped measure of an answer with a plan."""
        values = self.values[self.solved.index(solved)]
        assert values is not None
        return int(values[1 + list(self.question.caps).index(name)])

    def _read(self, result: Result[Any]) -> Values | None:
        """The measures of a plan, the minimised one first; None without a plan."""
        if result.solution is None or result.objective is None:
            return None
        timeline = result.timeline or self.problem.play(result.solution)
        assert timeline is not None
        caps = self.question.caps.values()
        return (result.objective, *(cap.read(self.problem, result.solution, timeline) for cap in caps))

    def _undominated(self) -> list[tuple[Values, Result[Any]]]:
        """The plans that no other plan beats, by the minimised measure, and their measures."""
        pairs = zip(self.values, self.solved, strict=True)
        return undominated([(values, each.result) for values, each in pairs if values is not None])

    def front(self) -> Front:
        """Carry bounds and plans over, and keep what no other plan beats."""
        carried_over(self.solved)
        self.values = [self._read(each.result) for each in self.solved]
        names = [self.question.goal_name, *self.question.caps]
        rows = []
        for values, result in self._undominated():
            learnt = self._bound_at(dict(zip(names[1:], values[1:], strict=True)))
            made = improved(self.problem, result, learnt)
            rows.append(Answer.of(self.solver, made, dict(zip(names, values, strict=True))))
        steps = [
            Answer.of(self.solver, each.result, {name: limits.get(name) for name in names[1:]})
            for each, limits in zip(self.solved, self.limits, strict=True)
        ]
        proved = all(row.status is Status.OPTIMAL for row in rows)
        return Front(
            problem=self.problem.kind,
            measures=tuple(names),
            units=(self.question.goal.unit, *(cap.unit for cap in self.question.caps.values())),
            method="epsilon",
            rows=tuple(rows),
            steps=tuple(steps),
            complete=self.complete and proved and not self.stopped,
        )

    def _bound_at(self, values: Mapping[str, int | float]) -> Lesson:
        """The best bound on plans with at most these measures: of all solves whose limits are no tighter."""
        best: Solved | None = None
        for each, limits in zip(self.solved, self.limits, strict=True):
            looser = all(limit is None or limit >= values[name] for name, limit in limits.items())
            bound = each.result.bound
            if looser and bound is not None and (best is None or bound > (best.result.bound or 0)):
                best = each
        if best is None:
            return Lesson()
        return Lesson(bound=best.result.bound, source=best.result.bound_source)


def undominated(
    found: Sequence[tuple[Values, Result[Any]]],
) -> list[tuple[Values, Result[Any]]]:
    """Drop every entry that another one equals or beats in all measures.

    Examples
    --------
    >>> [values for values, _ in undominated([((1, 5), None), ((2, 5), None), ((2, 3), None), ((2, 3), None)])]
    [(1, 5), (2, 3)]
    """
    kept: list[tuple[Values, Result[Any]]] = []
    for values, result in sorted(found, key=lambda entry: entry[0]):
        if not any(all(a <= b for a, b in zip(other, values, strict=True)) for other, _ in kept):
            kept.append((values, result))
    return kept


def _searched(
    problem: AnyProblem, measures: tuple[str, ...], points: int, time_limit: float | None, seed: int
) -> Front:
    """The front that NSGA-II finds."""
    if not isinstance(problem, Slicing) or {*measures} not in ({"latency", "peak"}, {"latency", "peak_bytes"}):
        raise InvalidInputError(
            f"method 'nsga2' searches Slicing over ('latency', 'peak'), not {type(problem).__name__} over "
            f"{measures!r:.80}; take method='epsilon'"
        )
    from opweave.solvers.slicing.pareto import pareto_front

    found = pareto_front(problem, time_limit=time_limit, seed=seed)
    step = max(1.0, (len(found) - 1) / max(1, points - 1))
    chosen = found if len(found) <= points else [found[round(k * step)] for k in range(points)]
    names = tuple(sorted(measures))  # latency comes before peak
    rows = []
    for plan in chosen:
        learnt = Lesson(plan.solution, problem.evaluate(plan.solution), trivial_bound(problem), "trivial")
        result = improved(problem, unsolved(problem, "nsga2", seed), learnt)
        rows.append(Answer.of("nsga2", result, dict(zip(names, (plan.seconds, plan.peak_bytes), strict=True))))
    return Front(problem=problem.kind, measures=names, units=("seconds", "bytes"), method="nsga2", rows=tuple(rows))
