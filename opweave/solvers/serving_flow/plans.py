"""Plans of serving as blocks of layers: what they are worth, and how they are reported."""

from __future__ import annotations

from opweave.formulations.expressions import express
from opweave.formulations.serving_flow.instance import Blocks, ServingInstance
from opweave.problems.constraints import Colocate, Constraint, Forbid, MaxDevices, MemoryCap, Pin, Separate
from opweave.problems.serving_flow.spec import LayerBlocks, ServingFlow
from opweave.solvers.run import Run
from opweave.solvers.serving_flow.annealing import flow_of

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
