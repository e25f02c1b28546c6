"""The child process that improves a plan window by window with CP-SAT."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple

from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.engines.child import Send
from opweave.solvers.engines.interval_child import without_pandas, write
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.reoptimisation.choice import Choice
from opweave.solvers.placement.reoptimisation.columns import HopelessError
from opweave.solvers.placement.reoptimisation.program import WindowProgram
from opweave.solvers.placement.reoptimisation.timed import Timed, network_of, timed_from
from opweave.solvers.placement.reoptimisation.window import Block, Window

WORK = 0.03
"""Work that a window may take, in CP-SAT's measure: about half a second."""

SHORTER = 1e-9
"""Relative gain that is no rounding."""

MOST_REPEATS = 1_000
"""Windows in a row that were tried before on the same plan; after these, hardly any is left."""


class Times(NamedTuple):
    """A plan: its length, devices, starts of operators, and starts of flows' transfers (-1: none)."""

    makespan: float
    device: IntArray
    start: FloatArray
    begins: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """What the child is asked to do.

    Attributes
    ----------
    arrays, cluster
        The problem, and the groups of operators that share a device.
    trees
        The tree of every operator; those of one may stay together in a window.
    plan
        The plan to begin with.
    seed
        Seed of the choice of windows.
    windows
        Most windows.
    until
        When to end, on the clock of :func:`time.time`.
    """

    arrays: PlacementArrays
    cluster: IntArray
    trees: IntArray
    plan: Times
    seed: int
    windows: int
    until: float


def improve(work: Work, send: Send) -> None:
    """Send every shorter plan."""
    network = network_of(work.arrays, work.cluster)
    plan = timed_from(network, work.plan.device, work.plan.start, work.plan.begins)
    choice, tried, repeats = Choice(work.trees.tolist(), work.seed), set[tuple[Block, ...]](), 0
    for number in range(work.windows):
        if time.time() >= work.until or plan.makespan <= 0.0 or repeats > MOST_REPEATS:
            return
        blocks = choice.window(plan)
        if blocks in tried:
            choice.learn(settled=True, improved=False, share=0.0)
            repeats += 1
            continue
        tried.add(blocks)
        repeats = 0
        decided = decide(plan, blocks, number, work.until - time.time())
        choice.learn(decided.settled, decided.plan is not None, decided.share)
        if decided.plan is not None:
            plan, tried = decided.plan, set()
            send(Times(plan.makespan, *plan.arrays()))


class Decided(NamedTuple):
    """What came of a window: a shorter plan or None, whether nothing better is left, and its share of the work."""

    plan: Timed | None
    settled: bool
    share: float


def decide(plan: Timed, blocks: tuple[Block, ...], seed: int, seconds: float) -> Decided:
    """Decide a window anew."""
    try:
        program = WindowProgram(Window(plan, blocks))
    except HopelessError:
        return Decided(None, True, 0.0)
    with without_pandas():
        from ortools.sat.python import cp_model

    model, columns = write(program.program())
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed
    solver.parameters.max_deterministic_time = WORK
    solver.parameters.max_time_in_seconds = max(seconds, 0.0)
    solver.parameters.linearization_level = 0
    solver.parameters.cp_model_probing_level = 0
    solver.parameters.symmetry_level = 0
    status, found = solver.solve(model), None
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        found = program.plan_of([solver.value(column) for column in columns])
        found = found if found.makespan < plan.makespan * (1.0 - SHORTER) else None
    settled = status in (cp_model.OPTIMAL, cp_model.INFEASIBLE)
    return Decided(found, settled, solver.response_proto.deterministic_time / WORK)
