"""The child process of HiGHS: the rows passed are counted, every return status is checked, news is sent as it comes.

HiGHS drops rows with extreme coefficients and goes on, so data is checked before it is passed and counted afterwards.
Only complete starts are passed. HiGHS 1.15 completes a partial start by itself, and has then called it optimal although
better points existed. So the unknown columns are solved for first, with the others fixed.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from opweave.problems.arrays import FloatArray
from opweave.problems.errors import EngineError
from opweave.solvers.engines.answers import Answer, News, Verdict, Work
from opweave.solvers.engines.apart import aside, silent_highs
from opweave.solvers.engines.child import Send

if TYPE_CHECKING:
    import highspy

    from opweave.formulations.modeling.arrays import MatrixModel

ROUNDING = 1e-6
"""Relative difference between an objective and the sum that it stands for."""

STATUS: dict[str, Verdict] = {
    "kOptimal": "solved",
    "kInfeasible": "infeasible",
    "kTimeLimit": "stopped",
    "kInterrupt": "stopped",
    "kHighsInterrupt": "stopped",
    "kIterationLimit": "stopped",
    "kSolutionLimit": "stopped",
    "kMemoryLimit": "stopped",
}
"""HiGHS's model status, and how HiGHS ended; no other status may occur with our models."""

START_SECONDS, START_SHARE = 5.0, 0.2
"""Longest time for completing a partial start, and the largest share of the remaining time."""


def load() -> None:
    """Import HiGHS, before there is work."""
    import highspy  # noqa: F401


def solve(work: Work, send: Send) -> Answer:
    """Solve a program; without its start, if HiGHS fails on that or returns it instead of the optimum.

    HiGHS 1.15 has answered kError to models of slicing that it solves without a start. HiGHS 1.16 sometimes finds an
    optimum, and then returns the point that it was given as a start.
    """
    return aside(lambda: _solve(work, send))  # its thread pool belongs to the thread, and keeps its first size


def _solve(work: Work, send: Send) -> Answer:
    if work.start is not None:
        with suppress(EngineError):
            answer, true = _solved(work, send)
            if true:
                return answer
    return _solved(replace(work, start=None), send)[0]


def _solved(work: Work, send: Send) -> tuple[Answer, bool]:
    """The answer of HiGHS, and whether its point has the objective that it says."""
    import highspy

    solver = load_highs(work.matrix)
    set_options(solver, work)
    try:
        begin(solver, work, work.left())
        mixed = bool(work.matrix.whole.any())
        _listen(solver, send, mixed=mixed)
        left = work.left()
        if left is not None:
            option(solver, "time_limit", left)
        run_checked(solver)
    finally:
        highspy.Highs.resetGlobalScheduler(True)
    status, info, values = solver.getModelStatus().name, solver.getInfo(), solution_of(solver)
    told = info.objective_function_value
    bound = info.mip_dual_bound if mixed else told if status == "kOptimal" else -np.inf
    known = float(bound) if np.isfinite(bound) else None
    answer = Answer(STATUS.get(status, "failed"), values, known, f"model status {status}")
    return answer, status != "kOptimal" or _as_told(work.matrix, values, told)


def _as_told(matrix: MatrixModel, values: FloatArray | None, told: float) -> bool:
    if values is None:
        return True
    costs = np.append(matrix.cost * values, matrix.offset)
    return bool(abs(costs.sum() - told) <= ROUNDING * max(1.0, np.abs(costs).sum()))


def _listen(solver: highspy.Highs, send: Send, *, mixed: bool) -> None:
    """Make HiGHS send new solutions and, if there are integer columns, better bounds."""
    from highspy import cb

    kinds = cb.HighsCallbackType
    best = -np.inf

    def hear(kind: cb.HighsCallbackType, _: str, out: cb.HighsCallbackOutput, *__: object) -> None:
        nonlocal best
        if kind == kinds.kCallbackMipImprovingSolution:
            send(News(np.array(out.mip_solution, dtype=np.float64)))
        elif mixed and np.isfinite(out.mip_dual_bound) and out.mip_dual_bound > best:
            best = float(out.mip_dual_bound)
            send(News(bound=best))

    checked(solver.setCallback(hear, None), "setCallback")
    for kind in (kinds.kCallbackMipImprovingSolution, kinds.kCallbackMipInterrupt):
        checked(solver.startCallback(kind), "startCallback")


