"""Rounds of annealing of layouts in several pools, each from the best layout so far.

A round has twice as many moves as the one before, until it has many; one that would not end in time cools faster. Hot
rounds and cooler ones take turns: hot ones find out which large blocks belong where, cooler ones keep most of that.
"""

from __future__ import annotations

import numpy as np

from opweave.formulations.memory_layout.instance import lower
from opweave.problems.arrays import NO_LIMIT, IntArray
from opweave.problems.memory_layout.spec import Layout, MemoryLayout
from opweave.solvers.memory_layout.displacing import DRAWS, blocks_of, displace
from opweave.solvers.memory_layout.greedy import Places
from opweave.solvers.memory_layout.growing import stacked
from opweave.solvers.memory_layout.plans import report, seconds_of
from opweave.solvers.memory_layout.sections import space_in
from opweave.solvers.run import Run

FIRST_MOVES, MOST_MOVES = 100, 4_000
"""Moves of the first round and of the longest ones, per block."""

CHUNKS, MOST_DRAWN = 8, 500_000
"""Chunks of a round, between which the time is checked, and most moves of a chunk: their random numbers take memory."""

PACE, PACE_MEETING = 3e-7, 3e-8
"""Assumed seconds of a move, and for each block that lives at the same time, before the first chunk is measured."""

HOT, COLD = (0.3, 1.0, 0.1), 0.005
"""First temperatures of rounds in turn, and the last one of all, in seconds that a block gains on average between its
slowest and its fastest pool."""


class Annealed:
    """The rounds of one problem.

    Parameters
    ----------
    problem
        A problem with several pools.
    run
        Receives layouts; its best one is where a round begins.
    """

    def __init__(self, problem: MemoryLayout, run: Run) -> None:
        self.problem, self.run, self.instance = problem, run, lower(problem)
        self.limited = self.instance.capacity < NO_LIMIT
        traffic = problem.objective == "traffic" and bool(self.limited.any())
        self.blocks = blocks_of(self.instance) if traffic else None
        self._meets = 0 if self.blocks is None else len(self.blocks.meets) // len(self.instance)
        self._number, self._stale, self._pace = 0, 0, PACE + PACE_MEETING * self._meets

    def applies(self) -> bool:
        """Whether blocks may be moved."""
        return self.blocks is not None

    def moves_all(self) -> bool:
        """Whether every block may be moved that has a choice between pools."""
        choice = self.instance.solid & (self.instance.allowed.sum(axis=1) > 1)
        return self.applies() and self.blocks is not None and bool(self.blocks.moves[choice].all())

    def rounds(self) -> None:
        """Run rounds until as many as there are first temperatures were without gain."""
        stale = 0
        while stale < len(HOT) and self.applies() and not self.run.should_stop():
            before = self.run.objective
            self.round()
            stale = 0 if self.run.objective != before else stale + 1

    def is_exhausted(self) -> bool:
        """Whether as many of the longest rounds as there are first temperatures were without gain."""
        return self._stale >= len(HOT)

    def round(self) -> None:
        """Run one round from the best layout."""
        best, blocks = self.run.best, self.blocks
        if blocks is None or not isinstance(best, Layout):
            return
        self.run.enter("annealing of pools")
        before = self.run.objective
        offset, pool = self.instance.places(best)
        rng = np.random.default_rng((self.run.seed, self._number))
        hot, whole = HOT[self._number % len(HOT)], min(MOST_MOVES, FIRST_MOVES << min(self._number, 16))
        for chunk in range(CHUNKS):
            moves = self._moves_within(whole * len(self.instance) // CHUNKS, CHUNKS - chunk)
            heat = self._scale() * hot * (COLD / hot) ** ((chunk + np.arange(moves) / moves) / CHUNKS)
            draws, best_pool, best_offset = rng.random((moves, DRAWS)), pool.copy(), offset.copy()
            began = self.run.elapsed()
            displace(blocks, draws, heat, self.run.halt, pool, offset, best_pool, best_offset)
            self._pace = max(self.run.elapsed() - began, 1e-9) / moves
            self._report(best_pool, best_offset)
            if self.run.should_stop():
                return
        self._number += 1
        self._stale = self._stale + 1 if whole == MOST_MOVES and self.run.objective == before else 0

    def _moves_within(self, moves: int, chunks: int) -> int:
        """Moves of a chunk: fewer if time is short for all that are left."""
        left = self.run.remaining()
        most = MOST_DRAWN if left is None else min(MOST_DRAWN, int(left / (self._pace * chunks)))
        return max(1, min(moves, most))

    def _scale(self) -> float:
        """Seconds between the slowest and the fastest pool of a block, on average."""
        allowed, seconds = self.instance.allowed, self.instance.seconds
        slowest = np.where(allowed, seconds, -np.inf).max(axis=1)
        return float((slowest - np.where(allowed, seconds, np.inf).min(axis=1)).mean())

    def _report(self, pool: IntArray, offset: IntArray) -> None:
        """Stack what stands in pools without limit, and report the layout if it is the best so far."""
        instance = self.instance
        if self.run.objective is None or seconds_of(instance, Places(offset, pool)) >= self.run.objective:
            return
        for number in np.flatnonzero(~self.limited).tolist():
            rows = np.flatnonzero(instance.solid & (pool == number))
            if not len(rows):
                continue
            space = space_in(instance, rows, number, self.run.halt)
            found = stacked(space, [instance.height // instance.grain], self.run.seed, 1)
            if found is None:
                return
            offset[rows] = found * instance.grain
        report(self.problem, instance, Places(offset, pool), self.run)
