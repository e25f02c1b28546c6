"""Engines that run a formulation of pipelines, with the simple splits as a head start."""

from __future__ import annotations

from functools import partial

from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.pipeline import flow  # noqa: F401 - it registers itself
from opweave.formulations.pipeline.instance import lower_unless_short
from opweave.problems.pipeline.spec import Pipeline, Stages
from opweave.solvers.engines.engine import HeadStart
from opweave.solvers.engines.registration import register_engines
from opweave.solvers.pipeline.baselines import by_memory, joint_greedy, one_device
from opweave.solvers.pipeline.plans import attempt, value_of
from opweave.solvers.rules import plans_of

RULES = (one_device, joint_greedy, by_memory)


def best_simple_split(problem: Pipeline) -> Stages | None:
    """The best of the simple splits; None when none fits."""
    try:
        instance = lower_unless_short(problem)
    except ContradictionError:
        return None
    if not instance.names:
        return instance.stages((), ())
    plans = plans_of(partial(attempt, rule, instance, 0) for rule in RULES)
    best = min(plans, key=lambda plan: value_of(instance, plan), default=None)
    return None if best is None else instance.stages(best.cuts, best.devices)


def lower_bound(_problem: Pipeline, _stop: object) -> float:
    """The trivial lower bound 0: no time is negative."""
    return 0.0


KNOWN_BEFORE = HeadStart(initial=best_simple_split, lower_bound=lower_bound)


register_engines(Pipeline, "one unit of flow through stages and links", KNOWN_BEFORE)
