"""Parallel lanes for slicing: annealing, bounds, and the integer program if it is small."""

from __future__ import annotations

from opweave.formulations.slicing.instance import lower_unless_short
from opweave.problems.slicing.spec import Slicing
from opweave.solvers.registry import run_side_by_side
from opweave.solvers.run import Outcome, Run
from opweave.solvers.side_by_side.lane import Lane, with_seeds
from opweave.solvers.slicing.auto import BOUND_SECONDS, ENGINE, ENGINE_CUTS, by_program
from opweave.solvers.slicing.bounds.best import bounding, prove, quick_bounds
from opweave.solvers.slicing.local import UNTIMED_ROUNDS, ended, local_search
from opweave.solvers.slicing.plans import running_order

HOME = "opweave.solvers.slicing"


def lanes(_problem: Slicing, _run: Run) -> tuple[Lane, ...]:
    """The lanes of ``auto``."""
    return Lane(f"{HOME}.lanes:search"), Lane(f"{HOME}.lanes:bound")


def search(problem: Slicing, run: Run) -> Outcome:
    """Anneal until the end."""
    search = local_search(problem, run)
    search.baselines()
    with run.share(0.0, 0.0):
        quick_bounds(bounding(problem, search.instance), run)  # that by speeds alone
    search.rounds(UNTIMED_ROUNDS if run.time_limit is None else None)
    return ended(run)


def bound(problem: Slicing, run: Run) -> Outcome:
    """Compute bounds, run the integer program if it is small, then anneal."""
    instance = lower_unless_short(problem, running_order(problem, run))
    with run.share(1.0, BOUND_SECONDS):
        prove(bounding(problem, instance), run)
    if len(instance.names) * (len(instance.devices) - 1) <= ENGINE_CUTS and not run.should_stop():
        outcome = by_program(problem, run, ENGINE, 1.0)
        if outcome is not None and outcome.infeasible:
            return outcome
    if not run.should_stop():
        local_search(problem, run).rounds(UNTIMED_ROUNDS if run.time_limit is None else None)
    return ended(run)


run_side_by_side(Slicing.kind, "auto", lanes)
run_side_by_side(Slicing.kind, "local", with_seeds(f"{HOME}.local:solve_local"))
