"""Engines that Pyomo drives, in a child process: GLPK, CPLEX, Xpress.

Pyomo's own ``solve`` captures file descriptors and can hang in threads, and most of these engines are separate
programs. In a child with its own process group, neither does harm. These engines report only when they end.
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
"""Pyomo's termination condition, and how the engine ended; any other condition is a failure."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How to call one engine through Pyomo.

    Attributes
    ----------
    factory
        The engine's name in Pyomo's solver factory.
    options
        The engine's options for seconds, gap, seed and threads.
    starts
        Whether it accepts a start.
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
        """Path of the engine's program, or the name of its Python package; None if it is not installed."""

    @abstractmethod
    def install(self) -> str:
        """The command that installs it."""

    def solver(self) -> str:
        """Name of the dialect, and the program."""
        return f"{self.name}|{self.program() or ''}"

    def missing(self) -> str | None:
        """The command that installs it; None if it is installed."""
        return None if self.program() else self.install()


class Glpk(PyomoEngine):
    """GLPK: the program glpsol."""

    name: ClassVar[str] = "glpk"

    def program(self) -> str | None:
        """The path of glpsol."""
        return shutil.which("glpsol")

    def install(self) -> str:
        """The command that installs GLPK, which comes with operating systems, not with pip."""
        return "apt-get install glpk-utils (or conda install glpk)"

    def version(self) -> str | None:
        """None: the version is unknown before a run."""
        return None


class _Packaged(PyomoEngine):
    """An engine that is a Python package."""

    package: ClassVar[str]

    def program(self) -> str | None:
        """The package, if it can be imported."""
        return self.package if importlib.util.find_spec(self.package) else None

    def install(self) -> str:
        """The pip command; the user provides a licence."""
        return f"pip install {self.package}"

    def version(self) -> str | None:
        """Version of the package."""
        return package_version(self.package)


class Cplex(_Packaged):
    """CPLEX; the package includes a licence for small models."""

    name: ClassVar[str] = "cplex"
    package: ClassVar[str] = "cplex"


class Xpress(_Packaged):
    """Xpress; the package includes a licence for small models."""

    name: ClassVar[str] = "xpress"
    package: ClassVar[str] = "xpress"


def solve(work: Work, _: Send) -> Answer:
    """Rebuild the model, and solve it through Pyomo; runs in the child."""
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
        variable.set_value(None)  # values of a start or of the last run are no answer
    model.solutions.load_from(results)
    # Programs leave zeros out of their solution files.
    return np.asarray([variable.value or 0.0 for variable in model.x.values()], dtype=np.float64)
