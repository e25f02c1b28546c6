"""The default solver of memory layout: greedy rules, then the exact search, or pools by linear programming.

An engine goes on at last where it may still help.
"""

from __future__ import annotations

import logging

from opweave.formulations.memory_layout.instance import lower
from opweave.problems.errors import EngineError, InvalidInputError, UnsupportedFeatureError
from opweave.problems.memory_layout.spec import MemoryLayout
from opweave.solvers.memory_layout.exact import by_rules, solve_arena
from opweave.solvers.memory_layout.plans import LISTENING, contradiction
from opweave.solvers.memory_layout.pools import Pools
from opweave.solvers.registry import go_on_with, is_available, named_solver
from opweave.solvers.run import Outcome, Run

logger = logging.getLogger("opweave")

POOLS_SHARE = 0.6
"""Share of the time left for pools before an engine begins."""

FIRST_SHARE = 0.25
"""Share of the time for annealing before the linear program, which takes long where there are many storages."""

ENGINE_STORAGES = 60
"""Most storages for which an engine is called, and for which the linear program comes first."""

ENGINE_SECONDS = 10.0
"""Time for an engine if there is no time limit."""


@named_solver(
    MemoryLayout,
    "auto",
    "greedy rules, stacking, pools by linear programming and local search, then an engine if it may help",
    kind="plan",
    proves="optimum",
    features=LISTENING,
)
def solve_auto(problem: MemoryLayout, run: Run) -> Outcome:
    """Lay out one arena or several pools by all methods that apply."""
    reason = contradiction(lower(problem))
    if reason is not None:
        return Outcome(infeasible=True, reason=reason)
    if len(problem.pools) == 1 and problem.objective == "arena":
        return _one_arena(problem, run)
    return _pools(problem, run)


def _one_arena(problem: MemoryLayout, run: Run) -> Outcome:
    outcome = solve_arena(problem, run)
    if outcome.infeasible or run.should_stop():
        return outcome
    return _by_engine(problem, run, outcome)


def _pools(problem: MemoryLayout, run: Run) -> Outcome:
    instance = lower(problem)
    outcome = by_rules(problem, run)
    if run.should_stop():
        return outcome
    pools = Pools(problem, run)
    if pools.decide():
        reason = None if run.best is not None else "no assignment of the storages to pools can be laid out"
        return Outcome(run.termination(), infeasible=reason is not None, reason=reason)
    if len(instance) > ENGINE_STORAGES:
        with run.share(FIRST_SHARE):
            pools.annealed.rounds()
    shares = pools.relax()
    if not run.should_stop():
        with run.share(POOLS_SHARE if len(instance) <= ENGINE_STORAGES else 1.0):
            pools.search(shares)
    if run.closed() or run.should_stop():
        return Outcome(run.termination())
    return _by_engine(problem, run, outcome)


def _by_engine(problem: MemoryLayout, run: Run, outcome: Outcome) -> Outcome:
    """Let CP-SAT, or HiGHS where that refuses, go on where the problem is small, or only models know its rules."""
    if len(problem.lifetimes) > ENGINE_STORAGES:
        return outcome
    for engine in ("cp-sat", "highs"):
        if is_available(problem, engine):
            try:
                with run.share(1.0, ENGINE_SECONDS):
                    return go_on_with(problem, engine, run)
            except (EngineError, InvalidInputError, UnsupportedFeatureError) as error:
                logger.info("%s is of no help: %s", engine, error)
    return outcome
