"""Is there a plan? Asked of many variants of one problem; every answer is proved or says that it is not."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from opweave.formulations.expressions import expressible
from opweave.problems.errors import InvalidInputError, UnsupportedFeatureError
from opweave.problems.problem import Problem
from opweave.problems.result import Result, Status
from opweave.problems.solution import Solution
from opweave.solvers.questions.assignment import Assigned, assigned, with_devices
from opweave.solvers.questions.draft import Draft
from opweave.solvers.registry import Feature, find_solver, registered
from opweave.solvers.run import Observer, Progress
from opweave.solvers.solve import solve

AnyProblemType = Problem[Any, Any]

QUESTION_SECONDS = 10.0
"""Most seconds for one question."""

QUICK_SECONDS, SECONDS_PER_OPERATOR = 0.3, 1e-3
"""Seconds for ``auto``, and more for each operator; others get the rest."""

LEAST_SECONDS = 0.05
"""Seconds below which a question is not asked."""

QUESTION_SHARE = 0.4
"""Most of the time left that one question may take."""

KEPT_PLANS = 32


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
        As in ``solve``; "auto" asks the solvers that prove as well.
    time_limit
        Seconds for all questions together; None for :data:`QUESTION_SECONDS` each.
    progress
        Called with what is asked.
    asked
        Number of questions so far.
    """

    solver: str = "auto"
    seed: int = 0
    time_limit: float | None = None
    progress: Observer | None = None
    asked: int = 0
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

    def sparing(self, draft: Draft, device: str, about: str) -> tuple[AnyProblemType | None, Answer]:
        """As :meth:`of`, but prefer a plan with few bytes on a device, where an assignment shows one."""
        try:
            problem = draft.build()
        except (ValidationError, InvalidInputError):
            return self.of(draft, about)
        seconds = self._seconds() / 2
        found = assigned(problem, seconds, device) if self.solver == "auto" and seconds > LEAST_SECONDS else Assigned()
        if found.devices:
            answer = self._answered(with_devices(problem, found.devices), "auto", seconds)
            if answer.plan is not None:
                self._plans.append(answer.plan)
                return problem, answer
        return self.of(draft, about)

    def ask(self, problem: AnyProblemType, about: str) -> Answer:
        """Whether a problem has a plan; ``about`` says in a few words what is asked."""
        self.asked += 1
        if self.progress is not None:
            self.progress(Progress(self.elapsed(), None, None, False, about))
        known = next((plan for plan in reversed(self._plans) if problem.evaluate(plan).feasible), None)
        if known is not None:
            return Answer(known, proof="a plan that the referee accepts")
        seconds = self._seconds()
        if seconds < LEAST_SECONDS:
            return Answer(proof="the time was up")
        end, answer = time.perf_counter() + seconds, Answer(proof="not decided in time")
        for attempt in self._attempts(problem, end):
            answer = attempt
            if answer.plan is not None or answer.infeasible or end - time.perf_counter() < LEAST_SECONDS:
                break
        if answer.plan is not None:
            self._plans.append(answer.plan)
        return answer

    def _attempts(self, problem: AnyProblemType, end: float) -> Iterator[Answer]:
        """What several solvers say, the quickest first."""
        if self.solver != "auto":
            yield self._answered(problem, self.solver, end - time.perf_counter())
            return
        found = assigned(problem, end - time.perf_counter())
        if found.proof is not None:
            yield Answer(infeasible=True, proof=found.proof)
        seconds = QUICK_SECONDS + len(problem.graph.operators) * SECONDS_PER_OPERATOR
        yield self._answered(problem, "auto", min(seconds, end - time.perf_counter()))
        if found.devices:
            placed = self._answered(with_devices(problem, found.devices), "auto", end - time.perf_counter())
            yield replace(placed, infeasible=False)  # with other devices there may be a plan
        for name in self._provers(problem):
            yield self._answered(problem, name, end - time.perf_counter())

    def _seconds(self) -> float:
        if self.time_limit is None:
            return QUESTION_SECONDS
        return min(QUESTION_SECONDS, QUESTION_SHARE * (self.time_limit - self.elapsed()))

    def _provers(self, problem: AnyProblemType) -> list[str]:
        """Solvers of the problem that prove optima and know all its side constraints."""
        kinds = [type(constraint) for constraint in problem.constraints]
        known = {each.name: each for each in registered(problem.kind) if each.proves == "optimum"}
        able = [known[name] for name in PROVERS if name in known and known[name].missing() is None]
        return [each.name for each in able if all(expressible(kind, each.supports) for kind in kinds)]

    def _answered(self, problem: AnyProblemType, name: str, seconds: float) -> Answer:
        stops = Feature.CALLBACK in find_solver(problem, name).features
        callback = _first_plan if stops else None
        try:
            found: Result[Any] = solve(problem, solver=name, time_limit=seconds, seed=self.seed, callback=callback)
        except UnsupportedFeatureError:
            if name == self.solver:
                raise
            return Answer(proof=f"{name} does not support the problem")
        if found.verified:
            return Answer(found.solution, proof=f"a plan of {name} that the referee accepts")
        if found.status is Status.INFEASIBLE:
            return Answer(infeasible=True, proof=f"{found.reason or 'there is no plan'} ({name})")
        return Answer(proof=f"not decided in {seconds:.1f} s")


PROVERS = ("cp-sat", "highs", "btsearch", "exact")
"""Solvers that are asked after ``auto``, in this order, where a problem has them."""


def _first_plan(progress: Progress) -> bool:
    return progress.objective is not None
