"""Solvers that every problem has without code of its own: engines for its formulations, and the solver "auto".

The problems of opweave register engines with head starts, and an "auto" that is specific to them. Problems of users
register formulations and algorithms; this module adds the rest.
"""

from __future__ import annotations

from typing import Any

from opweave.formulations.expressions import MODEL, VIOLATIONS, expressible
from opweave.formulations.formulation import find_formulation, formulation_names, register_formulation
from opweave.problems.plugins import FORMULATIONS, SOLVERS, load_plugins
from opweave.problems.problem import Problem
from opweave.problems.result import Termination
from opweave.solvers.engines.engine import HeadStart, run_engine
from opweave.solvers.engines.highs import Highs
from opweave.solvers.engines.registration import register_engines
from opweave.solvers.extending import extend_plans
from opweave.solvers.registry import Feature, Solver, register, register_solver, registered
from opweave.solvers.run import Outcome, Run

OPWEAVES = "opweave.problems."
"""Package of the problems that register all their solvers themselves."""


def load_packages() -> None:
    """Register the formulations and solvers that other packages bring, once opweave's own are registered."""
    load_plugins(FORMULATIONS, register_formulation)
    load_plugins(SOLVERS, register_solver)


def complete(kind: str) -> None:
    """Register what a user's problem lacks: engines if it has formulations, and "auto"; extend all default solvers."""
    _add_missing(kind)
    extend_plans(kind)


def _add_missing(kind: str) -> None:
    """Register engines, if a user's problem has formulations, and "auto"."""
    found = Problem.kinds().get(kind)
    if found is None or not issubclass(found, Problem) or found.__module__.startswith(OPWEAVES):
        return
    if not (formulation_names(kind) or registered(kind)):
        return
    known = {solver.name: solver for solver in registered(kind)}
    if formulation_names(kind) and Highs.name not in known:
        register_engines(found, "a program", HeadStart())
    if "auto" not in known:
        known_targets = {target: None for solver in registered(kind) for target in solver.supports}
        register(
            Solver(
                name="auto",
                problem=kind,
                kind="plan",
                run=solve_auto,
                about="the baselines, then HiGHS if there is a formulation, starting from the best of them",
                proves="optimum" if formulation_names(kind) else "nothing",
                features=frozenset({Feature.START, Feature.GAP, Feature.CALLBACK}),
                supports=tuple(target for target in known_targets if target not in (MODEL, VIOLATIONS)),
            )
        )


def solve_auto(problem: Problem[Any, Any], run: Run) -> Outcome:
    """Run every baseline that supports the side constraints, then an engine if a formulation supports them."""
    outcome = Outcome(run.termination())
    for solver in registered(problem.kind):
        if not solver.baseline or solver.missing() is not None or not _knows(solver.supports, problem):
            continue
        run.enter(solver.name)
        outcome = solver.run(problem, run)
        if outcome.infeasible or run.should_stop():
            return outcome
    if any(_knows(find_formulation(type(problem), name).supports, problem) for name in formulation_names(problem.kind)):
        return run_engine(problem, run, Highs())
    return outcome if run.best is None else Outcome(Termination.BUDGET)


def _knows(supports: tuple[str, ...], problem: Problem[Any, Any]) -> bool:
    return all(expressible(type(constraint), supports) for constraint in problem.constraints)
