"""Plans of serving as blocks of layers: what they are worth, and how they are reported."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from opweave.formulations.expressions import express
from opweave.formulations.serving_flow.instance import NO_BLOCKS, UNUSED, Blocks, ServingInstance
from opweave.problems.constraints import Colocate, Constraint, Forbid, MaxDevices, MemoryCap, Pin, Separate
from opweave.problems.serving_flow.spec import LayerBlocks, ServingFlow
from opweave.solvers.rounding import SUMMATION
from opweave.solvers.run import Outcome, Run
from opweave.solvers.serving_flow.annealing import flow_of

MOST_PLANS = 2_000
"""Most plans that are all judged."""

SUPPORTS = ("block_plans",)
"""The target of rules that the searches count in plans: a function that says how often a plan breaks one."""


def times_broken(problem: ServingFlow, constraint: Constraint, plan: LayerBlocks) -> int:
    """How often a plan breaks a rule."""
    return sum(1 for _ in constraint.violations(problem, plan))


for _kind in (Pin, Forbid, Colocate, Separate, MaxDevices, MemoryCap):
    express(_kind, SUPPORTS[0])(times_broken)


def report(instance: ServingInstance, blocks: Blocks, run: Run, flow: float | None = None) -> bool:
    """Report a plan if the referee finds nothing wrong with it; return whether it is the best so far."""
    known = flow_of(instance, blocks) if flow is None else flow
    if run.objective is not None and known * run.objective < 1.0 - 1e-6:
        return False
    solution = instance.solution(blocks)
    judged = instance.problem.evaluate(solution)
    if not judged.feasible or judged.objective is None:
        return False
    return run.found(solution, judged.objective)


def every_plan(instance: ServingInstance, run: Run) -> Outcome | None:
    """Judge all plans of a tiny problem, those of the largest flow first; None if there are too many, or no time."""
    places = instance.layers + 1 - np.arange(instance.layers + 1)
    if math.prod((1 + (instance.most > 0.0) @ places).tolist()) > MOST_PLANS or run.should_stop():
        return None
    run.enter("all plans")
    ways: list[list[tuple[int, int]]] = [[UNUSED] for _ in instance.names]
    for device, first, end, _ in instance.ways():
        ways[device].append((first, end))
    ranked = sorted(((flow_of(instance, blocks), blocks) for blocks in product(*ways)), reverse=True)
    for flow, blocks in ranked:
        if run.should_stop():
            return None
        if not flow or (run.objective is not None and flow * run.objective <= 1.0):
            break
        if report(instance, blocks, run, flow):
            break
    if run.objective is None:
        return Outcome(infeasible=True, reason=NO_BLOCKS)
    run.proved(run.objective * (1.0 - SUMMATION), "all plans")
    return Outcome(run.termination())
