"""The default solver of serving flows: rules, a bound, and an engine."""

from __future__ import annotations

import logging
from functools import partial

from opweave.formulations.expressions import VIOLATIONS
from opweave.formulations.serving_flow.instance import lower
from opweave.problems.errors import EngineError, InvalidInputError, UnsupportedFeatureError
from opweave.problems.serving_flow.spec import ServingFlow
from opweave.solvers.registry import Feature, go_on_with, is_available, named_solver
from opweave.solvers.rules import solve_by
from opweave.solvers.run import Outcome, Run
from opweave.solvers.serving_flow.baselines import BY_NAME, carry_out
from opweave.solvers.serving_flow.bounds import prove
from opweave.solvers.serving_flow.plans import every_plan

logger = logging.getLogger("opweave")

PROOF_SHARE = 0.3
"""Largest share of the remaining time for the bound."""

ENGINE_SECONDS = 10.0
"""Time for an engine if there is no time limit."""


@named_solver(
    ServingFlow,
    "auto",
    "rules, sets of devices for a layer as a bound, then an engine",
    kind="plan",
    proves="optimum",
    features=frozenset({Feature.GAP, Feature.CALLBACK}),
    supports=(VIOLATIONS,),
)
def solve_auto(problem: ServingFlow, run: Run) -> Outcome:
    """Serve with all methods that apply."""
    instance = lower(problem)
    reason = instance.short()
    if reason is not None:
        return Outcome(infeasible=True, reason=reason)
    for rule in BY_NAME.values():
        solve_by(partial(carry_out, rule), problem, run)
    ended = every_plan(instance, run)
    if ended is not None:
        return ended
    if not run.should_stop():
        with run.share(PROOF_SHARE):
            prove(instance, run)
    if run.should_stop() or not is_available(problem, "highs"):
        return Outcome(run.termination())
    try:
        with run.share(1.0, ENGINE_SECONDS):
            return go_on_with(problem, "highs", run)
    except (EngineError, InvalidInputError, UnsupportedFeatureError) as error:
        logger.info("HiGHS is of no help: %s", error)
        return Outcome(run.termination())
