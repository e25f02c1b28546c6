"""Default solvers where rules, or rows of a user's own, go beyond what their searches understand.

1. The searches and bounds of the problem run on the problem without these rules. Their bounds hold for it. Their plans
   count if the referee accepts them or, where a user adds rows, if the model with the rows does.
2. Engines solve the problem with everything, from the best of these plans: HiGHS, and CP-SAT if it is installed. They
   honour what has no expression by asking the referee (:mod:`opweave.solvers.engines.refusals`).
3. If nothing is proved by then, and all rules have ``violations``, the evolutionary search goes on, if it is installed.

A function that replaces the model's objective is served by the engines alone; the other plans are not offered then.
"""

from __future__ import annotations

import logging
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from opweave.formulations.expressions import MODEL, VIOLATIONS
from opweave.problems.constraints import Constraint
from opweave.problems.errors import EngineError, LimitExceededError, OpweaveError, UnsupportedFeatureError
from opweave.problems.problem import Problem
from opweave.problems.result import Termination
from opweave.problems.solution import Solution
from opweave.solvers.arguments import start_run
from opweave.solvers.registry import Feature, Solver, find_solver, go_on_with, is_available, register
from opweave.solvers.run import Outcome, Run
from opweave.solvers.side_by_side.exchange import Found
from opweave.solvers.side_by_side.lead import run_solver

logger = logging.getLogger("opweave")

SEARCH_SHARE, SEARCH_SECONDS = 0.25, 5.0
"""For the searches without the rules: share of the time left, and seconds if there is no limit."""

ENGINES = ("highs", "cp-sat")
"""The engines; the second comes first for more than ``TINY`` operators. Up to there, the embedded engine ends before
the other one's process has started."""

TINY = 12
ENGINE_SHARE, ENGINE_SECONDS = 0.6, 20.0
"""For the first of two engines: share of the time left, and seconds if there is no limit."""

EVOLUTION = "pymoo"
MOST_OFFERS = 32
"""Plans of the searches that are put into a model with rows of a user's own."""


def register_plan(solver: Solver) -> Solver:
    """Register a default solver. What its searches do not support is honoured by engines and the referee."""
    return register(
        replace(
            solver,
            run=partial(_solve, solver),
            features=solver.features | {Feature.EXTEND},
            supports=(*solver.supports, MODEL, VIOLATIONS),
        )
    )


@dataclass(eq=False)
class RelaxedRun(Run):
    """A run of the problem without some rules: it hands on bounds, and those plans that obey the rules."""

    outer: Run = field(kw_only=True)
    whole: Problem[Any, Any] = field(kw_only=True)
    rules: tuple[Constraint, ...] = field(kw_only=True)

    def found(self, solution: Solution, objective: int | float) -> bool:
        """Report a plan of the problem without the rules."""
        better = super().found(solution, objective)
        wanted = self.outer.objective is None or objective < self.outer.objective
        if better and wanted and not any(True for rule in self.rules for _ in rule.violations(self.whole, solution)):
            if self.outer.extend is None:
                self.outer.found(solution, objective)
            else:
                self.outer.offers.append(Found(solution, objective))
                del self.outer.offers[:-MOST_OFFERS]
        return better

    def proved(self, bound: int | float, source: str) -> None:
        """Report a lower bound, which holds with the rules, too."""
        super().proved(bound, source)
        self.outer.proved(bound, source)

    def enter(self, stage: str) -> None:
        """Name the current stage."""
        self.outer.enter(stage)


def _solve(plan: Solver, problem: Problem[Any, Any], run: Run) -> Outcome:
    """Run a default solver, and engines after it if there are rules or rows that it does not understand."""
    rules = plan.beyond(problem)
    if not rules and run.extend is None:
        return plan.run(problem, run)
    outcome = _search(plan, problem, run, rules)
    if outcome.infeasible or run.closed() or run.should_stop():
        return outcome if outcome.infeasible else Outcome(run.termination())
    outcome = _by_engines(problem, run)
    if outcome.infeasible or run.closed() or run.should_stop() or not outcome.reason:
        return outcome
    if run.extend is None and is_available(problem, EVOLUTION):
        go_on_with(problem, EVOLUTION, run)
    return outcome


def _search(plan: Solver, problem: Problem[Any, Any], run: Run, rules: tuple[Constraint, ...]) -> Outcome:
    """Run the default solver for a share of the time on the problem without the rules."""
    kept = tuple(each for each in problem.constraints if not any(each is rule for rule in rules))
    relaxed = problem.model_copy(update={"constraints": kept}) if rules else problem
    with run.share(SEARCH_SHARE, SEARCH_SECONDS):
        inner = RelaxedRun(
            time_limit=run.remaining(),
            gap=run.gap,
            seed=run.seed,
            threads=run.threads,
            executor=run.executor,
            start=run.start,
            callback=lambda _: run.should_stop(),
            options=run.options,
            outer=run,
            whole=problem,
            rules=rules,
        )
        start_run(relaxed, inner)
        return run_solver(relaxed, find_solver(relaxed, plan.name), inner)


def _by_engines(problem: Problem[Any, Any], run: Run) -> Outcome:
    """Run one engine after the other, until one is done.

    Raises
    ------
    UnsupportedFeatureError, LimitExceededError, EngineError
        If no engine can solve the problem, and there is no plan.
    """
    names = [name for name in ENGINES if is_available(problem, name)]
    if len(problem.graph.operators) > TINY:
        names.reverse()
    outcome, failed = Outcome(run.termination()), list[OpweaveError]()
    for name in names:
        with nullcontext() if name == names[-1] else run.share(ENGINE_SHARE, ENGINE_SECONDS):
            try:
                outcome = go_on_with(problem, name, run, head_start=False)
            except (UnsupportedFeatureError, LimitExceededError, EngineError) as error:
                logger.info("the default solver goes on without %s: %s", name, error)
                failed.append(error)
                continue
        done = outcome.termination is Termination.COMPLETED and not outcome.reason
        if outcome.infeasible or done or run.closed() or run.should_stop():
            return outcome
    if len(failed) < len(names):
        return outcome
    if failed and run.best is None:
        raise failed[0]
    reason = f"no engine honours all rules: {failed[0]}" if failed else "no engine is installed"
    return Outcome(Termination.BUDGET, reason=reason)
