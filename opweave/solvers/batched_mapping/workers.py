"""The workers of batched mapping, which "auto" runs as a portfolio."""

from __future__ import annotations

from functools import partial

from opweave.formulations.batched_mapping.instance import SUPPORTS, lower_unless_short
from opweave.problems.batched_mapping.spec import BatchedMapping
from opweave.problems.placement.spec import Placement
from opweave.solvers.auto import register_auto
from opweave.solvers.batched_mapping.bounds.mean_passage import prove_mean_passage
from opweave.solvers.batched_mapping.replicas import solve_replicated
from opweave.solvers.batched_mapping.search import solve_lists, solve_local
from opweave.solvers.batched_mapping.unsplit import prove_one_input, solve_unsplit
from opweave.solvers.engines.cp_sat import CpSat
from opweave.solvers.engines.engine import run_engine
from opweave.solvers.registry import find_solver
from opweave.solvers.run import Outcome, Run
from opweave.solvers.workers import Steps, Worker


def workers(problem: BatchedMapping, _run: Run) -> list[Worker]:
    """List schedules first. A batch that cannot be split is a placement; else bounds, local search and CP-SAT."""
    lists = Steps("lists", solve_lists, problem)
    if lower_unless_short(problem).granules == 1:
        return [lists, Steps("placement", partial(solve_unsplit, _placed), problem)]
    return [
        lists,
        Steps("replicas", solve_replicated, problem),
        Steps("local", solve_local, problem),
        Steps("mean passage", prove_mean_passage, problem),
        Steps("one input", prove_one_input, problem),
        *([Steps("cp-sat", partial(run_engine, engine=CpSat()), problem)] if CpSat().missing() is None else []),
    ]


def _placed(problem: Placement, run: Run) -> Outcome:
    """The portfolio of placement."""
    return find_solver(problem, "auto").run(problem, run)


register_auto(
    BatchedMapping,
    workers,
    "list schedules, one server's plan on all, local search, bounds by linear programs, constraint programming",
    proves="bound",
    supports=SUPPORTS,
)
