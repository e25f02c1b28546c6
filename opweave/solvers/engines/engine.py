"""Running an engine on a formulation, in the same way for every problem and engine."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any

from opweave.formulations.expressions import extended
from opweave.formulations.formulation import (
    BuildContext,
    Formulation,
    OutOfTimeError,
    find_formulation,
    formulation_for,
    formulation_names,
)
from opweave.formulations.modeling.arrays import Program, TriviallyInfeasibleError, to_arrays
from opweave.formulations.modeling.intervals import IntervalModel, WholeProgram
from opweave.formulations.modeling.linear import MissingHandleError
from opweave.formulations.modeling.model import Waits
from opweave.formulations.modeling.pyomo import PyomoFormulation, PyomoView
from opweave.formulations.order_arcs import ContradictionError
from opweave.problems.errors import InfeasibleError, InvalidInputError, UnsupportedFeatureError
from opweave.problems.problem import Problem
from opweave.problems.result import Termination
from opweave.problems.solution import Solution
from opweave.solvers.engines.child import prepare
from opweave.solvers.engines.known import Engine
from opweave.solvers.engines.rules import MOST_ROUNDS, Refusals, beyond, unexpressed
from opweave.solvers.engines.task import Task
from opweave.solvers.loops import uninterrupted
from opweave.solvers.run import Outcome, Run

MOST_MODELS = 6
COARSE = 3e-7
SMALLER = 0.5
"""Most models that are written for one run. A model is written again if it blurs objectives by more than ``COARSE``
times the best one, and the best one is below ``SMALLER`` times the objective that the model was written for."""


@dataclass(frozen=True, slots=True)
class HeadStart:
    """Cheap information about a problem that helps any engine.

    Attributes
    ----------
    initial
        A solution, or None when none is found quickly. The referee judges it before it is used.
    lower_bound
        A proved lower bound of the objective, or None. One that may take long asks whether time is up.
    """

    initial: Callable[[Any], Solution | None] = lambda _: None
    lower_bound: Callable[[Any, Callable[[], bool]], int | float | None] = lambda _problem, _stop: None


def run_engine(
    problem: Problem[Any, Any],
    run: Run,
    engine: Engine,
    head_start: HeadStart = HeadStart(),
    formulation: type[Formulation[Any, Any]] | None = None,
) -> Outcome:
    """Write a problem as a model, solve it with an engine, and report what the engine finds.

    Parameters
    ----------
    problem
        Any problem that has a formulation.
    run
        Receives solutions and bounds.
    engine
        The engine that solves the model.
    head_start
        A first solution and bound.
    formulation
        A formulation that users cannot select; None for the one that the run names, or the problem's default.

    Raises
    ------
    EngineError
        If the engine fails; earlier findings remain in ``run``.
    UnsupportedConstraintError, UnsupportedFeatureError, LimitExceededError
        If the problem cannot be written as a model that the engine solves.
    """
    every = [formulation] if formulation is not None else _choices(problem, run, engine)
    with suppress(ContradictionError):
        every[0](BuildContext()).check_problem(problem)  # nobody waits for a plan to be refused
    prepare(engine.function)  # it is imported while the model is written and others work
    known = first_knowledge(problem, run, head_start)
    lacking: UnsupportedFeatureError | None = None
    for written in every:
        try:
            return _Attempt(problem, run, engine, known, Refusals(problem, written)).solve(written)
        except UnsupportedFeatureError as error:  # rows need variables that another formulation may have
            if lacking is None and not isinstance(error, MissingHandleError):
                raise
            lacking = lacking or error
    assert lacking is not None
    raise lacking


def _choices(problem: Problem[Any, Any], run: Run, engine: Engine) -> list[type[Formulation[Any, Any]]]:
    """The formulation that the run names, or all that leave the fewest side constraints to the referee."""
    names = () if run.formulation is not None else formulation_names(problem.kind, engine.takes)
    every = (find_formulation(type(problem), name, engine.takes) for name in names)
    left = {each: len(unexpressed(problem, each)) for each in every if each.mode == problem.mode}
    if not left:
        return [formulation_for(problem, run.formulation, engine.takes)]  # or says why there is none
    return [each for each, count in left.items() if count == min(left.values())]


@dataclass(eq=False)
class _Attempt:
    """One run of an engine on one formulation.

    Attributes
    ----------
    known
        The best solution so far, from which the engine starts.
    refusals
        What rules that the model cannot express have objected to.
    """

    problem: Problem[Any, Any]
    run: Run
    engine: Engine
    known: Solution | None
    refusals: Refusals

    def solve(self, written: type[Formulation[Any, Any]]) -> Outcome:
        """Write and solve models until no smaller unit is needed."""
        run, outcome = self.run, None
        for _ in range(MOST_MODELS):
            if run.closed():
                return Outcome(run.termination())
            program = written(context_of(self.problem, run, written))
            try:
                latest = with_room(program, self._refusing)
            except OutOfTimeError:  # a model that was never written knows no resolution
                ended = Termination.TIME_LIMIT if run.termination() is Termination.COMPLETED else run.termination()
                late = "there was not enough time to write the model"
                return Outcome(ended, reason=late if self.refusals.exact else self.refusals.reason())
            outcome = latest if outcome is None or not latest.infeasible else outcome
            if run.should_stop() or not too_coarse(run, program):
                break
            self.known = run.best
        return outcome or Outcome(run.termination())

    def _refusing(self, formulation: Formulation[Any, Any]) -> tuple[Outcome, Waits | None]:
        """Solve, and solve again without the plans to which a rule has objected, until it accepts the best one."""
        run, refusals, known, rounds = self.run, self.refusals, self.known, 0
        while True:
            before = len(refusals)
            outcome, waits = self._once(formulation, known)
            if not refusals.pending or run.should_stop():
                unproved = not refusals.exact and outcome.reason is None and not run.closed()
                return replace(outcome, reason=refusals.reason()) if unproved else outcome, waits
            rounds += not refusals.exact and run.time_limit is None
            if len(refusals) == before or rounds > MOST_ROUNDS:
                return Outcome(Termination.BUDGET, reason=refusals.reason()), waits
            known = run.best or known

    def _once(self, formulation: Formulation[Any, Any], known: Solution | None) -> tuple[Outcome, Waits | None]:
        """Write the model and solve it; returns the outcome, and how much longer added rows may make schedules."""
        run = self.run
        self.refusals.pending = False
        try:
            task = self._task(formulation, known)
        except InfeasibleError as error:
            return self._without_solution(formulation, str(error)), None
        except TriviallyInfeasibleError:
            return self._without_solution(formulation), None
        if run.should_stop():
            return Outcome(run.termination()), None
        run.enter(f"{self.engine.name}: {task.program.size}")
        verdict = self.engine.solve(task)
        if verdict == "infeasible":
            return self._without_solution(formulation), task.waits()
        termination = run.termination()
        if verdict == "stopped" and termination is Termination.COMPLETED and not run.closed():
            termination = Termination.TIME_LIMIT if run.time_limit is not None else Termination.BUDGET
        left_out = verdict != "stopped" and formulation.restricts and self.refusals.exact and not run.closed()
        final = verdict == "solved" and not formulation.restricts and self.refusals.exact
        return Outcome(termination, reason=_leaves_out(formulation) if left_out else None, final=final), None

    def _without_solution(self, formulation: Formulation[Any, Any], reason: str = "") -> Outcome:
        """The outcome if the model is infeasible: so is the problem, unless the formulation leaves solutions out."""
        if not self.refusals.exact:
            return Outcome(reason=self.refusals.reason())
        if not formulation.restricts:
            return Outcome(infeasible=True, reason=reason or formulation.why_infeasible(self.problem))
        return Outcome(reason=f"{_leaves_out(formulation)}, and none of those that it has obeys all constraints")

    def _task(self, formulation: Formulation[Any, Any], known: Solution | None) -> Task:
        """Build, extend and lay out the model, and start from the known solution."""
        run = self.run
        run.enter(f"writing the {formulation.name} model")
        began = run.elapsed()
        with quiet_pyomo() if isinstance(formulation, PyomoFormulation) else nullcontext():
            task = self._written(formulation)
            task.check_added()
            complaint = None if known is None else task.offer(known)
            if complaint is not None and known is run.start and not task.program.exact:
                raise InvalidInputError(f"the start does not obey the model: it gives {complaint}")
        run.findings.build_seconds += run.elapsed() - began
        return task

    def _written(self, formulation: Formulation[Any, Any]) -> Task:
        """The model as the engine receives it, with the rows of a user's own."""
        view: PyomoView | None = None
        program: Program | WholeProgram
        model = formulation.build(self.problem)
        self.refusals.write(formulation, model)
        cost = None if isinstance(formulation, PyomoFormulation) else model.cost
        extended(model, self.problem, self.run.extend)
        if isinstance(formulation, PyomoFormulation):
            view = model.opweave
            program = view.program()
        else:
            written = model.program() if isinstance(model, IntervalModel) else to_arrays(model)
            program = replace(written, own_objective=model.cost is cost)
        return Task(self.engine.name, self.problem, formulation, model, program, self.run, self.refusals, view)


