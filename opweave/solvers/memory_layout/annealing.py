"""Rounds of annealing of layouts in several pools, each from the best layout so far.

A round has twice as many moves as the one before, until it has many. Hot rounds and cooler ones take turns: hot ones
find out which large blocks belong where, cooler ones keep most of that.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.formulations.expressions import VIOLATIONS
from opweave.formulations.memory_layout.instance import LayoutInstance, lower
from opweave.problems.arrays import NO_LIMIT, FloatArray, FloatMatrix, IntArray
from opweave.problems.errors import UnsupportedFeatureError
from opweave.problems.memory_layout.spec import Layout, MemoryLayout
from opweave.solvers.loops import helper, loop
from opweave.solvers.memory_layout.baselines import (
    FIRST_GAP,
    LayoutArrays,
    blocks_of,
    both_ways,
    gap_for,
    is_welcome,
    place,
    rounded,
    solve_baselines,
    stand,
)
from opweave.solvers.memory_layout.plans import NOWHERE, Places, report, seconds_of
from opweave.solvers.registry import named_solver
from opweave.solvers.run import Outcome, Run

DRAWS = 5
"""Random numbers drawn for each move."""

MOST_MOVED = 16
"""Most blocks that one move may move."""

OUTSIDE = 10.0
"""What a block of average size costs outside of all pools, beside its slowest pool and in average ones."""

MOST_MEETINGS = 1_000_000
"""Most pairs of blocks that live at the same time with which layouts are annealed."""


class MoveTables(NamedTuple):
    """What moves need to know beside the blocks, whose last pool is what is outside of all.

    Attributes
    ----------
    meets_start, meets
        For every block, the others that take space at the same time.
    seconds
        What it takes to write and read a block in a pool. Shape (blocks, pools).
    movable
        The blocks that may be moved.
    free
        Whether a block may be moved. Shape (blocks,).
    """

    meets_start: IntArray
    meets: IntArray
    seconds: FloatMatrix
    movable: IntArray
    free: IntArray


def moves_of(instance: LayoutInstance) -> tuple[LayoutArrays, MoveTables] | None:
    """The blocks and moves of an instance; None if too many blocks live at the same time, or none may be moved."""
    alone = np.bincount(instance.team, minlength=1)[instance.team] == 1
    free = alone & (instance.fixed < 0) & instance.solid & (instance.allowed.sum(axis=1) > 1)
    if not free.any() or instance.meetings > MOST_MEETINGS:
        return None
    blocks, meets = blocks_of(instance), both_ways(len(instance), *instance.meeting)
    last = np.full((len(instance), 1), len(instance.capacity))
    prefer = np.concatenate([blocks.prefer, np.full_like(last, NOWHERE)], axis=1)
    prefer[np.arange(len(instance)), instance.allowed.sum(axis=1)] = len(instance.capacity)
    seconds = instance.seconds if instance.problem.objective == "traffic" else np.zeros(instance.allowed.shape)
    slowest = np.where(instance.allowed, seconds, 0.0).max(axis=1, initial=0.0)
    outside = slowest + OUTSIDE * (slowest.mean() + (slowest.mean() == 0.0)) * instance.bytes / instance.bytes.mean()
    blocks = blocks._replace(
        step=np.concatenate([blocks.step, np.ones_like(last)], axis=1),
        capacity=np.append(instance.capacity, NO_LIMIT),
        prefer=prefer,
    )
    seconds = np.concatenate([seconds, outside[:, None]], axis=1)
    return blocks, MoveTables(meets.start, meets.items, seconds, np.flatnonzero(free), free.astype(np.int64))


def within_pools(blocks: LayoutArrays) -> LayoutArrays:
    """The same blocks, none of which may stand outside of the pools."""
    outside = blocks.prefer == len(blocks.capacity) - 1
    return blocks._replace(prefer=np.where(outside, NOWHERE, blocks.prefer))


class LayoutState(NamedTuple):
    """A layout, the best one so far, the blocks that a move has lifted and where they stood, and memory.

    Offsets are without meaning in pools without limit. All arrays have shape (blocks,), but for those of what was
    lifted, shape (MOST_MOVED,).
    """

    pool: IntArray
    offset: IntArray
    best_pool: IntArray
    best_offset: IntArray
    lifted: IntArray
    lifted_pool: IntArray
    lifted_offset: IntArray
    near: IntArray


def state_of(pool: IntArray, offset: IntArray) -> LayoutState:
    """The state that begins with a layout."""
    lifted, from_pool, from_offset = np.zeros((3, MOST_MOVED), dtype=np.int64)
    best, near = (pool.copy(), offset.copy()), np.zeros(len(pool) + 1, dtype=np.int64)
    return LayoutState(pool.copy(), offset.copy(), *best, lifted, from_pool, from_offset, near)


@helper
def _near(moves: MoveTables, j: int, p: int, now: LayoutState) -> int:
    """Write the blocks that meet block j in a pool to ``near``, by offset; return their number."""
    used = 0
    for e in range(moves.meets_start[j], moves.meets_start[j + 1]):
        i = moves.meets[e]
        if now.pool[i] == p:
            stand(now.offset, now.near, used, i, now.offset[i])
            used += 1
    return used


@helper
def _beside(blocks: LayoutArrays, j: int, p: int, luck: float, now: LayoutState, used: int) -> int:
    """An offset of block j: the lowest, the highest, or right above or below one near it; it may be out of bounds."""
    size, step, chosen = blocks.size[j], blocks.step[j, p], int(luck * (2 * used + 2))
    if chosen == 0:
        return 0
    if chosen == 1:
        return int((blocks.capacity[p] - size) // step * step)
    i = now.near[(chosen - 2) // 2]
    if chosen % 2 == 0:
        return rounded(now.offset[i] + blocks.size[i], step)
    return int((now.offset[i] - size) // step * step)


@helper
def _put(blocks: LayoutArrays, moves: MoveTables, j: int, now: LayoutState) -> bool:
    """Put a lifted block into the first gap of the fastest pool with one; False if there is none."""
    for k in range(blocks.prefer.shape[1]):
        p = blocks.prefer[j, k]
        if p >= 0 and is_welcome(blocks, j, p, now.pool):
            at = 0
            if blocks.capacity[p] < NO_LIMIT:
                used = _near(moves, j, p, now)
                at = gap_for(blocks, j, p, now.offset, now.near, used, FIRST_GAP, 0.0)
            if at >= 0:
                now.pool[j], now.offset[j] = p, at
                return True
    return False


@helper
def _take(
    blocks: LayoutArrays, moves: MoveTables, j: int, p: int, draws: FloatMatrix, move: int, now: LayoutState
) -> int:
    """Lift block j and put it into a pool, and lift what is in its way; return the number lifted, 0 for no move."""
    at, used, size = 0, 0, blocks.size[j]
    if blocks.capacity[p] < NO_LIMIT:
        used = _near(moves, j, p, now)
        at = NOWHERE
        if draws[move, 2] < 0.5:
            at = gap_for(blocks, j, p, now.offset, now.near, used, FIRST_GAP, 0.0)
        if at < 0:
            at = _beside(blocks, j, p, draws[move, 3], now, used)
        if at < 0 or at + size > blocks.capacity[p]:
            return 0
    count = 1
    now.lifted[0] = j
    for n in range(used):
        i = now.near[n]
        if now.offset[i] < at + size and at < now.offset[i] + blocks.size[i]:
            if moves.free[i] == 0 or count == MOST_MOVED:
                return 0
            now.lifted[count] = i
            count += 1
    for n in range(count):
        i = now.lifted[n]
        now.lifted_pool[n], now.lifted_offset[n] = now.pool[i], now.offset[i]
        now.pool[i] = NOWHERE
    now.pool[j], now.offset[j] = p, at
    return count


@helper
def _resettle(blocks: LayoutArrays, moves: MoveTables, count: int, most: float, now: LayoutState) -> float:
    """Put what was lifted elsewhere; return the change of all seconds, inf if it would be ``most`` or more."""
    seconds, j = moves.seconds, now.lifted[0]
    change = seconds[j, now.pool[j]] - seconds[j, now.lifted_pool[0]]
    for n in range(1, count):
        i = now.lifted[n]
        change += seconds[i, blocks.prefer[i, 0]] - seconds[i, now.lifted_pool[n]]
    for n in range(1, count):
        i = now.lifted[n]
        if change >= most or not _put(blocks, moves, i, now):
            return np.inf
        change += seconds[i, now.pool[i]] - seconds[i, blocks.prefer[i, 0]]
    return change if change < most else np.inf


@loop
def displace(blocks: LayoutArrays, moves: MoveTables, draws: FloatMatrix, heat: FloatArray, now: LayoutState) -> float:
    """Anneal a layout in place.

    ``draws`` are random numbers in [0, 1), shape (moves, DRAWS), and ``heat`` is the temperature of every move in
    seconds. Returns the seconds that the best layout takes less than the first one.
    """
    gained, best = 0.0, 0.0
    for move in range(len(draws)):
        j = moves.movable[int(draws[move, 0] * len(moves.movable))]
        options = 0
        while options < blocks.prefer.shape[1] and blocks.prefer[j, options] >= 0:
            options += 1
        p = blocks.prefer[j, int(draws[move, 1] * options)]
        if (p == now.pool[j] and blocks.capacity[p] == NO_LIMIT) or not is_welcome(blocks, j, p, now.pool):
            continue
        count = _take(blocks, moves, j, p, draws, move, now)
        if count == 0:
            continue
        most = 1e-300 - heat[move] * np.log(max(draws[move, 4], 1e-300))
        change = _resettle(blocks, moves, count, most, now)
        if change == np.inf:
            for n in range(count):
                now.pool[now.lifted[n]], now.offset[now.lifted[n]] = now.lifted_pool[n], now.lifted_offset[n]
            continue
        gained += change
        if gained < best:
            best = gained
            for i in range(len(now.pool)):
                now.best_pool[i], now.best_offset[i] = now.pool[i], now.offset[i]
    return best


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
    blocks, moves
        Its blocks, and how they may be moved.
    run
        Receives layouts; its best one is where a round begins.
    """

    def __init__(self, problem: MemoryLayout, blocks: LayoutArrays, moves: MoveTables, run: Run) -> None:
        self.problem, self.run, self.instance = problem, run, lower(problem)
        self.blocks, self.moves = blocks, moves
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
        blocks, scale = self.blocks, float(self.moves.seconds[:, -1].mean())
        if self.run.best is not None:
            blocks, scale = within_pools(blocks), self._scale
        rng, hot = np.random.default_rng((self.run.seed, number)), HOT[number % len(HOT)]
        now = state_of(pool, offset)
        for done in range(0, moves, CHUNK):
            part = np.arange(done, min(done + CHUNK, moves)) / moves
            heat = scale * hot * (COLD / hot) ** part
            if displace(blocks, self.moves, rng.random((len(part), DRAWS)), heat, now) < 0.0:
                self._report(now.best_pool.copy(), now.best_offset.copy())
            if self.run.should_stop():
                return False
        return True

    def _first(self) -> tuple[IntArray, IntArray]:
        """Pools and offsets of the best layout, or of one that leaves outside what finds no place."""
        if isinstance(self.run.best, Layout):
            return self.instance.places(self.run.best)[::-1]
        places = place(self.instance, np.lexsort([-self.instance.bytes, self.moves.free]), FIRST_GAP)
        outside = (places.pool == NOWHERE) & (self.moves.free == 1)
        return np.where(outside, self._outside, places.pool), places.offset

    def _report(self, pool: IntArray, offset: IntArray) -> None:
        """Place what stands in pools without limit, and report the layout."""
        known = np.inf if self.run.objective is None else self.run.objective
        if (pool == self._outside).any() or seconds_of(self.instance, Places(offset, pool)) >= known:
            return
        free = np.flatnonzero(self.instance.solid & (self.instance.capacity[pool] == NO_LIMIT))
        order = free[np.argsort(-self.instance.bytes[free], kind="stable")]
        prefer = np.where(np.arange(self._outside) == 0, pool[:, None], NOWHERE)
        offset[free] = place(self.instance, order, FIRST_GAP, prefer=prefer).offset[free]
        report(self.problem, self.instance, Places(offset, pool), self.run)


def applies(instance: LayoutInstance) -> bool:
    """Whether blocks may be moved between pools, of which some are too small for all."""
    return moves_of(instance) is not None and bool((instance.capacity < NO_LIMIT).any())


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
    found = None if len(problem.pools) == 1 else moves_of(lower(problem))
    if found is None:
        raise UnsupportedFeatureError("solver 'annealing' moves storages between pools; for one arena use 'exact'")
    if run.best is None:
        outcome = solve_baselines(problem, run)
        if outcome.infeasible:
            return outcome
    run.enter("annealing of pools")
    Annealing(problem, *found, run).search()
    return Outcome(run.termination())
