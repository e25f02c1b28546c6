"""Precedences that every order within a floor must obey, found by minimum cuts.

If all states before v that contain w hold too much for v's step, then w runs after v; if all that omit w do, w runs
before v. Such arcs hold for peaks up to the floor only: a proof of infeasibility that uses them says no more than that
the peak exceeds the floor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opweave.problems.graph_arrays import Adjacency, IntArray, topological_order
from opweave.solvers.memory_ordering.bounds import least_increase
from opweave.solvers.memory_ordering.closure import FREE, INSIDE, OUTSIDE, SideArray, least_live, sides_around, spread
from opweave.solvers.memory_ordering.net import Net, with_arcs

BUSIEST = 60
"""Operators whose steps are examined, by decreasing upper bound of their L2."""


@dataclass(slots=True)
class Budget:
    """How many minimum cuts may still be computed."""

    most: int
    used: int = 0

    def spent(self) -> bool:
        """Whether none is left."""
        return self.used >= self.most


@dataclass(frozen=True, slots=True, eq=False)
class Propagated:
    """The net with the arcs found, or None when no order stays within the floor."""

    net: Net | None
    arcs: int


def propagate(net: Net, floor: int, keys: IntArray, cuts: int, should_stop: Callable[[], bool]) -> Propagated:
    """Add every forced precedence that the busiest operators reveal, until nothing new comes.

    Parameters
    ----------
    net
        The problem.
    floor
        Bytes; arcs hold for orders whose peak is at most this.
    keys
        Upper bounds of every operator's L2, to rank the operators. Shape (operators,).
    cuts
        Most minimum cuts to compute, roughly; stopping early only loses arcs.
    should_stop
        Asked between operators.
    """
    found = 0
    budget = Budget(cuts)
    busy = np.argsort(-keys, kind="stable")[:BUSIEST].tolist()
    rank = np.empty(len(keys), dtype=np.int64)
    rank[topological_order(Adjacency(net.after_start, net.after))] = np.arange(len(keys))
    found_before = -1
    while found > found_before:
        found_before = found
        for v in busy:
            if budget.spent() or should_stop():
                return Propagated(net, found)
            forced = _forced_around(net, v, floor, rank, budget)
            if forced is None:
                return Propagated(None, found)
            before, after = forced
            if len(before) + len(after):
                here = np.int64(v)
                net = with_arcs(
                    net,
                    np.concatenate([before, np.full(len(after), here)]),
                    np.concatenate([np.full(len(before), here), after]),
                )
                found += len(before) + len(after)
    return Propagated(net, found)


def _forced_around(net: Net, v: int, floor: int, rank: IntArray, budget: Budget) -> tuple[IntArray, IntArray] | None:
    """Operators that must run before and after v; None when v cannot run within the floor at all."""
    side = sides_around(net, v)
    room = floor - least_increase(net, v, side)
    budget.used += 1
    live, smallest, largest = least_live(net, side)
    if live > room:
        return None
    free = side == FREE
    omitted = free & (smallest == 0)
    contained = free & (largest == 1)
    before = _unavoidable(net, side, room, omitted, contained, OUTSIDE, rank, budget)
    after = _unavoidable(net, side, room, omitted, contained, INSIDE, rank, budget)
    return before, after


def _unavoidable(
    net: Net,
    side: SideArray,
    room: int,
    omitted: NDArray[np.bool_],
    contained: NDArray[np.bool_],
    mark: int,
    rank: IntArray,
    budget: Budget,
) -> IntArray:
    """Free operators that no state within ``room`` can have on the side ``mark``.

    ``omitted`` and ``contained`` collect the operators that some witness state omits or contains; a refused operator
    settles its ancestors (or descendants) too, so those nearest to v are asked first.
    """
    settled = omitted if mark == OUTSIDE else contained
    start, items = (net.after_start, net.after) if mark == OUTSIDE else (net.before_start, net.before)
    up_start, up = (net.before_start, net.before) if mark == OUTSIDE else (net.after_start, net.after)
    work = len(items) + len(side)
    implied = np.zeros(len(side), dtype=np.int8)
    forced: list[int] = []
    candidates = np.flatnonzero((side == FREE) & ~settled)
    ordered = candidates[np.argsort(-rank[candidates] if mark == OUTSIDE else rank[candidates])]
    for w in ordered.tolist():
        if settled[w] or implied[w]:
            continue
        if budget.spent():
            break
        budget.used += 1
        trial = side.copy()
        spread.sized(work)(start, items, w, mark, trial)
        live, smallest, largest = least_live(net, trial)
        if live <= room:
            omitted |= (side == FREE) & (smallest == 0)
            contained |= (side == FREE) & (largest == 1)
        else:
            forced.append(w)
            spread.sized(work)(up_start, up, w, 1, implied)
    return np.asarray(forced, dtype=np.int64)
