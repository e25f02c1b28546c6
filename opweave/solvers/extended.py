"""Default solvers where rules, or rows of a user's own, go beyond what their searches understand.

1. The searches and bounds of the problem run on the problem without these rules. Their bounds hold for it. Their plans
   count if the referee accepts them or, where a user adds rows, if the model with the rows does. If no plan obeys
   rules about devices, the searches run with what the rules read kept off one device or put on one, and then on devices
   that the rules allow, near those of the best plan. Then come the baselines that obey the rules, exactly or by simpler
   ones, and the evolutionary search while there is no plan.
2. Engines solve the problem with everything, from the best of these plans: HiGHS, and CP-SAT if it is installed. They
   honour what has no expression by asking the referee (:mod:`opweave.solvers.engines.refusals`).
3. If nothing is proved by then, and all rules have ``violations``, the evolutionary search goes on, if it is installed.

A function that replaces the model's objective is served by the engines alone; the other plans are not offered then.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from itertools import count, islice
from typing import Any

from opweave.formulations.expressions import expressible
from opweave.problems.constraints import Constraint, Pin
from opweave.problems.errors import (
    EngineError,
    InfeasibleError,
    InvalidInputError,
    LimitExceededError,
    OpweaveError,
    UnsupportedFeatureError,
)
from opweave.problems.problem import Problem
from opweave.problems.result import Termination
from opweave.problems.solution import Solution
from opweave.solvers.arguments import start_run
from opweave.solvers.engines.device_rules import allowed_devices, simple_ways
from opweave.solvers.narrowing.narrower import narrower, unknown_rules, without
from opweave.solvers.narrowing.runs import narrower_run
from opweave.solvers.registry import (
    Solver,
    find_solver,
    go_on_with,
    is_available,
    load_solvers,
)
from opweave.solvers.run import Outcome, Run
from opweave.solvers.side_by_side.alone import run_solver
from opweave.solvers.side_by_side.exchange import Found

logger = logging.getLogger("opweave")

SEARCH_SHARE, SEARCH_SECONDS = 0.25, 5.0
"""For the searches without the rules: share of the time left, and seconds if there is no limit."""

ENGINES = ("highs", "cp-sat")
"""The engines; the second comes first for more than ``TINY`` operators. Up to there, the embedded engine ends before
the other one's process has started."""

NARROWED_SHARE, NARROWED_SECONDS, MOST_NARROWED, MOST_SIMPLE = 0.15, 2.0, 3, 4
"""For each search on devices that the rules allow: share of the time left, and seconds; how many there may be from
random walks, and how many under simple pins and forbids before them."""

SIMPLE_SHARE = 0.4
"""Largest share of the time left for the baselines that obey the rules, in seconds at most those of the searches."""

FIRST_SHARE = 0.2
"""For the evolutionary search while a problem of more than ``TINY`` operators has no plan: share of the time left, in
seconds at most those of the searches."""

TINY = 12
ENGINE_SHARE, ENGINE_SECONDS = 0.6, 20.0
"""For the first of two engines: share of the time left, and seconds if there is no limit."""

EVOLUTION = "pymoo"


def solve_extended(plan: Solver, problem: Problem[Any, Any], run: Run) -> Outcome:
    """Run a default solver, and engines after it, because there are rules or rows that it does not understand."""
    searches = _Searches(plan, problem, run, plan.beyond(problem))
    outcome, found = searches.relaxed()
    if outcome.infeasible or run.closed() or run.should_stop():
        return outcome if outcome.infeasible else Outcome(run.termination())
    large = len(problem.graph.operators) > TINY
    if found is not None and run.extend is None:
        run.offers.append(found)  # engines ask the rules about it before they begin
        if run.best is None and not large:  # perhaps there is no plan, which only they can prove
            with run.share(ENGINE_SHARE, ENGINE_SECONDS):
                outcome = _by_engines(problem, run)
            if outcome.infeasible or run.closed() or run.should_stop():
                return outcome
        searches.allowed(found.solution)
    if run.extend is None:
        _simple_plans(problem, run)
        if run.best is None and large and not run.should_stop() and is_available(problem, EVOLUTION):
            with run.share(FIRST_SHARE, SEARCH_SECONDS), suppress(UnsupportedFeatureError):
                go_on_with(problem, EVOLUTION, run)
    outcome = _by_engines(problem, run)
    if outcome.infeasible or run.closed() or run.should_stop() or not outcome.reason:
        return outcome
    if run.extend is None and is_available(problem, EVOLUTION):
        with suppress(UnsupportedFeatureError):
            go_on_with(problem, EVOLUTION, run)
    return outcome


