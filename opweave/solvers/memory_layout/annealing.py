"""Rounds of annealing of layouts in several pools, each from the best layout so far.

A round has twice as many moves as the one before, until it has many. Hot rounds and cooler ones take turns: hot ones
find out which large blocks belong where, cooler ones keep most of that.
"""

from __future__ import annotations

import numpy as np

from opweave.formulations.expressions import VIOLATIONS
from opweave.formulations.memory_layout.instance import LayoutInstance, lower
from opweave.problems.arrays import NO_LIMIT, IntArray
from opweave.problems.errors import UnsupportedFeatureError
from opweave.problems.memory_layout.spec import Layout, MemoryLayout
from opweave.solvers.memory_layout.baselines import solve_baselines
from opweave.solvers.memory_layout.displacing import DRAWS, Blocks, blocks_of, displace, within_pools
from opweave.solvers.memory_layout.greedy import FIRST_GAP, NOWHERE, Places, place
from opweave.solvers.memory_layout.plans import report, seconds_of
from opweave.solvers.registry import named_solver
from opweave.solvers.run import Outcome, Run

FIRST_MOVES, MOST_MOVES, CHUNK = 100, 4_000, 20_000
"""Moves of the first round and of the longest ones, per block, and moves of which random numbers are drawn at once."""

HOT, COLD = (0.3, 1.0, 0.1), 0.005
"""First temperatures of rounds in turn, and the last one of all, in seconds that a block gains on average between its
slowest and its fastest pool."""


class Annealing:
    """The rounds of one problem.

    Parameters
    ----------
    problem
        A problem with several pools.
    blocks
        Its blocks.
    run
        Receives layouts; its best one is where a round begins.
    """

    def __init__(self, problem: MemoryLayout, blocks: Blocks, run: Run) -> None:
        self.problem, self.blocks, self.run, self.instance = problem, blocks, run, lower(problem)
        self._outside = len(self.instance.capacity)
        allowed, seconds = self.instance.allowed, self.instance.seconds
        slowest = np.where(allowed, seconds, -np.inf).max(axis=1)
        self._scale = float((slowest - np.where(allowed, seconds, np.inf).min(axis=1)).mean())

    def search(self) -> None:
        """Run rounds until as many of the longest ones as there are first temperatures were without gain."""
        number = stale = 0
        while stale < len(HOT) and not self.run.should_stop():
            before, moves = self.run.objective, min(MOST_MOVES, FIRST_MOVES << min(number, 16))
            if not self.round(number, moves * len(self.instance)):
                return
            number += 1
            stale = stale + 1 if moves == MOST_MOVES and self.run.objective == before else 0
            if self.problem.objective == "arena" and self.run.best is not None:
                return

    def round(self, number: int, moves: int) -> bool:
        """Run one round from the best layout; False if the time is up or there is nothing to begin with."""
        pool, offset = self._first()
        if (pool < 0).any():
            return False
        blocks, scale = self.blocks, float(self.blocks.seconds[:, -1].mean())
        if self.run.best is not None:
            scale = self._scale
            blocks = within_pools(blocks)
        rng, hot = np.random.default_rng((self.run.seed, number)), HOT[number % len(HOT)]
        best_pool, best_offset = pool.copy(), offset.copy()
        for done in range(0, moves, CHUNK):
            part = np.arange(done, min(done + CHUNK, moves)) / moves
            heat = scale * hot * (COLD / hot) ** part
            draws = rng.random((len(part), DRAWS))
            gained = displace(blocks, draws, heat, pool, offset, best_pool, best_offset)
            if gained < 0.0:
                self._report(best_pool.copy(), best_offset.copy())
            if self.run.should_stop():
                return False
        return True

    def _first(self) -> tuple[IntArray, IntArray]:
        """Pools and offsets of the best layout, or of one that leaves outside what finds no place."""
        if isinstance(self.run.best, Layout):
            offset, pool = self.instance.places(self.run.best)
            return pool.copy(), offset.copy()
        order = np.lexsort([-self.instance.bytes, self.blocks.moves])
        places = place(self.instance, order, FIRST_GAP)
        outside = (places.pool == NOWHERE) & (self.blocks.moves == 1)
        return np.where(outside, self._outside, places.pool), places.offset

    def _seconds(self, pool: IntArray) -> float:
        return seconds_of(self.instance, Places(pool, pool))

    def _report(self, pool: IntArray, offset: IntArray) -> None:
        """Place what stands in pools without limit, and report the layout."""
        known = self.run.objective
        if (pool == self._outside).any() or (known is not None and self._seconds(pool) >= known):
            return
        free = np.flatnonzero(self.instance.solid & (self.instance.capacity[pool] == NO_LIMIT))
        order = free[np.argsort(-self.instance.bytes[free], kind="stable")]
        prefer = np.where(np.arange(self._outside) == 0, pool[:, None], NOWHERE)
        offset[free] = place(self.instance, order, FIRST_GAP, prefer=prefer).offset[free]
        report(self.problem, self.instance, Places(offset, pool), self.run)


def applies(instance: LayoutInstance) -> bool:
    """Whether blocks may be moved between pools, of which some are too small for all."""
    return blocks_of(instance) is not None and bool((instance.capacity < NO_LIMIT).any())


@named_solver(
    MemoryLayout,
    "annealing",
    "simulated annealing over pools and offsets, with chains that make room",
    supports=(VIOLATIONS,),
)
def solve_annealing(problem: MemoryLayout, run: Run) -> Outcome:
    """Anneal a layout in several pools; solver "annealing".

    Raises
    ------
    UnsupportedFeatureError
        With one pool, or if no storage may stand in several of them.
    """
    if run.best is None:
        outcome = solve_baselines(problem, run)
        if outcome.infeasible:
            return outcome
    blocks = blocks_of(lower(problem))
    if blocks is None or len(problem.pools) == 1:
        raise UnsupportedFeatureError("solver 'annealing' moves storages between pools; for one arena use 'exact'")
    run.enter("annealing of pools")
    Annealing(problem, blocks, run).search()
    return Outcome(run.termination())
