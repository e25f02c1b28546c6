"""Is there a plan? Asked of many variants of one problem; every answer is proved or says that it is not.

Times are left aside at first. Without an assignment of operators to devices there is no plan, because an assignment
needs only obey memory, links and the side constraints about devices. An assignment mostly leads to a plan: with its
devices required, list schedulers find the times.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from opweave.formulations.expressions import MODEL, expression, write_out
from opweave.formulations.modeling.arrays import TriviallyInfeasibleError, to_arrays
from opweave.formulations.on_cluster import rules_in_the_way
from opweave.formulations.placement.assignment import AssignmentModel
from opweave.formulations.placement.instance import PlacementInstance, lower_unless_short
from opweave.problems.constraints import MaxDevices, Pin, Separate, means
from opweave.problems.errors import InfeasibleError
from opweave.problems.placement.spec import Placement
from opweave.problems.problem import Problem
from opweave.problems.result import Result, Status, Termination
from opweave.problems.solution import Solution
from opweave.solvers.engines.answers import Ending, Work
from opweave.solvers.engines.highs_child import solve as run_highs
from opweave.solvers.engines.highs_child import with_highs
from opweave.solvers.questions.changes import rebuilt
from opweave.solvers.registry import Feature, find_solver
from opweave.solvers.run import Observer, Progress
from opweave.solvers.solve import solve

AnyProblem = Problem[Any, Any]

QUESTION_SECONDS, QUICK_SECONDS, LEAST_SECONDS = 10.0, 2.0, 0.05
"""Most seconds of a question, of a plan with the devices of an assignment, and those below which nothing is asked."""

QUESTION_SHARE = 0.4
"""Most of the time left that one question may take."""

KEPT_PLANS = 16
"""Plans of other questions that are looked at first."""

MOST_CHOICES = 200_000
"""Operators x devices up to which the program of assignments is written."""


@dataclass(frozen=True, slots=True)
class Known:
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


@dataclass(slots=True)
class Feasibility:
    """Asks whether problems have plans, and remembers the plans that it has seen.

    Attributes
    ----------
    solver, seed
        As in ``solve``; with "auto", times are left aside first.
    end
        When the time is up, by ``time.perf_counter``.
    progress
        Called with what is asked.
    """

    solver: str = "auto"
    seed: int = 0
    end: float = math.inf
    progress: Observer | None = None
    began: float = field(default_factory=time.perf_counter)
    plans: deque[Solution] = field(default_factory=lambda: deque(maxlen=KEPT_PLANS))

    def left(self) -> float:
        """Seconds for further questions."""
        return self.end - time.perf_counter()

    def ask(self, problem: AnyProblem, about: str) -> Known:
        """Whether a problem has a plan; ``about`` says in a few words what is asked."""
        now, left = time.perf_counter(), self.left()
        if self.progress is not None:
            self.progress(Progress(now - self.began, None, None, False, about))
        if left < LEAST_SECONDS:
            return Known(proof="the time was up")
        end = now + min(QUESTION_SECONDS, max(QUESTION_SHARE * left, LEAST_SECONDS))
        found = Known(proof="not decided in time")
        for found in self._attempts(problem, end):
            if found.plan is not None or found.infeasible or end - time.perf_counter() < LEAST_SECONDS:
                break
        if found.plan is not None:
            self.plans.append(found.plan)
        return found

    def _attempts(self, problem: AnyProblem, end: float) -> Iterator[Known]:
        """Plans of other questions, then what several solvers say, the quickest first."""
        for plan in reversed(self.plans):
            if problem.evaluate(plan).feasible:
                yield Known(plan, proof="a plan that the referee accepts")
        if self.solver == "auto" and isinstance(problem, Placement):
            pinned = assigned(problem, _until(end))
            if isinstance(pinned, str):
                yield Known(infeasible=True, proof=pinned)
            elif pinned is not None:
                quick = min(end, time.perf_counter() + QUICK_SECONDS)
                yield replace(self._solved(pinned, quick), infeasible=False)  # there may be other devices
        yield self._solved(problem, end)

    def _solved(self, problem: AnyProblem, end: float) -> Known:
        stops = Feature.CALLBACK in find_solver(problem, self.solver).features
        found: Result[Any] = solve(
            problem,
            solver=self.solver,
            time_limit=_until(end),
            seed=self.seed,
            callback=(lambda progress: progress.objective is not None) if stops else None,
        )
        if found.verified:
            return Known(found.solution, proof=f"a plan of {self.solver} that the referee accepts")
        if found.status is Status.INFEASIBLE:
            return Known(infeasible=True, proof=found.reason or "there is no plan")
        if found.termination is Termination.INTERRUPTED:  # by Ctrl-C
            self.end = -math.inf
        return Known(proof="not decided in time")


def _until(end: float) -> float:
    """Seconds until a moment, or just enough to ask."""
    return max(LEAST_SECONDS, end - time.perf_counter())


def assigned(problem: Placement, seconds: float) -> Placement | str | None:
    """Require the devices of an assignment, or prove that there is none; None for large problems, and in short time."""
    if len(problem.graph.operators) * len(problem.cluster.devices) > MOST_CHOICES:
        return None
    nowhere = f"operators cannot be assigned to devices within {rules_in_the_way(problem)}"
    try:
        instance = lower_unless_short(problem)
        model = _written(problem, instance)
        matrix = to_arrays(model).matrix
    except InfeasibleError as error:
        return str(error)
    except TriviallyInfeasibleError:
        return nowhere
    work = Work("highs", matrix, None, seconds, gap=0.0, seed=0, threads=1)
    answer = with_highs(_answered, work, seconds) if matrix.columns else None
    if answer is not None and answer.verdict == "infeasible":
        return nowhere
    if answer is None or answer.values is None:
        return None
    home = (answer.values[model.place] * (model.place >= 0)).argmax(axis=1).tolist()
    pins = [Pin(op=name, device=instance.devices[k]) for name, k in zip(instance.names, home, strict=True)]
    return rebuilt(problem, constraints=(*problem.constraints, *pins))


def _written(problem: Placement, instance: PlacementInstance) -> AssignmentModel:
    """Columns for operators on devices; rows for memory, links, and the side constraints about devices."""
    model = AssignmentModel.of(problem, instance)
    for constraint in problem.constraints:
        write = expression(type(constraint), MODEL) if means(constraint, Separate, MaxDevices) else None
        if write is not None:
            write_out(constraint, MODEL, write, model)
    return model


def _answered(work: Work, _: object) -> Ending:
    return run_highs(work, lambda _: None)
