"""Parallel lanes for memory layout: the default solver, and local search from the beginning."""

from __future__ import annotations

from opweave.formulations.memory_layout.instance import lower
from opweave.problems.memory_layout.spec import MemoryLayout
from opweave.solvers.memory_layout.exact import Arena, Part, is_searched, solve_arena
from opweave.solvers.memory_layout.plans import contradiction
from opweave.solvers.memory_layout.ranks import Choice
from opweave.solvers.registry import run_side_by_side
from opweave.solvers.run import Outcome, Run
from opweave.solvers.side_by_side.lane import Lane, with_seeds

HOME = "opweave.solvers.memory_layout"


class Ejecting(Arena):
    """Lays out by local search alone."""

    def _narrow(self, part: Part, orders: list[Choice], per_storage: int) -> None:
        pass


def lanes(problem: MemoryLayout, _run: Run) -> tuple[Lane, ...]:
    """The lanes of ``auto``."""
    alone = Lane(f"{HOME}.auto:solve_auto")
    if len(problem.pools) > 1 or problem.objective != "arena":
        return (alone,)
    return alone, Lane(f"{HOME}.lanes:eject")


def exact_lanes(_problem: MemoryLayout, _run: Run) -> tuple[Lane, ...]:
    """The lanes of ``exact``."""
    return Lane(f"{HOME}.exact:solve_exact"), Lane(f"{HOME}.lanes:eject")


def eject(problem: MemoryLayout, run: Run) -> Outcome:
    """One arena by greedy rules and local search."""
    instance = lower(problem)
    reason = contradiction(instance)
    if reason is not None:
        return Outcome(infeasible=True, reason=reason)
    if not is_searched(instance):
        return solve_arena(problem, run)
    arena = Ejecting(problem, run)
    arena.start()
    return arena.finish()


run_side_by_side(MemoryLayout.kind, "auto", lanes)
run_side_by_side(MemoryLayout.kind, "exact", exact_lanes)
for _name in ("hill_climb", "annealing"):
    run_side_by_side(MemoryLayout.kind, _name, with_seeds(f"{HOME}.climb:solve_{_name}"))
