"""Exact depth-first search over states, with safe moves, for an order whose peak stays within a target.

A state is the set of operators that have run; live bytes depend on the set alone, so a state that was searched without
success need not be entered again. Memory is a submodular function of the state, so two moves are safe at any peak >=
target (Zhong et al., section IV-B, generalised):

* a ready operator within the target that leaves no more live bytes than before is run at once;
* a chain of operators, each made ready by the one before, all within the target, that ends with no more live bytes than
  before is run at once.

The search runs from either end (see :mod:`~opweave.solvers.memory_ordering.arrays`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opweave.problems.arrays import IntArray
from opweave.solvers.kernels.sorting import lengths_of
from opweave.solvers.loops import helper, loop
from opweave.solvers.memory_ordering.arrays import FORWARD, OrderingArrays, initial_bytes, initial_left, pass_over, step

UNDECIDED = 0
FOUND = 1
REFUTED = 2

NOTHING_REFUSED = 1 << 62

BitArray = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Decision:
    """Answer of :func:`decide`.

    Attributes
    ----------
    answer
        FOUND, REFUTED, or UNDECIDED when the budget ran out or the run was halted.
    order
        If FOUND, an order within the target. Shape (operators,).
    least_refused
        If REFUTED, every order has a step that needs at least this many bytes; None when nothing was refused.
    states
        Number of states that were expanded.
    """

    answer: int
    order: IntArray | None
    least_refused: int | None
    states: int


LIVE, READY, TRAIL, HASH = 0, 1, 2, 3


class _Search(NamedTuple):
    """The current state of a search and the moves that lead to it, changed in place.

    Attributes
    ----------
    left
        Unread readers of every storage.
    waiting
        For every operator, the number of operators that must still come before it in the search's direction.
    ready, place
        Operators that can come next, and every operator's position among them.
    trail, lives
        Moves so far, and the live bytes before each.
    bits, mark
        The state as a bit set, and a random word for every operator; the XOR of those on the trail is its hash.
    scalars
        Live bytes, number of ready operators, number of moves, hash.
    """

    left: IntArray
    waiting: IntArray
    ready: IntArray
    place: IntArray
    trail: IntArray
    lives: IntArray
    bits: BitArray
    mark: IntArray
    scalars: IntArray


def decide(arrays: OrderingArrays, target: int, sign: int, budget: int) -> Decision:
    """Look for an order whose every step needs at most ``target`` bytes.

    Parameters
    ----------
    arrays
        The problem.
    target
        Bytes.
    sign
        FORWARD or BACKWARD: the end from which the search starts.
    budget
        Most states to expand.

    Returns
    -------
    Decision
        Exact unless UNDECIDED.
    """
    count = len(arrays.made)
    order = np.zeros(count, dtype=np.int64)
    mark = np.random.default_rng(0).integers(1, 1 << 62, size=count, dtype=np.int64)
    answer, refused, states = explore(arrays, target, sign, budget, mark, order)
    least = None if refused >= NOTHING_REFUSED else int(refused)
    if answer != FOUND:
        return Decision(int(answer), None, least, int(states))
    return Decision(FOUND, order if sign == FORWARD else order[::-1].copy(), None, int(states))


@helper
def _apply(arrays: OrderingArrays, v: int, far: int, sign: int, now: _Search) -> None:
    """Move over v; operators that become ready go to the end of the ready list."""
    enters_start, enters = (arrays.after_start, arrays.after) if sign == 1 else (arrays.before_start, arrays.before)
    size = now.scalars[READY] - 1
    hole = now.place[v]
    moved = now.ready[size]
    now.ready[hole] = moved
    now.place[moved] = hole
    now.ready[size] = v
    now.place[v] = hole
    t = now.scalars[TRAIL]
    now.trail[t] = v
    now.lives[t] = now.scalars[LIVE]
    now.scalars[TRAIL] = t + 1
    for k in range(enters_start[v], enters_start[v + 1]):
        w = enters[k]
        now.waiting[w] -= 1
        if now.waiting[w] == 0:
            now.ready[size] = w
            now.place[w] = size
            size += 1
    now.scalars[READY] = size
    pass_over(arrays, v, now.left, sign)
    now.scalars[LIVE] = far
    now.bits[v >> 6] ^= np.uint64(1) << np.uint64(v & 63)
    now.scalars[HASH] ^= now.mark[v]


@helper
def _undo(arrays: OrderingArrays, sign: int, now: _Search) -> None:
    """Take back the last move."""
    enters_start, enters = (arrays.after_start, arrays.after) if sign == 1 else (arrays.before_start, arrays.before)
    t = now.scalars[TRAIL] - 1
    v = now.trail[t]
    size = now.scalars[READY]
    for k in range(enters_start[v], enters_start[v + 1]):
        w = enters[k]
        if now.waiting[w] == 0:
            size -= 1
        now.waiting[w] += 1
    hole = now.place[v]
    moved = now.ready[hole]
    if hole != size:
        now.ready[size] = moved
        now.place[moved] = size
    now.ready[hole] = v
    now.place[v] = hole
    now.scalars[READY] = size + 1
    now.scalars[TRAIL] = t
    pass_over(arrays, v, now.left, -sign)
    now.scalars[LIVE] = now.lives[t]
    now.bits[v >> 6] ^= np.uint64(1) << np.uint64(v & 63)
    now.scalars[HASH] ^= now.mark[v]


@helper
def _run_shrinking(arrays: OrderingArrays, target: int, sign: int, now: _Search) -> bool:
    """Run ready operators within the target that free at least what they add, until there are none."""
    any_run = False
    position = 0
    while position < now.scalars[READY]:
        v = now.ready[position]
        cost, far = step(arrays, v, now.scalars[LIVE], now.left, sign)
        if cost <= target and far <= now.scalars[LIVE]:
            _apply(arrays, v, far, sign, now)
            any_run = True
            position = 0
        else:
            position += 1
    return any_run


@helper
def _run_chain(arrays: OrderingArrays, target: int, sign: int, now: _Search) -> bool:
    """Run the first chain found that ends with no more live bytes than now, all within the target."""
    base = now.scalars[LIVE]
    base_trail = now.scalars[TRAIL]
    for position in range(now.scalars[READY]):
        v = now.ready[position]
        while v >= 0:
            cost, far = step(arrays, v, now.scalars[LIVE], now.left, sign)
            if cost > target:
                break
            first_new = now.scalars[READY] - 1
            _apply(arrays, v, far, sign, now)
            if far <= base:
                return True
            v = -1
            least = 0
            for k in range(first_new, now.scalars[READY]):
                w = now.ready[k]
                cost, far = step(arrays, w, now.scalars[LIVE], now.left, sign)
                if cost <= target and (v < 0 or far < least):
                    v = w
                    least = far
        while now.scalars[TRAIL] > base_trail:
            _undo(arrays, sign, now)
    return False


@helper
def _enter(table: IntArray, states: BitArray, known: int, now: _Search) -> bool:
    """Remember the current state; return False when it is already known."""
    slots = len(table)
    slot = now.scalars[HASH] & (slots - 1)
    words = len(now.bits)
    while table[slot] >= 0:
        row = table[slot]
        same = True
        for w in range(words):
            if states[row, w] != now.bits[w]:
                same = False
                break
        if same:
            return False
        slot = (slot + 1) & (slots - 1)
    table[slot] = known
    for w in range(words):
        states[known, w] = now.bits[w]
    return True


@helper
def _begin(arrays: OrderingArrays, sign: int, mark: IntArray) -> _Search:
    """The state at the end from which the direction starts."""
    count = len(arrays.made)
    waits_start = arrays.before_start if sign == 1 else arrays.after_start
    now = _Search(
        left=initial_left(arrays, sign),
        waiting=lengths_of(waits_start),
        ready=np.zeros(count, dtype=np.int64),
        place=np.zeros(count, dtype=np.int64),
        trail=np.zeros(count, dtype=np.int64),
        lives=np.zeros(count + 1, dtype=np.int64),
        bits=np.zeros((count + 63) // 64, dtype=np.uint64),
        mark=mark,
        scalars=np.zeros(4, dtype=np.int64),
    )
    now.scalars[LIVE] = initial_bytes(arrays, sign)
    for v in range(count):
        if now.waiting[v] == 0:
            now.ready[now.scalars[READY]] = v
            now.place[v] = now.scalars[READY]
            now.scalars[READY] += 1
    return now


@helper
def _run_safe_moves(arrays: OrderingArrays, target: int, sign: int, now: _Search) -> bool:
    """Make safe moves until there are none; return whether there were any."""
    any_run = False
    moved = True
    while moved and arrays.halt[0] == 0:
        moved = _run_shrinking(arrays, target, sign, now)
        moved = _run_chain(arrays, target, sign, now) or moved
        any_run = any_run or moved
    return any_run


@helper
def _branches(
    arrays: OrderingArrays, target: int, sign: int, now: _Search, pool: IntArray, first: int
) -> tuple[int, int]:
    """Write the moves within the target to ``pool[first:]``, fewest live bytes first.

    Returns their number and the least footprint among the others.
    """
    size = now.scalars[READY]
    fars = np.empty(size, dtype=np.int64)
    refused = NOTHING_REFUSED
    used = 0
    for position in range(size):
        v = now.ready[position]
        cost, far = step(arrays, v, now.scalars[LIVE], now.left, sign)
        if cost > target:
            refused = min(refused, cost)
            continue
        k = used
        while k > 0 and fars[k - 1] > far:
            fars[k] = fars[k - 1]
            pool[first + k] = pool[first + k - 1]
            k -= 1
        fars[k] = far
        pool[first + k] = v
        used += 1
    return used, refused


@loop
def explore(
    arrays: OrderingArrays, target: int, sign: int, budget: int, mark: IntArray, order: IntArray
) -> tuple[int, int, int]:
    """Depth-first search; returns (answer, least refused footprint, states). ``order`` holds the moves when found.

    A frame is a state on the path with its untried branches ``pool[frame_next:used]``. ``frame_trail`` is the length of
    the trail before the move into the state, so that leaving it also undoes its safe moves.
    """
    count = len(arrays.made)
    slots = 16
    while slots < 6 * budget + 8:
        slots *= 2
    table = np.full(slots, -1, dtype=np.int64)
    states = np.empty((3 * budget + 4, (count + 63) // 64), dtype=np.uint64)
    now = _begin(arrays, sign, mark)
    frame_trail = np.zeros(count + 2, dtype=np.int64)
    frame_first = np.zeros(count + 2, dtype=np.int64)
    frame_next = np.zeros(count + 2, dtype=np.int64)
    pool = np.zeros(max(1024, 4 * count), dtype=np.int64)
    used, known, expanded, depth = 0, 0, 0, -1
    refused = NOTHING_REFUSED
    trail_before = 0
    while True:
        if expanded == budget or known + 2 > len(states) or arrays.halt[0] != 0:
            return UNDECIDED, refused, expanded
        fresh = _enter(table, states, known, now)
        known += fresh
        if fresh and _run_safe_moves(arrays, target, sign, now):
            fresh = _enter(table, states, known, now)
            known += fresh
        if now.scalars[TRAIL] == count:
            order[:] = now.trail
            return FOUND, refused, expanded
        depth += 1
        frame_trail[depth], frame_first[depth], frame_next[depth] = trail_before, used, used
        if fresh:
            expanded += 1
            if used + now.scalars[READY] > len(pool):
                pool = np.concatenate((pool, np.zeros(len(pool) + now.scalars[READY], dtype=np.int64)))
            added, least = _branches(arrays, target, sign, now, pool, used)
            used += added
            refused = min(refused, least)
        while frame_next[depth] == used:
            used = frame_first[depth]
            while now.scalars[TRAIL] > frame_trail[depth]:
                _undo(arrays, sign, now)
            depth -= 1
            if depth < 0:
                return REFUTED, refused, expanded
        v = pool[frame_next[depth]]
        frame_next[depth] += 1
        trail_before = now.scalars[TRAIL]
        _, far = step(arrays, v, now.scalars[LIVE], now.left, sign)
        _apply(arrays, v, far, sign, now)
