"""Lower bounds: of the height of an arena, and of assignments to pools."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from opweave.formulations.memory_layout.instance import LayoutInstance, lower
from opweave.problems.arrays import NO_LIMIT, BoolArray, FloatMatrix, IntMatrix
from opweave.problems.memory_layout.spec import MemoryLayout
from opweave.solvers.linear import LinearProgram, SparseRows, proved_minimum
from opweave.solvers.memory_layout.plans import contradiction
from opweave.solvers.memory_layout.sections import Space, live_bytes, sections_of
from opweave.solvers.rounding import SUMMATION
from opweave.solvers.run import Outcome, Run
from opweave.solvers.tree import Proved, least_whole

MOST_COLUMNS = 6_000
"""Most shares for which integer programs are solved."""


def height_bound(space: Space) -> int:
    """No layout is lower: live bytes, with what alignment wastes, and the tops of storages with given offsets.

    Storages whose offsets are multiples of a number lie upon each other in whole multiples of it, except for the
    highest one. If all have one alignment, the storages of a single moment can be stacked in no more than this; to say
    more, storages of several moments must be looked at, as the searches do.
    """
    highest = int((space.fixed + space.size)[space.fixed >= 0].max(initial=0))
    for step in np.unique(space.alignment).tolist():
        chosen = space.alignment >= step
        first, after, size = space.first[chosen], space.after[chosen], space.size[chosen]
        padded = (size + step - 1) // step * step
        live = live_bytes(padded, first, after, space.sections)
        if not len(live):
            continue
        if step == 1:
            highest = max(highest, int(live.max()))
            continue
        spare = np.zeros(space.sections, dtype=np.int64)
        for start, end, bytes_spare in zip(first.tolist(), after.tolist(), (padded - size).tolist(), strict=True):
            spare[start:end] = np.maximum(spare[start:end], bytes_spare)
        highest = max(highest, int((live - spare).max()))
    return highest


def whole_bound(
    program: LinearProgram, whole: int, ceiling: float, seconds: float, should_stop: Callable[[], bool]
) -> Proved | None:
    """A lower bound of a program whose first columns are whole, up to a ceiling; None if there are too many of them."""
    if whole > MOST_COLUMNS:
        return None
    scaled, factor = _scaled(program)
    columns = np.arange(len(program.cost))
    proof = least_whole(scaled, 1 * (columns < whole), columns < 0, ceiling * factor, seconds, lambda _: should_stop())
    return proof._replace(bound=proof.bound / factor)


def _scaled(program: LinearProgram) -> tuple[LinearProgram, float]:
    """The program with costs near 1, and the power of two they were multiplied by: engines have absolute tolerances."""
    largest = float(np.abs(program.cost).max(initial=0.0))
    factor = 2.0 ** (-math.frexp(largest)[1]) if largest > 0.0 else 1.0
    return replace(program, cost=program.cost * factor), factor


MOST_ROWS = 2_000_000
"""Largest number of entries of a linear program that is solved."""

FIRST_SECONDS = 0.1
"""Time limit of the first attempt with whole storages."""


@dataclass(eq=False)
class Teams:
    """Blocks that must share a pool, as one.

    Attributes
    ----------
    load
        Bytes of every team in every section. Shape (teams, sections).
    allowed, cost
        Whether it may stand in a pool, and what that costs. Shape (teams, pools).
    """

    load: IntMatrix
    allowed: BoolArray
    cost: FloatMatrix

    @classmethod
    def of(cls, instance: LayoutInstance) -> Teams:
        """The teams of an instance."""
        count, pools = int(instance.team.max(initial=-1)) + 1, len(instance.capacity)
        solid = np.flatnonzero(instance.solid)
        first, after, sections = sections_of(instance.begin[solid], instance.end[solid])
        load = np.zeros((count, sections), dtype=np.int64)
        for row, start, end in zip(solid.tolist(), first.tolist(), after.tolist(), strict=True):
            load[instance.team[row], start:end] += instance.bytes[row]
        allowed = np.ones((count, pools), dtype=bool)
        np.logical_and.at(allowed, instance.team, instance.allowed)
        cost = np.zeros((count, pools))
        np.add.at(cost, instance.team, instance.seconds)
        return cls(load, allowed, cost)


def program_of(instance: LayoutInstance) -> LinearProgram | None:
    """Shares of teams in pools, and heights if they count; None if there are no storages, or too many."""
    kept, heights = Teams.of(instance), instance.problem.objective == "arena"
    teams, pools = kept.allowed.shape
    counted = np.arange(pools) if heights else np.flatnonzero(instance.capacity < NO_LIMIT)
    if not teams or int((kept.load > 0).sum()) * len(counted) > MOST_ROWS:
        return None
    column = np.arange(teams * pools).reshape(teams, pools)
    cost, upper = kept.cost.ravel(), kept.allowed.ravel().astype(np.float64)
    if heights:
        cost = np.append(np.zeros(teams * pools), instance.price.astype(np.float64))
        upper = np.append(upper, np.minimum(instance.capacity, instance.height).astype(np.float64))
    most, equal = SparseRows(), SparseRows()
    equal.put(equal.open(np.ones(teams))[:, None], column, 1.0)
    team, section = np.nonzero(kept.load)
    for pool in counted.tolist():
        limit = 0.0 if heights else float(instance.capacity[pool])
        rows = most.open(np.full(kept.load.shape[1], limit))
        most.put(rows[section], column[team, pool], kept.load[team, section].astype(np.float64))
        if heights:
            most.put(rows, np.full(len(rows), teams * pools + pool), -1.0)
    apart = np.unique(instance.team[instance.apart], axis=0)
    for pool in range(pools):
        rows = most.open(np.ones(len(apart)))
        most.put(rows[:, None], column[apart, pool], 1.0)
    return LinearProgram.of(cost, upper, most, equal)


def bound_pools(problem: MemoryLayout, run: Run) -> Outcome:
    """Prove the linear program's bound, then that for whole storages, in longer and longer attempts."""
    instance = lower(problem)
    program = None if contradiction(instance) else program_of(instance)
    run.enter("linear program")
    least = None if program is None else proved_minimum(program, run.remaining())
    if program is None or least is None:
        return Outcome(run.termination())
    _prove(instance, least, run)
    seconds = FIRST_SECONDS
    while run.time_limit is not None and run.objective is not None and not run.should_stop():
        proof = whole_bound(program, Teams.of(instance).allowed.size, float(run.objective), seconds, run.over)
        if proof is None:
            break
        _prove(instance, proof.bound, run)
        if proof.settled:
            break
        seconds *= 2.0
    return Outcome(run.termination())


def _prove(instance: LayoutInstance, bound: float, run: Run) -> None:
    """Report a bound, rounded safely."""
    bound *= 1.0 - SUMMATION
    if instance.problem.objective == "arena" and math.isfinite(bound):
        run.proved(max(0, math.ceil(bound / instance.grain)) * instance.grain, "linear program")
    elif math.isfinite(bound):
        run.proved(max(0.0, bound), "linear program")
