"""Solving a smaller problem in place of a larger one: solutions are lifted; bounds are kept if they hold for both."""

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
    """Name the current stage of the run, and count its time as time spent on a reduction."""
    run.enter(stage)
    began = run.elapsed()
    try:
        yield
    finally:
        run.reduce_seconds += run.elapsed() - began


def solve_reduced(
    reduction: Reduction[Any, Any], run: Run, solve: Callable[[Any, Run], Outcome], formulation: str | None = None
) -> Outcome:
    """Solve the smaller problem of a reduction in a run of its own, within the time limit of the whole run.

    Parameters
    ----------
    reduction
        Its lifted solutions are reported to ``run``. If it is exact, bounds and proofs of infeasibility are reported
        too; otherwise they hold for the smaller problem only.
    run
        The run of the whole problem.
    solve
        Solves the smaller problem.
    formulation
        The formulation that an engine is to use.

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
    """A run of the smaller problem. It reports lifted solutions to the whole run, and bounds if they hold there."""

    outer: Run = field(kw_only=True)
    reduction: Reduction[Any, Any] = field(kw_only=True)

    def found(self, solution: Solution, objective: int | float) -> bool:
        """Report a solution of the smaller problem; its lifted form has the same objective."""
        better = super().found(solution, objective)
        if better and (self.outer.objective is None or objective < self.outer.objective):
            self.outer.found(self.reduction.lift(solution), objective)
        return better

    def proved(self, bound: int | float, source: str) -> None:
        """Report a lower bound of the smaller problem, rounded up as far as this run knows (``grain``)."""
        super().proved(bound, source)
        if self.reduction.exact and self.bound is not None:
            self.outer.proved(self.bound, self.bound_source or source)

    def enter(self, stage: str) -> None:
        """Name the current stage."""
        self.outer.enter(stage)
