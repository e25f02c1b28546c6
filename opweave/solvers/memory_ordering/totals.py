"""The smallest total: greedy orders, local search with kicks, and the sum of least footprints as bound.

The local search moves one operator at a time to its best place between its neighbours in the graph.

No safe moves are known for the total, so proofs come only from the search over states on narrow graphs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from opweave.formulations.memory_ordering.instance import OrderingInstance, lower
from opweave.problems.arrays import IntArray
from opweave.problems.memory_ordering.spec import MemoryOrdering
from opweave.solvers.loops import helper, loop
from opweave.solvers.memory_ordering.arrays import (
    BACKWARD,
    FORWARD,
    OrderingArrays,
    arcs_ahead,
    arrays_of,
    initial_left,
    pass_over,
    peak,
    step,
    total,
)
from opweave.solvers.memory_ordering.baselines import starting_orders
from opweave.solvers.memory_ordering.bounds import own_footprints, step_bound, upper_keys
from opweave.solvers.run import Run

SWEEPS = 20
KICKS = 300
KICK_MOVES = 6
MOST_CUTS, CUTS = 2_000, 16
NO_CEILING = 1 << 62
SLICE = 5_000_000
"""Steps over a neighbour (tens of nanoseconds each when compiled) between two checks of the time."""


def prove_total(problem: MemoryOrdering, run: Run) -> IntArray:
    """Report the sum of every step's least footprint as a bound, raised to L2 by one minimum cut each.

    The footprints of the best order bound those of L2 from above: they tell where cuts may raise much, or nothing.
    Without a time limit there are 2,000 cuts at most.

    Returns
    -------
    IntArray
        The least footprint of every operator's step, as far as it is known. Shape (operators,).
    """
    instance = lower(problem)
    arrays, least = arrays_of(instance), own_footprints(instance)
    run.enter("minimum cuts")
    run.proved(int(least.sum()), "sum of single steps")
    order = None if run.best is None else instance.positions(run.best)  # type: ignore[arg-type]
    gain = upper_keys(arrays, [] if order is None else [order]) - least
    for count, v in enumerate(np.argsort(-gain, kind="stable").tolist()):
        if gain[v] <= 0 or run.should_stop() or (run.time_limit is None and count == MOST_CUTS):
            break
        least[v] = max(least[v], step_bound(arrays, v))
        if count % CUTS == 0:
            run.proved(int(least.sum()), "sum of L2")
    run.proved(int(least.sum()), "sum of L2")
    return least


def report_greedy_totals(problem: MemoryOrdering, run: Run) -> list[IntArray]:
    """Report the named orders, the greedy portfolio and the run's best so far, if they respect the limit."""
    instance = lower(problem)
    arrays = arrays_of(instance)
    run.enter("greedy orders")
    known = run.best
    kept: list[IntArray] = []
    for order in starting_orders(instance, arrays):
        if peak(arrays, order) <= ceiling(problem):
            kept.append(order)
            run.found(instance.ordering(order), total(arrays, order))
        if run.should_stop():
            break
    return kept if known is None else [instance.positions(known), *kept]  # type: ignore[arg-type]


def ceiling(problem: MemoryOrdering) -> int:
    """The limit of a problem, or more than any footprint."""
    return NO_CEILING if problem.limit_bytes is None else problem.limit_bytes


def improve_total(problem: MemoryOrdering, run: Run, starts: Sequence[IntArray], kicks: int | None = KICKS) -> None:
    """Report better and better orders under the limit: shift the starts, best first, then kick the best order.

    With ``kicks`` None it continues until the run stops it.
    """
    instance = lower(problem)
    arrays = arrays_of(instance)
    most = ceiling(problem)
    run.enter("local search")
    best: IntArray | None = None
    for start in sorted(starts, key=lambda order: total(arrays, order)):
        order = shift(arrays, start, most, SWEEPS, run.should_stop)
        if best is None or total(arrays, order) < total(arrays, best):
            best = order
            run.found(instance.ordering(best), total(arrays, best))
        if run.should_stop():
            return
    if best is not None and len(best) > 1:
        _kick(arrays, instance, best, most, run, kicks)


def _kick(
    arrays: OrderingArrays, instance: OrderingInstance, best: IntArray, ceiling: int, run: Run, kicks: int | None
) -> None:
    """Iterated local search: a few random legal moves, then descent; an order that is no worse is kept."""
    rng, count = np.random.default_rng(run.seed), len(best)
    value = total(arrays, best)
    for _ in itertools.count() if kicks is None else range(kicks):
        if run.should_stop():
            return
        if run.objective is not None and run.objective < value:  # found elsewhere
            best, value = instance.positions(run.best), int(run.objective)  # type: ignore[arg-type]
        order = best.copy()
        for _ in range(KICK_MOVES):
            place = np.argsort(order)
            v = int(rng.integers(count))
            before = arrays.before[arrays.before_start[v] : arrays.before_start[v + 1]]
            after = arrays.after[arrays.after_start[v] : arrays.after_start[v + 1]]
            to = int(rng.integers(place[before].max(initial=-1) + 1, place[after].min(initial=count)))
            order = np.insert(np.delete(order, place[v]), to, v)
        if peak(arrays, order) > ceiling:
            continue
        order = shift(arrays, order, ceiling, SWEEPS, run.should_stop)
        found = total(arrays, order)
        if found <= value:
            if found < value:
                run.found(instance.ordering(order), found)
            best, value = order, found


