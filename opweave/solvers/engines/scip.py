"""SCIP through pyscipopt, in a child process: warm starts, and incumbents and bounds as they are found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from opweave.formulations.modeling.arrays import MatrixModel
from opweave.problems.arrays import FloatArray
from opweave.solvers.engines.answers import Answer, Deadline, News, Verdict, Work
from opweave.solvers.engines.child import Send
from opweave.solvers.engines.child_engine import MatrixEngine

if TYPE_CHECKING:
    import pyscipopt

STATUS: dict[str, Verdict] = {
    "optimal": "solved",
    "gaplimit": "solved",
    "infeasible": "infeasible",
    "userinterrupt": "stopped",
    "terminate": "stopped",
}
"""SCIP's status, and how SCIP ended; any other limit stops it, and any other status is a failure."""


class Scip(MatrixEngine):
    """SCIP, which pyscipopt includes."""

    name: ClassVar[str] = "scip"
    package: ClassVar[str] = "pyscipopt"
    install: ClassVar[str] = "pip install 'opweave[scip]'"
    function: ClassVar[str] = "opweave.solvers.engines.scip:solve"


def solve(work: Work, send: Send) -> Answer:
    """Solve with SCIP; runs in the child."""
    import pyscipopt

    deadline = Deadline(work.seconds)
    model = pyscipopt.Model()
    model.hideOutput()
    columns = write(model, work.matrix)
    model.setParam("limits/gap", work.gap)
    model.setParam("randomization/randomseedshift", work.seed)
    model.setParam("misc/catchctrlc", False)
    if work.start is not None:
        _begin(model, columns, work.start)
    model.includeEventhdlr(_news_handler(columns, send), "opweave", "sends solutions and bounds to the parent")
    left = deadline.left()
    if left is not None:
        model.setParam("limits/time", left)
    model.optimizeNogil()
    return _answer(model, columns)


def write(model: pyscipopt.Model, matrix: MatrixModel) -> list[pyscipopt.Variable]:
    """Write the arrays as a SCIP model, and return its variables by column."""
    import pyscipopt

    columns = [
        model.addVar(
            vtype="I" if whole else "C", lb=None if low == -np.inf else low, ub=None if high == np.inf else high
        )
        for whole, low, high in zip(matrix.whole.tolist(), matrix.lower.tolist(), matrix.upper.tolist(), strict=True)
    ]
    cost = pyscipopt.quicksum(c * columns[k] for k, c in enumerate(matrix.cost.tolist()) if c)
    model.setObjective(cost + matrix.offset, "minimize")
    rows = matrix.rows
    start, index, value = rows.start.tolist(), rows.index.tolist(), rows.value.tolist()
    for r, (low, high) in enumerate(zip(rows.lower.tolist(), rows.upper.tolist(), strict=True)):
        entries = range(start[r], start[r + 1])
        body = pyscipopt.quicksum(value[e] * columns[index[e]] for e in entries)
        if low == high:
            model.addCons(body == low)
            continue
        if high < np.inf:
            model.addCons(body <= high)
        if low > -np.inf:
            model.addCons(body >= low)
    return columns


def _begin(model: pyscipopt.Model, columns: list[pyscipopt.Variable], start: FloatArray) -> None:
    """Pass a start, complete or partial."""
    whole = not np.isnan(start).any()
    solution = model.createSol() if whole else model.createPartialSol()
    for variable, value in zip(columns, start.tolist(), strict=True):
        if not np.isnan(value):
            model.setSolVal(solution, variable, value)
    model.addSol(solution)


def _news_handler(columns: list[pyscipopt.Variable], send: Send) -> pyscipopt.Eventhdlr:
    """Send every new best solution, with the bound at that moment."""
    from pyscipopt import Eventhdlr
    from pyscipopt.scip import PY_SCIP_EVENTTYPE as SCIP_EVENTTYPE

    class Handler(Eventhdlr):
        def eventinit(self) -> None:
            self.model.catchEvent(SCIP_EVENTTYPE.BESTSOLFOUND, self)
            self.model.catchEvent(SCIP_EVENTTYPE.NODESOLVED, self)
            self.bound = -np.inf

        def eventexec(self, event: pyscipopt.scip.Event) -> None:
            values = None
            if event.getType() == SCIP_EVENTTYPE.BESTSOLFOUND:
                values = _values(self.model, columns, self.model.getBestSol())
            bound = self.model.getDualbound()
            improved = abs(bound) < self.model.infinity() and bound > self.bound
            if improved:
                self.bound = bound
            if values is not None or improved:
                send(News(values, bound if improved else None))

    return Handler()


def _values(model: pyscipopt.Model, columns: list[pyscipopt.Variable], solution: Any) -> FloatArray:
    return np.asarray([model.getSolVal(solution, variable) for variable in columns], dtype=np.float64)


def _answer(model: pyscipopt.Model, columns: list[pyscipopt.Variable]) -> Answer:
    status = model.getStatus()
    verdict = STATUS.get(status, "stopped" if status.endswith("limit") else "failed")
    if verdict == "failed":
        return Answer(verdict, reason=status)
    values = _values(model, columns, model.getBestSol()) if model.getNSols() else None
    bound = model.getDualbound()
    return Answer(verdict, values, bound if abs(bound) < model.infinity() else None, status)
