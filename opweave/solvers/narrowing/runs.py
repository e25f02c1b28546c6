"""Heuristics under rules that they know only by simpler ones: they run on narrower problems.

A simple rule runs on the problem without the unknown rules, in case its plan obeys them anyway, and then on every
narrower problem; the best plan counts. A search runs on the narrower problem where a simple rule finds the best plan,
and on the next ones while it ends by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import wraps
from itertools import islice
from typing import Any

from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.reduction import Reduction
from opweave.problems.constraints import Constraint, objections
from opweave.problems.solution import Solution
from opweave.solvers.approved import note_approval
from opweave.solvers.narrowing.narrower import AnyProblem, devices_of, narrower, unknown_rules, without
from opweave.solvers.reduced import ReducedRun
from opweave.solvers.registry import go_on_with
from opweave.solvers.rules import CarryOut, NoPlanError
from opweave.solvers.run import Outcome, Run
from opweave.solvers.side_by_side.exchange import Found

MOST_TRIES, LEAST_TRIES = 32, 4
"""Most narrower problems that a simple rule tries, for small problems and for large ones."""

WORK = 50_000
"""Operators times devices that a simple rule sees in all of its tries, if they are more than the fewest."""

PROBING_SHARE = 0.3
"""Largest share of the time left in which a search looks for promising narrower problems."""

MOST_SEARCHED = 3
"""Most narrower problems that a search tries when no time limit ends it."""

Solve = Callable[[Any, Run], Outcome]


MOST_OFFERS = 32
"""Plans that are kept for a model with rows of a user's own."""


@dataclass(eq=False)
class NarrowerRun(ReducedRun):
    """A run without ``rules`` or with simpler ones. It hands on the solutions that obey them.

    Where a user adds rows, solutions are only offered: the model with the rows decides.
    """

    whole: AnyProblem = field(kw_only=True)
    rules: Sequence[Constraint] = field(kw_only=True)

    def found(self, solution: Solution, objective: int | float) -> bool:
        """Report a solution, which the whole run receives if it obeys the rules."""
        better = Run.found(self, solution, objective)
        wanted = self.outer.objective is None or objective < self.outer.objective
        if wanted and not any(True for rule in self.rules for _ in objections(rule, self.whole, solution)):
            if self.outer.extend is None:
                note_approval(self.outer, self.whole, solution, self.rules)
                self.outer.found(solution, objective)
            elif better:
                self.outer.offers.append(Found(solution, objective))
                del self.outer.offers[:-MOST_OFFERS]
        return better


def narrower_run(
    whole: AnyProblem, problem: AnyProblem, rules: Sequence[Constraint], run: Run, *, relaxed: bool = False
) -> NarrowerRun:
    """A run of ``problem`` within a run of ``whole``; bounds of the ``relaxed`` one, without rules, count."""
    start = run.start if run.start is not None and problem.evaluate(run.start).feasible else None
    return NarrowerRun(
        time_limit=run.remaining(),
        gap=run.gap,
        seed=run.seed,
        threads=run.threads,
        executor=run.executor,
        start=start,
        options=run.options,
        callback=lambda _: run.should_stop(),
        outer=run,
        reduction=Reduction(problem=problem, lift=lambda solution: solution, exact=relaxed),
        whole=whole,
        rules=rules,
    )


def by_every_way(supports: Sequence[str]) -> Callable[[CarryOut], CarryOut]:
    """Let a simple rule obey more constraints than it knows: it runs on many narrower problems.

    Parameters
    ----------
    supports
        The targets that the rule understands.
    """

    def decorate(carry_out: CarryOut) -> CarryOut:
        @wraps(carry_out)
        def widened(problem: AnyProblem, run: Run) -> None:
            rules = unknown_rules(problem, supports)
            if not rules:
                return carry_out(problem, run)
            relaxed = without(problem, rules)
            first = narrower_run(problem, relaxed, rules, run)
            reason = _tried(carry_out, relaxed, first)  # a contradiction here is one of the whole
            for number, each in enumerate(_first(problem, rules, first.best)):
                if run.should_stop() and (run.candidates or run.stopped or number >= LEAST_TRIES):
                    break  # a run whose time is up asks simple rules for its first plan
                try:
                    reason = _tried(carry_out, each, narrower_run(problem, each, rules, run)) or reason
                except ContradictionError as error:
                    reason = str(error)
            if run.best is None:
                raise NoPlanError(_no_plan(rules, reason))
            return None

        return widened

    return decorate


def _tried(carry_out: CarryOut, problem: AnyProblem, run: Run) -> str | None:
    """Carry out a rule; return why it has no plan."""
    try:
        carry_out(problem, run)
    except NoPlanError as error:
        return str(error)
    return None


def by_best_way(supports: Sequence[str], probe: str) -> Callable[[Solve], Solve]:
    """Let a search obey more constraints than it knows: it runs on the most promising narrower problems.

    Parameters
    ----------
    supports
        The targets that the search understands.
    probe
        The name of a simple rule, whose plans tell which narrower problems are promising.
    """

    def decorate(solve: Solve) -> Solve:
        @wraps(solve)
        def widened(problem: AnyProblem, run: Run) -> Outcome:
            rules = unknown_rules(problem, supports)
            if not rules:
                return solve(problem, run)
            reason = None
            with run.share(PROBING_SHARE):
                ranked = _ranked(problem, rules, probe, run)
            for number, each in enumerate(ranked):
                if run.should_stop() or (run.time_limit is None and run.candidates and number >= MOST_SEARCHED):
                    break
                reason = _attempt(solve, problem, each, rules, run).reason or reason
            return Outcome(run.termination(), reason=None if run.best is not None else _no_plan(rules, reason))

        return widened

    return decorate


def _first(problem: AnyProblem, rules: Sequence[Constraint], near: Solution | None) -> Iterator[AnyProblem]:
    """The first narrower problems, fewer of a large problem. The clock has no say, so every run tries as many."""
    size = len(problem.graph.operators) * len(devices_of(problem))
    return islice(narrower(problem, rules, near), min(MOST_TRIES, max(LEAST_TRIES, WORK // max(1, size))))


def _ranked(problem: AnyProblem, rules: Sequence[Constraint], probe: str, run: Run) -> list[AnyProblem]:
    """Narrower problems by the objective of a simple rule; those without its plan come last."""
    relaxed, ranked = without(problem, rules), []
    first = narrower_run(problem, relaxed, rules, run)
    go_on_with(relaxed, probe, first)  # a contradiction here is one of the whole
    for number, each in enumerate(_first(problem, rules, first.best)):
        inner = narrower_run(problem, each, rules, run)
        try:
            go_on_with(each, probe, inner)
        except ContradictionError:
            continue
        ranked.append((math.inf if inner.objective is None else inner.objective, number, each))
        if run.should_stop():
            break
    return [each for _, _, each in sorted(ranked, key=lambda entry: entry[:2])]


def _attempt(solve: Solve, whole: AnyProblem, problem: AnyProblem, rules: Sequence[Constraint], run: Run) -> Outcome:
    """Solve one narrower problem. That it has no plan says nothing about the whole."""
    try:
        return solve(problem, narrower_run(whole, problem, rules, run))
    except ContradictionError as error:
        return Outcome(reason=str(error))


def _no_plan(rules: Sequence[Constraint], reason: str | None) -> str:
    names = ", ".join(sorted({type(rule).__name__ for rule in rules}))
    words = f"no plan was found that obeys {names}, and no proof that there is none"
    return words if reason is None else f"{words}; the last attempt: {reason}"
