"""A baseline's plan for runs that end before their solver has found one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from opweave.formulations.expressions import expressible
from opweave.formulations.order_arcs import ContradictionError
from opweave.problems.errors import OpweaveError
from opweave.problems.problem import Problem
from opweave.problems.result import Termination
from opweave.solvers.overdue import Interrupter, OverdueError
from opweave.solvers.registry import find_solver, registered
from opweave.solvers.run import Outcome, Run
from opweave.solvers.verdict import Referee

BASELINES = {
    "memory_ordering": ("definition",),
    "placement": ("one_device", "fill"),
    "batched_mapping": ("best_device", "met"),
    "pipeline": ("one_device", "by_memory"),
    "slicing": ("one_device", "by_memory"),
    "memory_layout": ("size_classes", "best_fit", "onnxruntime", "tflm", "by_size"),
}
"""Solvers that find a plan at once, if they find one; tried in turn. Of other problems, all baselines are tried."""


def with_baseline(problem: Problem[Any, Any], run: Run, referee: Referee, outcome: Outcome) -> Outcome:
    """Report a baseline's plan if the time was up before there was any plan; return how the run ended.

    The baseline gets some seconds more, if it needs them: a problem that is too large for its limit has a plan a little
    later. Nothing runs if a user's function adds to the model, because the baseline's plan might break the additions.
    """
    cut_short = outcome.termination is Termination.TIME_LIMIT and not outcome.infeasible
    if not cut_short or run.candidates or run.extend is not None:
        return outcome
    own = [solver.name for solver in registered(problem.kind) if solver.baseline]
    for name in own if problem.reading is not None else BASELINES.get(problem.kind, own):
        solver = find_solver(problem, name)
        if problem.reading not in solver.readings:
            continue
        if not all(expressible(type(constraint), solver.supports) for constraint in problem.constraints):
            continue
        try:
            with run.at_work(), referee.first_plan(), Interrupter(run.allowance.until_overdue):
                solver.run(problem, run)
        except OverdueError:
            outcome = replace(outcome, reason=outcome.reason or "the time was up before there was a plan")
            break
        except (ContradictionError, OpweaveError):
            continue
        if run.candidates:
            break
    if run.candidates:
        return replace(outcome, reason=f"the time was up before there was a plan; this is that of {name!r}")
    return outcome
