"""Plans of serving as blocks of layers: what they are worth, and how they are reported."""

from __future__ import annotations

from opweave.formulations.serving_flow.instance import Blocks, ServingInstance
from opweave.solvers.run import Run


def report(instance: ServingInstance, blocks: Blocks, run: Run, flow: float | None = None) -> bool:
    """Report a plan if the referee finds nothing wrong with it; return whether it is the best so far."""
    known = instance.flow(blocks) if flow is None else flow
    if known <= 0.0 or (run.objective is not None and 1.0 / known > run.objective * (1.0 + 1e-6)):
        return False
    solution = instance.solution(blocks)
    judged = instance.problem.evaluate(solution)
    if not judged.feasible or judged.objective is None:
        return False
    return run.found(solution, judged.objective)