def too_coarse(run: Run, formulation: Any) -> bool:
    """Whether a model blurs the objective because it was written for objectives much larger than the best one found."""
    ceiling, best = formulation.context.ceiling, run.objective
    if formulation.context.extended or best is None or not formulation.resolution() > COARSE * best:
        return False
    return ceiling is None or best < SMALLER * ceiling


def with_room(formulation: Formulation[Any, Any], attempt: Callable[[Any], tuple[Outcome, Waits | None]]) -> Outcome:
    """Solve; if added rows leave no schedule within the usual horizon, solve again with a longer one."""
    outcome, waits = attempt(formulation)
    if not outcome.infeasible or waits is None:
        return outcome
    if waits.seconds > 0.0:
        outcome, _ = attempt(type(formulation)(replace(formulation.context, waits=waits.seconds)))
    if not outcome.infeasible or waits.bounded:
        return outcome
    return Outcome(reason=f"{outcome.reason}; the added constraints may allow longer ones, so this is not a proof")


def _leaves_out(formulation: Formulation[Any, Any]) -> str:
    return f"formulation {formulation.name!r} leaves solutions out"


def first_knowledge(problem: Problem[Any, Any], run: Run, head_start: HeadStart) -> Solution | None:
    """Take in a first solution, which counts if no rows can speak against it, and a bound; return the best solution."""
    known = None if run.extend is None else run.best or run.start
    initial = known or head_start.initial(problem)
    if run.extend is None and initial is not None:  # before the bound, which may take all the time
        judged = problem.evaluate(initial)
        if judged.feasible and judged.objective is not None:
            run.found(initial, judged.objective)
    lower_bound = head_start.lower_bound(problem, run.should_stop)
    if lower_bound is not None:
        run.proved(lower_bound, "bound before the engine")
    return run.best if run.extend is None else initial


def context_of(problem: Problem[Any, Any], run: Run, formulation: type[Formulation[Any, Any]]) -> BuildContext:
    """What is known before a model is written, without the known objective if added rows may exclude its solution."""
    extended = run.extend is not None or bool(beyond(problem, formulation))
    return BuildContext(
        lower_bound=run.bound,
        ceiling=None if extended else run.objective,
        extended=extended,
        keep_going=lambda: not run.should_stop(),
        seconds_left=lambda: math.inf if (left := run.remaining()) is None else left,
        defers=True,
    )


@contextmanager
def quiet_pyomo() -> Iterator[None]:
    """Keep Pyomo's messages off the terminal while a model is written; errors are raised all the same.

    The application's own log handlers still receive the messages, and several threads may write models.
    """
    with uninterrupted():
        import pyomo.common.log  # noqa: F401  # importing it sets up the handlers

    with ExitStack() as later:
        for handler in logging.getLogger("pyomo").handlers:
            nothing = logging.Filter(f"{__name__}.nothing")  # lets only records of this name pass
            handler.addFilter(nothing)
            later.callback(handler.removeFilter, nothing)
        yield
