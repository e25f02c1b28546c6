"""Engines that run a formulation of serving flows."""

from __future__ import annotations

from functools import partial

from opweave.formulations.serving_flow import milp  # noqa: F401 - it registers itself
from opweave.formulations.serving_flow.instance import lower
from opweave.problems.serving_flow.spec import LayerBlocks, ServingFlow
from opweave.solvers.engines.engine import HeadStart
from opweave.solvers.engines.registration import register_engines
from opweave.solvers.run import Run, at_work
from opweave.solvers.serving_flow.annealing import flow_of
from opweave.solvers.serving_flow.bounds import Sets
from opweave.solvers.serving_flow.staged import without_links


def initial(problem: ServingFlow) -> LayerBlocks | None:
    """The last plan in stages."""
    instance, run = lower(problem), Run()
    plans = () if instance.short() else without_links(instance, instance.bounded, run)
    best = max(plans, key=partial(flow_of, instance), default=None)
    return None if best is None else instance.solution(best)


def lower_bound(problem: ServingFlow) -> float | None:
    """The time of a token with the most tokens that devices can serve."""
    instance = lower(problem)
    if not instance.bounded > 0.0 or instance.short():
        return None
    return 1.0 / Sets(instance, at_work() or Run()).most(instance.bounded) * (1.0 - 1e-9)


KNOWN_BEFORE = HeadStart(initial, lower_bound)

register_engines(ServingFlow, "a mixed-integer program of blocks and shares of tokens", KNOWN_BEFORE)
