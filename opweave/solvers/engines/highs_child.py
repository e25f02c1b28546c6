"""HiGHS in a process or thread of its own: the rows passed are counted, every return status is checked.

The thread pool of HiGHS belongs to the calling thread and keeps its first size, so every solve gets a new thread.
Ortools contains a HiGHS of its own; once it is loaded, highspy's can no longer be loaded, and a child process helps.

HiGHS drops rows with extreme coefficients and goes on, so data is checked before it is passed and counted afterwards.
Only complete starts are passed. HiGHS 1.15 completes a partial start by itself, and has then called it optimal although
better points existed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from opweave.problems.arrays import BoolArray, FloatArray
from opweave.problems.errors import EngineError
from opweave.solvers.engines.answers import Ending, News, Verdict, Work
from opweave.solvers.engines.child import ChildLimits, Send, run_in_child
from opweave.solvers.loops import uninterrupted

if TYPE_CHECKING:
    import highspy

    from opweave.formulations.modeling.arrays import MatrixModel

logger = logging.getLogger("opweave")

ResultT = TypeVar("ResultT")
ArgumentT = TypeVar("ArgumentT")

GRACE_SECONDS = 5.0
"""Time that a child may take to start and to end, in addition to its time limit."""

LONGEST_WAIT = 0.05
"""Seconds between looks at whether a wait is interrupted."""

ROUNDING = 1e-6
"""Relative difference between an objective and the sum that it stands for."""

STOPPED = ("kTimeLimit", "kInterrupt", "kHighsInterrupt", "kIterationLimit", "kSolutionLimit", "kMemoryLimit")
STATUS: dict[str, Verdict] = {
    "kOptimal": "solved",
    "kInfeasible": "infeasible",
    **dict.fromkeys(STOPPED, "stopped"),
}
"""HiGHS's model status, and how HiGHS ended; no other status may occur with our models."""


def never(*_: object) -> bool:
    """Always False: no reason to stop."""
    return False


@cache
def highspy_fits() -> bool:
    """Whether highspy can be loaded into this process."""
    try:
        with uninterrupted():
            import highspy  # noqa: F401
    except ImportError as error:
        logger.info("HiGHS runs in processes of its own: highspy cannot be loaded here (%s)", error)
        return False
    return True


def with_highs(
    function: Callable[[ArgumentT, Callable[[], bool]], ResultT],
    argument: ArgumentT,
    seconds: float | None,
    should_stop: Callable[[], bool] = never,
) -> ResultT | None:
    """Call a function that uses highspy, in a new thread, or in a child process if highspy cannot be loaded here.

    Parameters
    ----------
    function
        Takes the argument and ``should_stop``. It must be a module's function, so that a child can import it, and it
        must obey the time limit itself.
    argument
        An object that can be pickled.
    seconds
        Time limit of the function; None for no limit.
    should_stop
        Whether to stop; a child is killed then.

    Returns
    -------
    object
        What the function returns; None if it failed (which is logged) or ran out of time.
    """
    try:
        if highspy_fits():
            return aside(lambda: function(argument, should_stop))
        limits, task = ChildLimits(None if seconds is None else seconds + GRACE_SECONDS), (function, argument)
        found = run_in_child("highs", f"{__name__}:perform", task, limits, should_stop=should_stop, keep=True)
        return cast("ResultT | None", found)
    except Exception as error:  # the function, or its process, may raise anything
        logger.warning("%s: %s", type(error).__name__, error, exc_info=error)
        return None


def aside(call: Callable[[], ResultT]) -> ResultT:
    """Run a call in a new thread and return its result; waiting for it can be interrupted.

    A call that is left behind continues; the process waits for it at its end, since an interpreter that ends while a
    thread is inside C++ code makes that library abort.

    Raises
    ------
    BaseException
        Any exception that the call raises.
    """
    pool = ThreadPoolExecutor(1, thread_name_prefix="opweave-aside")
    future = pool.submit(call)
    pool.shutdown(wait=False)
    while not future.done():  # a wait without end could not be interrupted everywhere
        wait([future], LONGEST_WAIT)
    return future.result()


def perform(task: tuple[Callable[[Any, Callable[[], bool]], Any], Any], _: Send) -> Any:
    """Call the function; runs in the child."""
    function, argument = task
    return function(argument, never)


def load() -> None:
    """Import HiGHS, before there is work."""
    import highspy  # noqa: F401


