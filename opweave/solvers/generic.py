"""Solvers that every problem has without code of its own: engines for its formulations, and the solver "auto".

The problems of opweave register engines with head starts, and an "auto" that is specific to them. Problems of users
register formulations and algorithms; this module adds the rest.
"""

from __future__ import annotations

from typing import Any

from opweave.formulations.expressions import MODEL, VIOLATIONS, expressible
from opweave.formulations.formulation import formulation_names, register_formulation
from opweave.formulations.modeling.intervals import IntervalModel
from opweave.problems.plugins import FORMULATIONS, SOLVERS, load_plugins
from opweave.problems.problem import Problem
from opweave.solvers.auto import register_auto
from opweave.solvers.engines.engine import HeadStart
from opweave.solvers.engines.known import Highs
from opweave.solvers.engines.registration import register_cp_sat, register_engines
from opweave.solvers.registry import register_solver, registered
from opweave.solvers.run import Run
from opweave.solvers.workers import Steps, Worker

ENGINES = ("highs", "cp-sat")
OPWEAVES = "opweave.problems."
"""Package of the problems that register all their solvers themselves."""


def load_packages() -> None:
    """Register the formulations and solvers that other packages bring, once opweave's own are registered."""
    load_plugins(FORMULATIONS, register_formulation)
    load_plugins(SOLVERS, register_solver)


def complete(kind: str) -> None:
    """Register what a user's problem lacks: engines, if it has formulations, and "auto"."""
    found = Problem.kinds().get(kind)
    if found is None or not issubclass(found, Problem) or found.__module__.startswith(OPWEAVES):
        return
    if not (formulation_names(kind) or registered(kind)):
        return
    known = {solver.name: solver for solver in registered(kind)}
    if formulation_names(kind) and Highs.name not in known:
        register_engines(found, "a program", HeadStart())
        if formulation_names(kind, IntervalModel):
            register_cp_sat(found, "a constraint program", HeadStart())
    if "auto" not in known:
        targets = {target: None for solver in registered(kind) for target in solver.supports}
        register_auto(
            found,
            workers,
            "the algorithms that are registered, and HiGHS and CP-SAT if there is a formulation",
            proves="optimum" if formulation_names(kind) else "nothing",
            supports=tuple(target for target in targets if target not in (MODEL, VIOLATIONS)),
        )


def workers(problem: Problem[Any, Any], _run: Run) -> list[Worker]:
    """The registered baselines, other algorithms, and the engines that have a formulation."""
    rules = [type(each) for each in problem.constraints]
    able = [each for each in registered(problem.kind) if all(expressible(rule, each.supports) for rule in rules)]
    able = [each for each in able if each.missing() is None]
    algorithms = sorted((each for each in able if each.kind == "algorithm"), key=lambda each: not each.baseline)
    found: list[Worker] = [Steps(each.name, each.run, problem) for each in algorithms]
    return [*found, *(Steps(each.name, each.run, problem) for each in able if each.name in ENGINES)]
