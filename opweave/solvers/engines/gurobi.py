"""Gurobi through gurobipy, in a child process: warm starts, and incumbents and bounds as they are found.

The package includes a licence for small models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from opweave.formulations.modeling.arrays import MatrixModel
from opweave.problems.arrays import FloatArray
from opweave.solvers.engines.answers import Answer, Deadline, News, Verdict, Work
from opweave.solvers.engines.child import Send
from opweave.solvers.engines.child_engine import MatrixEngine

if TYPE_CHECKING:
    import gurobipy

STATUS: dict[str, Verdict] = {
    "OPTIMAL": "solved",
    "INFEASIBLE": "infeasible",
    "TIME_LIMIT": "stopped",
    "ITERATION_LIMIT": "stopped",
    "NODE_LIMIT": "stopped",
    "SOLUTION_LIMIT": "stopped",
    "MEM_LIMIT": "stopped",
    "WORK_LIMIT": "stopped",
    "INTERRUPTED": "stopped",
    "SUBOPTIMAL": "stopped",
}
"""Gurobi's status, and how Gurobi ended; any other status is a failure."""


class Gurobi(MatrixEngine):
    """Gurobi; the user provides a licence."""

    name: ClassVar[str] = "gurobi"
    package: ClassVar[str] = "gurobipy"
    install: ClassVar[str] = "pip install 'opweave[gurobi]'"
    function: ClassVar[str] = "opweave.solvers.engines.gurobi:solve"


def solve(work: Work, send: Send) -> Answer:
    """Solve with Gurobi; runs in the child."""
    import gurobipy

    deadline = Deadline(work.seconds)
    model = gurobipy.Model(env=gurobipy.Env(params={"OutputFlag": 0}))
    columns = write(model, work.matrix)
    options = {"MIPGap": work.gap, "MIPGapAbs": 0.0, "Seed": work.seed, "Threads": work.threads}
    for name, value in options.items():
        model.setParam(name, value)
    if work.start is not None:
        columns.Start = np.where(np.isnan(work.start), gurobipy.GRB.UNDEFINED, work.start)
    left = deadline.left()
    if left is not None:
        model.setParam("TimeLimit", left)
    hear = _listener(columns, send)
    model.optimize(hear)
    if model.Status == gurobipy.GRB.INF_OR_UNBD:
        model.setParam("DualReductions", 0)
        model.optimize(hear)
    return _answer(model, columns)


def write(model: gurobipy.Model, matrix: MatrixModel) -> Any:
    """Write the arrays as a Gurobi model, and return its variables."""
    from scipy.sparse import csr_matrix  # it takes longer to import than most problems to solve

    rows = matrix.rows
    kinds = np.where(matrix.whole, "I", "C")
    columns = model.addMVar(matrix.columns, lb=matrix.lower, ub=matrix.upper, obj=matrix.cost, vtype=kinds)
    model.ObjCon = matrix.offset
    sense = np.where(rows.lower == rows.upper, "=", np.where(np.isfinite(rows.upper), "<", ">"))
    sides = np.where(np.isfinite(rows.upper), rows.upper, rows.lower)
    entries = csr_matrix((rows.value, rows.index, rows.start), shape=(len(rows), matrix.columns))
    model.addMConstr(entries, columns, sense, sides)
    return columns


def _listener(columns: gurobipy.MVar, send: Send) -> Any:
    """Send every new solution, and better bounds."""
    from gurobipy import GRB

    best = -np.inf

    def hear(model: gurobipy.Model, where: int) -> None:
        nonlocal best
        if where == GRB.Callback.MIPSOL:
            send(News(values=np.asarray(model.cbGetSolution(columns), dtype=np.float64)))
        elif where == GRB.Callback.MIP:
            bound = float(model.cbGet(GRB.Callback.MIP_OBJBND))
            if abs(bound) < GRB.INFINITY and bound > best:
                best = bound
                send(News(bound=bound))

    return hear


def _answer(model: gurobipy.Model, columns: gurobipy.MVar) -> Answer:
    from gurobipy import GRB

    status = next((name for name in STATUS if getattr(GRB, name, None) == model.Status), f"status {model.Status}")
    verdict = STATUS.get(status, "failed")
    values: FloatArray | None = None
    bound: float | None = None
    if verdict in ("solved", "stopped"):
        if model.SolCount:
            values = np.asarray(columns.X, dtype=np.float64)
        known = float(model.ObjBound) if model.IsMIP else float(model.ObjVal) if verdict == "solved" else -np.inf
        bound = known if abs(known) < GRB.INFINITY else None
    return Answer(verdict, values, bound, status)
