"""Registering all engines for a problem with one call, so that every problem offers them on the same terms."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from opweave.formulations.expressions import VIOLATIONS
from opweave.formulations.formulation import find_formulation, formulation_names
from opweave.problems.problem import Problem
from opweave.solvers.engines.base import MEMORY_OPTION, Engine
from opweave.solvers.engines.cp_sat import WORKERS_OPTION, CpSat
from opweave.solvers.engines.engine import HeadStart, run_engine
from opweave.solvers.engines.highs import Highs
from opweave.solvers.engines.linear import LinearEngine
from opweave.solvers.registry import Feature, Solver, register
from opweave.solvers.run import Outcome, Run

HEAD_START = "head_start"
"""Option of every engine: whether to begin with the head start. The default is True."""

OPTIONS = {
    HEAD_START: "whether to begin with the plan and the bound of opweave's own methods (true by default)",
    MEMORY_OPTION: "most bytes of memory for the engine's process; 0 for those of the machine",
}

COMMON = frozenset({Feature.START, Feature.GAP, Feature.CALLBACK, Feature.EXTEND, Feature.FORMULATION})
THREADED = COMMON | {Feature.THREADS}

ENGINES: tuple[tuple[Engine, frozenset[Feature], str], ...] = (
    (Highs(), THREADED, "HiGHS"),
    (LinearEngine("scip", "pip install 'opweave[scip]'"), COMMON, "SCIP"),
    (LinearEngine("cbc", "pip install 'opweave[cbc]'"), THREADED, "CBC"),
    (LinearEngine("glpk", "apt-get install glpk-utils (or conda install glpk)"), COMMON - {Feature.START}, "GLPK"),
    (LinearEngine("gurobi", "pip install 'opweave[gurobi]'"), THREADED, "Gurobi"),
    (LinearEngine("cplex", "pip install cplex"), THREADED, "CPLEX"),
    (LinearEngine("xpress", "pip install xpress"), THREADED, "Xpress"),
)


def register_engines(problem: type[Problem[Any, Any]], model: str, head_start: HeadStart) -> None:
    """Register the engines for linear programs, for a problem whose formulations are already registered.

    Parameters
    ----------
    problem
        The problem's class.
    model
        What the engines receive, for the list of solvers, such as "an integer program".
    head_start
        A first solution and bound for each of them.
    """
    for engine, features, about in ENGINES:
        _register(engine, features, f"{about} in a child process: {model}", problem, head_start, OPTIONS)


def register_cp_sat(problem: type[Problem[Any, Any]], model: str, head_start: HeadStart) -> None:
    """Register CP-SAT for a problem that has a constraint program; see :func:`register_engines`."""
    options = OPTIONS | {WORKERS_OPTION: "number of search strategies that take turns on the cores"}
    _register(CpSat(), THREADED, f"CP-SAT in a child process: {model}", problem, head_start, options)


def _register(
    engine: Engine,
    features: frozenset[Feature],
    about: str,
    problem: type[Problem[Any, Any]],
    head_start: HeadStart,
    options: Mapping[str, str],
) -> None:
    names = formulation_names(problem.kind, engine.takes)
    written = [find_formulation(problem, name, engine.takes) for name in names]
    register(
        Solver(
            name=engine.name,
            problem=problem.kind,
            kind="engine",
            run=partial(_solve, engine, head_start),
            about=about,
            proves="optimum",
            features=features,
            supports=(*{target: None for formulation in written for target in formulation.supports}, VIOLATIONS),
            options=options,
            missing=engine.missing,
            version=engine.version,
            readings=tuple(dict.fromkeys(formulation.reading for formulation in written)),
        )
    )


def _solve(engine: Engine, head_start: HeadStart, problem: Problem[Any, Any], run: Run) -> Outcome:
    if not run.option(HEAD_START, default=True):
        head_start = HeadStart()
    elif head_start.within is not None:
        head_start = head_start.within(run)
    return run_engine(problem, run, engine, head_start)
