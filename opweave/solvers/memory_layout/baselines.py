"""A first plan: every storage as low as it can stand, in the order of the problem."""

from __future__ import annotations

import numpy as np

from opweave.problems.memory_layout.arrays import LayoutArrays, arrays_of
from opweave.problems.memory_layout.spec import MemoryLayout
from opweave.solvers.own import solver_for
from opweave.solvers.run import Outcome, Run


def first_fit(arrays: LayoutArrays) -> tuple[np.ndarray, np.ndarray] | None:
    """Fixed blocks first, then the others as listed, each in the first pool that takes it."""
    offset, pool = np.zeros(len(arrays), dtype=np.int64), np.zeros(len(arrays), dtype=np.int64)
    order = sorted(range(len(arrays)), key=lambda row: arrays.fixed[row] < 0)
    placed: list[int] = []
    for row in order:
        for number in np.flatnonzero(arrays.allowed[row]).tolist():
            if any(arrays.team[row] == arrays.team[other] and pool[other] != number for other in placed):
                continue
            pairs = arrays.apart[(arrays.apart == row).any(axis=1)]
            if any(other in placed and pool[other] == number for other in pairs.sum(axis=1) - row):
                continue
            together = [
                other
                for other in placed
                if pool[other] == number
                and arrays.bytes[other]
                and arrays.begin[other] < arrays.end[row]
                and arrays.begin[row] < arrays.end[other]
            ]
            at = _lowest(arrays, row, number, [(int(offset[other]), int(arrays.bytes[other])) for other in together])
            if at + arrays.bytes[row] <= arrays.capacity[number] and arrays.fixed[row] in (-1, at):
                offset[row], pool[row] = at, number
                placed.append(row)
                break
        else:
            return None
    return offset, pool


def _lowest(arrays: LayoutArrays, row: int, pool: int, taken: list[tuple[int, int]]) -> int:
    step = int(max(arrays.alignment[row], arrays.pool_alignment[pool]))
    size, at = int(arrays.bytes[row]), int(max(arrays.fixed[row], 0))
    for low, length in sorted(taken):
        if size and low < at + size and at < low + length:
            at = -(-(low + length) // step) * step
    return at


def solve_first_fit(problem: MemoryLayout, run: Run) -> Outcome:
    """Every storage as low as it can stand, in the order of the problem."""
    arrays = arrays_of(problem)
    if arrays.impossible is not None:
        return Outcome(infeasible=True, reason=arrays.impossible)
    found = first_fit(arrays)
    if found is None:
        return Outcome(run.termination(), reason="some storage fits nowhere")
    plan = arrays.layout(*found)
    judged = problem.evaluate(plan)
    if judged.feasible and judged.objective is not None:
        run.found(plan, judged.objective)
    return Outcome(run.termination())


solver_for(MemoryLayout, name="first_fit", baseline=True, supports=("violations",))(solve_first_fit)
solver_for(MemoryLayout, name="auto", supports=("violations",))(solve_first_fit)
