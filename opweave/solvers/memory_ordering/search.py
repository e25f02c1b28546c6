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

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from opweave.problems.arrays import IntArray, WordMatrix
from opweave.solvers.kernels import in_pieces
from opweave.solvers.loops import helper, loop
from opweave.solvers.memory_ordering.arrays import (
    FORWARD,
    HASH,
    LIVE,
    READY,
    TRAIL,
    OrderingArrays,
    PartialOrder,
    beginning,
    pass_over,
    step,
)

UNDECIDED = 0
FOUND = 1
REFUTED = 2
RESTING = 3
"""Answers; a search that rests can go on."""

NOTHING_REFUSED = 1 << 62


@dataclass(frozen=True, slots=True)
class Decision:
    """Answer of :func:`decide`.

    Attributes
    ----------
    answer
        FOUND, REFUTED, or UNDECIDED when the budget or the time ran out.
    order
        If FOUND, an order within the target. Shape (operators,).
    least_refused
        If REFUTED, every order has a step that needs at least this many bytes; None when nothing was refused.
    """

    answer: int
    order: IntArray | None
    least_refused: int | None


def decide(arrays: OrderingArrays, target: int, sign: int, budget: int, should_stop: Callable[[], bool]) -> Decision:
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
    should_stop
        Asked now and then.

    Returns
    -------
    Decision
        Exact unless UNDECIDED.
    """
    tree, now, answer = _empty_tree(len(arrays.made), budget), beginning(arrays, sign), RESTING

    def go_on(until: int) -> bool:
        nonlocal tree, answer
        answer = explore(target, sign, until, now, tree)
        while answer == RESTING and tree.at[EXPANDED] < until:  # the possibilities need more room
            tree = tree._replace(pool=np.concatenate([tree.pool, np.zeros_like(tree.pool)]))
            answer = explore(target, sign, until, now, tree)
        return answer != RESTING

    in_pieces(go_on, budget, should_stop)
    if answer != FOUND:
        least = None if tree.at[REFUSED] >= NOTHING_REFUSED else int(tree.at[REFUSED])
        return Decision(answer if answer == REFUTED else UNDECIDED, None, least)
    return Decision(FOUND, now.trail if sign == FORWARD else now.trail[::-1].copy(), None)


@helper
def _apply(v: int, far: int, sign: int, now: PartialOrder) -> None:
    """Move over v; operators that become ready go to the end of the ready list."""
    scalars, place, ready, trail, lives = now.scalars, now.place, now.ready, now.trail, now.lives
    waiting, left, bits, mark = now.waiting, now.left, now.bits, now.mark
    enters_start, enters = now.enters_start, now.enters
    size = scalars[READY] - 1
    hole = place[v]
    moved = ready[size]
    ready[hole] = moved
    place[moved] = hole
    ready[size] = v
    place[v] = hole
    t = scalars[TRAIL]
    trail[t] = v
    lives[t] = scalars[LIVE]
    scalars[TRAIL] = t + 1
    for k in range(enters_start[v], enters_start[v + 1]):
        w = enters[k]
        waiting[w] -= 1
        if waiting[w] == 0:
            ready[size] = w
            place[w] = size
            size += 1
    scalars[READY] = size
    pass_over(now.script, v, left, sign)
    scalars[LIVE] = far
    bits[v >> 6] ^= np.uint64(1) << np.uint64(v & 63)
    scalars[HASH] ^= mark[v]


@helper
def _undo(sign: int, now: PartialOrder) -> None:
    """Take back the last move."""
    scalars, trail, waiting, place, ready = now.scalars, now.trail, now.waiting, now.place, now.ready
    left, lives, bits, mark = now.left, now.lives, now.bits, now.mark
    enters_start, enters = now.enters_start, now.enters
    t = scalars[TRAIL] - 1
    v = trail[t]
    size = scalars[READY]
    for k in range(enters_start[v], enters_start[v + 1]):
        w = enters[k]
        if waiting[w] == 0:
            size -= 1
        waiting[w] += 1
    hole = place[v]
    moved = ready[hole]
    if hole != size:
        ready[size] = moved
        place[moved] = size
    ready[hole] = v
    place[v] = hole
    scalars[READY] = size + 1
    scalars[TRAIL] = t
    pass_over(now.script, v, left, -sign)
    scalars[LIVE] = lives[t]
    bits[v >> 6] ^= np.uint64(1) << np.uint64(v & 63)
    scalars[HASH] ^= mark[v]


@helper
def _run_shrinking(target: int, sign: int, now: PartialOrder) -> bool:
    """Run ready operators within the target that free at least what they add, until there are none."""
    scalars, ready, left = now.scalars, now.ready, now.left
    any_run = False
    position = 0
    while position < scalars[READY]:
        v = ready[position]
        cost, far = step(now.script, v, scalars[LIVE], left, sign)
        if cost <= target and far <= scalars[LIVE]:
            _apply(v, far, sign, now)
            any_run = True
            position = 0
        else:
            position += 1
    return any_run


@helper
def _run_chain(target: int, sign: int, now: PartialOrder) -> bool:
    """Run the first chain found that ends with no more live bytes than now, all within the target."""
    scalars, ready, left = now.scalars, now.ready, now.left
    base = scalars[LIVE]
    base_trail = scalars[TRAIL]
    for position in range(scalars[READY]):
        v = ready[position]
        while v >= 0:
            cost, far = step(now.script, v, scalars[LIVE], left, sign)
            if cost > target:
                break
            first_new = scalars[READY] - 1
            _apply(v, far, sign, now)
            if far <= base:
                return True
            v = -1
            least = 0
            for k in range(first_new, scalars[READY]):
                w = ready[k]
                cost, far = step(now.script, w, scalars[LIVE], left, sign)
                if cost <= target and (v < 0 or far < least):
                    v = w
                    least = far
        while scalars[TRAIL] > base_trail:
            _undo(sign, now)
    return False


@helper
def _enter(table: IntArray, states: WordMatrix, known: int, now: PartialOrder) -> bool:
    """Remember the current state; return False when it is already known."""
    scalars, bits = now.scalars, now.bits
    slots = len(table)
    slot = scalars[HASH] & (slots - 1)
    words = len(bits)
    while table[slot] >= 0:
        row = table[slot]
        same = True
        for w in range(words):
            if states[row, w] != bits[w]:
                same = False
                break
        if same:
            return False
        slot = (slot + 1) & (slots - 1)
    table[slot] = known
    for w in range(words):
        states[known, w] = bits[w]
    return True


@helper
def _run_safe_moves(target: int, sign: int, now: PartialOrder) -> bool:
    """Make safe moves until there are none; return whether there were any."""
    any_run = False
    moved = True
    while moved:
        moved = _run_shrinking(target, sign, now)
        moved = _run_chain(target, sign, now) or moved
        any_run = any_run or moved
    return any_run


@helper
def _branches(target: int, sign: int, now: PartialOrder, pool: IntArray, first: int) -> tuple[int, int]:
    """Write the moves within the target to ``pool[first:]``, fewest live bytes first.

    Returns their number and the least footprint among the others.
    """
    scalars, ready, left, fars = now.scalars, now.ready, now.left, now.fars
    size = scalars[READY]
    refused = NOTHING_REFUSED
    used = 0
    for position in range(size):
        v = ready[position]
        cost, far = step(now.script, v, scalars[LIVE], left, sign)
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


class _Tree(NamedTuple):
    """The states that are known, and those on the path with their untried branches.

    Attributes
    ----------
    table, states
        Rows of known states by their hash, and these states as bit sets.
    trail, first, following
        Of every state on the path: the length of the trail before the move into it, so that leaving it also undoes its
        safe moves, and where its branches begin in the pool, all and the untried ones.
    pool
        Branches.
    at
        Known states, branches in the pool, expanded states, depth of the path, least refused footprint, length of the
        trail before the latest move.
    """

    table: IntArray
    states: WordMatrix
    trail: IntArray
    first: IntArray
    following: IntArray
    pool: IntArray
    at: IntArray


KNOWN, USED, EXPANDED, DEPTH, REFUSED, BEFORE = 0, 1, 2, 3, 4, 5


def _empty_tree(count: int, budget: int) -> _Tree:
    slots = 1 << max(4, (6 * budget + 7).bit_length())
    states = np.empty((3 * budget + 4, (count + 63) // 64), dtype=np.uint64)
    trail, first, following = np.zeros((3, count + 2), dtype=np.int64)
    pool = np.zeros(max(1024, 4 * count), dtype=np.int64)
    at = np.asarray([0, 0, 0, -1, NOTHING_REFUSED, 0], dtype=np.int64)
    return _Tree(np.full(slots, -1, dtype=np.int64), states, trail, first, following, pool, at)


@loop
def explore(target: int, sign: int, until: int, now: PartialOrder, tree: _Tree) -> int:
    """Depth-first search, from its beginning or from where it rested; the trail has the order when found.

    It rests once it has expanded ``until`` states in all, or has no room for more branches.
    """
    count = len(now.trail)
    table, states, path_trail, path_first, path_next, pool, at = tree
    while True:
        if at[EXPANDED] >= until or at[USED] + count > len(pool):
            return RESTING
        if at[KNOWN] + 2 > len(states):
            return UNDECIDED
        fresh = _enter(table, states, at[KNOWN], now)
        at[KNOWN] += fresh
        if fresh and _run_safe_moves(target, sign, now):
            fresh = _enter(table, states, at[KNOWN], now)
            at[KNOWN] += fresh
        if now.scalars[TRAIL] == count:
            return FOUND
        at[DEPTH] += 1
        depth = at[DEPTH]
        path_trail[depth], path_first[depth], path_next[depth] = at[BEFORE], at[USED], at[USED]
        if fresh:
            at[EXPANDED] += 1
            added, least = _branches(target, sign, now, pool, at[USED])
            at[USED] += added
            at[REFUSED] = min(at[REFUSED], least)
        while path_next[depth] == at[USED]:
            at[USED] = path_first[depth]
            while now.scalars[TRAIL] > path_trail[depth]:
                _undo(sign, now)
            depth -= 1
            at[DEPTH] = depth
            if depth < 0:
                return REFUTED
        v = pool[path_next[depth]]
        path_next[depth] += 1
        at[BEFORE] = now.scalars[TRAIL]
        _, far = step(now.script, v, now.scalars[LIVE], now.left, sign)
        _apply(v, far, sign, now)