def load_highs(matrix: MatrixModel) -> highspy.Highs:
    """Pass a model in one piece, and count what HiGHS received.

    Raises
    ------
    EngineError
        If HiGHS warns, fails, or holds fewer rows, columns or entries than it was given.
    """
    import highspy

    solver = silent_highs()
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = matrix.columns, len(matrix.rows)
    lp.col_cost_, lp.offset_ = matrix.cost, matrix.offset
    lp.col_lower_, lp.col_upper_ = matrix.lower, matrix.upper
    lp.row_lower_, lp.row_upper_ = matrix.rows.lower, matrix.rows.upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.num_col_, lp.a_matrix_.num_row_ = matrix.columns, len(matrix.rows)
    lp.a_matrix_.start_ = matrix.rows.start
    lp.a_matrix_.index_ = matrix.rows.index
    lp.a_matrix_.value_ = matrix.rows.value
    kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
    lp.integrality_ = [kinds[whole] for whole in matrix.whole.tolist()]
    checked(solver.passModel(lp), "passModel")
    given = (matrix.columns, len(matrix.rows), len(matrix.rows.value))
    held = (solver.getNumCol(), solver.getNumRow(), solver.getNumNz())
    if held != given:
        raise EngineError(
            f"highs holds {held[0]:,} columns, {held[1]:,} rows and {held[2]:,} entries of the model; it was given "
            f"{given[0]:,}, {given[1]:,} and {given[2]:,}"
        )
    return solver


def set_options(solver: highspy.Highs, work: Work) -> None:
    """Set the gap, seed, threads and tolerances of a solve."""
    option(solver, "mip_rel_gap", work.gap)
    # With restarts, HiGHS 1.15 has called 1.2609 optimal in a program that has a point with 1.2284.
    option(solver, "mip_allow_restart", False)
    option(solver, "random_seed", work.seed)
    option(solver, "threads", work.threads)
    option(solver, "parallel", "on" if work.threads > 1 else "off")


def option(solver: highspy.Highs, name: str, value: bool | int | float | str) -> None:
    """Set an option by its name in HiGHS."""
    checked(solver.setOptionValue(name, value), f"option {name}")


def checked(status: highspy.HighsStatus, what: str) -> None:
    """Raise an error for any status but success; HiGHS warns when it changed or dropped something."""
    if status.name != "kOk":
        raise EngineError(f"highs answered {status.name} to {what}")


def begin(solver: highspy.Highs, work: Work, seconds_left: float | None) -> None:
    """Pass the start of a work, completed if need be; HiGHS may decline it."""
    import highspy

    values = None if work.start is None else _whole_start(work, work.start, seconds_left)
    if values is None:
        return
    solution = highspy.HighsSolution()
    solution.col_value = values.tolist()
    solution.value_valid = True
    solver.setSolution(solution)


def _whole_start(work: Work, start: FloatArray, seconds_left: float | None) -> FloatArray | None:
    """Complete a start by solving for the unknown columns (NaN); None if that fails."""
    known = ~np.isnan(start)
    if known.all():
        return start
    matrix = work.matrix
    fixed = np.clip(np.where(known, start, 0.0), matrix.lower, matrix.upper)
    lower, upper = (np.where(known, fixed, side) for side in (matrix.lower, matrix.upper))
    solver = load_highs(replace(matrix, lower=lower, upper=upper))
    set_options(solver, work)
    option(
        solver, "time_limit", START_SECONDS if seconds_left is None else min(START_SECONDS, START_SHARE * seconds_left)
    )
    try:
        run_checked(solver)
    except EngineError:
        return None
    return solution_of(solver)


def run_checked(solver: highspy.Highs) -> None:
    """Run, and check the status; HiGHS returns a warning when it reaches a limit."""
    if solver.run().name == "kError":
        raise EngineError("highs answered kError to run")


def solution_of(solver: highspy.Highs) -> FloatArray | None:
    """The solution that HiGHS holds, or None."""
    import highspy

    if solver.getInfo().primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return None
    return np.array(solver.getSolution().col_value, dtype=np.float64)
