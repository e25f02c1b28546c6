"""Local search on the total: move one operator at a time to its best place between its neighbours in the graph."""

from __future__ import annotations

from collections.abc import Callable

from opweave.problems.arrays import IntArray
from opweave.solvers.compiled import inlined, kernel
from opweave.solvers.memory_ordering.arrays import OrderingArrays, initial_bytes, initial_left, pass_over, step

SLICE = 5_000_000
"""Steps over a neighbour (tens of nanoseconds each when compiled) between two checks of the time."""


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
    for _ in range(sweeps):
        at, gained = 0, 0
        while at < len(order):
            if should_stop():
                return better
            at, more = shift_from.sized(min(20 * len(order) ** 2, SLICE))(arrays, better, ceiling, at, SLICE)
            gained += more
        if gained == 0:
            break
    return better


@inlined
def _best_place(
    arrays: OrderingArrays, order: IntArray, at: int, sign: int, live: int, left: IntArray, ceiling: int
) -> tuple[int, int, int]:
    """Best gain and position for moving the operator at ``at`` in direction ``sign``, and the neighbours examined.

    Restores ``left``.

    ``live`` and ``left`` describe the state on the near side of the operator. The neighbours slide to the near side one
    by one; after k of them, the operator's own step is evaluated in the state that they leave.
    """
    u = order[at]
    enters_start, enters = (arrays.after_start, arrays.after) if sign == 1 else (arrays.before_start, arrays.before)
    cost, far = step(arrays, u, live, left, sign)
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
        pass_over(arrays, u, left, sign)
        cost, with_live = step(arrays, v, with_live, left, sign)
        old += cost
        pass_over(arrays, u, left, -sign)
        cost, near = step(arrays, v, near, left, sign)
        if cost > ceiling:
            break
        new += cost
        pass_over(arrays, v, left, sign)
        moved += 1
        cost, _ = step(arrays, u, near, left, sign)
        if cost <= ceiling and old - new - cost > best_gain:
            best_gain, best_at = old - new - cost, i
        i += sign
    for k in range(moved):
        pass_over(arrays, order[at + sign * (k + 1)], left, -sign)
    return best_gain, best_at, moved


@kernel
def shift_from(arrays: OrderingArrays, order: IntArray, ceiling: int, at: int, work: int) -> tuple[int, int]:
    """Improve ``order`` in place, operator by operator from position ``at`` on, for about ``work`` steps.

    Returns the position to continue from, ``len(order)`` at the end of the sweep, and the bytes gained.
    """
    count = len(order)
    gained = 0
    left = initial_left(arrays, 1)
    live = initial_bytes(arrays, 1)
    for position in range(at):
        _, live = step(arrays, order[position], live, left, 1)
        pass_over(arrays, order[position], left, 1)
    while at < count and work > 0 and arrays.halt[0] == 0:
        u = order[at]
        _, far = step(arrays, u, live, left, 1)
        gain, place, seen = _best_place(arrays, order, at, 1, live, left, ceiling)
        pass_over(arrays, u, left, 1)
        back_gain, back_place, seen_back = _best_place(arrays, order, at, -1, far, left, ceiling)
        work -= seen + seen_back + 1
        if gain == 0 and back_gain == 0:
            live = far
            at += 1
            continue
        pass_over(arrays, u, left, -1)
        if gain >= back_gain:
            gained += gain
            for i in range(at, place):
                order[i] = order[i + 1]
            order[place] = u
            continue
        gained += back_gain
        for i in range(at - 1, back_place - 1, -1):
            w = order[i]
            _, live = step(arrays, w, live, left, -1)
            pass_over(arrays, w, left, -1)
            order[i + 1] = w
        order[back_place] = u
        at = back_place
    return at, gained
