"""The child process of CP-SAT: it writes a model of intervals for CP-SAT and solves it.

The child is kept light. This module imports only what a model of intervals needs, so that a problem that is solved in a
tenth of a second does not first wait for half a second.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from opweave.formulations.modeling.intervals import WholeProgram
from opweave.solvers.engines.answers import Ending, News, Verdict, Work
from opweave.solvers.engines.child import Send, without_pandas

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
"""The cores that this process may use at first."""


STATUS: dict[str, Verdict] = {
    "OPTIMAL": "solved",
    "FEASIBLE": "stopped",
    "UNKNOWN": "stopped",
    "INFEASIBLE": "infeasible",
}


def load() -> None:
    """Import CP-SAT, before there is work."""
    with without_pandas():
        from ortools.sat.python import cp_model  # noqa: F401


def solve(work: Work, send: Send) -> Ending:
    """Solve with CP-SAT; runs in the child."""
    load()
    from ortools.sat.python import cp_model

    program: WholeProgram = work.program
    model, columns = write(program if work.start is None else program.hinted(work.start))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = max(work.threads, work.strategies if _keep_to(work.threads) else 1)
    solver.parameters.random_seed = work.seed
    solver.parameters.relative_gap_limit = work.gap
    left = work.left()
    if left is not None:
        solver.parameters.max_time_in_seconds = left
    solver.best_bound_callback = lambda bound: send(News(bound=float(bound)))

    class Hear(cp_model.CpSolverSolutionCallback):  # type: ignore[misc, unused-ignore]
        """Send every solution."""

        def on_solution_callback(self) -> None:
            values = np.asarray([self.value(column) for column in columns], dtype=np.float64)
            send(News(values=values))

    name = solver.status_name(solver.solve(model, Hear()))
    found = name in ("OPTIMAL", "FEASIBLE")
    values = np.asarray([solver.value(column) for column in columns], dtype=np.float64) if found else None
    reason = f"{name}: {model.validate()}"
    return Ending(STATUS.get(name, "failed"), values, float(solver.best_objective_bound), reason)


def _keep_to(cores: int) -> bool:
    """Confine this process to a number of cores; returns whether the system supports that."""
    if not CORES:
        return False
    first = os.getpid() % len(CORES)  # different cores for different children
    os.sched_setaffinity(0, {CORES[(first + index) % len(CORES)] for index in range(min(cores, len(CORES)))})
    return True


def write(data: WholeProgram) -> tuple[cp_model.CpModel, list[cp_model.IntVar]]:
    """Write the data as a CP-SAT model, and return its variables by column."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    columns = [model.new_int_var(low, high, "") for low, high in zip(data.low, data.high, strict=True)]
    for row in data.rows:
        low = cp_model.INT_MIN if row.low is None else row.low
        high = cp_model.INT_MAX if row.high is None else row.high
        body = cp_model.LinearExpr.weighted_sum([columns[c] for c in row.columns], row.coefficients)
        written = model.add_linear_constraint(body, low, high)
        if row.only_if:
            written.only_enforce_if([columns[column] for column in row.only_if])
    seen: dict[int, Any] = {}
    for group in data.apart:
        model.add_no_overlap([_interval(model, columns, seen, each) for each in group])
    for column, value in data.hint.items():
        model.add_hint(columns[column], value)
    model.minimize(columns[data.goal])
    return model, columns


def _interval(model: cp_model.CpModel, columns: list[Any], seen: dict[int, Any], each: Any) -> Any:
    """An interval. It is written once, even if several groups hold it.

    Its size is fixed, and its end is no column. Where operators had columns for their ends, and optional intervals on
    several devices, CP-SAT 9.15 called plans optimal that were not: 4 of 400 small placements.
    """
    if id(each) not in seen:
        present = True if each.present is None else columns[each.present]
        seen[id(each)] = model.new_optional_fixed_size_interval_var(columns[each.start], each.size, present, "")
    return seen[id(each)]