def shift(
    arrays: OrderingArrays, order: IntArray, ceiling: int, sweeps: int, should_stop: Callable[[], bool] = lambda: False
) -> IntArray:
    """An order with a total no higher, and no footprint above ``ceiling`` unless the given order had one.

    Parameters
    ----------
    arrays
        The problem.
    order
        The order to start from. Shape (operators,).
    ceiling
        Bytes that no moved step may exceed.
    sweeps
        Most passes over the operators; a pass without a move ends the search.
    should_stop
        Asked now and then; gains so far are kept.
    """
    better = order.copy()
    arcs = (*arcs_ahead(arrays, FORWARD), *arcs_ahead(arrays, BACKWARD))
    for _ in range(sweeps):
        at, gained = 0, 0
        while at < len(order):
            if should_stop():
                return better
            left, live = initial_left(arrays, FORWARD), arrays.start_bytes
            at, more = shift_from(arrays.script, *arcs, left, live, better, ceiling, at, SLICE)
            gained += more
        if gained == 0:
            break
    return better


@helper
def _best_place(
    script: IntArray,
    enters_start: IntArray,
    enters: IntArray,
    order: IntArray,
    at: int,
    sign: int,
    live: int,
    left: IntArray,
    ceiling: int,
) -> tuple[int, int, int]:
    """Best gain and position for moving the operator at ``at`` in direction ``sign``, and the neighbours examined.

    Restores ``left``.

    ``live`` and ``left`` describe the state on the near side of the operator. The neighbours slide to the near side one
    by one; after k of them, the operator's own step is evaluated in the state that they leave.
    """
    u = order[at]
    cost, far = step(script, u, live, left, sign)
    old = cost
    with_live = far
    new = 0
    best_gain, best_at = 0, at
    near = live
    moved = 0
    i = at + sign
    count = len(order)
    while 0 <= i < count:
        v = order[i]
        blocked = False
        for k in range(enters_start[u], enters_start[u + 1]):
            if enters[k] == v:
                blocked = True
                break
        if blocked:
            break
        pass_over(script, u, left, sign)
        cost, with_live = step(script, v, with_live, left, sign)
        old += cost
        pass_over(script, u, left, -sign)
        cost, near = step(script, v, near, left, sign)
        if cost > ceiling:
            break
        new += cost
        pass_over(script, v, left, sign)
        moved += 1
        cost, _ = step(script, u, near, left, sign)
        if cost <= ceiling and old - new - cost > best_gain:
            best_gain, best_at = old - new - cost, i
        i += sign
    for k in range(moved):
        pass_over(script, order[at + sign * (k + 1)], left, -sign)
    return best_gain, best_at, moved


@loop
def shift_from(
    script: IntArray,
    after_start: IntArray,
    after: IntArray,
    before_start: IntArray,
    before: IntArray,
    left: IntArray,
    live: int,
    order: IntArray,
    ceiling: int,
    at: int,
    work: int,
) -> tuple[int, int]:
    """Improve ``order`` in place, operator by operator from position ``at`` on, for about ``work`` steps.

    ``left`` and ``live`` describe the state before the first operator. Returns the position to continue from,
    ``len(order)`` at the end of the sweep, and the bytes gained.
    """
    count = len(order)
    gained, front, back = 0, 1, -1
    for position in range(at):
        _, live = step(script, order[position], live, left, front)
        pass_over(script, order[position], left, front)
    while at < count and work > 0:
        u = order[at]
        _, far = step(script, u, live, left, front)
        gain, place, seen = _best_place(script, after_start, after, order, at, front, live, left, ceiling)
        pass_over(script, u, left, front)
        back_gain, back_place, seen_back = _best_place(
            script, before_start, before, order, at, back, far, left, ceiling
        )
        work -= seen + seen_back + 1
        if gain == 0 and back_gain == 0:
            live = far
            at += 1
            continue
        pass_over(script, u, left, back)
        if gain >= back_gain:
            gained += gain
            for i in range(at, place):
                order[i] = order[i + 1]
            order[place] = u
            continue
        gained += back_gain
        for i in range(at - 1, back_place - 1, -1):
            w = order[i]
            _, live = step(script, w, live, left, back)
            pass_over(script, w, left, back)
            order[i + 1] = w
        order[back_place] = u
        at = back_place
    return at, gained
