"""Solving a smaller problem in place of a larger one: plans are lifted as they come, bounds only where they hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from opweave.formulations.reduction import Reduction
from opweave.problems.solution import Solution
from opweave.solvers.run import Outcome, Run


@contextmanager
def reducing(run: Run, stage: str) -> Iterator[None]:
    """Name what is being done, and count its seconds as those of a reduction."""
    run.enter(stage)
    began = run.elapsed()
    try:
        yield
    finally:
        run.reduce_seconds += run.elapsed() - began


def solve_reduced(
    reduction: Reduction[Any, Any], run: Run, solve: Callable[[Any, Run], Outcome], formulation: str | None = None
) -> Outcome:
    """Have the smaller problem of a reduction solved in a run of its own, within the time of the whole one.

    Parameters
    ----------
    reduction
        Its lifted plans are reported to ``run``. Bounds and proofs that there is no plan are, too, where it is exact;
        else they hold for the smaller problem alone.
    run
        The whole problem's.
    solve
        Solves the smaller problem.
    formulation
        What an engine is to run.

    Returns
    -------
    Outcome
        How the run of the whole problem ended.
    """
    inner = ReducedRun(
        time_limit=run.remaining(),
        gap=run.gap,
        seed=run.seed,
        threads=run.threads,
        formulation=formulation,
        callback=lambda _: run.should_stop(),
        outer=run,
        reduction=reduction,
    )
    try:
        outcome = solve(reduction.problem, inner)
    finally:
        run.build_seconds += inner.build_seconds
        run.engine_version = run.engine_version or inner.engine_version
    if reduction.exact and (outcome.infeasible or run.best is None):
        return outcome
    if run.best is None:
        return Outcome(run.termination(), reason=f"the smaller problem has no plan: {outcome.reason}")
    return Outcome(run.termination())


@dataclass(eq=False)
class ReducedRun(Run):
    """A run of the smaller problem: hands on what is found, lifted, and what is proved, where that holds."""

    outer: Run = field(kw_only=True)
    reduction: Reduction[Any, Any] = field(kw_only=True)

    def found(self, solution: Solution, objective: int | float) -> bool:
        """Report a plan of the smaller problem; its lifted form has the same objective."""
        better = super().found(solution, objective)
        if better and (self.outer.objective is None or objective < self.outer.objective):
            self.outer.found(self.reduction.lift(solution), objective)
        return better

    def proved(self, bound: int | float, source: str) -> None:
        """Report a bound of the smaller problem."""
        super().proved(bound, source)
        if self.reduction.exact:
            self.outer.proved(bound, source)

    def enter(self, stage: str) -> None:
        """Name what is being done."""
        self.outer.enter(stage)
