"""Rolling windows: two modules at a time, the first of them frozen, towards the whole graph.

Source: the splitting heuristic of Ghannane and Abdelfattah, "DiviML", section IV-B, where modules have several channels
and dynamic programming over their ends is too wide. In a window everything before it stays, and what follows counts by
its least time (tails).
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
"""Moves in a window for each of its operators."""


def roll(search: BatchSearch, modules: list[Module], number: int) -> None:
    """One pass of windows over the modules, from the best plan so far; the result is considered.

    Parameters
    ----------
    number
        Which pass: sets the random numbers.
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
    """Work of the first pass, as :attr:`BatchSearch.pace` counts it: a window's moves judge its share of the whole."""
    whole = search.effort(search.everything()) / search.instance.operators
    sizes = [len(module.operators) for module in modules]
    return sum(whole * MOVES_PER_OPERATOR * sum(sizes[first : first + WINDOW]) ** 2 for first in range(len(sizes)))


def _after(
    search: BatchSearch, where: IntArray, order: IntArray, window: Window, place: int, members: IntArray
) -> tuple[np.ndarray, np.ndarray]:
    """Devices and batches once the window's first module has run, its nodes moved to the front of the window."""
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
