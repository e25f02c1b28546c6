"""Engines that Pyomo drives, in a child process: GLPK, CPLEX, Xpress.

Pyomo's own ``solve`` captures file descriptors and can hang in threads, and most of these engines are separate
programs. In a child with its own process group, neither does harm. These engines report only when they end.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from opweave.formulations.modeling.arrays import MatrixModel, of_arrays
from opweave.formulations.modeling.pyomo import to_pyomo
from opweave.problems.arrays import FloatArray
from opweave.solvers.engines.answers import Answer, Deadline, Verdict, Work
from opweave.solvers.engines.child import Send
from opweave.solvers.engines.child_engine import MatrixEngine

if TYPE_CHECKING:
    from pyomo.environ import ConcreteModel
    from pyomo.opt import SolverResults

STATUS: dict[str, Verdict] = {
    "optimal": "solved",
    "globallyOptimal": "solved",
    "locallyOptimal": "solved",
    "feasible": "stopped",
    "infeasible": "infeasible",
    "maxTimeLimit": "stopped",
    "maxIterations": "stopped",
    "maxEvaluations": "stopped",
    "userInterrupt": "stopped",
    "resourceInterrupt": "stopped",
    "intermediateNonInteger": "stopped",
    "noSolution": "stopped",
    "other": "stopped",
    "unknown": "stopped",
}
"""Pyomo's termination condition, and how the engine ended; any other condition is a failure."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How to call one engine through Pyomo.

    Attributes
    ----------
    factory
        The engine's name in Pyomo's solver factory.
    seconds, gap
        Names of its options for the time limit and the relative gap.
    whole_seconds
        Whether the time limit is a whole number.
    seed, threads
        Names of these options; None if it has none.
    fixed
        Options that are always set.
    starts
        Whether it accepts a start.
    """

    factory: str
    seconds: str
    gap: str
    whole_seconds: bool = False
    seed: str | None = None
    threads: str | None = None
    fixed: Mapping[str, float] = field(default_factory=dict)
    starts: bool = False

    def options(self, work: Work, seconds: float | None) -> dict[str, float]:
        """The engine's options for a work."""
        left = max(1, round(seconds)) if self.whole_seconds and seconds is not None else seconds
        asked = {self.seconds: left, self.gap: work.gap, self.seed: work.seed, self.threads: work.threads}
        known = {name: value for name, value in asked.items() if name is not None and value is not None}
        return {**self.fixed, **known}


DIALECTS = {
    "glpk": Dialect("glpk", "tmlim", "mipgap", whole_seconds=True),
    "cplex": Dialect(
        "cplex_direct",
        "timelimit",
        "mip_tolerances_mipgap",
        seed="randomseed",
        threads="threads",
        fixed={"mip_tolerances_absmipgap": 0.0},
        starts=True,
    ),
    "xpress": Dialect(
        "xpress_direct",
        "timelimit",
        "miprelstop",
        seed="randomseed",
        threads="threads",
        fixed={"mipabsstop": 0.0},
        starts=True,
    ),
}


class PyomoEngine(MatrixEngine):
    """An engine of :data:`DIALECTS`."""

    function: ClassVar[str] = "opweave.solvers.engines.pyomo_child:solve"


class Glpk(PyomoEngine):
    """GLPK: the program glpsol, which comes with operating systems, not with pip."""

    name: ClassVar[str] = "glpk"
    install: ClassVar[str] = "apt-get install glpk-utils (or conda install glpk)"

    def missing(self) -> str | None:
        """The command that installs GLPK; None if its program is on the path."""
        return None if shutil.which("glpsol") else self.install

    def version(self) -> str | None:
        """None: the version is unknown before a run."""
        return None


class Cplex(PyomoEngine):
    """CPLEX; the package includes a licence for small models."""

    name: ClassVar[str] = "cplex"
    package: ClassVar[str] = "cplex"
    install: ClassVar[str] = "pip install cplex"


class Xpress(PyomoEngine):
    """Xpress; the package includes a licence for small models."""

    name: ClassVar[str] = "xpress"
    package: ClassVar[str] = "xpress"
    install: ClassVar[str] = "pip install xpress"


def solve(work: Work, _: Send) -> Answer:
    """Rebuild the model, and solve it through Pyomo; runs in the child."""
    from pyomo.environ import SolverFactory

    deadline = Deadline(work.seconds)
    dialect = DIALECTS[work.engine]
    model = rebuild(work.matrix, work.start)
    solver = SolverFactory(dialect.factory)
    for option, value in dialect.options(work, deadline.left()).items():
        solver.options[option] = value
    begun = work.start is not None and dialect.starts and not np.isnan(work.start).any()
    arguments = {"warmstart": True} if begun else {}
    results = solver.solve(model, load_solutions=False, **arguments)
    return _answer(model, results)


def rebuild(matrix: MatrixModel, start: FloatArray | None) -> ConcreteModel:
    """Write the arrays as a Pyomo model: variables ``x``, rows ``rows``, one objective."""
    view = to_pyomo(of_arrays(matrix))
    if start is not None:
        for variable, known in zip(view.variables, start.tolist(), strict=True):
            if not np.isnan(known):
                variable.set_value(known, skip_validation=True)
    return view.concrete


def _answer(model: ConcreteModel, results: SolverResults) -> Answer:
    condition = str(results.solver.termination_condition)
    verdict = STATUS.get(condition, "failed")
    message = f"{condition}: {results.solver.message}" if results.solver.message else condition
    if verdict in ("failed", "infeasible"):
        return Answer(verdict, reason=message)
    bound = results.problem.lower_bound
    known = float(bound) if isinstance(bound, int | float) and np.isfinite(bound) else None
    return Answer(verdict, _values(model, results), known, message)


def _values(model: ConcreteModel, results: SolverResults) -> FloatArray | None:
    """The best solution in Pyomo's results, or None."""
    if len(results.solution) == 0:
        return None
    for variable in model.x.values():
        variable.set_value(None)  # values of a start or of the last run are no answer
    model.solutions.load_from(results)
    # Programs leave zeros out of their solution files.
    return np.asarray([variable.value or 0.0 for variable in model.x.values()], dtype=np.float64)
