"""Solving a smaller problem in place of a larger one: solutions are lifted; bounds are kept if they hold for both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from opweave.formulations.derived import Reduction
from opweave.solvers.run import Outcome, Run


@contextmanager
def reducing(run: Run, stage: str) -> Iterator[None]:
    """Name the current stage of the run, and count its time as time spent on a reduction."""
    run.enter(stage)
    began = run.elapsed()
    try:
        yield
    finally:
        run.findings.reduce_seconds += run.elapsed() - began


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
    inner = run.child(gap=run.gap, formulation=formulation, lift=reduction.lift, exact=reduction.exact)
    try:
        outcome = solve(reduction.problem, inner)
    finally:
        run.findings.build_seconds += inner.findings.build_seconds
        run.findings.engine_version = run.findings.engine_version or inner.findings.engine_version
    if reduction.exact and (outcome.infeasible or run.best is None):
        return outcome
    if run.best is None:
        return Outcome(run.termination(), reason=f"the smaller problem has no plan: {outcome.reason}")
    return Outcome(run.termination())
