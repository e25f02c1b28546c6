"""Engines that Pyomo drives, in a child process: GLPK, CPLEX, Xpress.

Pyomo's own ``solve`` captures file descriptors and can hang in threads, and most of these engines are programs of their
own; in a child with a process group both are harmless. They report when they end, not on the way.
"""

from __future__ import annotations

import importlib.util
import shutil
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from opweave.formulations.modeling.arrays import MatrixModel, of_arrays
from opweave.formulations.modeling.pyomo import to_pyomo
from opweave.problems.arrays import FloatArray
from opweave.solvers.engines.answers import Answer
from opweave.solvers.engines.child import Send
from opweave.solvers.engines.child_engine import MatrixEngine, Work, package_version
from opweave.solvers.engines.deadline import Deadline

if TYPE_CHECKING:
    from pyomo.environ import ConcreteModel
    from pyomo.opt import SolverResults

Options = dict[str, float | int | str]

STATUS: dict[str, Literal["solved", "infeasible", "stopped"]] = {
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
"""Pyomo's termination condition -> how the engine ended; any other one is a failure."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one engine is called through Pyomo.

    Attributes
    ----------
    factory
        Its name in Pyomo's solver factory.
    options
        Its words for seconds, gap, seed and threads.
    starts
        Whether it takes a start.
    """

    factory: str
    options: Callable[[Work, float | None], Options]
    starts: bool


def _glpk(work: Work, seconds: float | None) -> Options:
    options: Options = {"mipgap": work.gap}
    if seconds is not None:
        options["tmlim"] = max(1, round(seconds))
    return options


def _cplex(work: Work, seconds: float | None) -> Options:
    options: Options = {
        "mip_tolerances_mipgap": work.gap,
        "mip_tolerances_absmipgap": 0.0,
        "randomseed": work.seed % 2**31,
        "threads": work.threads,
    }
    if seconds is not None:
        options["timelimit"] = seconds
    return options


def _xpress(work: Work, seconds: float | None) -> Options:
    options: Options = {
        "miprelstop": work.gap,
        "mipabsstop": 0.0,
        "randomseed": work.seed % 2**31,
        "threads": work.threads,
    }
    if seconds is not None:
        options["timelimit"] = seconds
    return options


DIALECTS = {
    "glpk": Dialect("glpk", _glpk, starts=False),
    "cplex": Dialect("cplex_direct", _cplex, starts=True),
    "xpress": Dialect("xpress_direct", _xpress, starts=True),
}


class PyomoEngine(MatrixEngine):
    """An engine of :data:`DIALECTS`."""

    function: ClassVar[str] = "opweave.solvers.engines.pyomo_child:solve"

    @abstractmethod
    def program(self) -> str | None:
        """Path of the engine's program, or the name of its Python package; None when it is not there."""

    @abstractmethod
    def install(self) -> str:
        """What installs it."""

    def solver(self) -> str:
        """Name of the dialect and the program."""
        return f"{self.name}|{self.program() or ''}"

    def missing(self) -> str | None:
        """What installs it, unless it is there."""
        return None if self.program() else self.install()


class Glpk(PyomoEngine):
    """GLPK: the program glpsol."""

    name: ClassVar[str] = "glpk"

    def program(self) -> str | None:
        """Glpsol on the path."""
        return shutil.which("glpsol")

    def install(self) -> str:
        """GLPK comes with operating systems, not with pip."""
        return "apt-get install glpk-utils (or conda install glpk)"

    def version(self) -> str | None:
        """Unknown before a run."""
        return None


class _Packaged(PyomoEngine):
    """An engine that is a Python package."""

    package: ClassVar[str]

    def program(self) -> str | None:
        """The package, when it can be imported."""
        return self.package if importlib.util.find_spec(self.package) else None

    def install(self) -> str:
        """The pip line; a licence is the user's affair."""
        return f"pip install {self.package}"

    def version(self) -> str | None:
        """Version of the package."""
        return package_version(self.package)


class Cplex(_Packaged):
    """CPLEX; a small licence for small models comes with the package."""

    name: ClassVar[str] = "cplex"
    package: ClassVar[str] = "cplex"


class Xpress(_Packaged):
    """Xpress; a small licence for small models comes with the package."""

    name: ClassVar[str] = "xpress"
    package: ClassVar[str] = "xpress"


def solve(work: Work, _: Send) -> Answer:
    """Rebuild the model, have Pyomo solve it; runs in the child."""
    from pyomo.environ import SolverFactory

    deadline = Deadline(work.seconds)
    name, _bar, program = work.solver.partition("|")
    dialect = DIALECTS[name]
    model = rebuild(work.matrix, work.start)
    solver = SolverFactory(dialect.factory, executable=program) if "/" in program else SolverFactory(dialect.factory)
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
    verdict = STATUS.get(condition)
    message = f"{condition}: {results.solver.message}" if results.solver.message else condition
    if verdict is None:
        return Answer("failed", reason=message)
    if verdict == "infeasible":
        return Answer(verdict, reason=message)
    bound = results.problem.lower_bound
    known = float(bound) if isinstance(bound, int | float) and np.isfinite(bound) else None
    return Answer(verdict, _values(model, results), known, message)


def _values(model: ConcreteModel, results: SolverResults) -> FloatArray | None:
    """The best solution in Pyomo's results, or None."""
    if len(results.solution) == 0:
        return None
    for variable in model.x.values():
        variable.set_value(None)  # what a start or the last run left behind is no answer
    model.solutions.load_from(results)
    # Programs leave zeros out of their files.
    return np.asarray([variable.value or 0.0 for variable in model.x.values()], dtype=np.float64)
