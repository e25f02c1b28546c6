"""Plans of serving as blocks of layers: how they are reported, and all plans of a tiny problem."""

from __future__ import annotations

import math
from itertools import islice, product

from opweave.formulations.serving_flow.instance import NO_BLOCKS, UNUSED, Blocks, ServingInstance, lower
from opweave.problems.serving_flow.spec import ServingFlow
from opweave.solvers.rounding import SUMMATION
from opweave.solvers.run import Outcome, Run

MOST_PLANS = 2_000
"""Most plans that are all judged."""


def report(instance: ServingInstance, blocks: Blocks, run: Run) -> bool:
    """Report a plan if the referee finds nothing wrong with it; return whether it is the best so far."""
    solution = instance.solution(blocks)
    judged = instance.problem.evaluate(solution)
    if not judged.feasible or judged.objective is None:
        return False
    return run.found(solution, judged.objective)


def solve_all(problem: ServingFlow, run: Run) -> Outcome:
    """Judge all plans of a tiny problem; nothing is found where there are too many."""
    instance = lower(problem)
    ways: list[list[tuple[int, int]]] = [[UNUSED] for _ in instance.names]
    for device, first, end, _ in islice(instance.ways(), MOST_PLANS):  # as many are too many
        ways[device].append((first, end))
    if math.prod(map(len, ways)) > MOST_PLANS:
        return Outcome(run.termination())
    for blocks in product(*ways):
        if run.should_stop():
            return Outcome(run.termination())
        report(instance, blocks, run)
    if run.objective is None:
        return Outcome(infeasible=True, reason=NO_BLOCKS)
    run.proved(run.objective * (1.0 - SUMMATION), "all plans")
    return Outcome(final=True)
