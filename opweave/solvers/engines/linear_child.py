"""Integer programs for engines that Pyomo drives, in a child process: SCIP, CBC, GLPK, Gurobi, CPLEX and Xpress.

Pyomo's own ``solve`` captures file descriptors and can hang in threads, and some engines are separate programs. In a
child with its own process group, neither does harm. These engines report only when they end.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import shutil
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opweave.formulations.modeling.arrays import MatrixModel, of_arrays
from opweave.formulations.modeling.pyomo import to_pyomo
from opweave.problems.arrays import FloatArray
from opweave.solvers.engines.answers import Ending, Verdict, Work
from opweave.solvers.engines.child import Send

if TYPE_CHECKING:
    from pyomo.environ import ConcreteModel
    from pyomo.opt import SolverResults


@dataclass(frozen=True, slots=True)
class Dialect:
    """How to call one engine through Pyomo.

    Attributes
    ----------
    about
        The engine's own name.
    install
        The command that installs it.
    factory
        Its name in Pyomo's solver factory.
    package, program
        The Python package that brings it, and the name of its program, where it is one.
    seconds, gap
        Names of its options for the time limit and the relative gap.
    whole_seconds
        Whether the time limit is a whole number.
    seed, threads
        Names of these options; empty if it has none.
    fixed
        Options that are always set.
    starts
        Whether it accepts a start.
    """

    about: str
    install: str
    factory: str
    seconds: str
    gap: str
    package: str = ""
    program: str = ""
    whole_seconds: bool = False
    seed: str = ""
    threads: str = ""
    fixed: Mapping[str, float | str] = field(default_factory=dict)
    starts: bool = True

    def options(self, work: Work) -> dict[str, float | str]:
        """The engine's options for a work."""
        left = work.left()
        left = max(1, round(left)) if self.whole_seconds and left is not None else left
        asked = {self.seconds: left, self.gap: work.gap, self.seed: work.seed}
        asked[self.threads] = work.threads if work.threads > 1 or self.program == "" else None
        return {**self.fixed, **{name: value for name, value in asked.items() if name and value is not None}}


SCIP, CBC = "scip", "cbc"

_TABLE = tomllib.loads(Path(__file__).with_name("dialects.toml").read_text("utf-8"))
STATUS: dict[str, Verdict] = {each: verdict for verdict, known in _TABLE["verdicts"].items() for each in known}
"""Pyomo's termination condition, and how the engine ended; any other condition is a failure."""

DIALECTS: dict[str, Dialect] = {name: Dialect(**row) for name, row in _TABLE["engines"].items()}


def program_of(engine: str) -> str | None:
    """Path of an engine's program: the one in the package cbcbox, otherwise the one on the path."""
    if engine == CBC and importlib.util.find_spec("cbcbox") is not None:
        return str(importlib.import_module("cbcbox").cbc_bin_path())
    return shutil.which(DIALECTS[engine].program)


def solve(work: Work, _: Send) -> Ending:
    """Rebuild the model, and solve it through Pyomo; runs in the child."""
    dialect = DIALECTS[work.engine]
    model = rebuild(work.program, work.start)
    solver = _solver(work.engine)
    begun = dialect.starts and work.start is not None and not np.isnan(work.start).any()
    arguments = {"warmstart": True} if begun and work.engine != SCIP else {}
    if begun and work.engine == SCIP:
        solver.config.warmstart_discrete_vars = True
    for option, value in dialect.options(work).items():
        solver.options[option] = value
    return _answer(work, model, solver.solve(model, load_solutions=False, **arguments))


def _solver(engine: str) -> Any:
    from pyomo.environ import SolverFactory

    if engine != CBC:
        return SolverFactory(DIALECTS[engine].factory)
    from pyomo.solvers.plugins.solvers.CBCplugin import CBCSHELL

    class Cbc(CBCSHELL):  # type: ignore[misc,no-any-unimported,unused-ignore]
        """Reads solutions of the newer CBC, too, which lists no rows; Pyomo waits for them."""

        def process_soln_file(self, results: SolverResults) -> None:
            super().process_soln_file(results)
            for solution in results.solution:
                for line in Path(self._soln_file).read_text(encoding="ascii").splitlines()[1:]:
                    name, value = line.replace("**", " ").split()[1:3]
                    if name.startswith("x"):
                        solution.variable[name] = {"Value": float(value)}

    return Cbc(executable=program_of(engine))


def rebuild(matrix: MatrixModel, start: FloatArray | None) -> ConcreteModel:
    """Write the arrays as a Pyomo model: variables ``x``, rows ``rows``, one objective."""
    view = to_pyomo(of_arrays(matrix))
    if start is not None:
        for variable, known in zip(view.variables, start.tolist(), strict=True):
            if not np.isnan(known):
                variable.set_value(known, skip_validation=True)
    return view.concrete


def _answer(work: Work, model: ConcreteModel, results: SolverResults) -> Ending:
    condition = str(results.solver.termination_condition)
    verdict = STATUS.get(condition, "failed")
    message = f"{condition}: {results.solver.message}" if results.solver.message else condition
    if verdict in ("failed", "infeasible"):
        return Ending(verdict, reason=message)
    # Pyomo calls the objective of a program's solution its bound, though it may only be within the gap.
    proved = None if verdict == "solved" and DIALECTS[work.engine].program else results.problem.lower_bound
    known = float(proved) if isinstance(proved, int | float) and np.isfinite(proved) else None
    whole = condition != "intermediateNonInteger"
    return Ending(verdict, _values(work.program, model, results) if whole else None, known, message)


def _values(matrix: MatrixModel, model: ConcreteModel, results: SolverResults) -> FloatArray | None:
    """The best solution in Pyomo's results, or None."""
    if len(results.solution) == 0:
        return None
    for variable in model.x.values():
        variable.set_value(None)  # values of a start or of the last run are no answer
    model.solutions.load_from(results)
    # Programs leave zeros out of their solution files, and Pyomo columns that are in no row.
    given = np.asarray([math.nan if variable.value is None else variable.value for variable in model.x.values()])
    written = (np.bincount(matrix.rows.index, minlength=matrix.columns) > 0) | (matrix.cost != 0.0)
    return np.where(written & ~np.isnan(given), given, np.clip(0.0, matrix.lower, matrix.upper))
