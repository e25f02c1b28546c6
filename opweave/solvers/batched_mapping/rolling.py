"""Rolling windows: two modules are planned at a time, the first of them is frozen, and the window moves on.

Source: the splitting heuristic of Ghannane and Abdelfattah, "DiviML", section IV-B, for modules with several channels,
where dynamic programming over their ends is too large. Everything before a window stays fixed, and everything after it
counts with its least time (tails).
"""

from __future__ import annotations

import numpy as np

from opweave.problems.arrays import IntArray
from opweave.solvers.batched_mapping.anneal import DRAWS, SEARCH_MOVES, Window, anneal
from opweave.solvers.batched_mapping.local import FIRST_HEAT, LAST_HEAT, BatchSearch
from opweave.solvers.batched_mapping.modules import Module
from opweave.solvers.batched_mapping.plans import plan_of

WINDOW = 2
MOVES_PER_OPERATOR = 3000
"""Moves in a window per operator."""


def roll(search: BatchSearch, modules: list[Module], number: int) -> None:
    """Run one pass of windows over the modules, starting from the best plan so far, and consider the result.

    Parameters
    ----------
    number
        Number of the pass; it selects the random numbers.
    """
    assert search.best is not None
    search.run.enter("rolling windows")
    rng = np.random.default_rng((search.run.seed, 7, number))
    where, order = search.best.where.copy(), by_module(search, modules)
    devices = search.arrays.seconds.shape[1]
    places = np.cumsum([0, *(len(module.operators) * devices for module in modules)])
    free, end = np.zeros(devices), np.full(search.arrays.seconds.shape[:2], -1.0)
    for first in range(len(modules)):
        last = min(len(modules), first + WINDOW)
        members = np.concatenate([module.operators for module in modules[first:last]])
        window = Window(members, int(places[first]), int(places[last]), free, end, search.tail)
        moves = MOVES_PER_OPERATOR * len(members) // (1 + number % 3)
        heat = np.geomspace(FIRST_HEAT, LAST_HEAT, moves) * search.makespan
        best_where, best_order = where.copy(), order.copy()
        anneal.sized(moves * len(members) * devices)(
            search.arrays, where, order, window, SEARCH_MOVES, search.strings, rng.random((moves, DRAWS)), heat,
            search.run.halt, best_where, best_order,
        )  # fmt: skip
        where, order = best_where, best_order
        free, end = _after(search, where, order, window, int(places[first + 1]), modules[first].operators)
        if search.run.should_stop():
            return
    search.consider(plan_of(search.arrays, where, order))


def effort_of_pass(search: BatchSearch, modules: list[Module]) -> float:
    """Work of the first pass in the unit of :attr:`BatchSearch.pace`; each window's moves judge only that window."""
    whole = search.effort(search.everything()) / search.instance.operators
    sizes = [len(module.operators) for module in modules]
    return sum(whole * MOVES_PER_OPERATOR * sum(sizes[first : first + WINDOW]) ** 2 for first in range(len(sizes)))


def _after(
    search: BatchSearch, where: IntArray, order: IntArray, window: Window, place: int, members: IntArray
) -> tuple[np.ndarray, np.ndarray]:
    """State of devices and batches after the window's first module, with its nodes moved to the front of the window."""
    devices = len(window.free)
    inside = order[window.low : window.high]
    own = np.isin(inside // devices, members)
    order[window.low : window.high] = np.concatenate([inside[own], inside[~own]])
    plan = plan_of(search.arrays, where, order)
    end = plan.end.copy()
    later = np.unique(order[place:] // devices)
    end[later] = -1.0
    return np.maximum(end.max(axis=0, initial=0.0), 0.0), end


def by_module(search: BatchSearch, modules: list[Module]) -> IntArray:
    """The best plan's order, module by module."""
    assert search.best is not None
    devices = search.arrays.seconds.shape[1]
    number = np.empty(search.arrays.seconds.shape[0], dtype=np.int64)
    for index, module in enumerate(modules):
        number[module.operators] = index
    order = search.best.order
    return np.ascontiguousarray(order[np.argsort(number[order // devices], kind="stable")])
