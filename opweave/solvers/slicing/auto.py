"""The default plan for slicing: floors, bounds, annealing, and the integer program where it is small.

It contains every floor, so it is never worse than any of them. Of tiny problems all plans are looked at instead.
"""

from __future__ import annotations

from opweave.formulations.expressions import expressible
from opweave.problems.errors import UnsupportedFeatureError
from opweave.problems.slicing import Slicing
from opweave.solvers.registry import Feature, Solver, find_solver, register
from opweave.solvers.run import Outcome, Run
from opweave.solvers.slicing.bounds.best import bounding, cell_steps, prove
from opweave.solvers.slicing.enumeration import every_plan
from opweave.solvers.slicing.local import UNTIMED_ROUNDS, ended, local_search
from opweave.solvers.slicing.rules import TARGETS

ENGINE = "highs"
ENGINE_CUTS = 24
"""Problems of up to so many cuts are given to the integer program when nothing else has closed the gap."""

ENGINE_SECONDS = 20.0
SEARCH_SHARE = 0.1
"""Of the time limit, for a first search: bounds of large networks may take all the time that they are given."""

BOUND_SHARE, BOUND_SECONDS = 0.6, 60.0
"""For the bounds: of the time limit, and without one."""


def solve_auto(problem: Slicing, run: Run) -> Outcome:
    """Put the solvers of slicing together."""
    if not all(expressible(type(constraint), TARGETS) for constraint in problem.constraints):
        return find_solver(problem, ENGINE).run(problem, run)
    search = local_search(problem, run)
    search.floors()
    proof = every_plan(problem, search, run)
    if proof is not None:
        return proof
    if run.time_limit is not None:
        with run.share(SEARCH_SHARE):
            search.rounds(None)
    steps = cell_steps(run)
    with run.share(BOUND_SHARE, BOUND_SECONDS):
        prove(bounding(problem, search.instance), run, steps)
    if not run.should_stop():
        search.rounds(UNTIMED_ROUNDS if run.time_limit is None else None)
    small = len(search.instance.names) * (len(search.instance.devices) - 1) <= ENGINE_CUTS
    if small and not run.should_stop():
        with run.share(1.0, ENGINE_SECONDS):
            try:
                outcome = find_solver(problem, ENGINE).run(problem, run)
            except UnsupportedFeatureError:
                return ended(run)
        if outcome.infeasible:
            return outcome
    return ended(run)


register(
    Solver(
        name="auto",
        problem=Slicing.kind,
        kind="plan",
        run=solve_auto,
        about="floors, bounds, annealing and the integer program, in the order of their cost",
        proves="bound",
        features=frozenset({Feature.START, Feature.GAP, Feature.CALLBACK}),
        targets=(*TARGETS, "cut_program"),
    )
)
