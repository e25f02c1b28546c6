"""The rows of answers: what each of several solves found, and what they learn from each other."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, Self

from pydantic import PlainSerializer, PlainValidator

from opweave.problems.errors import InvalidInputError, OpweaveError
from opweave.problems.problem import Problem
from opweave.problems.result import OptionValue, Result, Status, Termination
from opweave.problems.shown import Rows, Shown, find_view
from opweave.problems.solution import Evaluation, Solution
from opweave.problems.spec import FrozenDict, Many, Spec
from opweave.problems.timeline import Timeline
from opweave.problems.units import precise_seconds, readable, readable_bytes, readable_seconds, readable_share
from opweave.solvers.lanes import places_of
from opweave.solvers.questions.fields import rebuilt
from opweave.solvers.questions.relaxation import plan_for, relaxes
from opweave.solvers.run import agree
from opweave.solvers.solve import solve
from opweave.solvers.verdict import may_hold

logger = logging.getLogger("opweave")

AnyProblem = Problem[Any, Any]

_FAILED = "the executor failed: {}: {}"

Report = Callable[[int, int], None]
"""Called with the number of solves done and the number of all solves."""


def _read_result(value: object) -> Result[Solution]:
    """An instance stays as it is, with its timeline and its problem."""
    return value if isinstance(value, Result) else Result[Solution].model_validate(value)


AnyResult = Annotated[
    Result[Any], PlainValidator(_read_result), PlainSerializer(lambda result: result.model_dump(mode="json"))
]


class Answer(Spec):
    """What one of several solves found.

    Attributes
    ----------
    solver
        The solver that was asked.
    values
        What was asked of it, by name: the fields of a sweep's point, or the limits on measures.
    result
        What it found; None if it did not run.
    refusal
        Why it did not run.
    """

    solver: str
    values: FrozenDict[str, OptionValue] = FrozenDict()
    result: AnyResult | None = None
    refusal: str | None = None

    @classmethod
    def of(cls, solver: str, found: Result[Any] | str, values: Mapping[str, OptionValue]) -> Self:
        """Make the row of a result, or of the sentence that says why there is none."""
        result, refusal = (found, None) if isinstance(found, Result) else (None, found)
        return cls(solver=solver, values=FrozenDict(values), result=result, refusal=refusal)

    @property
    def objective(self) -> int | float | None:
        """The objective of the best solution; None when there is none."""
        return None if self.result is None else self.result.objective

    @property
    def bound(self) -> int | float | None:
        """A proved lower bound on the objective; None when unknown."""
        return None if self.result is None else self.result.bound

    @property
    def gap(self) -> float | None:
        """(objective - bound) / objective; None when either is unknown."""
        return None if self.result is None else self.result.gap

    @property
    def status(self) -> Status | None:
        """What was found; None if the solver did not run."""
        return None if self.result is None else self.result.status

    @property
    def seconds(self) -> float | None:
        """Wall seconds of the solve; None if the solver did not run."""
        return None if self.result is None else self.result.timings.total

    @property
    def solution(self) -> Solution | None:
        """The best solution; None when there is none."""
        return None if self.result is None else self.result.solution

    @property
    def reason(self) -> str | None:
        """Why there is no solution, or what went wrong."""
        return self.refusal if self.result is None else self.result.reason

    @property
    def timeline(self) -> Timeline | None:
        """What happens when the solution is carried out; None without a solution, or after reading from JSON."""
        return None if self.result is None else self.result.timeline


_RATES = ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s"))
_IN_BYTES = ("memory", "limit", "peak", "total")


def readable_value(axis: str, value: OptionValue) -> str:
    """Write a value of an axis or a measure of a sweep or front.

    Examples
    --------
    >>> readable_value("memory", 2**30), readable_value("batch", 8), readable_value("peak", None)
    ('1 GiB', '8', 'no limit')
    """
    name = axis.partition(":")[0]
    if value is None:
        return "no limit"
    if isinstance(value, bool | str):
        return str(value)
    if name in _IN_BYTES or name.endswith("_bytes"):
        return readable_bytes(value)
    if name == "bandwidth":
        factor, unit = next((each for each in _RATES if value >= each[0]), _RATES[-1])
        return f"{value / factor:.4g} {unit}"
    return precise_seconds(float(value)) if name == "latency" else f"{value:,g}"


class Answers(Shown, Spec):
    """Several answers, which print as a table; a loop over them goes over their rows."""

    problem: str
    rows: Many[Answer]

    def __iter__(self) -> Iterator[Answer]:  # type: ignore[override]  # pydantic loops over fields
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        unit = getattr(self, "unit", getattr(self, "units", ("",))[0])
        table = Rows([_cells(row, unit) for row in self.rows])
        return f"{type(self).__name__} ({self.problem.replace('_', ' ')})\n{table!r}"


def _cells(answer: Answer, unit: str) -> dict[str, object]:
    return {
        "solver": answer.solver,
        **{name: readable_value(name, value) for name, value in answer.values.items()},
        "objective": readable(answer.objective, unit),
        "bound": readable(answer.bound, unit),
        "gap": readable_share(answer.gap),
        "status": None if answer.status is None else answer.status.value,
        "time": None if answer.seconds is None else readable_seconds(answer.seconds),
        "reason": answer.reason,
    }


@contextmanager
def reporting(progress: Report | bool | None, label: str) -> Iterator[Report | None]:
    """Report to a function, or, for True, to a progress bar; this layer does not know how to draw one."""
    if progress is not True:
        yield progress or None
        return
    bar = find_view("questions", "progress")
    if bar is None:
        raise InvalidInputError("nothing here shows progress; import opweave, or pass progress=f")
    with bar(label) as report:
        yield report


@dataclass(frozen=True, slots=True)
class Question:
    """One solve that is to be done: the arguments of :func:`~opweave.solvers.solve.solve`."""

    problem: AnyProblem
    solver: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def ask(self) -> Result[Any] | str:
        """Solve; a refusal is returned as its sentence."""
        try:
            return solve(self.problem, solver=self.solver, **self.arguments)
        except OpweaveError as error:
            return str(error)


def ask(question: Question) -> Result[Any] | str:
    """Solve in a worker of an executor."""
    return question.ask()


def in_turn(questions: Iterable[Question], executor: Executor | None) -> Iterator[tuple[int, Result[Any] | str]]:
    """Solve one after another, or side by side on an executor; Ctrl-C ends the solve at work and the rest.

    A question is taken from ``questions`` when its turn has come, so it can depend on the answers until then.

    Yields
    ------
    tuple
        The number of a question, and its answer, as soon as it is there.
    """
    numbered = enumerate(questions)
    if executor is None:
        for number, question in numbered:
            found = question.ask()
            yield number, found
            if was_interrupted(found):
                return
        return
    asked: dict[Future[Result[Any] | str], tuple[int, Question]] = {}
    places = places_of(executor)
    try:
        while True:
            while len(asked) < places and (turn := next(numbered, None)) is not None:
                try:
                    asked[executor.submit(ask, turn[1])] = turn
                except Exception as error:  # of a broken or closed executor
                    yield turn[0], _FAILED.format(type(error).__name__, error)
            if not asked:
                return
            future = next(as_completed(asked))
            yield _received(future, *asked.pop(future))
    finally:
        for future in asked:
            future.cancel()


def _received(future: Future[Result[Any] | str], number: int, question: Question) -> tuple[int, Result[Any] | str]:
    """The answer of a worker; a pickle has neither the problem nor the timeline."""
    error = future.exception()
    if error is not None:
        return number, _FAILED.format(type(error).__name__, error)
    found = future.result()
    if isinstance(found, Result):
        timeline = None if found.solution is None else question.problem.play(found.solution)
        found = found.of_problem(question.problem).with_timeline(timeline)
    return number, found


def was_interrupted(found: Result[Any] | str) -> bool:
    """Whether Ctrl-C ended a solve."""
    return isinstance(found, Result) and found.termination is Termination.INTERRUPTED


def row(question: Question, found: Result[Any] | str, values: Mapping[str, OptionValue] | None = None) -> Answer:
    """Make the row of an answer, and log it."""
    made = Answer.of(question.solver, found, values or {})
    asked = "".join(f" {name}={value}" for name, value in made.values.items())
    what = found if isinstance(found, str) else f"{found.status.value}, {found.objective}, bound {found.bound}"
    logger.info("%s%s: %s", question.solver, asked, what)
    return made


@dataclass(slots=True, eq=False)
class Solved:
    """A problem among several, its name in sentences, and its result; ``learnt`` if other answers settled it."""

    problem: AnyProblem
    name: str
    result: Result[Any]
    learnt: bool = False


@dataclass(frozen=True, slots=True)
class Lesson:
    """What the answers to other problems say about one: a plan, a lower bound and its source, or that there is none."""

    plan: Solution | None = None
    judged: Evaluation[Any] | None = None
    bound: int | float | None = None
    source: str | None = None
    infeasible: str | None = None

    @property
    def settles(self) -> bool:
        """Whether nothing is left to be found."""
        objective = None if self.judged is None else self.judged.objective
        met = objective is not None and self.bound is not None and agree(objective, self.bound)
        return self.infeasible is not None or met


def lesson(problem: AnyProblem, others: Sequence[Solved], neighbours: Sequence[Solved]) -> Lesson:
    """Learn from other answers.

    Parameters
    ----------
    problem
        The problem that is to be answered.
    others
        Answers whose bounds and proofs are taken, if their problem asks less.
    neighbours
        Answers whose plans are judged here, which takes the referee's time for each.
    """
    infeasible, source = None, None
    bound: int | float | None = None
    for other in others:
        result = other.result
        settled = result.status is Status.INFEASIBLE
        better = result.bound is not None and (bound is None or result.bound > bound)
        if not (settled or better) or not relaxes(other.problem, problem):
            continue
        if settled:
            own = f"there is no plan at {other.name}, which asks less: {result.reason or 'proved'}"
            infeasible = result.reason if other.learnt else own
        else:
            bound, source = result.bound, f"{result.bound_source or result.solver}, at {other.name}"
    plans = [(each.problem, each.result.solution) for each in neighbours if each.result.solution is not None]
    fitting = (plan_for(problem, asked, plan) for asked, plan in plans)
    known = [each for each in fitting if each is not None]
    plan, judged = min(known, key=lambda pair: pair[1].objective or 0, default=(None, None))
    return Lesson(plan, judged, bound, source, infeasible)


def unsolved(problem: AnyProblem, solver: str, seed: int) -> Result[Any]:
    """The result of a problem that need not be solved, before what settles it is taken over."""
    return Result[Any](
        problem=problem.kind,
        status=Status.UNKNOWN,
        termination=Termination.COMPLETED,
        solver=solver,
        seed=seed,
        assumptions=problem.assumptions(),
    )


def improved(problem: AnyProblem, result: Result[Any], learnt: Lesson) -> Result[Any]:
    """Take over what is better than the solve's own: its plan, its bound, its proof that there is none.

    A bound that contradicts a verified plan is dropped, because one of the two solves was wrong.
    """
    objective, solution, timeline = result.objective, result.solution, result.timeline
    other = None if learnt.judged is None else learnt.judged.objective
    if learnt.judged is not None and other is not None and (objective is None or other < objective):
        objective, solution, timeline = other, learnt.plan, learnt.judged.timeline
    bounds = ((result.bound, result.bound_source), (learnt.bound, learnt.source))
    known = [(each, source) for each, source in bounds if each is not None and may_hold(each, objective)]
    bound, source = max(known, key=lambda pair: pair[0], default=(None, None))
    status, reason = result.status, result.reason
    if objective is not None:
        bound = None if bound is None else min(bound, objective)  # they differ only by rounding
        status = Status.OPTIMAL if bound is not None and agree(bound, objective) else Status.FEASIBLE
        reason = reason if result.solution is not None else None
    elif learnt.infeasible is not None or status is Status.INFEASIBLE:
        reason = reason if status is Status.INFEASIBLE else learnt.infeasible
        status, bound, source = Status.INFEASIBLE, None, None
    if (objective, bound, status) == (result.objective, result.bound, result.status):
        return result
    news = {
        "objective": objective,
        "bound": bound,
        "bound_source": source,
        "status": status,
        "solution": solution,
        "verified": solution is not None,
        "violations": result.violations if solution is None else (),
        "reason": reason,
    }
    return rebuilt(result, **news).of_problem(problem).with_timeline(timeline)


def carried_over(answers: Sequence[Solved]) -> None:
    """Let all answers learn from each other: bounds from problems that ask less, plans from problems that ask more."""
    lessons = []
    for each in answers:
        others = [other for other in answers if other is not each]
        own = math.inf if each.result.objective is None else each.result.objective
        better = [other for other in others if other.result.solution and (other.result.objective or 0) < own]
        below = [other for other in better if relaxes(each.problem, other.problem)]
        best = sorted(below, key=lambda other: other.result.objective or 0)[:1]
        lessons.append(lesson(each.problem, others, best))
    for each, learnt in zip(answers, lessons, strict=True):
        each.result = improved(each.problem, each.result, learnt)
