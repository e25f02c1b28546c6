"""What the list-scheduling solvers share: from a rule that builds a plan to a solver with a name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from opweave.formulations.placement.instance import PlacementInstance, lower_unless_short
from opweave.problems.placement.shortage import rules_in_the_way
from opweave.problems.placement.spec import Placement
from opweave.solvers.placement.arrays import PlacementArrays, arrays_of
from opweave.solvers.placement.insertion import NoPlanError
from opweave.solvers.placement.plans import Plan, report
from opweave.solvers.registry import Solver, register
from opweave.solvers.run import Outcome, Run

Rule = Callable[[PlacementInstance, PlacementArrays], Plan]
"""Builds a plan that fits, or raises :class:`~opweave.solvers.placement.insertion.NoPlanError`."""

TARGETS = ("assignment", "order_arcs")
"""Expressions of side constraints that :func:`~opweave.formulations.placement.instance.lower` takes in."""


def no_plan_found(problem: Placement) -> str:
    """Say that a search ended without a plan, and what stood in its way."""
    return f"no plan was found that respects {rules_in_the_way(problem)}"


def solve_by(rule: Rule, problem: Placement, run: Run) -> Outcome:
    """Report the plan that a rule builds."""
    instance = lower_unless_short(problem)
    arrays = arrays_of(instance, problem)
    try:
        plan = rule(instance, arrays)
    except NoPlanError as error:
        return Outcome(reason=str(error))
    report(instance, arrays, plan, run)
    return Outcome(run.termination())


def register_rule(name: str, rule: Rule, about: str) -> None:
    """Make a rule selectable by name."""
    register(
        Solver(
            name=name,
            problem=Placement.kind,
            kind="algorithm",
            run=partial(solve_by, rule),
            about=about,
            supports=TARGETS,
            baseline=True,
        )
    )
