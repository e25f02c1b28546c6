"""Registering every engine for a problem: one call, so that all problems offer the same engines on the same terms."""

from __future__ import annotations

from functools import partial
from typing import Any

from opweave.formulations.formulation import Formulation, find_formulation, formulation_names
from opweave.formulations.modeling.intervals import IntervalModel
from opweave.problems.problem import Problem
from opweave.solvers.engines.cbc import Cbc
from opweave.solvers.engines.child_engine import MEMORY_OPTION
from opweave.solvers.engines.cp_sat import WORKERS_OPTION, CpSat
from opweave.solvers.engines.engine import Engine, HeadStart, run_engine
from opweave.solvers.engines.gurobi import Gurobi
from opweave.solvers.engines.highs import Highs
from opweave.solvers.engines.pyomo_child import Cplex, Glpk, Xpress
from opweave.solvers.engines.scip import Scip
from opweave.solvers.registry import Feature, Solver, register
from opweave.solvers.run import Outcome, Run

HEAD_START = "head_start"
"""Option of every engine: whether it begins with the head start. True unless it says no."""

COMMON = frozenset({Feature.START, Feature.GAP, Feature.CALLBACK, Feature.EXTEND, Feature.FORMULATION})
THREADED = COMMON | {Feature.THREADS}

ENGINES: tuple[tuple[Engine, frozenset[Feature], str], ...] = (
    (Highs(), THREADED, "HiGHS, embedded"),
    (Scip(), COMMON, "SCIP in a child process"),
    (Cbc(), THREADED, "CBC in a child process"),
    (Glpk(), COMMON - {Feature.START}, "GLPK in a child process"),
    (Gurobi(), THREADED, "Gurobi in a child process"),
    (Cplex(), THREADED, "CPLEX in a child process"),
    (Xpress(), THREADED, "Xpress in a child process"),
)


def register_engines(problem: type[Problem[Any, Any]], model: str, head_start: HeadStart) -> None:
    """Register the engines that solve linear programs, for a problem whose formulations are registered by now.

    Parameters
    ----------
    problem
        Its class.
    model
        What they are given, for the list of solvers: "an integer program".
    head_start
        A first solution and bound for any of them.
    """
    names = formulation_names(problem.kind)
    supports = {target: None for name in names for target in find_formulation(problem, name).supports}
    for engine, features, about in ENGINES:
        register(
            Solver(
                name=engine.name,
                problem=problem.kind,
                kind="engine",
                run=partial(_solve, engine, head_start),
                about=f"{about}: {model}",
                proves="optimum",
                features=features,
                supports=tuple(supports),
                options=frozenset({HEAD_START}) if engine.name == "highs" else frozenset({HEAD_START, MEMORY_OPTION}),
                missing=engine.missing,
                version=engine.version,
            )
        )


def register_cp_sat(
    problem: type[Problem[Any, Any]], formulation: type[Formulation[Any, Any]], model: str, head_start: HeadStart
) -> None:
    """Register CP-SAT for a problem.

    Parameters
    ----------
    problem
        Its class.
    formulation
        How it is written as a constraint program.
    model
        What that is, for the list of solvers: "optional intervals".
    head_start
        A first solution and bound.
    """
    engine = CpSat()
    register(
        Solver(
            name=engine.name,
            problem=problem.kind,
            kind="engine",
            run=partial(_solve, engine, head_start)
            if issubclass(formulation.model_type, IntervalModel)
            else partial(_solve_with_intervals, engine, formulation, head_start),
            about=f"CP-SAT in a child process: {model}",
            proves="optimum",
            features=THREADED,
            supports=formulation.supports,
            options=frozenset({HEAD_START, MEMORY_OPTION, WORKERS_OPTION}),
            missing=engine.missing,
            version=engine.version,
        )
    )


def _solve(engine: Engine, head_start: HeadStart, problem: Problem[Any, Any], run: Run) -> Outcome:
    return run_engine(problem, run, engine, _wanted(head_start, run))


def _solve_with_intervals(
    engine: CpSat, formulation: type[Formulation[Any, Any]], head_start: HeadStart, problem: Problem[Any, Any], run: Run
) -> Outcome:
    return engine.run(problem, run, formulation, _wanted(head_start, run))


def _wanted(head_start: HeadStart, run: Run) -> HeadStart:
    if not run.option(HEAD_START, default=True):
        return HeadStart()
    return head_start if head_start.within is None else head_start.within(run)
