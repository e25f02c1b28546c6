"""Head starts for HiGHS: only complete ones are passed.

HiGHS 1.15 completes a partial start by itself, and has then called it optimal although better points existed. So the
unknown columns are solved for first, with the others fixed.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from opweave.formulations.modeling.arrays import MatrixModel
from opweave.problems.arrays import FloatArray
from opweave.problems.errors import EngineError
from opweave.solvers.engines.apart import Worker
from opweave.solvers.engines.highs_model import load_highs, option, set_options
from opweave.solvers.patience import wait_for

if TYPE_CHECKING:
    import highspy

    from opweave.solvers.engines.child_engine import Work
    from opweave.solvers.run import Run

logger = logging.getLogger("opweave")

START_SECONDS, START_SHARE = 5.0, 0.2
"""Longest time for completing a partial start, and the largest share of the remaining time."""


def begin(solver: highspy.Highs, start: FloatArray | None) -> None:
    """Pass a complete start; do nothing for None. HiGHS may decline it."""
    import highspy

    if start is None:
        return
    solution = highspy.HighsSolution()
    solution.col_value = start.tolist()
    solution.value_valid = True
    status = solver.setSolution(solution)
    if status.name != "kOk":
        logger.info("highs answered %s to the head start", status.name)


def whole_start(
    matrix: MatrixModel, start: FloatArray, asked: Run | Work, seconds_left: float | None
) -> FloatArray | None:
    """Complete a start by solving for the unknown columns (NaN); returns None if that fails."""
    known = ~np.isnan(start)
    if known.all():
        return start
    fixed = np.clip(np.where(known, start, 0.0), matrix.lower, matrix.upper)
    lower, upper = (np.where(known, fixed, side) for side in (matrix.lower, matrix.upper))
    solver = load_highs(replace(matrix, lower=lower, upper=upper))
    set_options(solver, asked)
    most = START_SECONDS if seconds_left is None else min(START_SECONDS, START_SHARE * seconds_left)
    option(solver, "time_limit", most)
    worker = Worker(lambda: _solve(solver))
    worker.start()
    wait_for(worker)
    try:
        return worker.answer()
    except EngineError as error:
        logger.info("%s; the head start is left out", error)
        return None


def _solve(solver: highspy.Highs) -> FloatArray | None:
    """The point that HiGHS finds, if any."""
    import highspy

    try:
        if solver.run().name == "kError":  # HiGHS returns a warning when it reaches a limit
            raise EngineError("highs answered kError to run")
    finally:
        highspy.Highs.resetGlobalScheduler(True)
    if solver.getInfo().primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return None
    return np.array(solver.getSolution().col_value, dtype=np.float64)
