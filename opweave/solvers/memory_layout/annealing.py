"""Rounds of annealing of layouts in several pools, each from the best layout so far.

A round has twice as many moves as the one before, until it has many. Hot rounds and cooler ones take turns: hot ones
find out which large blocks belong where, cooler ones keep most of that.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opweave.formulations.expressions import VIOLATIONS
from opweave.formulations.memory_layout.instance import LayoutInstance, lower
from opweave.problems.arrays import NO_LIMIT, FloatArray, FloatMatrix, IntArray, IntMatrix
from opweave.problems.errors import UnsupportedFeatureError
from opweave.problems.graph_arrays import Adjacency
from opweave.problems.memory_layout.spec import Layout, MemoryLayout
from opweave.solvers.loops import helper, loop
from opweave.solvers.memory_layout.baselines import FIRST_GAP, fastest_first, place, solve_baselines
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


class Blocks(NamedTuple):
    """Blocks and pools for annealing.

    Attributes
    ----------
    size
        Bytes. Shape (blocks,).
    step
        Bytes of which an offset must be a multiple. Shape (blocks, pools).
    meets_start, meets
        For every block, the others that take space at the same time.
    apart_start, apart
        For every block, the others that must not share its pool.
    prefer
        Pools that a block may stand in, the fastest first, then ``NOWHERE``. Shape (blocks, pools).
    seconds
        What it takes to write and read a block in a pool. Shape (blocks, pools).
    capacity
        Of every pool, ``NO_LIMIT`` for none. Shape (pools,). The last pool is what is outside of all.
    moves
        Whether a block may be moved. Shape (blocks,).
    movable
        The blocks that may be moved.
    """

    size: IntArray
    step: IntMatrix
    meets_start: IntArray
    meets: IntArray
    apart_start: IntArray
    apart: IntArray
    prefer: IntMatrix
    seconds: FloatMatrix
    capacity: IntArray
    moves: IntArray
    movable: IntArray


def blocks_of(instance: LayoutInstance) -> Blocks | None:
    """The blocks of an instance; None if too many of them live at the same time, or none may be moved."""
    alone = np.bincount(instance.team, minlength=1)[instance.team] == 1
    moves = alone & (instance.fixed < 0) & instance.solid & (instance.allowed.sum(axis=1) > 1)
    if not moves.any() or instance.meetings > MOST_MEETINGS:
        return None
    meets = _both_ways(len(instance), *instance.meeting)
    apart = _both_ways(len(instance), instance.apart[:, 0], instance.apart[:, 1])
    last = np.full((len(instance), 1), len(instance.capacity))
    prefer = np.concatenate([fastest_first(instance), np.full_like(last, NOWHERE)], axis=1)
    prefer[np.arange(len(instance)), instance.allowed.sum(axis=1)] = len(instance.capacity)
    seconds = instance.seconds if instance.problem.objective == "traffic" else np.zeros(instance.allowed.shape)
    slowest = np.where(instance.allowed, seconds, 0.0).max(axis=1, initial=0.0)
    outside = slowest + OUTSIDE * (slowest.mean() + (slowest.mean() == 0.0)) * instance.bytes / instance.bytes.mean()
    step = np.maximum(instance.alignment[:, None], instance.pool_alignment)
    return Blocks(
        instance.bytes,
        np.concatenate([step, np.ones_like(last)], axis=1),
        meets.start,
        meets.items,
        apart.start,
        apart.items,
        prefer,
        np.concatenate([seconds, outside[:, None]], axis=1),
        np.append(instance.capacity, NO_LIMIT),
        moves.astype(np.int64),
        np.flatnonzero(moves),
    )


def within_pools(blocks: Blocks) -> Blocks:
    """The same blocks, none of which may stand outside of the pools."""
    outside = blocks.prefer == len(blocks.capacity) - 1
    return blocks._replace(prefer=np.where(outside, NOWHERE, blocks.prefer))


def _both_ways(count: int, first: IntArray, second: IntArray) -> Adjacency:
    return Adjacency.from_pairs(count, np.concatenate([first, second]), np.concatenate([second, first]))


class Moved(NamedTuple):
    """Blocks that one move has moved, and where they stood, each of shape (MOST_MOVED,); and memory, by block."""

    block: IntArray
    pool: IntArray
    offset: IntArray
    near: IntArray


def nothing_moved(blocks: int) -> Moved:
    """The memory of :func:`displace`."""
    block, pool, offset = np.zeros((3, MOST_MOVED), dtype=np.int64)
    return Moved(block, pool, offset, np.zeros(blocks + 1, dtype=np.int64))


@helper
def _up(value: int, step: int) -> int:
    return (value + step - 1) // step * step


@helper
def _meeting_in(blocks: Blocks, j: int, p: int, pool: IntArray, offset: IntArray, near: IntArray) -> int:
    """Write the blocks that meet block j in a pool to ``near``, by offset; return their number."""
    used = 0
    for e in range(blocks.meets_start[j], blocks.meets_start[j + 1]):
        i = blocks.meets[e]
        if pool[i] == p:
            at = used
            while at > 0 and offset[near[at - 1]] > offset[i]:
                near[at] = near[at - 1]
                at -= 1
            near[at] = i
            used += 1
    return used


@helper
def _first_gap(blocks: Blocks, j: int, p: int, offset: IntArray, near: IntArray, used: int) -> int:
    """The lowest offset at which block j fits between those near it; ``NOWHERE`` if there is none."""
    at, size, step = 0, blocks.size[j], blocks.step[j, p]
    for n in range(used):
        i = near[n]
        if offset[i] - at >= size:
            return at
        at = max(at, _up(offset[i] + blocks.size[i], step))
    return at if at + size <= blocks.capacity[p] else NOWHERE


@helper
def _beside(blocks: Blocks, j: int, p: int, luck: float, offset: IntArray, near: IntArray, used: int) -> int:
    """An offset of block j: the lowest, the highest, or right above or below one near it; it may be out of bounds."""
    size, step, chosen = blocks.size[j], blocks.step[j, p], int(luck * (2 * used + 2))
    if chosen == 0:
        return 0
    if chosen == 1:
        return int((blocks.capacity[p] - size) // step * step)
    i = near[(chosen - 2) // 2]
    if chosen % 2 == 0:
        return _up(offset[i] + blocks.size[i], step)
    return int((offset[i] - size) // step * step)


@helper
def _is_welcome(blocks: Blocks, j: int, p: int, pool: IntArray) -> bool:
    """Whether no block stands in a pool that block j must not share."""
    welcome = True
    for e in range(blocks.apart_start[j], blocks.apart_start[j + 1]):
        welcome = welcome and pool[blocks.apart[e]] != p
    return welcome


@helper
def _lift(i: int, moved: Moved, count: int, pool: IntArray, offset: IntArray) -> None:
    """Take a block away from its place, which is kept."""
    moved.block[count] = i
    moved.pool[count] = pool[i]
    moved.offset[count] = offset[i]
    pool[i] = NOWHERE


@helper
def _put(blocks: Blocks, j: int, pool: IntArray, offset: IntArray, near: IntArray) -> bool:
    """Put a lifted block into the first gap of the fastest pool with one; False if there is none."""
    for k in range(blocks.prefer.shape[1]):
        p = blocks.prefer[j, k]
        if p < 0:
            return False
        if not _is_welcome(blocks, j, p, pool):
            continue
        at = 0
        if blocks.capacity[p] < NO_LIMIT:
            at = _first_gap(blocks, j, p, offset, near, _meeting_in(blocks, j, p, pool, offset, near))
        if at >= 0:
            pool[j] = p
            offset[j] = at
            return True
    return False


@helper
def _take(
    blocks: Blocks, j: int, p: int, draws: FloatMatrix, move: int, moved: Moved, pool: IntArray, offset: IntArray,
    near: IntArray,
) -> int:  # fmt: skip
    """Lift block j and put it into a pool, and lift what is in its way; return the number lifted, 0 for no move."""
    at, used = 0, 0
    if blocks.capacity[p] < NO_LIMIT:
        used = _meeting_in(blocks, j, p, pool, offset, near)
        at = _first_gap(blocks, j, p, offset, near, used) if draws[move, 2] < 0.5 else NOWHERE
        if at < 0:
            at = _beside(blocks, j, p, draws[move, 3], offset, near, used)
        if at < 0 or at + blocks.size[j] > blocks.capacity[p]:
            return 0
    count = 1
    for n in range(used):
        i = near[n]
        if offset[i] < at + blocks.size[j] and at < offset[i] + blocks.size[i]:
            if blocks.moves[i] == 0 or count == MOST_MOVED:
                return 0
            near[count - 1] = i
            count += 1
    _lift(j, moved, 0, pool, offset)
    for n in range(1, count):
        _lift(near[n - 1], moved, n, pool, offset)
    pool[j] = p
    offset[j] = at
    return count


@helper
def _resettle(
    blocks: Blocks, moved: Moved, count: int, most: float, pool: IntArray, offset: IntArray, near: IntArray
) -> float:
    """Put what was lifted elsewhere; return the change of all seconds, inf if it would be ``most`` or more."""
    j = moved.block[0]
    change = blocks.seconds[j, pool[j]] - blocks.seconds[j, moved.pool[0]]
    for n in range(1, count):
        i = moved.block[n]
        change += blocks.seconds[i, blocks.prefer[i, 0]] - blocks.seconds[i, moved.pool[n]]
    for n in range(1, count):
        i = moved.block[n]
        if change >= most or not _put(blocks, i, pool, offset, near):
            return np.inf
        change += blocks.seconds[i, pool[i]] - blocks.seconds[i, blocks.prefer[i, 0]]
    return change if change < most else np.inf


@loop
def displace(
    blocks: Blocks,
    draws: FloatMatrix,
    heat: FloatArray,
    pool: IntArray,
    offset: IntArray,
    best_pool: IntArray,
    best_offset: IntArray,
    moved: Moved,
) -> float:
    """Anneal in place; the best layout is written to ``best_pool`` and ``best_offset``.

    Parameters
    ----------
    blocks
        What may stand where.
    draws, heat
        Random numbers in [0, 1), shape (moves, DRAWS), and the temperature of every move in seconds.
    pool, offset
        A layout; offsets are without meaning in pools without limit. Both of shape (blocks,).

    Returns
    -------
    float
        Seconds that the best layout takes less than the first one.
    """
    near = moved.near
    now, best = 0.0, 0.0
    for move in range(len(draws)):
        j = blocks.movable[int(draws[move, 0] * len(blocks.movable))]
        options = 0
        while options < blocks.prefer.shape[1] and blocks.prefer[j, options] >= 0:
            options += 1
        p = blocks.prefer[j, int(draws[move, 1] * options)]
        if (p == pool[j] and blocks.capacity[p] == NO_LIMIT) or not _is_welcome(blocks, j, p, pool):
            continue
        count = _take(blocks, j, p, draws, move, moved, pool, offset, near)
        if count == 0:
            continue
        most = 1e-300 - heat[move] * np.log(max(draws[move, 4], 1e-300))
        change = _resettle(blocks, moved, count, most, pool, offset, near)
        if change == np.inf:
            for n in range(count):
                pool[moved.block[n]] = moved.pool[n]
                offset[moved.block[n]] = moved.offset[n]
            continue
        now += change
        if now < best:
            best = now
            for i in range(len(pool)):
                best_pool[i], best_offset[i] = pool[i], offset[i]
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
        best_pool, best_offset, moved = pool.copy(), offset.copy(), nothing_moved(len(pool))
        for done in range(0, moves, CHUNK):
            part = np.arange(done, min(done + CHUNK, moves)) / moves
            heat = scale * hot * (COLD / hot) ** part
            draws = rng.random((len(part), DRAWS))
            gained = displace(blocks, draws, heat, pool, offset, best_pool, best_offset, moved)
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
