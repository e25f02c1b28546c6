"""Is there a plan? Asked of many variants of one problem; every answer is proved or says that it is not."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from opweave.problems.errors import InvalidInputError
from opweave.problems.problem import Problem
from opweave.problems.result import Result, Status, Termination
from opweave.problems.solution import Solution
from opweave.solvers.questions.assignment import assigned
from opweave.solvers.questions.draft import Draft
from opweave.solvers.questions.fields import rebuilt
from opweave.solvers.registry import Feature, find_solver
from opweave.solvers.run import Observer, Progress
from opweave.solvers.solve import solve

AnyProblemType = Problem[Any, Any]

QUESTION_SECONDS = 10.0
"""Most seconds for one question."""

QUICK_SECONDS = 2.0
"""Seconds for a plan with the devices of an assignment."""

STAGE_SECONDS = 30.0
"""Most seconds for the mends of one requirement when there is no time limit."""

LEAST_SECONDS = 0.05
"""Seconds below which a question is not asked."""

QUESTION_SHARE = 0.4
"""Most of the time left that one question may take."""

KEPT_PLANS = 32

REVIEW_SHARE = 0.25
"""Share of a question's time in which plans of other questions are looked at."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether a problem has a plan.

    Attributes
    ----------
    plan
        A plan that the referee accepts; None without one.
    infeasible
        Whether it is proved that there is none.
    proof
        How the answer was proved, or why it was not.
    """

    plan: Solution | None = None
    infeasible: bool = False
    proof: str = ""


@dataclass
class Inquiry:
    """Asks whether variants of a problem have plans, and remembers the plans that it has seen.

    Attributes
    ----------
    solver, seed
        As in ``solve``; with "auto", times are left aside first.
    time_limit
        Seconds for all questions together; None for :data:`QUESTION_SECONDS` each.
    progress
        Called with what is asked.
    """

    solver: str = "auto"
    seed: int = 0
    time_limit: float | None = None
    progress: Observer | None = None
    _interrupted: bool = False
    _began: float = field(default_factory=time.perf_counter)
    _plans: deque[Solution] = field(default_factory=lambda: deque(maxlen=KEPT_PLANS))

    def elapsed(self) -> float:
        """Seconds since the first question."""
        return time.perf_counter() - self._began

    def of(self, draft: Draft, about: str) -> tuple[AnyProblemType | None, Answer]:
        """Build a variant and ask about it; there is no problem if the changes make none."""
        try:
            problem = draft.build()
        except (ValidationError, InvalidInputError) as error:
            return None, Answer(proof=f"the changed problem is not valid: {error}")
        return problem, self.ask(problem, about)

    def ask(self, problem: AnyProblemType, about: str) -> Answer:
        """Whether a problem has a plan; ``about`` says in a few words what is asked."""
        if self.progress is not None:
            self.progress(Progress(self.elapsed(), None, None, False, about))
        seconds = self._seconds()
        if self.is_over:
            return Answer(proof="the time was up")
        now = time.perf_counter()
        found = Answer(proof="not decided in time")
        for found in self._attempts(problem, now + REVIEW_SHARE * seconds, now + seconds):
            if found.plan is not None or found.infeasible or now + seconds - time.perf_counter() < LEAST_SECONDS:
                break
        if found.plan is not None:
            self._plans.append(found.plan)
        return found

    def _attempts(self, problem: AnyProblemType, review: float, end: float) -> Iterator[Answer]:
        """Plans of other questions, then what several solvers say, the quickest first."""
        for plan in reversed(self._plans):
            if problem.evaluate(plan).feasible:
                yield Answer(plan, proof="a plan that the referee accepts")
            if time.perf_counter() > review:
                break
        if self.solver != "auto":
            yield self._answered(problem, self.solver, end)
            return
        found = assigned(problem, _until(end))
        if found.proof is not None:
            yield Answer(infeasible=True, proof=found.proof)
        if found.devices:
            pinned = rebuilt(problem, constraints=(*problem.constraints, *found.devices))
            quick = min(end, time.perf_counter() + QUICK_SECONDS)
            yield replace(self._answered(pinned, "auto", quick), infeasible=False)  # there may be other devices
        yield self._answered(problem, "auto", end)

    @contextmanager
    def stage(self, share: float) -> Iterator[None]:
        """Let the questions of a stage take a share of the time left, or :data:`STAGE_SECONDS` without a limit."""
        left = STAGE_SECONDS if self.time_limit is None else share * (self.time_limit - self.elapsed())
        whole, self.time_limit = self.time_limit, self.elapsed() + left
        try:
            yield
        finally:
            self.time_limit = whole

    @property
    def is_over(self) -> bool:
        """Whether there is no time for further questions."""
        return self._seconds() < LEAST_SECONDS

    def _seconds(self) -> float:
        if self._interrupted:
            return 0.0
        if self.time_limit is None:
            return QUESTION_SECONDS
        left = self.time_limit - self.elapsed()
        return min(QUESTION_SECONDS, max(QUESTION_SHARE * left, min(LEAST_SECONDS, left)))

    def _answered(self, problem: AnyProblemType, name: str, end: float) -> Answer:
        stops = Feature.CALLBACK in find_solver(problem, name).features
        callback = _first_plan if stops else None
        found: Result[Any] = solve(problem, solver=name, time_limit=_until(end), seed=self.seed, callback=callback)
        if found.verified:
            return Answer(found.solution, proof=f"a plan of {name} that the referee accepts")
        if found.status is Status.INFEASIBLE:
            return Answer(infeasible=True, proof=found.reason or "there is no plan")
        self._interrupted = self._interrupted or found.termination is Termination.INTERRUPTED  # by Ctrl-C
        return Answer(proof="not decided in time")


def _until(end: float) -> float:
    """Seconds until a moment, or just enough to ask."""
    return max(LEAST_SECONDS, end - time.perf_counter())


def _first_plan(progress: Progress) -> bool:
    return progress.objective is not None
