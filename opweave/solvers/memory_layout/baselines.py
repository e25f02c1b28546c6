"""A first plan: every storage as low as it can stand, in the order of the problem."""

from __future__ import annotations

import numpy as np

from opweave.formulations.memory_layout.instance import LayoutInstance, lower
from opweave.problems.memory_layout.spec import MemoryLayout
from opweave.solvers.own import solver_for
from opweave.solvers.run import Outcome, Run


def first_fit(instance: LayoutInstance) -> tuple[np.ndarray, np.ndarray] | None:
    """Fixed blocks first, then the others as listed, each in the first pool that takes it."""
    offset, pool = np.zeros(len(instance), dtype=np.int64), np.zeros(len(instance), dtype=np.int64)
    order = sorted(range(len(instance)), key=lambda row: instance.fixed[row] < 0)
    placed: list[int] = []
    for row in order:
        for number in np.flatnonzero(instance.allowed[row]).tolist():
            if any(instance.team[row] == instance.team[other] and pool[other] != number for other in placed):
                continue
            pairs = instance.apart[(instance.apart == row).any(axis=1)]
            if any(other in placed and pool[other] == number for other in pairs.sum(axis=1) - row):
                continue
            together = [
                other
                for other in placed
                if pool[other] == number
                and instance.bytes[other]
                and instance.begin[other] < instance.end[row]
                and instance.begin[row] < instance.end[other]
            ]
            at = _lowest(
                instance, row, number, [(int(offset[other]), int(instance.bytes[other])) for other in together]
            )
            if at + instance.bytes[row] <= instance.capacity[number] and instance.fixed[row] in (-1, at):
                offset[row], pool[row] = at, number
                placed.append(row)
                break
        else:
            return None
    return offset, pool


def _lowest(instance: LayoutInstance, row: int, pool: int, taken: list[tuple[int, int]]) -> int:
    step = int(max(instance.alignment[row], instance.pool_alignment[pool]))
    size, at = int(instance.bytes[row]), int(max(instance.fixed[row], 0))
    for low, length in sorted(taken):
        if size and low < at + size and at < low + length:
            at = -(-(low + length) // step) * step
    return at


def solve_first_fit(problem: MemoryLayout, run: Run) -> Outcome:
    """Every storage as low as it can stand, in the order of the problem."""
    instance = lower(problem)
    if instance.impossible is not None:
        return Outcome(infeasible=True, reason=instance.impossible)
    found = first_fit(instance)
    if found is None:
        return Outcome(run.termination(), reason="some storage fits nowhere")
    plan = instance.layout(*found)
    judged = problem.evaluate(plan)
    if judged.feasible and judged.objective is not None:
        run.found(plan, judged.objective)
    return Outcome(run.termination())


solver_for(MemoryLayout, name="first_fit", baseline=True, supports=("violations",))(solve_first_fit)
solver_for(MemoryLayout, name="auto", supports=("violations",))(solve_first_fit)
