"""Engines that run a formulation of serving flows."""

from __future__ import annotations

from opweave.formulations.serving_flow import milp  # noqa: F401 - it registers itself
from opweave.formulations.serving_flow.instance import lower
from opweave.problems.serving_flow.spec import ServingFlow
from opweave.solvers.engines.engine import HeadStart
from opweave.solvers.engines.registration import register_engines
from opweave.solvers.run import Run, at_work
from opweave.solvers.serving_flow.baselines import best_by_rules
from opweave.solvers.serving_flow.bounds import Sets


def lower_bound(problem: ServingFlow) -> float | None:
    """The time of a token with the most tokens that devices can serve."""
    instance = lower(problem)
    if not instance.bounded > 0.0 or instance.short():
        return None
    return 1.0 / Sets(instance, at_work() or Run()).most(instance.bounded) * (1.0 - 1e-9)


KNOWN_BEFORE = HeadStart(best_by_rules, lower_bound)

register_engines(ServingFlow, "a mixed-integer program of blocks and shares of tokens", KNOWN_BEFORE)
