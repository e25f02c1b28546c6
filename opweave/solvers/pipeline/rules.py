"""What the rules of pipelines share: from a rule that builds a plan to a solver with a name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from opweave.formulations.pipeline.instance import PipelineInstance, lower_unless_short
from opweave.problems.pipeline.spec import Pipeline
from opweave.solvers.pipeline.plans import NoPlanError, Plan, exact_value, is_valid
from opweave.solvers.registry import Solver, register
from opweave.solvers.run import Outcome, Run

Rule = Callable[[PipelineInstance, int], Plan]
"""Builds a plan from arrays and a seed, or raises :class:`~opweave.solvers.pipeline.plans.NoPlanError`."""

Over = Callable[[], bool]
"""Whether time is up."""

PatientRule = Callable[[PipelineInstance, int, Over], Plan]
"""A rule that may take long and stops when time is up."""

TARGETS = ("stages",)
"""Expressions of side constraints that :func:`~opweave.formulations.pipeline.instance.lower` takes in."""


def attempt(rule: Rule, instance: PipelineInstance, seed: int) -> Plan:
    """The rule's plan, checked.

    Raises
    ------
    NoPlanError
        When it finds none, or one that does not fit.
    """
    plan = rule(instance, seed)
    if not is_valid(instance, plan):
        raise NoPlanError("the rule's plan needs a link that the cluster does not have, or breaks a limit on stages")
    return plan


def solve_by(rule: Rule, problem: Pipeline, run: Run) -> Outcome:
    """Report the plan that a rule builds."""
    instance = lower_unless_short(problem)
    if not instance.names:
        run.found(instance.stages((), ()), 0.0)
        return Outcome(run.termination())
    try:
        plan = attempt(rule, instance, run.seed)
    except NoPlanError as error:
        return Outcome(run.termination(), reason=str(error))
    run.found(instance.stages(plan.cuts, plan.devices), exact_value(instance, plan))
    return Outcome(run.termination())


def solve_patiently(rule: PatientRule, problem: Pipeline, run: Run) -> Outcome:
    """Report the plan that a rule builds within the time limit."""
    return solve_by(lambda instance, seed: rule(instance, seed, run.should_stop), problem, run)


def register_rule(name: str, rule: Rule, about: str) -> None:
    """Make a rule selectable by name."""
    _register(name, partial(solve_by, rule), about)


def register_patient_rule(name: str, rule: PatientRule, about: str) -> None:
    """Make a rule that looks at the clock selectable by name."""
    _register(name, partial(solve_patiently, rule), about)


def _register(name: str, run: Callable[[Pipeline, Run], Outcome], about: str) -> None:
    register(
        Solver(
            name=name,
            problem=Pipeline.kind,
            kind="algorithm",
            run=run,
            about=about,
            supports=TARGETS,
            baseline=True,
        )
    )