def _simple_plans(problem: Problem[Any, Any], run: Run) -> None:
    """Run the baselines that obey all rules, exactly or by simpler ones, so that no result is worse than theirs."""
    with run.share(SIMPLE_SHARE, SEARCH_SECONDS):
        for row in load_solvers(problem.kind):
            knows = problem.reading in row.readings
            knows &= all(expressible(type(rule), row.supports) for rule in problem.constraints)
            if row.baseline and knows and not run.should_stop():
                go_on_with(problem, row.name, run)


@dataclass(frozen=True, slots=True)
class _Searches:
    """The searches of a default solver, for a problem with rules that they do not understand."""

    plan: Solver
    problem: Problem[Any, Any]
    run: Run
    rules: tuple[Constraint, ...]

    def relaxed(self) -> tuple[Outcome, Found | None]:
        """Search without the rules; returns the best plan of that, too."""
        with self.run.share(SEARCH_SHARE, SEARCH_SECONDS):
            return self._search(without(self.problem, self.rules), relaxed=True)

    def allowed(self, like: Solution) -> None:
        """If the rules are about devices and no plan obeys them so far, search on devices that they allow."""
        if self.run.best is not None:
            return
        tried = set[object]()
        for way in islice(simple_ways(self.problem, self.rules, like), MOST_SIMPLE * MOST_SIMPLE):
            if way not in tried and len(tried) < MOST_SIMPLE and not self.run.should_stop():
                self._narrowed(self._under(way))
            tried.add(way)
        for problem in islice(self._narrower(like), MOST_NARROWED):
            if self.run.best is not None or self.run.should_stop():
                return
            self._narrowed(problem)

    def _narrowed(self, problem: Problem[Any, Any]) -> None:
        with self.run.share(NARROWED_SHARE, NARROWED_SECONDS), suppress(InfeasibleError):
            self._search(problem)

    def _under(self, simpler: Sequence[Constraint]) -> Problem[Any, Any]:
        """The problem with simpler constraints instead of the rules."""
        relaxed = without(self.problem, self.rules)
        return relaxed.under((*relaxed.constraints, *simpler))

    def _narrower(self, like: Solution) -> Iterator[Problem[Any, Any]]:
        """Problems in which simpler rules imply these; for a user's own rules, pins found by random walks."""
        simpler = unknown_rules(self.problem, self.plan.supports)
        if len(simpler) == len(self.rules):
            yield from narrower(self.problem, simpler, like)
            return
        for seed in count(self.run.seed):
            where = allowed_devices(self.problem, self.rules, like, seed, lambda: not self.run.should_stop())
            if where is None:
                return
            yield self._under([Pin(op=op, device=device) for op, device in where.items()])

    def _search(self, problem: Problem[Any, Any], *, relaxed: bool = False) -> tuple[Outcome, Found | None]:
        inner = narrower_run(self.problem, problem, self.rules, self.run, relaxed=relaxed)
        start_run(problem, inner)
        outcome = run_solver(problem, find_solver(problem, self.plan.name), inner)
        return outcome, inner.candidates[-1] if inner.candidates else None


def _by_engines(problem: Problem[Any, Any], run: Run) -> Outcome:
    """Run one engine after the other, until one is done.

    Raises
    ------
    UnsupportedFeatureError, LimitExceededError, EngineError
        If no engine can solve the problem with a user's rows, and there is no plan.
    InvalidInputError
        If rows of a user's own are wrong.
    """
    names = [name for name in ENGINES if is_available(problem, name)]
    if len(problem.graph.operators) > TINY:
        names.reverse()
    outcome, failed = Outcome(run.termination()), list[OpweaveError]()
    for name in names:
        with nullcontext() if name == names[-1] else run.share(ENGINE_SHARE, ENGINE_SECONDS):
            try:
                outcome = go_on_with(problem, name, run, head_start=False)
            except (UnsupportedFeatureError, InvalidInputError, EngineError) as error:
                wrong = isinstance(error, InvalidInputError) and not isinstance(error, LimitExceededError)
                if wrong and run.extend is not None:
                    raise  # the mistake may be in rows of the user's own
                logger.info("the default solver goes on without %s: %s", name, error)
                failed.append(error)
                continue
        done = outcome.termination is Termination.COMPLETED and not outcome.reason
        if outcome.infeasible or done or run.closed() or run.should_stop():
            return outcome
    if len(failed) < len(names):
        return outcome
    if not failed:
        failed.append(UnsupportedFeatureError(f"{type(problem).__name__} has no formulation for any engine here"))
    if run.best is None and run.extend is not None:
        raise failed[0]
    return Outcome(Termination.BUDGET, reason=f"no engine honours all rules: {failed[0]}")
