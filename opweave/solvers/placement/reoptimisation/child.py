"""The child process that improves a plan window by window with CP-SAT."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import NamedTuple

from opweave.problems.arrays import FloatArray, IntArray
from opweave.solvers.engines.child import Send
from opweave.solvers.engines.interval_child import without_pandas, write
from opweave.solvers.placement.arrays import PlacementArrays
from opweave.solvers.placement.reoptimisation.choice import Way, ways_of
from opweave.solvers.placement.reoptimisation.columns import HopelessError
from opweave.solvers.placement.reoptimisation.program import WindowProgram
from opweave.solvers.placement.reoptimisation.timed import Timed, network_of, timed_from
from opweave.solvers.placement.reoptimisation.window import Block, Window

WORK = 0.1
"""Work that a window may take, in CP-SAT's measure; a tenth is one to two seconds."""

SHORTER = 1e-9
"""Relative gain that is no rounding."""


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
        The tree of every operator, for every way to join operators.
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
    trees: tuple[IntArray, ...]
    plan: Times
    seed: int
    windows: int
    until: float


def improve(work: Work, send: Send) -> None:
    """Send every shorter plan."""
    network = network_of(work.arrays, work.cluster)
    plan = timed_from(network, work.plan.device, work.plan.start, work.plan.begins)
    draw, ways = random.Random(work.seed), ways_of([each.tolist() for each in work.trees])
    tried = set[tuple[Block, ...]]()
    for number in range(work.windows):
        if time.time() >= work.until or plan.makespan <= 0.0:
            return
        (way,) = draw.choices(ways, [each.worth for each in ways])
        blocks = way.window(plan, draw)
        found = None if blocks in tried else improved(plan, blocks, way, number, work.until - time.time())
        tried.add(blocks)
        if found is not None:
            plan, tried = found, set()
            send(Times(plan.makespan, *plan.arrays()))


def improved(plan: Timed, blocks: tuple[Block, ...], way: Way, seed: int, seconds: float) -> Timed | None:
    """A shorter plan that differs in one window; None if none is found."""
    most = len(plan.network)
    try:
        program = WindowProgram(Window(plan, blocks))
    except HopelessError:
        way.learn(True, 0.0, 0.0, most)
        return None
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
    status = solver.solve(model)
    found, gain = None, 0.0
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        found = program.plan_of([solver.value(column) for column in columns])
        gain = max(0.0, 1.0 - found.makespan / plan.makespan)
    settled = status in (cp_model.OPTIMAL, cp_model.INFEASIBLE)
    way.learn(settled, gain, solver.response_proto.deterministic_time / WORK, most)
    return found if gain > SHORTER else None