def solve(work: Work, send: Send) -> Ending:
    """Solve a program; without its start, if HiGHS fails on that or returns it instead of the optimum.

    HiGHS 1.15 has answered kError to models of slicing that it solves without a start. HiGHS 1.16 sometimes finds an
    optimum, and then returns the point that it was given as a start.
    """
    if work.start is not None:
        with suppress(EngineError):
            answer, true = aside(lambda: _solved(work, send))
            if true:
                return answer
    return aside(lambda: _solved(replace(work, start=None), send))[0]


def _solved(work: Work, send: Send) -> tuple[Ending, bool]:
    """The answer of HiGHS, and whether its point has the objective that it says."""
    import highspy

    matrix: MatrixModel = work.program
    solver = load_highs(matrix, work)
    try:
        begin(solver, work)
        mixed = bool(matrix.whole.any())
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
    answer = Ending(STATUS.get(status, "failed"), values, known, f"model status {status}")
    return answer, status != "kOptimal" or _as_told(matrix, values, told)


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


@cache
def _silent() -> type[highspy.Highs]:
    """HiGHS that prints nothing, not even its licence, which version 1.16 prints before options can be set."""
    import highspy

    class Silent(highspy.Highs):  # type: ignore[misc,unused-ignore]
        def enableCallbacks(self) -> None:  # noqa: N802
            """Begin to listen, as highspy does first of all."""
            self.silent()
            super().enableCallbacks()  # type: ignore[no-untyped-call,unused-ignore]

    return Silent


def passed(
    columns: tuple[FloatArray, FloatArray, FloatArray],
    rows: tuple[FloatArray, FloatArray],
    entries: tuple[Any, Any, FloatArray],
    *,
    offset: float = 0.0,
    whole: BoolArray | None = None,
) -> tuple[highspy.Highs, highspy.HighsStatus]:
    """HiGHS with a program, and what it answered to it.

    Parameters
    ----------
    columns
        Costs, and lower and upper bounds.
    rows
        Lower and upper sides.
    entries
        The rows in compressed sparse row format: starts, columns and values.
    offset
        What is added to the objective.
    whole
        Which columns are integers.
    """
    import highspy

    solver, lp = _silent()(), highspy.HighsLp()
    lp.num_col_, lp.num_row_, lp.offset_ = len(columns[0]), len(rows[0]), offset
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = columns
    lp.row_lower_, lp.row_upper_ = rows
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.num_col_, lp.a_matrix_.num_row_ = lp.num_col_, lp.num_row_
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = entries
    if whole is not None:
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        lp.integrality_ = [kinds[each] for each in whole.tolist()]
    return solver, solver.passModel(lp)


def load_highs(matrix: MatrixModel, work: Work) -> highspy.Highs:
    """Pass a model in one piece, count what HiGHS received, and set the options of a work.

    Raises
    ------
    EngineError
        If HiGHS warns, fails, or holds fewer rows, columns or entries than it was given.
    """
    rows = matrix.rows
    solver, status = passed(
        (matrix.cost, matrix.lower, matrix.upper),
        (rows.lower, rows.upper),
        (rows.start, rows.index, rows.value),
        offset=matrix.offset,
        whole=matrix.whole,
    )
    checked(status, "passModel")
    given = (matrix.columns, len(rows), len(rows.value))
    held = (solver.getNumCol(), solver.getNumRow(), solver.getNumNz())
    if held != given:
        raise EngineError(
            f"highs holds {held[0]:,} columns, {held[1]:,} rows and {held[2]:,} entries of the model; it was given "
            f"{given[0]:,}, {given[1]:,} and {given[2]:,}"
        )
    option(solver, "mip_rel_gap", work.gap)
    # With restarts, HiGHS 1.15 has called 1.2609 optimal in a program that has a point with 1.2284.
    option(solver, "mip_allow_restart", False)
    option(solver, "random_seed", work.seed)
    option(solver, "threads", work.threads)
    option(solver, "parallel", "on" if work.threads > 1 else "off")
    return solver


def option(solver: highspy.Highs, name: str, value: bool | int | float | str) -> None:
    """Set an option by its name in HiGHS."""
    checked(solver.setOptionValue(name, value), f"option {name}")


def checked(status: highspy.HighsStatus, what: str) -> None:
    """Raise an error for any status but success; HiGHS warns when it changed or dropped something."""
    if status.name != "kOk":
        raise EngineError(f"highs answered {status.name} to {what}")


def begin(solver: highspy.Highs, work: Work) -> None:
    """Pass the start of a work if it is complete; HiGHS may decline it."""
    import highspy

    if work.start is not None and not np.isnan(work.start).any():
        solution = highspy.HighsSolution()
        solution.col_value = work.start.tolist()
        solution.value_valid = True
        solver.setSolution(solution)


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
